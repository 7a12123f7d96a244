"""The table of codes: complete, and with the numbers that apps get."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from aicore_client import GenAiException
from aicore_sim.cli.errors_command import ERRORS
from aicore_sim.cli.main import app
from aicore_sim.device.errors import GenAiCode

# https://developers.google.com/android/reference/com/google/mlkit/genai/common/GenAiException.ErrorCode
# and the raw codes of AICore's messages.
NUMBERS = {
    "UNKNOWN": 0,
    "REQUEST_PROCESSING_ERROR": 4,
    "IPC_ERROR": 6,
    "CANCELLED": 7,
    "NOT_AVAILABLE": 8,
    "BUSY": 9,
    "RESPONSE_PROCESSING_ERROR": 11,
    "REQUEST_TOO_LARGE": 12,
    "RESPONSE_GENERATION_ERROR": 15,
    "NOT_SUPPORTED": 16,
    "PER_APP_BATTERY_USE_QUOTA_EXCEEDED": 27,
    "DEVICE_BATTERY_USE_QUOTA_EXCEEDED": 28,
    "INTERNAL_ERROR": 29,
    "BACKGROUND_USE_BLOCKED": 30,
    "NOT_ENOUGH_DISK_SPACE": 501,
    "BINDING_FAILURE": 601,
    "NEEDS_SYSTEM_UPDATE": 604,
    "FEATURE_NOT_FOUND": 606,
    "REQUEST_TOO_SMALL": -100,
    "AICORE_INCOMPATIBLE": -101,
    "INVALID_INPUT_IMAGE": -102,
    "CACHE_PROCESSING_ERROR": -103,
    "STRUCTURED_OUTPUT_REQUEST_ERROR": -104,
    "STRUCTURED_OUTPUT_RESPONSE_ERROR": -105,
    "STRUCTURED_OUTPUT_MAX_TOKENS_ERROR": -106,
    "AUDIO_BUFFER_OVERFLOW": -107,
    "MAX_TURNS_EXCEEDED": -112,
}


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["errors", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.requirement("simulator.command.errors")
def test_the_table_has_every_code_with_the_platforms_number() -> None:
    table: dict[str, Any] = json.loads(printed("--json"))
    assert {row["name"]: row["code"] for row in table["codes"]} == NUMBERS
    assert {row["type"]: row["name"] for row in table["types"]} == {
        1: "DOWNLOAD_ERROR",
        2: "INFERENCE_ERROR",
        3: "PREPARATION_ERROR",
        4: "CONNECTION_ERROR",
    }


@pytest.mark.requirement("simulator.command.errors")
def test_the_table_agrees_with_the_client_and_the_daemon() -> None:
    constants = {error.name: error.code for error in ERRORS if error.origin == "ErrorCode"}
    assert constants == {code.name: int(code) for code in GenAiException.ErrorCode}
    for code in GenAiCode:
        assert NUMBERS[code.name] == code


@pytest.mark.requirement("simulator.command.errors")
def test_busy_may_be_tried_again_and_a_used_up_battery_quota_may_not() -> None:
    retry = {error.name: error.retry for error in ERRORS}
    assert retry["BUSY"]
    for name in (
        "PER_APP_BATTERY_USE_QUOTA_EXCEEDED",
        "BACKGROUND_USE_BLOCKED",
        "NOT_SUPPORTED",
        "REQUEST_TOO_LARGE",
        "MAX_TURNS_EXCEEDED",
    ):
        assert not retry[name]


def test_people_see_number_name_and_whether_to_try_again() -> None:
    lines = printed().splitlines()
    busy = next(line for line in lines if " BUSY " in line)
    assert [cell.strip() for cell in busy.split("│")[1:5]] == ["9", "BUSY", "yes", "yes"]
