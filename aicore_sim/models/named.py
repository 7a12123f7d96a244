"""Models by name, whether of the catalogue or of the Hugging Face Hub."""

from __future__ import annotations

from aicore_sim.models.catalogue import CatalogueModel, catalogue_model, hub_model
from aicore_sim.models.hub_name import PREFIX, parse_hub_name
from aicore_sim.models.installation import Progress, PullResult
from aicore_sim.models.pull import pull


def named_model(name: str) -> CatalogueModel:
    """Raises ModelNotFound for what names no model that can be pulled."""
    if name.startswith(PREFIX):
        return hub_model(parse_hub_name(name).text)
    return catalogue_model(name)


def pull_named(model: CatalogueModel, progress: Progress) -> PullResult:
    """Makes sure that a model of `named_model` is on this machine. Raises PullError."""
    if model.name.startswith(PREFIX):
        from aicore_sim.models.hub import pull_from_hub

        return pull_from_hub(parse_hub_name(model.name), progress)
    return pull(model, progress)
