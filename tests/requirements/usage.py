"""Which test names which requirement, read from the source without importing a test."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.requirements.manifest import ROOT, ManifestError, Requirement


@dataclass(frozen=True, order=True, kw_only=True)
class Proof:
    """A test function; `path` is relative to the repository, with slashes."""

    path: str
    name: str


def find_proofs(root: Path = ROOT) -> dict[str, tuple[Proof, ...]]:
    """The tests below `root`/tests by the requirement id that they name.

    A test names ids in `@pytest.mark.requirement("id", …)`, or in the `marks` of one of its
    parameter sets. Raises ManifestError for a marker elsewhere and for an id that is no literal:
    either would escape the check.
    """
    proofs: dict[str, set[Proof]] = {}
    for path in sorted((root / "tests").rglob("*.py")):
        relative = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_text(), filename=relative)
        counted = 0
        for function in _tests(tree):
            for call in _markers(function.decorator_list):
                counted += 1
                for name in _ids(call, relative):
                    proof = Proof(path=relative, name=function.name)
                    proofs.setdefault(name, set()).add(proof)
        if counted != sum(1 for _ in _markers([tree])):
            raise ManifestError(f"{relative}: a requirement marker decorates no test function")
    return {name: tuple(sorted(found)) for name, found in proofs.items()}


def disagreements(
    requirements: Iterable[Requirement], proofs: Mapping[str, Iterable[Proof]]
) -> list[str]:
    """What the manifest promises without a test, and what tests name without a promise."""
    known = {requirement.id: requirement for requirement in requirements}
    return [
        f"{proof.path}::{proof.name} names the unknown requirement {name!r}"
        for name, found in sorted(proofs.items())
        if name not in known
        for proof in found
    ] + [
        f"{name} is {requirement.status}, but no test names it"
        for name, requirement in sorted(known.items())
        if requirement.status != "not-yet" and not proofs.get(name)
    ]


def _tests(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test_"):
                yield node


def _markers(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and _is_marker(inner.func):
                yield inner


def _is_marker(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "requirement"
        and isinstance(function.value, ast.Attribute)
        and function.value.attr == "mark"
    )


def _ids(call: ast.Call, path: str) -> list[str]:
    literals = [
        argument.value
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    if not literals or len(literals) != len(call.args) or call.keywords:
        raise ManifestError(
            f"{path}:{call.lineno}: give the marker one or more ids, each as a string literal"
        )
    return literals
