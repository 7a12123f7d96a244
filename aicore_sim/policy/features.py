"""Which AICore feature a model selection asks for."""

from __future__ import annotations

from collections.abc import Mapping

from aicore_sim.device.profile import Preference, ReleaseStage

__all__ = ["REQUESTED_FEATURE_IDS", "Preference", "ReleaseStage"]

# What the library asks for, whatever the phone has. 636 and 645 are known; 646 and 648 are known
# to be the preview models, and which of them is the fast one is ours.
# Source: https://github.com/googlesamples/mlkit/issues/1061
REQUESTED_FEATURE_IDS: Mapping[tuple[ReleaseStage, Preference], int] = {
    ("STABLE", "FULL"): 636,
    ("STABLE", "FAST"): 645,
    ("PREVIEW", "FAST"): 646,
    ("PREVIEW", "FULL"): 648,
}
