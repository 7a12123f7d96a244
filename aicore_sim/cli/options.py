"""Options that several commands share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from rich.console import Console
from rich.table import Table

from aicore_sim.cli.control import CommandError
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.profile import (
    DEFAULT_PLATFORM,
    DEFAULT_PROFILE,
    PlatformName,
    ProfileError,
    load_profile,
)
from aicore_sim.inference.dialect_names import DIALECTS, DialectName
from aicore_sim.models.catalogue import CATALOGUE
from aicore_sim.models.errors import ModelNotFound
from aicore_sim.models.hub_name import PREFIX, parse_hub_name

DEFAULT_MODEL = "smollm2-135m-instruct"
_WITHOUT_FILE = ("scripted", "echo", "auto")
"""Models that answer without weights and without a file."""

DeviceDir = Annotated[
    Path | None,
    typer.Option(
        "--device-dir",
        help="Directory of the device's state (default: AICORE_SIM_HOME, else the user's data "
        "directory).",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option(help="Device profile: a name, or the path of a .toml file.")]
Platform = Annotated[
    str, typer.Option(help="Platform generation: android-16, android-17.0 or android-17.2.")
]
Model = Annotated[
    str,
    typer.Option(
        help="A model of `aicore-sim models list`, the folder of an ONNX Runtime GenAI model, or "
        "scripted:FILE; echo repeats what it is told, auto calls every function once."
    ),
]
Dialect = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How the model writes calls: hermes, gemma, functiongemma or gemma4 (default: what "
        "its chat template is for).",
        show_default=False,
    ),
]
Seed = Annotated[
    int,
    typer.Option(help="Seed of everything random in the device.", min=0, max=2**31 - 1),
]
Apps = Annotated[
    list[str] | None,
    typer.Option(
        "--app",
        metavar="PACKAGE=MODULE:CLASS",
        help="Run an AppFunctionService of PACKAGE inside the host. May be repeated.",
    ),
]
Xml = Annotated[
    list[str] | None,
    typer.Option(
        "--xml",
        metavar="PACKAGE=FILE",
        help="Declare the functions of PACKAGE as its app_functions.xml says. May be repeated.",
    ),
]
Stub = Annotated[
    Path | None,
    typer.Option(help="YAML with the results of functions declared by --xml.", show_default=False),
]
ClockName = Annotated[
    Literal["real", "virtual"],
    typer.Option(help="Device time: the host's, or one that stands still until it is advanced."),
]
PaceName = Annotated[
    Literal["host", "phone"],
    typer.Option(help="Speed of answers: as fast as they come, or as on the profile's phone."),
]
Quota = Annotated[
    str | None,
    typer.Option(
        help="A quota model of the device profile, or off (default: the profile's own).",
        show_default=False,
    ),
]

PrefixMemory = Annotated[
    int | None,
    typer.Option(
        metavar="MIB",
        min=0,
        max=65_536,
        help="Memory for the model's state of earlier prompts, so that what they share is not "
        "computed again; 0 keeps none (default: the device profile's own, 512).",
        show_default=False,
    ),
]

Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Write every request to the model and its answer there, prompts included.",
        show_default=False,
    ),
]
Replay = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        metavar="FILE",
        help="Answer as in a run that --record wrote, in place of a model.",
        show_default=False,
    ),
]

ShowPrompt = Annotated[
    bool,
    typer.Option("--show-prompt", help="Log every prompt as the model gets it, with its content."),
]
Grammar = Annotated[
    bool,
    typer.Option(
        "--grammar/--no-grammar",
        help="Hold answers to a grammar of the declared functions, or only check the calls.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DEVICE_DEFAULT = DEFAULT_PROFILE
PLATFORM_DEFAULT = DEFAULT_PLATFORM


def home_of(device_dir: Path | None) -> DeviceHome:
    """Raises CommandError for `~name` of a user that does not exist."""
    try:
        return DeviceHome(device_dir)
    except RuntimeError as error:
        raise CommandError(f"--device-dir {str(device_dir)!r}: {error}", exit_code=2) from None


def check_dialect(dialect: str | None) -> DialectName | None:
    """Raises CommandError for a name that is no dialect's."""
    if dialect is None:
        return None
    for name in DIALECTS:
        if name == dialect:
            return name
    raise CommandError(f"--dialect {dialect!r} is none of {', '.join(DIALECTS)}", exit_code=2)


def check_apps(apps: list[str] | None) -> tuple[str, ...]:
    """Raises CommandError for an --app that is not PACKAGE=MODULE:CLASS."""
    for app in apps or ():
        package, equals, target = app.partition("=")
        if not (package and equals and ":" in target):
            raise CommandError(
                f"--app {app!r} is not PACKAGE=MODULE:CLASS, "
                "for example com.example.shop=shop:OrderTools",
                exit_code=2,
            )
    return tuple(apps or ())


