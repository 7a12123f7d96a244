"""Write PARITY.md from the requirements manifest; `--check` fails when it differs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.requirements.manifest import ManifestError  # noqa: E402 - needs the path above
from tests.requirements.parity import parity_text  # noqa: E402

PARITY = ROOT / "PARITY.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail on differences")
    check = parser.parse_args().check
    try:
        text = parity_text()
    except ManifestError as error:
        print(error, file=sys.stderr)
        return 2
    if check:
        if PARITY.is_file() and PARITY.read_text() == text:
            return 0
        print("PARITY.md differs: run scripts/gen_parity.py", file=sys.stderr)
        return 1
    PARITY.write_text(text)
    print(f"wrote {PARITY.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
