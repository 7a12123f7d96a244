"""`show-prompt`: what a model would really read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError


def show_prompt(
    prompt: Annotated[str, typer.Argument(help="What the user says; - reads it from stdin.")],
    model: shared.Model = shared.DEFAULT_MODEL,
    system: Annotated[str, typer.Option(help="System instruction.")] = "",
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON list of functions: name, description, and parameters as a JSON schema.",
            show_default=False,
        ),
    ] = None,
    tool_choice: Annotated[
        Literal["auto", "none", "required"], typer.Option(help="How free the model is.")
    ] = "auto",
    dialect: shared.Dialect = None,
    json_output: shared.Json = False,
) -> None:
    """Print the exact prompt that a model gets for a request, and its tokens."""
    # ONNX Runtime is loaded only where a tokenizer is needed.
    from aicore_sim.inference.backend import (
        BackendError,
        Content,
        GenerateRequest,
        TextPart,
        ToolChoice,
    )
    from aicore_sim.inference.engine import open_prompts
    from aicore_sim.inference.model_folder import ModelFolderError
    from aicore_sim.models.catalogue import find_model
    from aicore_sim.models.errors import ModelNotFound

    chosen = shared.check_dialect(dialect)
    said = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    request = GenerateRequest(
        contents=(Content(role="user", parts=(TextPart(text=said),)),),
        system_instruction=system,
        tools=() if tools is None else _read_tools(tools),
        tool_choice=ToolChoice(mode=tool_choice),
    )
    try:
        prompts, name = open_prompts(find_model(model), dialect=chosen)
        text, tokens = prompts.text(request), prompts.count(request)
    except (ModelFolderError, ModelNotFound) as error:
        raise CommandError(str(error)) from None
    except BackendError as error:
        raise CommandError(error.message) from None
    if json_output:
        shared.print_json({"dialect": name, "tokens": tokens, "prompt": text})
        return
    typer.echo(text, nl=False)
    typer.echo(f"\n[{tokens} tokens, dialect {name}]", err=True)


def _read_tools(path: Path) -> tuple[Any, ...]:
    """Raises CommandError that names the function and the key that is wrong."""
    from aicore_sim.inference.backend import ToolDeclaration
    from aicore_sim.inference.json_schema import read_schema

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"--tools {str(path)!r} cannot be read as JSON: {error}") from None
    if not isinstance(found, list):
        raise CommandError(f"--tools {str(path)!r} holds no list of functions")
    made = []
    for number, tool in enumerate(found):
        where = f"--tools [{number}]"
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            raise CommandError(f"{where}: a function is an object with a 'name'")
        unknown = tool.keys() - {"name", "description", "parameters"}
        if unknown:
            raise CommandError(f"{where}: unknown keys {sorted(unknown)}")
        try:
            parameters = read_schema(
                tool.get("parameters", {"type": "object"}), f"{where}.parameters"
            )
        except ValueError as error:
            raise CommandError(str(error)) from None
        made.append(
            ToolDeclaration(
                name=tool["name"],
                description=str(tool.get("description", "")),
                parameters=parameters,
            )
        )
    return tuple(made)
