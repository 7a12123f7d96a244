"""Commands of ours that say why: `explain` and `watch`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.command_options import (
    Address,
    DeviceDir,
    FunctionId,
    PackageName,
    shell_session,
)
from appfunctions_host.shell_client import HostClient, Target
from appfunctions_host.shown import line, show

_YES_NO = {True: "yes", False: "no"}


def explain(
    as_package: Annotated[
        str, typer.Option("--as", metavar="PACKAGE", help="The caller to explain for.")
    ],
    package: PackageName = None,
    function: FunctionId = None,
    id_filter: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="The ids to which an agent limits itself."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of text.")] = False,
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Say for each function whether a caller sees and may run it, and why."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        for name in _names(client, package, function):
            found = client.explain(as_package, name, id_filter or ())
            _print_explanation(name, found, as_json=as_json)


def watch(
    no_follow: Annotated[
        bool, typer.Option("--no-follow", help="Print what is recorded and end.")
    ] = False,
    after: Annotated[int, typer.Option(help="Only decisions after this id.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of text.")] = False,
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Follow the host's decisions: who asked for what, which rule decided, the outcome."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        try:
            for decision in client.watch(after_id=after, follow=not no_follow):
                show(_decision_line(decision, as_json=as_json))
        except KeyboardInterrupt:
            return


def _names(
    client: HostClient, package: str | None, function: str | None
) -> Iterator[pb.AppFunctionName]:
    """The named function, also one that is missing; else all that are registered."""
    if function is not None and package is not None:
        name = pb.AppFunctionName(package_name=package, function_identifier=function)
        yield client.full_name(name)
        return
    for metadata in client.search(package):
        identifier = metadata.name.function_identifier
        if function is None or function in (identifier, identifier.rpartition("#")[2]):
            yield metadata.name


def _print_explanation(
    name: pb.AppFunctionName, found: pb.ExplainResponse, *, as_json: bool
) -> None:
    if as_json:
        facts = {
            "package": name.package_name,
            "function": name.function_identifier,
            "discoverable": found.discoverable,
            "discovery_rule": found.discovery_rule,
            "discovery_reason": found.discovery_reason,
            "runnable": found.execute_error_code == 0,
            "execute_error_code": found.execute_error_code,
            "execute_rule": found.execute_rule,
            "execute_reason": found.execute_reason,
            "filtered_out": found.filtered_out,
        }
        show(json.dumps(facts, ensure_ascii=False))
        return
    runs = "yes" if found.execute_error_code == 0 else f"no ({found.execute_error_code})"
    show(line(f"{name.package_name} {name.function_identifier}"))
    show(line(f"  visible   {_YES_NO[found.discoverable]}: {found.discovery_reason}"))
    show(line(f"  runnable  {runs}: {found.execute_reason}"))
    if found.filtered_out:
        print("  offered   no: the id filter lacks it")


def _decision_line(decision: pb.AppFunctionDecision, *, as_json: bool) -> str:
    name = decision.function
    if as_json:
        facts: dict[str, Any] = {
            "id": decision.id,
            "time": decision.time,
            "operation": decision.operation,
            "caller": decision.calling_package,
            "package": name.package_name,
            "function": name.function_identifier,
            "rule": decision.rule,
            "reason": decision.reason,
            "allowed": decision.allowed,
            "error_code": decision.error_code,
        }
        return json.dumps(facts, ensure_ascii=False)
    moment = datetime.fromtimestamp(decision.time, tz=UTC).strftime("%H:%M:%S.%f")[:-3]
    target = name.function_identifier or name.package_name or "-"
    code = f" {decision.error_code}" if decision.error_code else ""
    verdict = "ok" if decision.allowed else f"refused{code}"
    if decision.operation == "result":
        verdict = "returned" if decision.allowed else f"failed{code}"
    return line(
        f"{decision.id:>6} {moment} {decision.operation:<11} {decision.calling_package} "
        f"{target} {verdict}: {decision.reason}"
    )


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("explain")(explain)
    app.command("watch")(watch)
