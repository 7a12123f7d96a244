"""Device profiles: what hardware and platform the simulated device claims to be.

Hardware (`profiles/hardware/*.toml`) and platform (`profiles/platform/*.toml`) are apart, since
phones are updated. A :class:`DeviceProfile` is one of each, merged.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

PlatformName = Literal["android-16", "android-17.0", "android-17.2"]
DEFAULT_PROFILE = "pixel-10"
DEFAULT_PLATFORM: PlatformName = "android-17.2"
QUOTA_OFF = "off"

ReleaseStage = Literal["STABLE", "PREVIEW"]
Preference = Literal["FAST", "FULL"]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ProfileError(ValueError):
    """A profile that does not exist or does not follow the format."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SpeedProfile(_Table):
    """How fast the phone infers: what quota charges by, and what `--pace phone` sleeps."""

    prefill_tokens_per_second: Positive = 940
    decode_tokens_per_second: Positive = 9.6
    first_token_seconds: Seconds = 0.1
    """Spent before the first token, whatever the prompt's length."""
    cached_first_token_seconds: Seconds = 0.3
    """The same, when a cached prefix is loaded."""
    image_seconds: Seconds = 0.6
    """Encoding of one image."""


class FeatureId(_Table):
    """An AICore feature of this device, and what differs from the profile's values in it."""

    release_stage: ReleaseStage
    preference: Preference
    feature_id: int
    base_model_name: str | None = None
    token_limit: int | None = Field(default=None, ge=64)
    download_bytes: int | None = Field(default=None, ge=0)
    speed: SpeedProfile | None = None


class ServedFeature(_Table):
    """A feature with the profile's values filled in."""

    feature_id: int
    base_model_name: str
    token_limit: int
    download_bytes: int
    speed: SpeedProfile


class AICoreProfile(_Table):
    state: Literal["installed", "missing", "too_old"] = "installed"
    """`missing`: every call is 601; `too_old`: every call is -101."""
    inference_error_code: int | None = None
    """What everything that needs the model fails with, although the status is AVAILABLE."""


class AvailabilityProfile(_Table):
    initial: Literal["UNAVAILABLE", "DOWNLOADABLE", "AVAILABLE"] = "AVAILABLE"
    """FeatureStatus of the served features on the first boot."""
    config_seconds: Seconds = 0
    """Device time from the first boot until AICore knows its features."""
    unprovisioned: Literal["observed", "documented"] = "observed"
    """A selection that the device does not serve: `observed` fails with 606, the status call
    included; `documented` reports UNAVAILABLE, and other calls fail with 8."""


class DownloadProfile(_Table):
    bytes: int = Field(default=3_000_000_000, ge=0)
    progression: Literal["immediate", "seconds", "polls", "manual"] = "immediate"
    """How a simulated download moves on: at once, with device time, with each status call, or
    only when the control service says so."""
    seconds: Positive = 20
    polls: int = Field(default=3, ge=1, le=10_000)


class LoadProfile(_Table):
    cold_seconds: Seconds = 0
    """Loading the weights, in device time."""
    idle_unload_seconds: Seconds = 0
    """Idle device time after which the weights are unloaded; 0 never does."""


class QueueProfile(_Table):
    slots: int = Field(default=1, ge=1, le=64)
    """Generations that run at once."""
    waiting: int = Field(default=8, ge=0, le=10_000)
    """Generations that may wait; one more is refused with BUSY (9)."""
    fail_fast: bool = False
    """Nobody waits: a call that finds no free slot is refused with BUSY (9)."""


class PrefixCacheProfile(_Table):
    memory_mb: int = Field(default=512, ge=0, le=65_536)
    """MiB that the model's state of earlier prompts may take on the host; 0 keeps none."""


class StreamProfile(_Table):
    chunk_seconds: float = Field(default=0.04, ge=0, le=60)
    """Text that a real model writes sooner after a chunk, in seconds, comes in one chunk with what
    follows; 0 gives a chunk for each token."""


class TokenBucketQuota(_Table):
    """Device time is spent from a store that refills steadily."""

    kind: Literal["token_bucket"]
    burst_seconds: Positive
    refill_per_second: Positive


class SlidingCallsQuota(_Table):
    """At most so many calls end within any window."""

    kind: Literal["sliding_calls"]
    calls: int = Field(ge=1)
    window_seconds: Positive


