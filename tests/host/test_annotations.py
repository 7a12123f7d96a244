"""The annotations themselves; what they make of a service is in test_schema.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from appfunctions_host import AppFunctionException, AppFunctionMetadata, AppFunctionService
from appfunctions_host.annotations import app_function_access_level, app_function_declaration
from appfunctions_host.schema import define_service


@pytest.mark.requirement("jetpack.access-level.both-required")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"level": AppFunctionMetadata.ACCESS_LEVEL_SELF},
        {"is_compat_enforcement_enabled": True},
    ],
)
def test_an_access_level_needs_both_of_its_arguments(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        app_function_access_level(**given)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _deprecated(message: str) -> Callable[[_Function], _Function]:
    """What `warnings.deprecated` of Python 3.13 leaves on a function."""

    def mark(function: _Function) -> _Function:
        vars(function)["__deprecated__"] = message
        return function

    return mark


class Notes(AppFunctionService):
    @app_function_declaration
    @_deprecated("Use find_notes.")
    def find_note(self) -> str:
        return "note"

    @app_function_declaration
    def find_notes(self) -> str:
        return "notes"


@pytest.mark.requirement("jetpack.deprecation")
def test_the_message_of_a_deprecated_function_is_in_its_metadata() -> None:
    functions = define_service(Notes, "com.example.notes")
    found = {
        function.metadata.name.function_identifier.partition("#")[2]: (
            function.metadata.deprecation_message
        )
        for function in functions
    }
    assert found == {"find_note": "Use find_notes.", "find_notes": ""}


@pytest.mark.requirement("appfunctions.execute.time-limit-per-function")
@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan")])
def test_a_time_limit_that_is_not_above_zero_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=f"timeout_seconds={seconds!r}"):
        app_function_declaration(timeout_seconds=seconds)


def test_the_codes_that_a_function_may_report_have_androids_numbers() -> None:
    assert {
        name: value
        for name, value in vars(AppFunctionException).items()
        if name.startswith("ERROR")
    } == {
        "ERROR_DENIED": 1000,
        "ERROR_INVALID_ARGUMENT": 1001,
        "ERROR_DISABLED": 1002,
        "ERROR_FUNCTION_NOT_FOUND": 1003,
        "ERROR_RESOURCE_NOT_FOUND": 1500,
        "ERROR_LIMIT_EXCEEDED": 1501,
        "ERROR_RESOURCE_ALREADY_EXISTS": 1502,
        "ERROR_SYSTEM_ERROR": 2000,
        "ERROR_CANCELLED": 2001,
        "ERROR_APP_UNKNOWN_ERROR": 3000,
        "ERROR_PERMISSION_REQUIRED": 3500,
        "ERROR_NOT_SUPPORTED": 3501,
    }
