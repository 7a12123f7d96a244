"""Declare app functions in Python, as `androidx.appfunctions` does in Kotlin."""

from appfunctions_host.annotations import (
    AppFunctionException,
    AppFunctionMetadata,
    AppFunctionService,
    Float,
    Long,
    PlatformAppFunctionService,
    app_function_access_level,
    app_function_declaration,
    app_function_serializable,
    app_function_service_entry_point,
)

__all__ = [
    "AppFunctionException",
    "AppFunctionMetadata",
    "AppFunctionService",
    "Float",
    "Long",
    "PlatformAppFunctionService",
    "app_function_access_level",
    "app_function_declaration",
    "app_function_serializable",
    "app_function_service_entry_point",
]