class SlidingTimeQuota(_Table):
    """At most so much device time is spent within any window."""

    kind: Literal["sliding_time"]
    inference_seconds: Positive
    window_seconds: Positive


QuotaModelProfile = Annotated[
    TokenBucketQuota | SlidingCallsQuota | SlidingTimeQuota, Field(discriminator="kind")
]


class BatteryBudget(_Table):
    """What may be used in one period. A period begins with the first use after the last ended."""

    inference_seconds: Positive | None = None
    calls: int | None = Field(default=None, ge=1)
    period_seconds: Positive

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.inference_seconds is None and self.calls is None:
            raise ValueError("needs inference_seconds, calls or both")
        return self


class QuotaProfile(_Table):
    active: str = QUOTA_OFF
    """Name of a short-term model, or "off", which also lifts the battery budgets."""
    models: dict[str, QuotaModelProfile] = Field(default_factory=dict)
    app_battery: BatteryBudget | None = None
    """Per app; beyond it 27."""
    device_battery: BatteryBudget | None = None
    """Of all apps together; beyond it AICore's 28."""

    @model_validator(mode="after")
    def _active_is_known(self) -> Self:
        if QUOTA_OFF in self.models:
            raise ValueError(f"a quota model cannot be called {QUOTA_OFF!r}")
        self.require(self.active)
        return self

    @property
    def longest_window_seconds(self) -> float:
        """How far back any of the models looks; 0 when none does."""
        windows = [
            model.window_seconds
            for model in self.models.values()
            if not isinstance(model, TokenBucketQuota)
        ]
        return max(windows, default=0.0)

    def require(self, name: str) -> QuotaModelProfile | None:
        """The model `name`, None for "off". Raises ValueError naming those that there are."""
        if name == QUOTA_OFF:
            return None
        if name not in self.models:
            known = ", ".join([*self.models, QUOTA_OFF])
            raise ValueError(f"there is no quota model {name!r}; use one of {known}")
        return self.models[name]


class AppFunctionsProfile(_Table):
    """What the AppFunction service of a platform has."""

    permission_gate: Literal["v1", "v2"]
    """`v1` knows EXECUTE_APP_FUNCTIONS alone; `v2` adds EXECUTE_APP_FUNCTIONS_SYSTEM and
    DISCOVER_APP_FUNCTIONS."""
    allowlist: bool
    """Agents also need to be on the device's allowlist (with `v2` only)."""
    native_levels: bool
    """The platform enforces access levels; otherwise the provider's library does."""
    search: bool
    """`searchAppFunctions` and `getAppFunctionStates` exist."""
    observe: bool
    """`observeAppFunctions` exists."""
    runtime_registration: bool
    """`registerAppFunction` exists."""
    denied_code: Literal[1000, 1003]
    """What an execute answers that only the access level forbids."""
    unknown_arguments: Literal["reject", "ignore"] = "reject"
    """What the provider's library does with arguments that the function does not declare."""
    enforce_constraints: bool = True
    """Whether the provider's library refuses values that a constraint does not allow."""
    package_visibility: Literal["all", "queries"] = "all"
    """`queries`: without QUERY_ALL_PACKAGES a caller discovers functions of packages that its
    queries name, besides its own."""


