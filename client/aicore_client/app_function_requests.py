"""What an app asks of the AppFunction manager, and what it gets.

https://developer.android.com/reference/android/app/appfunctions/package-summary
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aicore_client.metadata import AppFunctionName


@dataclass(frozen=True, kw_only=True)
class AppFunctionSearchSpec:
    """Filters that all have to match; None matches everything, an empty collection nothing."""

    package_names: Iterable[str] | None = None
    function_names: Iterable[AppFunctionName] | None = None
    schema_category: str | None = None
    schema_name: str | None = None
    min_schema_version: int = 0
    scopes: Iterable[int] | None = None


@dataclass(frozen=True)
class ExecuteAppFunctionRequest:
    """Package and function as in the constructor of Android's builder; `activity_id` only for a
    function that an activity registered."""

    target_package_name: str
    function_identifier: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    activity_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExecuteAppFunctionResponse:
    """`return_value` is None for a function that returns nothing."""

    PROPERTY_RETURN_VALUE: Final = "androidAppfunctionsReturnValue"

    return_value: object


@dataclass(frozen=True, kw_only=True)
class AppFunctionActivityState:
    """The functions that are registered in one activity."""

    activity_id: str
    function_names: frozenset[AppFunctionName]
