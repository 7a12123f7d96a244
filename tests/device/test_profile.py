"""Device profiles and permission names."""

from __future__ import annotations

from pathlib import Path

import pytest

from aicore_sim.device import permissions
from aicore_sim.device.profile import DeviceProfile, ProfileError, load_profile, profile_names

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


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_the_pixel_10_is_what_its_sources_say() -> None:
    profile = load_profile("pixel-10")
    assert profile_names() == ("pixel-10",)
    assert profile.model_dump() == {
        "name": "pixel-10",
        "base_model_name": "nano-v3",
        "token_limit": 8192,
        "input_token_limit": 4000,
        "features": (
            {"release_stage": "STABLE", "preference": "FULL", "feature_id": 636},
        ),
        "queue": {"slots": 1, "waiting": 8},
        "app_functions": {"denied_code": 1000},
        "platform": "android-17.2",
    }  # fmt: skip


def test_a_file_of_ones_own_is_a_profile(tmp_path: Path) -> None:
    text = TEXT + "[queue]\nslots = 2\nwaiting = 0\n[app_functions]\ndenied_code = 1003\n"
    profile = load_profile(write(tmp_path, text), platform="android-16")
    assert isinstance(profile, DeviceProfile)
    assert (profile.platform, profile.queue.slots, profile.queue.waiting) == ("android-16", 2, 0)
    assert profile.app_functions.denied_code == 1003
    assert profile.feature_id("PREVIEW", "FAST") == 646
    assert profile.feature_id("STABLE", "FAST") is None


@pytest.mark.requirement("simulator.device.profile-strict")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("quota = 1\n" + TEXT, "quota: Extra inputs are not permitted"),
        (TEXT + "id = 1\n", "features.0.id: Extra inputs are not permitted"),
        (TEXT + "[queue]\nplaces = 3\n", "queue.places: Extra inputs are not permitted"),
        (TEXT + "[queue]\nslots = 0\n", "queue.slots: "),
        (TEXT + "[app_functions]\ndenied_code = 1001\n", "app_functions.denied_code: "),
        (TEXT.replace("4096", "0"), "token_limit: "),
        (TEXT.replace('"PREVIEW"', '"BETA"'), "features.0.release_stage: "),
        (TEXT.replace("name =", "nam ="), "name: Field required"),
        ("name = ", "is not TOML"),
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


@pytest.mark.parametrize(
    ("name", "named"),
    [("pixel-99", "use one of pixel-10"), ("/nowhere/a.toml", "No such file or directory")],
)
def test_a_profile_that_is_not_there_is_named(name: str, named: str) -> None:
    with pytest.raises(ProfileError, match=named) as refused:
        load_profile(name)
    assert repr(name) in str(refused.value)


@pytest.mark.parametrize("name", ["EXECUTE_APP_FUNCTIONS", permissions.EXECUTE_APP_FUNCTIONS])
def test_short_and_full_permission_names_are_the_same(name: str) -> None:
    assert permissions.full_name(name) == "android.permission.EXECUTE_APP_FUNCTIONS"
