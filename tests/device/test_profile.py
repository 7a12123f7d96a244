"""Device profiles and permission names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from aicore_sim.device import permissions, profile
from aicore_sim.device.profile import (
    DeviceProfile,
    PlatformName,
    ProfileError,
    load_profile,
    profile_names,
)

SHIPPED = Path(profile.__file__).parent / "profiles"
TEXT = """
name = "mine"
base_model_name = "nano-v4-fast"
token_limit = 4096
input_token_limit = 4000
[[features]]
release_stage = "PREVIEW"
preference = "FAST"
feature_id = 646
"""
BUCKET = """
[quota]
active = "bucket"
[quota.models.bucket]
kind = "token_bucket"
burst_seconds = 30
refill_per_second = 0.5
"""


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_the_pixel_10_is_what_its_sources_say() -> None:
    assert load_profile("pixel-10").model_dump(exclude={"quota"}) == {
        "name": "pixel-10",
        "base_model_name": "nano-v3",
        "token_limit": 8192,
        "input_token_limit": 4000,
        "image_tokens": 256,
        "foreground": "independent",
        "features": (
            {"release_stage": "STABLE", "preference": "FULL", "feature_id": 636,
             "base_model_name": None, "token_limit": None, "download_bytes": None, "speed": None},
        ),
        "aicore": {"state": "installed", "inference_error_code": None},
        "availability": {
            "initial": "AVAILABLE", "config_seconds": 0, "unprovisioned": "observed",
        },
        "download": {
            "bytes": 3_000_000_000, "progression": "seconds", "seconds": 20, "polls": 3,
        },
        "load": {"cold_seconds": 12, "idle_unload_seconds": 300},
        "speed": {
            "prefill_tokens_per_second": 940, "decode_tokens_per_second": 9.6,
            "first_token_seconds": 0.1, "cached_first_token_seconds": 0.3, "image_seconds": 0.6,
        },
        "queue": {"slots": 1, "waiting": 8, "fail_fast": False},
        "prefix_cache": {"memory_mb": 512},
        "stream": {"chunk_seconds": 0.04},
        "platform": "android-17.2",
        "sdk_int_full": 3_700_002,
        "app_functions": {
            "permission_gate": "v2", "allowlist": True, "native_levels": True, "search": True,
            "observe": True, "runtime_registration": True, "denied_code": 1000,
            "unknown_arguments": "reject",
            "enforce_constraints": True,
            "package_visibility": "all",
        },
    }  # fmt: skip
    quota = load_profile("pixel-10").quota
    assert (quota.active, [*quota.models]) == (
        "token-bucket",
        ["token-bucket", "sliding-calls", "sliding-time"],
    )
    assert quota.longest_window_seconds == 90


def test_every_shipped_phone_loads_on_every_platform_and_survives_json() -> None:
    assert profile_names() == (
        "aicore-too-old",
        "config-pending",
        "galaxy-s25",
        "inference-error",
        "no-aicore",
        "not-listed",
        "pixel-10",
        "pixel-11",
        "pixel-9",
        "pixel-9-2025",
        "unlocked-bootloader",
    )
    for name in profile_names():
        for platform in get_args(PlatformName):
            loaded = load_profile(name, platform=platform)
            assert (loaded.name, loaded.platform) == (name, platform)
            assert DeviceProfile.model_validate_json(loaded.model_dump_json()) == loaded


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("pixel-9", {("STABLE", "FULL"): (636, "nano-v3", 8192)}),
        ("pixel-9-2025", {("STABLE", "FULL"): (636, "nano-v2", 4096)}),
        ("pixel-10", {("STABLE", "FULL"): (636, "nano-v3", 8192)}),
        (
            "pixel-11",
            {
                ("STABLE", "FULL"): (636, "nano-v4-full", 4096),
                ("STABLE", "FAST"): (645, "nano-v4-fast", 4096),
                ("PREVIEW", "FAST"): (646, "nano-v4-fast", 4096),
                ("PREVIEW", "FULL"): (648, "nano-v4-full", 4096),
            },
        ),
        ("galaxy-s25", {}),
    ],
)
def test_each_selection_has_its_own_model(
    name: str, features: dict[tuple[str, str], tuple[int, str, int]]
) -> None:
    loaded = load_profile(name)
    found = {}
    for stage in ("STABLE", "PREVIEW"):
        for preference in ("FAST", "FULL"):
            served = loaded.feature(stage, preference)
            if served is not None:
                found[stage, preference] = (
                    served.feature_id,
                    served.base_model_name,
                    served.token_limit,
                )
    assert found == features


def test_a_feature_brings_its_own_speed_and_size_or_takes_the_phones() -> None:
    fast, full = (load_profile("pixel-11").feature("STABLE", which) for which in ("FAST", "FULL"))
    assert fast is not None
    assert full is not None
    assert (fast.speed.decode_tokens_per_second, full.speed.decode_tokens_per_second) == (19, 5)
    assert (fast.download_bytes, full.download_bytes) == (4_200_000_000, 5_900_000_000)
    pixel_10 = load_profile("pixel-10")
    [own] = pixel_10.served_features()
    assert (own.speed, own.download_bytes) == (pixel_10.speed, pixel_10.download.bytes)


@pytest.mark.parametrize(
    ("platform", "gate", "has_17", "native"),
    [
        ("android-16", "v1", False, False),
        ("android-17.0", "v2", True, False),
        ("android-17.2", "v2", True, True),
    ],
)
def test_the_platform_says_what_the_app_function_service_has(
    platform: PlatformName, gate: str, has_17: bool, native: bool
) -> None:
    found = load_profile("pixel-9", platform=platform).app_functions
    assert (found.permission_gate, found.native_levels, found.denied_code) == (gate, native, 1000)
    assert [found.allowlist, found.search, found.observe, found.runtime_registration] == [
        has_17
    ] * 4


@pytest.mark.parametrize("path", sorted(SHIPPED.rglob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_value_names_its_source_or_says_that_it_is_ours(path: Path) -> None:
    unsourced = []
    for block in path.read_text().split("\n\n"):
        comment = ""
        previous = ""
        for line in block.splitlines():
            if line.startswith("#"):
                comment = f"{comment} {line}" if previous.startswith("#") else line
            elif re.match(r"\w+ = ", line) and line.split()[0] not in ("name", "extends"):
                sourced = "https://" in comment or "ours" in comment.lower()
                unsourced += [] if sourced else [line]
            previous = line
    assert unsourced == []


def test_a_file_of_ones_own_is_a_profile(tmp_path: Path) -> None:
    text = TEXT + "[queue]\nslots = 2\nwaiting = 0\n[app_functions]\ndenied_code = 1003\n"
    loaded = load_profile(write(tmp_path, text), platform="android-16")
    assert (loaded.platform, loaded.queue.slots, loaded.queue.waiting) == ("android-16", 2, 0)
    assert (loaded.app_functions.denied_code, loaded.app_functions.search) == (1003, False)
    assert loaded.quota.active == "off"
    assert loaded.feature_id("PREVIEW", "FAST") == 646
    assert loaded.feature_id("STABLE", "FAST") is None


def test_a_file_extends_a_shipped_phone(tmp_path: Path) -> None:
    text = (
        'extends = "pixel-10"\nplatform = "android-17.0"\n'
        '[quota]\nactive = "sliding-calls"\n[quota.models.sliding-calls]\ncalls = 3\n'
    )
    loaded = load_profile(write(tmp_path, text))
    base = load_profile("pixel-10", platform="android-17.0")
    assert (loaded.name, loaded.platform) == ("mine", "android-17.0")
    assert loaded.quota.models["sliding-calls"].model_dump() == {
        "kind": "sliding_calls",
        "calls": 3,
        "window_seconds": 60,
    }
    assert loaded.quota.models["token-bucket"] == base.quota.models["token-bucket"]
    assert loaded.model_dump(exclude={"name", "quota"}) == base.model_dump(
        exclude={"name", "quota"}
    )
    assert load_profile(write(tmp_path, text), platform="android-16").platform == "android-16"


@pytest.mark.requirement("simulator.device.profile-strict")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("model = 1\n" + TEXT, "model: Extra inputs are not permitted"),
        (TEXT + "id = 1\n", "features.0.id: Extra inputs are not permitted"),
        (TEXT + "[queue]\nplaces = 3\n", "queue.places: Extra inputs are not permitted"),
        (TEXT + "[queue]\nslots = 0\n", "queue.slots: "),
        (TEXT + "[app_functions]\ndenied_code = 1001\n", "app_functions.denied_code: "),
        (TEXT.replace("4096", "0"), "token_limit: "),
        (TEXT.replace('"PREVIEW"', '"BETA"'), "features.0.release_stage: "),
        (TEXT.replace("name =", "nam ="), "name: Field required"),
        (TEXT + TEXT[TEXT.index("[[") :], "may appear only once in features"),
        ("name = ", "is not TOML"),
        ('extends = "pixel-10"\ncolour = "red"\n', "colour: Extra inputs are not permitted"),
        ('extends = "pixel-99"\n', "extends: 'pixel-99' is not one of aicore-too-old, "),
        ('extends = ["pixel-10"]\n', "extends: ['pixel-10'] is not one of"),
        ('platform = "android-15"\n' + TEXT, "platform: 'android-15' is not one of android-16, "),
        ('foreground = "none"\n' + TEXT, "foreground: "),
        (TEXT + '[quota]\nactive = "bucket"\n', "quota: Value error, there is no quota model"),
        (TEXT + BUCKET.replace("30", "-1"), "quota.models.bucket.token_bucket.burst_seconds: "),
        (TEXT + BUCKET.replace("30", "inf"), "quota.models.bucket.token_bucket.burst_seconds: "),
        (TEXT + BUCKET.replace("token_b", "leaky_b"), "quota.models.bucket: "),
        (TEXT + "[quota.models.off]\n" + BUCKET.partition("bucket]\n")[2], "'off'"),
        (TEXT + "[quota.app_battery]\nperiod_seconds = 60\n", "needs inference_seconds, calls"),
        (TEXT + '[download]\nprogression = "random"\n', "download.progression: "),
    ],
)
def test_a_profile_that_breaks_the_format_is_refused_by_file_and_key(
    tmp_path: Path, text: str, named: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ProfileError) as refused:
        load_profile(path)
    assert repr(path) in str(refused.value)
    assert named in str(refused.value)


@pytest.mark.requirement("simulator.profile.window")
def test_a_window_without_room_for_an_answer_is_refused_by_both_names(tmp_path: Path) -> None:
    path = write(tmp_path, 'extends = "pixel-10"\ntoken_limit = 100\n')
    with pytest.raises(ProfileError, match="input_token_limit: 4000 .* token_limit of 100, "):
        load_profile(path)
    both = 'extends = "pixel-10"\ntoken_limit = 100\ninput_token_limit = 80\n'
    assert load_profile(write(tmp_path, both)).input_token_limit == 80


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("pixel-99", "use one of aicore-too-old, .*pixel-10, "),
        ("/nowhere/a.toml", "No such file or directory"),
    ],
)
def test_a_profile_that_is_not_there_is_named(name: str, named: str) -> None:
    with pytest.raises(ProfileError, match=named) as refused:
        load_profile(name)
    assert repr(name) in str(refused.value)


@pytest.mark.parametrize("name", ["EXECUTE_APP_FUNCTIONS", permissions.EXECUTE_APP_FUNCTIONS])
def test_short_and_full_permission_names_are_the_same(name: str) -> None:
    assert permissions.full_name(name) == "android.permission.EXECUTE_APP_FUNCTIONS"
