"""`ctl fault`: failures on demand, counted, and random only with a seed that is shown."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from google.protobuf.json_format import MessageToDict

from aicore_protos import device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError, connect_home
from aicore_sim.cli.ctl import values
from aicore_sim.device.fault_rules import COUNT_LIMIT, HOST_RPCS, Malformed

app = typer.Typer(help="Failures on demand.", no_args_is_help=True, rich_markup_mode=None)

_MALFORMED = tuple(one.name.lower().replace("_", "-") for one in Malformed)


@app.command()
def add(
    error: Annotated[
        str | None, typer.Option(help="Fail at once with a code or its name, for example BUSY.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(help="Wait first, in device time, for example 3s.")
    ] = None,
    drop_after: Annotated[
        int | None, typer.Option(help="End the stream without an answer after so many tokens.")
    ] = None,
    fail_after: Annotated[
        str | None,
        typer.Option(metavar="TOKENS:CODE", help="Fail after so many tokens, for example 3:15."),
    ] = None,
    malformed: Annotated[
        str | None, typer.Option(help=f"Spoil the answer: {', '.join(_MALFORMED)}.")
    ] = None,
    kill_worker: Annotated[
        bool, typer.Option("--kill-worker", help="The process that runs the model dies.")
    ] = False,
    rpc: Annotated[
        str,
        typer.Option(
            help="Only this call, for example GenerateContent, or Execute of the AppFunction host "
            "(default: every call of AICore)."
        ),
    ] = "",
    package: Annotated[str, typer.Option(help="Only this app's calls.")] = "",
    function: Annotated[str, typer.Option(help="Only this AppFunction.")] = "",
    times: Annotated[int, typer.Option(help="How often it fires; 0 has no limit.")] = 0,
    after: Annotated[int, typer.Option(help="Matching calls that pass before it fires.")] = 0,
    until: Annotated[
        str | None, typer.Option(help="Device time at which it ends, 2026-01-01T00:00:00Z.")
    ] = None,
    probability: Annotated[
        float,
        typer.Option(min=0, max=1, help="Chance that a call meets it; 0 means always."),
    ] = 0,
    seed: Annotated[
        int,
        typer.Option(min=0, help="What the chance is drawn from (default: chosen and shown)."),
    ] = 0,
    fault_id: Annotated[
        str, typer.Option("--id", help="Name of the rule (default: made up).")
    ] = "",
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Add a rule: which calls it is for, one action, and how often."""
    if error is not None:
        _check_api(error, rpc, function)
    table: dict[str, Any] = {
        "id": fault_id,
        "match": {"rpc": rpc, "package_name": package, "function_identifier": function},
        "action": _action(error, delay, drop_after, fail_after, malformed, kill_worker),
        "times": _count("--times", times),
        "after": _count("--after", after),
        "probability": probability,
        "seed": seed,
    }
    if until is not None:
        table["until"] = values.read("--until", until, values.timestamp).ToJsonString()
    with connect_home(shared.home_of(device_dir)) as control:
        if package and not any(one.package_name == package for one in control.packages()):
            print(f"note: {package} is not installed, so nothing meets the rule", file=sys.stderr)
        _show([control.add_fault(table)], json_output)


@app.command("list")
def list_(device_dir: shared.DeviceDir = None, json_output: shared.Json = False) -> None:
    """List the rules and how often each has fired."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show(list(control.faults()), json_output)


@app.command()
def clear(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...")] = None,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Drop the named rules, or all of them."""
    with connect_home(shared.home_of(device_dir)) as control:
        cleared = control.clear_faults(ids or ())
    if json_output:
        shared.print_json({"cleared": cleared})
    else:
        print(f"cleared {cleared} rule{'s' if cleared != 1 else ''}")


def _check_api(error: str, rpc: str, function: str) -> None:
    """Refuses a code's name that the other API has: no phone answers so. Numbers may be any."""
    of_functions = error.upper().startswith("ERROR_")
    of_models = not of_functions and not error.lstrip("-").isdecimal()
    is_of_host = rpc in HOST_RPCS or (not rpc and bool(function))
    if is_of_host and of_models:
        raise CommandError(
            f"--error {error}: calls of the AppFunction host have the codes of "
            f"AppFunctionException, such as ERROR_DENIED; {error} is a GenAiException's",
            exit_code=values.BAD_INPUT,
        )
    if not is_of_host and of_functions:
        raise CommandError(
            f"--error {error} is a code of the AppFunction host; add --rpc Execute",
            exit_code=values.BAD_INPUT,
        )


