"""Which package may import which, and what importing the client costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("aicore_sim", "appfunctions_host", "aicore_client", "aicore_protos")

# Package → what it may import of ours. A longer prefix wins.
ALLOWED = {
    "aicore_protos": ("aicore_protos",),
    "aicore_client": ("aicore_client", "aicore_protos"),
    "appfunctions_host": (
        "appfunctions_host",
        "aicore_protos",
        "aicore_sim.device",
        "aicore_sim.rpc",
        "aicore_sim.measure",
    ),
    "aicore_sim.measure": ("aicore_sim.measure",),
    "aicore_sim.evaluation": (
        "aicore_sim.evaluation",
        "aicore_sim.inference",
        "aicore_sim.measure",
    ),
    "aicore_sim": ("aicore_sim", "aicore_protos"),
    "aicore_sim.cli": ("aicore_sim", "aicore_protos", "aicore_client", "appfunctions_host"),
    "aicore_sim.testing": ("aicore_sim", "aicore_protos", "aicore_client", "appfunctions_host"),
    "aicore_sim.pytest_plugin": ("aicore_sim.testing",),
    "aicore_sim.rpc": ("aicore_sim.rpc", "aicore_sim.device", "aicore_protos"),
    "aicore_sim.device": ("aicore_sim.device",),
    "aicore_sim.policy": ("aicore_sim.policy", "aicore_sim.device"),
    "aicore_sim.inference": ("aicore_sim.inference", "aicore_sim.device"),
    "aicore_sim.models": ("aicore_sim.models",),
}


def _modules() -> dict[str, Path]:
    found = {}
    for base in (ROOT, ROOT / "client", ROOT / "protos"):
        for package in OURS:
            for path in (base / package).rglob("*.py"):
                parts = path.relative_to(base).with_suffix("").parts
                found[".".join(part for part in parts if part != "__init__")] = path
    return found


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name for name in names if name.startswith(OURS)}


def _under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def test_every_import_follows_the_arrows() -> None:
    wrong = []
    for module, path in _modules().items():
        rule = max((key for key in ALLOWED if _under(module, key)), key=len)
        wrong += [
            f"{module} imports {name}"
            for name in _imports(path)
            if not any(_under(name, allowed) for allowed in ALLOWED[rule])
        ]
    assert wrong == []


def test_no_module_is_longer_than_six_hundred_lines() -> None:
    paths = [path for path in _modules().values() if "_pb2" not in path.name]
    paths += (ROOT / "tests").rglob("*.py")
    assert [str(path) for path in paths if len(path.read_text().splitlines()) > 600] == []


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("aicore_client", ("onnxruntime_genai", "pydantic", "numpy", "aicore_sim")),
        ("appfunctions_host", ("onnxruntime_genai", "numpy", "aicore_client")),
        ("aicore_sim.cli.main", ("onnxruntime_genai", "onnx", "gguf")),
    ],
)
def test_importing_stays_light(module: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"


def test_the_repository_names_no_path_of_a_developers_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    ).stdout.split("\0")
    needles = ("/wo" + "rk/", "/ro" + "ot/", "../sha" + "red")
    wrong = [
        name
        for name in listed
        if name and (ROOT / name).is_file()
        and any(needle in (ROOT / name).read_text(errors="replace") for needle in needles)
    ]  # fmt: skip
    assert wrong == []
