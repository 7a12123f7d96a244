"""Which AICore feature a model selection asks for, and whether this device serves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from aicore_sim.device.errors import GenAiCode
from aicore_sim.device.profile import DeviceProfile
from aicore_sim.policy.failures import aicore_failure

ReleaseStage = Literal["STABLE", "PREVIEW"]
Preference = Literal["FAST", "FULL"]

# What the library asks for, whatever the phone has. 636 and 645 are known; 646 and 648 are known
# to be the preview models, and which of them is the fast one is ours.
# Source: https://github.com/googlesamples/mlkit/issues/1061
REQUESTED_FEATURE_IDS: Mapping[tuple[ReleaseStage, Preference], int] = {
    ("STABLE", "FULL"): 636,
    ("STABLE", "FAST"): 645,
    ("PREVIEW", "FAST"): 646,
    ("PREVIEW", "FULL"): 648,
}


def require_feature(
    profile: DeviceProfile, release_stage: ReleaseStage, preference: Preference
) -> int:
    """The id of the feature that serves the selection.

    Raises GenAiError 606 with the id that was asked for. On phones the status call fails in the
    same way, although it is documented to answer UNAVAILABLE:
    https://github.com/googlesamples/mlkit/issues/1062
    """
    served = profile.feature_id(release_stage, preference)
    if served is None:
        asked = REQUESTED_FEATURE_IDS[release_stage, preference]
        raise aicore_failure(GenAiCode.FEATURE_NOT_FOUND, f"Feature {asked} is not available.")
    return served
