"""Device profiles: what hardware and platform the simulated device claims to be."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PlatformName = Literal["android-16", "android-17.0", "android-17.2"]
DEFAULT_PROFILE = "pixel-10"
DEFAULT_PLATFORM: PlatformName = "android-17.2"


class ProfileError(ValueError):
    """A profile that does not exist or does not follow the format."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FeatureId(_Table):
    """Which AICore feature serves a model selection."""

    release_stage: Literal["STABLE", "PREVIEW"]
    preference: Literal["FAST", "FULL"]
    feature_id: int


class QueueProfile(_Table):
    slots: int = Field(default=1, ge=1, le=64)
    """Generations that run at once."""
    waiting: int = Field(default=8, ge=0, le=10_000)
    """Generations that may wait; one more is refused with BUSY (9)."""


class AppFunctionsProfile(_Table):
    denied_code: Literal[1000, 1003] = 1000
    """What an execute answers that only the access level forbids (no source; ours)."""


class DeviceProfile(_Table):
    name: str
    base_model_name: str
    token_limit: int = Field(ge=64)
    """Input and output together, in tokens."""
    input_token_limit: int = Field(ge=32)
    features: tuple[FeatureId, ...]
    queue: QueueProfile = QueueProfile()
    app_functions: AppFunctionsProfile = AppFunctionsProfile()
    platform: PlatformName = DEFAULT_PLATFORM

    def feature_id(self, release_stage: str, preference: str) -> int | None:
        """The feature that serves the selection on this device, or None."""
        for feature in self.features:
            if (feature.release_stage, feature.preference) == (release_stage, preference):
                return feature.feature_id
        return None


def profile_names() -> tuple[str, ...]:
    """Names of the shipped profiles."""
    folder = files("aicore_sim.device") / "profiles"
    return tuple(sorted(item.name.removesuffix(".toml") for item in folder.iterdir()))


def load_profile(
    name_or_path: str = DEFAULT_PROFILE, *, platform: PlatformName | None = None
) -> DeviceProfile:
    """Load a shipped profile by name, or a TOML file by its path.

    Raises ProfileError naming the file and the key that is wrong.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml":
        try:
            text = path.read_text()
        except OSError as error:
            raise ProfileError(
                f"cannot read device profile {name_or_path!r}: {error.strerror}"
            ) from None
    elif name_or_path in profile_names():
        text = (files("aicore_sim.device") / "profiles" / f"{name_or_path}.toml").read_text()
    else:
        raise ProfileError(
            f"unknown device profile {name_or_path!r}; use one of "
            f"{', '.join(profile_names())}, or the path of a .toml file"
        )
    try:
        table = tomllib.loads(text)
        if platform is not None:
            table["platform"] = platform
        return DeviceProfile.model_validate(table)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"device profile {name_or_path!r} is not TOML: {error}") from None
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
        )
        raise ProfileError(f"device profile {name_or_path!r}: {wrong}") from None