def _action(
    error: str | None,
    delay: str | None,
    drop_after: int | None,
    fail_after: str | None,
    malformed: str | None,
    kill_worker: bool,
) -> dict[str, Any]:
    actions: dict[str, Any] = {}
    if error is not None:
        actions["error_code"] = values.read("--error", error, values.error_code)
    if delay is not None:
        nanos = values.read("--delay", delay, values.nanoseconds)
        whole, rest = divmod(nanos, values.NANOS)
        actions["delay"] = f"{whole}.{rest:09d}s"
    if drop_after is not None:
        actions["drop_after_tokens"] = _count("--drop-after", drop_after)
    if fail_after is not None:
        actions["fail_after_tokens"] = values.read("--fail-after", fail_after, _fail_after)
    if malformed is not None:
        name = values.read("--malformed", malformed, values.one_of(*_MALFORMED))
        actions["malformed"] = name.upper().replace("-", "_")
    if kill_worker:
        actions["kill_worker"] = {}
    if len(actions) != 1:
        given = "none was" if not actions else f"{len(actions)} were"
        raise CommandError(
            "a rule has exactly one of --error, --delay, --drop-after, --fail-after, --malformed "
            f"and --kill-worker; {given} given",
            exit_code=values.BAD_INPUT,
        )
    return actions


def _fail_after(text: str) -> dict[str, int]:
    tokens, colon, code = text.partition(":")
    if not (tokens.isdecimal() and colon):
        raise ValueError(f"{text!r} is not TOKENS:CODE, for example 3:15 or 3:BUSY")
    return {"tokens": int(tokens), "error_code": values.error_code(code)}


def _count(flag: str, number: int) -> int:
    if not 0 <= number <= COUNT_LIMIT:
        raise CommandError(
            f"{flag}: {number} is not between 0 and {COUNT_LIMIT}", exit_code=values.BAD_INPUT
        )
    return number


def facts(fault: device_pb2.Fault) -> dict[str, Any]:
    """A rule for JSON, with every key."""
    made: dict[str, Any] = MessageToDict(
        fault, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    made.setdefault("match", {"rpc": "", "package_name": "", "function_identifier": ""})
    made.setdefault("until", None)
    return made


def _show(faults: list[device_pb2.Fault], json_output: bool) -> None:
    if json_output:
        shared.print_json([facts(fault) for fault in faults])
        return
    rows: list[tuple[str, ...]] = []
    for fault in faults:
        match = fault.match
        any_call = "any call of the host" if match.function_identifier else "any call"
        names = (match.rpc or any_call, match.package_name, match.function_identifier)
        limits = [f"after {fault.after}"] if fault.after else []
        limits += [f"{fault.times} times"] if fault.times else []
        if fault.probability:
            limits.append(f"with chance {fault.probability:g} of seed {fault.seed}")
        limits += [f"until {values.shown_time(fault.until)}"] if fault.HasField("until") else []
        rows.append(
            (
                fault.id,
                ", ".join(name for name in names if name),
                _shown_action(fault.action),
                ", ".join(limits) or "always",
                str(fault.hits),
            )
        )
    shared.print_rows("Faults", ("id", "calls", "action", "when", "fired"), rows)


def _shown_action(action: device_pb2.FaultAction) -> str:
    match action.WhichOneof("action"):
        case "error_code":
            return f"error {action.error_code} {values.code_name(action.error_code)}"
        case "delay":
            return f"delay {values.shown_duration(action.delay.ToNanoseconds() / values.NANOS)}"
        case "drop_after_tokens":
            return f"drop after {action.drop_after_tokens} tokens"
        case "fail_after_tokens":
            code = action.fail_after_tokens.error_code
            tokens = action.fail_after_tokens.tokens
            return f"error {code} {values.code_name(code)} after {tokens} tokens"
        case "malformed":
            name = values.enum_name(device_pb2.FaultAction.Malformed, action.malformed)
            return name.lower().replace("_", " ")
        case kind:
            return str(kind).replace("_", " ")
