"""Checks an ONNX Runtime GenAI model folder before the library reads it.

The library's own messages name a missing file or an unknown key only in some cases.
https://onnxruntime.ai/docs/genai/reference/config.html
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from aicore_sim.inference.dialect_names import DialectName

CONFIG = "genai_config.json"
CHAT_TEMPLATE = "chat_template.jinja"
SETTINGS = "aicore_sim.json"
"""Ours, and optional: an object of the fields of `FolderSettings`."""

_SECTIONS = {"model", "search", "engine", "speculative"}
_REQUIRED: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("model.type", str),
    ("model.context_length", int),
    ("model.vocab_size", int),
    ("model.eos_token_id", (int, list)),
    ("model.decoder.filename", str),
    ("model.decoder.num_hidden_layers", int),
    ("model.decoder.num_key_value_heads", int),
    ("model.decoder.head_size", int),
)


class FolderSettings(BaseModel):
    """What a folder says of its model, where that cannot be seen from the model's own files."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prompting: Literal["plain", "tuned"] = "plain"
    """`tuned`: functions are declared as their calls are written, as the adapter of the default
    model was trained to read them."""
    dialect: DialectName | None = None
    """How calls are written; None for what the chat template is made for."""
    guidance: bool = True
    """Whether answers are held to a grammar, where the library can do that."""


class PromptOptions(BaseModel):
    """What whoever starts the model says of its prompts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dialect: DialectName | None = None
    """In place of the one that the folder is for."""
    show: bool = False
    """Whether every prompt is logged as the model gets it."""
    guidance: bool = True
    """False: answers follow no grammar, whatever folder and library say."""


class ModelFolderError(Exception):
    """The folder cannot be loaded; the message names the file and, where one is wrong, the key."""


def read_config(folder: Path) -> dict[str, Any]:
    """The checked content of `genai_config.json`.

    Raises ModelFolderError for a missing or unreadable file and for a missing, unknown or badly
    typed key that the library would report unclearly or not at all.
    """
    if not folder.is_dir():
        raise ModelFolderError(f"The model folder {str(folder)!r} does not exist.")
    config = _read_json(folder / CONFIG)
    for key in config:
        if key not in _SECTIONS:
            raise ModelFolderError(
                f"{folder / CONFIG} has the unknown key {key!r}; known are {sorted(_SECTIONS)}."
            )
    for path, kind in _REQUIRED:
        value: Any = config
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            raise ModelFolderError(f"{folder / CONFIG} lacks the key {path!r}.")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ModelFolderError(
                f"{folder / CONFIG}: the key {path!r} has a value of the wrong type: {value!r}."
            )
    filename = config["model"]["decoder"]["filename"]
    if not (folder / filename).is_file():
        raise ModelFolderError(
            f"The file {str(folder / filename)!r}, which the key 'model.decoder.filename' of "
            f"{CONFIG} names, does not exist."
        )
    _check_tokenizer(folder)
    return config


def read_settings(folder: Path) -> FolderSettings:
    """Raises ModelFolderError for settings that cannot be read or have an unknown key or value."""
    if not (folder / SETTINGS).exists():
        return FolderSettings()
    try:
        return FolderSettings.model_validate(_read_json(folder / SETTINGS))
    except ValidationError as error:
        wrong = error.errors()[0]
        key = wrong["loc"][0]
        what = (
            f"the unknown key {key!r}; known are {sorted(FolderSettings.model_fields)}"
            if wrong["type"] == "extra_forbidden"
            else f"for the key {key!r} the value {wrong['input']!r}: {wrong['msg']}"
        )
        raise ModelFolderError(f"{folder / SETTINGS} has {what}.") from None


def _check_tokenizer(folder: Path) -> None:
    _read_json(folder / "tokenizer.json")
    settings = _read_json(folder / "tokenizer_config.json")
    if not (folder / CHAT_TEMPLATE).is_file() and not settings.get("chat_template"):
        raise ModelFolderError(
            f"There is no chat template: neither the file {str(folder / CHAT_TEMPLATE)!r} nor the "
            "key 'chat_template' in tokenizer_config.json."
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFolderError(f"The file {str(path)!r} does not exist.") from None
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"The file {str(path)!r} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelFolderError(f"The file {str(path)!r} holds no JSON object.")
    return content