class DeviceProfile(_Table):
    name: str
    base_model_name: str
    token_limit: int = Field(ge=64)
    """Input and output together, in tokens."""
    input_token_limit: int = Field(ge=32)
    image_tokens: int = Field(default=256, ge=0)
    """Input tokens of one image."""
    foreground: Literal["independent", "exclusive"] = "independent"
    """`exclusive`: one app at a time is on top."""
    features: tuple[FeatureId, ...]
    aicore: AICoreProfile = AICoreProfile()
    availability: AvailabilityProfile = AvailabilityProfile()
    download: DownloadProfile = DownloadProfile()
    load: LoadProfile = LoadProfile()
    speed: SpeedProfile = SpeedProfile()
    queue: QueueProfile = QueueProfile()
    prefix_cache: PrefixCacheProfile = PrefixCacheProfile()
    stream: StreamProfile = StreamProfile()
    quota: QuotaProfile = QuotaProfile()
    platform: PlatformName
    sdk_int_full: int
    """`Build.VERSION.SDK_INT_FULL` of the platform."""
    app_functions: AppFunctionsProfile

    @model_validator(mode="after")
    def _one_feature_each(self) -> Self:
        for what in (
            [(feature.release_stage, feature.preference) for feature in self.features],
            [feature.feature_id for feature in self.features],
        ):
            if len(set(what)) != len(what):
                raise ValueError("a selection and a feature id may appear only once in features")
        return self

    @model_validator(mode="after")
    def _room_for_an_answer(self) -> Self:
        windows = (self.token_limit, *(one.token_limit for one in self.features if one.token_limit))
        if self.input_token_limit >= min(windows):
            raise ValueError(
                f"input_token_limit: {self.input_token_limit} leaves no room for an answer in a "
                f"token_limit of {min(windows)}, which is input and output together"
            )
        return self

    def feature_id(self, release_stage: str, preference: str) -> int | None:
        """The feature that serves the selection on this device, or None."""
        served = self.feature(release_stage, preference)
        return None if served is None else served.feature_id

    def feature(self, release_stage: str, preference: str) -> ServedFeature | None:
        """The feature that serves the selection, complete, or None."""
        for feature in self.features:
            if (feature.release_stage, feature.preference) == (release_stage, preference):
                return self._served(feature)
        return None

    def served_features(self) -> tuple[ServedFeature, ...]:
        """Every feature of the device, complete."""
        return tuple(self._served(feature) for feature in self.features)

    def _served(self, feature: FeatureId) -> ServedFeature:
        limit, size = feature.token_limit, feature.download_bytes
        return ServedFeature(
            feature_id=feature.feature_id,
            base_model_name=feature.base_model_name or self.base_model_name,
            token_limit=self.token_limit if limit is None else limit,
            download_bytes=self.download.bytes if size is None else size,
            speed=feature.speed or self.speed,
        )


def profile_names() -> tuple[str, ...]:
    """Names of the shipped hardware profiles."""
    folder = files("aicore_sim.device") / "profiles" / "hardware"
    return tuple(sorted(item.name.removesuffix(".toml") for item in folder.iterdir()))


def load_profile(
    name_or_path: str = DEFAULT_PROFILE, *, platform: PlatformName | None = None
) -> DeviceProfile:
    """Load a shipped hardware profile by name, or a TOML file by its path, with a platform.

    A file may say `extends = "pixel-10"`: its tables are merged into the shipped ones, its lists
    and values replace theirs, and its name is the file's unless it gives one. The platform is
    `platform`, else the file's, else the newest.

    Raises ProfileError naming the file and the key that is wrong.
    """
    table = _hardware(name_or_path)
    if platform is not None:
        table["platform"] = platform
    chosen = table.setdefault("platform", DEFAULT_PLATFORM)
    if chosen not in get_args(PlatformName):
        raise _wrong(
            name_or_path, f"platform: {chosen!r} is not one of {', '.join(get_args(PlatformName))}"
        )
    try:
        return DeviceProfile.model_validate(_merged(_shipped("platform", chosen), table))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'profile'}: {item['msg']}"
            for item in error.errors()
        )
        raise _wrong(name_or_path, wrong) from None


def _hardware(name_or_path: str) -> dict[str, Any]:
    path = Path(name_or_path)
    if path.suffix == ".toml":
        try:
            table = _parsed(path.read_bytes(), name_or_path)
        except OSError as error:
            raise ProfileError(
                f"cannot read device profile {name_or_path!r}: {error.strerror}"
            ) from None
    elif name_or_path in profile_names():
        table = _shipped("hardware", name_or_path)
    else:
        raise ProfileError(
            f"unknown device profile {name_or_path!r}; use one of "
            f"{', '.join(profile_names())}, or the path of a .toml file"
        )
    base = table.pop("extends", None)
    if base is None:
        return table
    if base not in profile_names():
        raise _wrong(name_or_path, f"extends: {base!r} is not one of {', '.join(profile_names())}")
    return _merged(_hardware(base), {"name": path.stem} | table)


def _shipped(kind: Literal["hardware", "platform"], name: str) -> dict[str, Any]:
    file = files("aicore_sim.device") / "profiles" / kind / f"{name}.toml"
    return _parsed(file.read_bytes(), name)


def _parsed(text: bytes, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"device profile {name!r} is not TOML: {error}") from None


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        found = merged.get(key)
        if isinstance(found, dict) and isinstance(value, dict):
            merged[key] = _merged(found, value)
        else:
            merged[key] = value
    return merged


def _wrong(name: str, what: str) -> ProfileError:
    return ProfileError(f"device profile {name!r}: {what}")
