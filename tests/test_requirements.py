"""The requirements manifest agrees with the tests, and PARITY.md with both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.requirements.manifest import (
    ROOT,
    Area,
    ManifestError,
    Requirement,
    load_manifest,
)
from tests.requirements.parity import parity_text, render
from tests.requirements.usage import Proof, disagreements, find_proofs

PAGE = "https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager"
ENTRY: dict[str, object] = {
    "id": "agent.name.default",
    "behaviour": "An agent has a name.",
    "source": PAGE,
    "android": "`Agent.name`",
    "python": "`Agent.name`",
    "status": "emulated",
}


def _write_manifest(folder: Path, *agent_entries: dict[str, object]) -> Path:
    for area in Area:
        others = [{**ENTRY, "id": f"{area}.anything.else"}]
        entries = list(agent_entries) if area is Area.AGENT else others
        (folder / f"{area}.yaml").write_text(yaml.safe_dump({"requirements": entries}))
    return folder


def _write_test(root: Path, source: str) -> Path:
    (root / "tests").mkdir()
    (root / "tests" / "test_something.py").write_text("import pytest\n\n\n" + source)
    return root


def _requirement(**changes: object) -> Requirement:
    return Requirement.model_validate({**ENTRY, **changes})


def test_every_requirement_and_every_test_that_names_one_find_each_other() -> None:
    assert disagreements(load_manifest(), find_proofs()) == []


def test_the_parity_page_is_the_one_that_the_manifest_makes() -> None:
    committed = (ROOT / "PARITY.md").read_text()
    assert committed == parity_text(), "run scripts/gen_parity.py"


def test_the_generator_accepts_the_committed_page() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "gen_parity.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"note": "x"}, "note"),
        ({"status": "done"}, "status"),
        ({"source": "http://developer.android.com/x"}, "no https page"),
        ({"source": "https://example.com/x"}, "no https page"),
        ({"source": None}, "either `source` or `ours`"),
        ({"ours": "We chose it."}, "either `source` or `ours`"),
        ({"android": None}, "needs an `android` element"),
        ({"behaviour": "No full stop"}, "full stop"),
        ({"status": "partial"}, "`divergence`"),
        ({"divergence": "It differs."}, "`divergence`"),
        ({"id": "agent"}, "id"),
        ({"id": "prompt.name.default"}, "does not start with 'agent.'"),
        ({"cases": {"A18": "https://example.com/x"}}, "no https page"),
        ({"cases": {"Z1": PAGE}}, "cases"),
    ],
)
def test_a_malformed_entry_is_refused_with_its_file(
    tmp_path: Path, change: dict[str, object], named: str
) -> None:
    folder = _write_manifest(tmp_path, {**ENTRY, **change})
    with pytest.raises(ManifestError, match=r"^agent\.yaml: ") as refused:
        load_manifest(folder)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("second", "problem"), [("agent.name.default", "used twice"), ("agent.a.b", "must not follow")]
)
def test_ids_are_unique_and_sorted(tmp_path: Path, second: str, problem: str) -> None:
    folder = _write_manifest(tmp_path, ENTRY, {**ENTRY, "id": second})
    with pytest.raises(ManifestError, match=problem):
        load_manifest(folder)


def test_a_part_of_an_area_has_a_file_of_its_own_and_no_id_twice(tmp_path: Path) -> None:
    folder = _write_manifest(tmp_path, {**ENTRY, "id": "agent.z"}, {**ENTRY, "id": "agent.zz"})
    part = folder / "agent_flow.yaml"
    part.write_text(yaml.safe_dump({"requirements": [ENTRY, {**ENTRY, "id": "agent.zy"}]}))
    ids = [entry.id for entry in load_manifest(folder) if entry.area is Area.AGENT]
    assert ids == ["agent.name.default", "agent.z", "agent.zy", "agent.zz"]

    part.write_text(yaml.safe_dump({"requirements": [{**ENTRY, "id": "agent.z"}]}))
    with pytest.raises(ManifestError, match=r"^agent_flow\.yaml: 'agent.z' is used twice"):
        load_manifest(folder)


def test_a_missing_area_and_a_stray_file_are_refused(tmp_path: Path) -> None:
    folder = _write_manifest(tmp_path, ENTRY)
    (folder / "quota.yaml").write_text("requirements: []")
    with pytest.raises(ManifestError, match="of no area: quota"):
        load_manifest(folder)
    (folder / "aicore.yaml").unlink()
    with pytest.raises(ManifestError, match=r"^aicore\.yaml: "):
        load_manifest(folder)


def test_a_test_names_ids_in_a_decorator_and_in_its_parameters(tmp_path: Path) -> None:
    root = _write_test(
        tmp_path,
        '@pytest.mark.requirement("a.b", "a.c")\n'
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("a.d"))])\n'
        "async def test_it(x: int) -> None: ...\n",
    )
    proof = Proof(path="tests/test_something.py", name="test_it")
    assert find_proofs(root) == {"a.b": (proof,), "a.c": (proof,), "a.d": (proof,)}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('pytestmark = pytest.mark.requirement("a.b")\n', "decorates no test function"),
        ('@pytest.mark.requirement("a.b")\ndef helper() -> None: ...\n', "decorates no test"),
        ("@pytest.mark.requirement(NAME)\ndef test_it() -> None: ...\n", "string literal"),
        ("@pytest.mark.requirement()\ndef test_it() -> None: ...\n", "string literal"),
        ('@pytest.mark.requirement(id="a.b")\ndef test_it() -> None: ...\n', "string literal"),
    ],
)
def test_a_marker_that_would_escape_the_check_is_refused(
    tmp_path: Path, source: str, problem: str
) -> None:
    with pytest.raises(ManifestError, match=problem):
        find_proofs(_write_test(tmp_path, source))


def test_unproved_and_unknown_ids_are_reported_and_later_work_is_not() -> None:
    promised = _requirement()
    later = _requirement(id="agent.later", status="not-yet")
    assert disagreements(
        [promised, later], {"agent.nonsense": (Proof(path="tests/t.py", name="test_x"),)}
    ) == [
        "tests/t.py::test_x names the unknown requirement 'agent.nonsense'",
        "agent.name.default is emulated, but no test names it",
    ]


def test_the_page_shows_element_status_source_and_test_and_keeps_our_choices_apart() -> None:
    documented = _requirement(
        status="partial", divergence="Half of it.", cases={"A18": "https://github.com/o/r/issues/1"}
    )
    ours = _requirement(
        id="simulator.token", source=None, ours="No phone has it.", android=None, python="`token`"
    )
    proofs = {
        "agent.name.default": [Proof(path="tests/t.py", name=f"test_{n}") for n in range(4)],
        "simulator.token": [Proof(path="tests/u.py", name="test_token")],
    }
    page = render([documented, ours], proofs)
    above, _, below = page.partition("## Ours")
    assert (
        "| `Agent.name` | `Agent.name` | partial | An agent has a name. `agent.name.default` "
        f"**But:** Half of it. | [page]({PAGE}), [A18](https://github.com/o/r/issues/1) | "
        "[test_0](tests/t.py), [test_1](tests/t.py), [test_2](tests/t.py), 1 more |"
    ) in above
    assert "| **all** | 1 | 1 | 0 | 0 | 2 |" in above
    assert (
        "| — | `token` | emulated | An agent has a name. `simulator.token` | No phone has it. | "
        "[test_token](tests/u.py) |"
    ) in below
    assert "genai-agent` 1.0.0-alpha1" in above
    assert "1.0.0-alpha13" in above
    assert "Android 17.2" in above
