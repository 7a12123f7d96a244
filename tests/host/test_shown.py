"""What apps say cannot steer the terminal of who reads it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appfunctions_host.shown import line, shown
from tests.host.cli_rig import served_shop
from tests.host.shop import PACKAGE

CLEAR = "\x1b[2J\x1b]0;owned\x07\x9b2J"


@pytest.mark.requirement("simulator.terminal-text")
@given(st.text())
def test_nothing_that_is_shown_steers_a_terminal_and_lines_stay_lines(text: str) -> None:
    made = line(text)

    assert not any(
        char < " " or "\x7f" <= char <= "\x9f" or char in "\u202e\u2066\u2028" for char in made
    )
    assert len(made.splitlines()) <= 1


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_stays_the_same_json(value: object) -> None:
    for indent in (None, 2):
        assert json.loads(shown(json.dumps(value, ensure_ascii=False, indent=indent))) == value


@pytest.mark.requirement("simulator.terminal-text")
def test_a_name_with_control_characters_is_shown_escaped(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    function = f"{PACKAGE}.OrderTools#{CLEAR}"
    with served_shop(tmp_path_factory.mktemp("shown")) as served:
        named = ("--package", PACKAGE, "--function", function)
        told = served.run("explain", "--as", PACKAGE, *named)
        refused = served.run("execute-app-function", *named, "--parameters", "{}")
        watched = served.run("watch", "--no-follow")

    assert told.exit_code == 0
    for output in (told.stdout, refused.stderr, watched.stdout):
        assert "\x1b" not in output
        assert "\x9b" not in output
    assert r"#\u001b[2J\u001b]0;owned\u0007\u009b2J" in told.stdout