def check_xml(xml: list[str] | None) -> tuple[str, ...]:
    """Says what is left out. Raises CommandError for what is not PACKAGE=FILE, or no such file."""
    checked = []
    for spec in xml or ():
        package, equals, file = spec.partition("=")
        if not (package and equals and file):
            raise CommandError(
                f"--xml {spec!r} is not PACKAGE=FILE, "
                "for example com.example.shop=app_functions_v2.xml",
                exit_code=2,
            )
        checked.append(f"{package}={_file('--xml', Path(file))}")
    if checked:
        # The host is imported only for those who name such files.
        from appfunctions_host.metadata_files.safe_xml import XmlError
        from appfunctions_host.metadata_files.stub_apps import read_apps

        try:
            problems = read_apps(checked).problems
        except (XmlError, ValueError) as error:
            raise CommandError(f"--xml: {error}", exit_code=2) from None
        for problem in problems:
            print(f"aicore-sim: {problem}", file=sys.stderr)
    return tuple(checked)


def check_stub(stub: Path | None, xml: tuple[str, ...]) -> Path | None:
    """Raises CommandError for a --stub without --xml, or of a file that is not there."""
    if stub is None:
        return None
    if not xml:
        raise CommandError("--stub gives results to functions of --xml; add that", exit_code=2)
    return _file("--stub", stub)


def _file(flag: str, path: Path) -> Path:
    if not path.is_file():
        raise CommandError(f"{flag}: there is no file {str(path)!r}", exit_code=2)
    return path.absolute()


def check_quota(quota: str | None, device: str) -> str | None:
    """Raises CommandError for a quota model that the device profile lacks, and ProfileError."""
    if quota is not None:
        try:
            load_profile(device).quota.require(quota)
        except ProfileError:
            raise
        except ValueError as error:
            raise CommandError(f"--quota: {error}", exit_code=2) from None
    return quota


def was_given(context: typer.Context, name: str) -> bool:
    """Whether the user gave the option, in whatever form."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def check_device(device: str) -> str:
    """Raises ProfileError for a device profile that does not exist or is wrong."""
    load_profile(device)
    return str(Path(device).absolute()) if device.endswith(".toml") else device


def check_platform(platform: str) -> PlatformName:
    """Raises CommandError for a platform that is not simulated."""
    for known in get_args(PlatformName):
        if platform == known:
            found: PlatformName = known
            return found
    raise CommandError(
        f"unknown --platform {platform!r}; use one of {', '.join(get_args(PlatformName))}",
        exit_code=2,
    )


def check_model(model: str) -> str:
    """Refuse what names no model at all; one that is not pulled yet is a state of the device.

    Raises CommandError.
    """
    names = [known.name for known in CATALOGUE]
    if model.startswith("scripted:"):
        path = Path(model.removeprefix("scripted:"))
        if path.is_file():
            return f"scripted:{path.absolute()}"
        raise CommandError(f"--model {model!r}: there is no script at {str(path)!r}", exit_code=2)
    if model.startswith("replay:"):
        # The modules of a recorded run are loaded only for one.
        from aicore_sim.inference.recording import RecordingError, load_recording

        path = Path(model.removeprefix("replay:")).absolute()
        try:
            load_recording(path)
        except RecordingError as error:
            raise CommandError(f"--replay: {error}", exit_code=2) from None
        return f"replay:{path}"
    if model in ("default", *_WITHOUT_FILE, *names):
        return model
    if model.startswith(PREFIX):
        try:
            return parse_hub_name(model).text
        except ModelNotFound as error:
            raise CommandError(f"--model: {error}", exit_code=2) from None
    if Path(model).is_dir():
        return str(Path(model).absolute())
    raise CommandError(
        f"--model {model!r} is neither a folder, nor scripted:FILE, nor hf:OWNER/REPO, nor one of "
        f"echo, auto, {', '.join(names)}",
        exit_code=2,
    )


def check_record(record: Path | None, model: str) -> Path | None:
    """Raises CommandError for a --record whose folder is not there, or that is replayed."""
    if record is None:
        return None
    path = record.absolute()
    if not path.parent.is_dir():
        raise CommandError(f"--record {str(record)!r}: its folder does not exist", exit_code=2)
    if path.is_dir():
        raise CommandError(f"--record {str(record)!r} is a folder", exit_code=2)
    if model == f"replay:{path}":
        raise CommandError(f"--record and --replay are both {str(record)!r}", exit_code=2)
    return path


def replayed(context: typer.Context, replay: Path | None, model: str) -> str:
    """The model that --replay and --model name together. Raises CommandError for both."""
    if replay is None:
        return model
    if was_given(context, "model"):
        raise CommandError("--replay takes the place of --model; leave one out", exit_code=2)
    return f"replay:{replay}"


def is_written(model: str) -> bool:
    """Whether a checked --model answers without a model: from a script, a recorded run, or by a
    rule."""
    return model in _WITHOUT_FILE or model.startswith(("scripted:", "replay:"))


def print_rows(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """A table on standard output, as wide as its content where there is no terminal."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
