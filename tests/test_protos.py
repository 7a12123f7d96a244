"""The protos are a published contract: everything in them is explained, the code is theirs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROTOS = sorted((ROOT / "protos" / "aicore_protos").glob("*.proto"))

# A field, a value of an enum, or a call.
_MEMBER = re.compile(
    r"\s*(?:(?:repeated |optional )?(?:map<.*> |[\w.]+ )\w+ = \d+;|[A-Z_0-9]+ = -?\d+;|rpc \w+\()"
)


@pytest.mark.parametrize("proto", PROTOS, ids=lambda path: path.stem)
def test_every_field_value_and_call_has_a_comment_above_it(proto: Path) -> None:
    lines = proto.read_text().splitlines()
    members = [number for number, line in enumerate(lines) if _MEMBER.match(line)]
    assert members
    bare = [lines[number] for number in members if not lines[number - 1].lstrip().startswith("//")]
    assert bare == []


def test_the_committed_code_is_what_the_protos_make() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "gen_protos.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
