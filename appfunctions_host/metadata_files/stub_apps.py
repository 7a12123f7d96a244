"""Apps of `serve --xml PACKAGE=FILE`, with the results of `--stub FILE`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.apps import AppSpecError
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.metadata_files.reader import read_app_metadata, read_functions
from appfunctions_host.metadata_files.safe_xml import MAX_BYTES, XmlError
from appfunctions_host.metadata_files.stub import StubProvider
from appfunctions_host.metadata_files.stub_file import StubError, StubResult
from appfunctions_host.registry import RUNTIME_SERVICE

_SPEC = re.compile(r"(?P<package>[\w.]+)=(?P<file>.+)", re.DOTALL)

Declared = dict[str, dict[str, pb.AppFunctionMetadata]]
"""Functions by package and id."""


@dataclass(kw_only=True)
class ReadApps:
    """What the files say."""

    declared: Declared = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    """Of apps, by package."""
    problems: list[str] = field(default_factory=list)
    """What is left out, one sentence each."""


def read_apps(specs: Iterable[str]) -> ReadApps:
    """Read the files; several may be of one package, and then the first that has a function counts.

    Raises AppSpecError and XmlError.
    """
    apps = ReadApps()
    for spec in specs:
        package_name, path = _parts(spec)
        try:
            data = _bytes(path)
            if (description := read_app_metadata(data)) is not None:
                apps.descriptions.setdefault(package_name, description)
                apps.declared.setdefault(package_name, {})
                continue
            found = read_functions(data, package_name)
        except XmlError as error:
            raise XmlError(f"{str(path)!r}: {error}") from None
        apps.problems += [f"{path}: {problem}" for problem in found.problems]
        functions = apps.declared.setdefault(package_name, {})
        for metadata in found.functions:
            functions.setdefault(metadata.name.function_identifier, metadata)
    return apps


def add_stubs(
    host: AppFunctionHost,
    apps: ReadApps,
    results: Mapping[str, Sequence[StubResult]],
    *,
    source: str,
) -> None:
    """Serve the apps in the host, one stub for each. `source` names the results in messages.

    Raises StubError for a key that means no function or several, for two keys that mean the same
    one, and for a result of another type than its function's; SimulatorFault for a function that
    somebody else provides.
    """
    stubs = {
        package_name: StubProvider(
            package_name,
            list(functions.values()),
            packages=host.packages,
            clock=host.clock,
            sdk_int_full=host.sdk_int_full,
            rules=host.argument_rules,
        )
        for package_name, functions in apps.declared.items()
    }
    _give(stubs, apps.declared, results, source)
    host.app_descriptions.update(apps.descriptions)
    for package_name, stub in stubs.items():
        host.registry.declare(package_name, list(stub.functions.values()), stub)
        _register(host, stub)


def _register(host: AppFunctionHost, stub: StubProvider) -> None:
    """Functions of global scope that have an answer, as the app would at its start."""
    wanted = [
        pb.ProviderMessage.Registration(function_identifier=identifier)
        for identifier in stub.answered
        if stub.functions[identifier].service_name == RUNTIME_SERVICE
        and stub.functions[identifier].scope == pb.SCOPE_GLOBAL
    ]
    if wanted and host.has_registration and stub.is_current():
        host.registrations.register(stub.package_name, stub, 0, wanted)


def _give(
    stubs: Mapping[str, StubProvider],
    declared: Declared,
    results: Mapping[str, Sequence[StubResult]],
    source: str,
) -> None:
    chosen: dict[tuple[str, str], str] = {}
    for key, answers in results.items():
        package_name, identifier = found = _meant(key, declared, source)
        if found in chosen:
            raise StubError(f"{source}: {chosen[found]!r} and {key!r} are both {identifier}")
        chosen[found] = key
        try:
            stubs[package_name].answer(identifier, answers)
        except StubError as error:
            raise StubError(f"{source}: {error}") from None


def _meant(key: str, declared: Declared, source: str) -> tuple[str, str]:
    """The function that has the id, `package/id` or method."""
    every = [(package, name) for package, functions in declared.items() for name in functions]
    full = [(package, name) for package, name in every if key in (name, f"{package}/{name}")]
    found = full or [(package, name) for package, name in every if name.split("#")[-1] == key]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(f"{package}/{name}" for package, name in found[:5])
        raise StubError(f"{source}: {key!r} is several functions, so write one of: {several}")
    known = ", ".join(name for _, name in every[:5]) or "none"
    raise StubError(f"{source}: {key!r} is no function of the XML files; these are: {known}")


def _parts(spec: str) -> tuple[str, Path]:
    parts = _SPEC.fullmatch(spec)
    if parts is None:
        raise AppSpecError(f"{spec!r} is not PACKAGE=FILE")
    return parts["package"], Path(parts["file"])


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise XmlError(f"cannot be read: {error.strerror}") from None
