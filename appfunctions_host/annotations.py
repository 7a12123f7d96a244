"""The annotations of `androidx.appfunctions`, as decorators.

Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/package-summary
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, dataclass_transform, overload

from pydantic import BaseModel

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type[Any])
_Service = TypeVar("_Service", bound="type[AppFunctionService]")

_DECLARATION = "__app_function_declaration__"
_ACCESS_LEVEL = "__app_function_access_level__"
_ENTRY_POINT = "__app_function_entry_point__"
_SERIALIZABLE = "__app_function_serializable__"
_INSTRUCTION = "__app_function_instruction__"
_SIGNATURE = "__app_function_signature__"
_SCHEMA = "__app_function_schema__"


class AppFunctionMetadata:
    """Constants of `androidx.appfunctions.metadata.AppFunctionMetadata`.

    Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionMetadata
    """

    ACCESS_LEVEL_SELF: Final = 100
    """Only the app itself finds and runs the function."""
    ACCESS_LEVEL_SYSTEM: Final = 200
    """The app, and holders of EXECUTE_APP_FUNCTIONS_SYSTEM."""
    ACCESS_LEVEL_ANDROID_TRUSTED: Final = 300
    """The app, system surfaces, and certified agents. The default."""
    SCOPE_GLOBAL: Final = 0
    """The whole app."""
    SCOPE_ACTIVITY: Final = 1
    """The activities that registered it."""


ACCESS_LEVELS: Final = frozenset({100, 200, 300})


class Long:
    """Marks an `int` as Kotlin's 64-bit Long: `Annotated[int, Long]`. A bare `int` has 32 bits."""


class Float:
    """Marks a `float` as Kotlin's 32-bit Float: `Annotated[float, Float]`."""


class AppFunctionService:
    """Base class of the services whose methods are app functions.

    A provider makes one instance, without arguments, and calls it from several threads at once.
    It is Jetpack's flavour: whatever a function raises, other than AppFunctionException, is 3000.
    """


class PlatformAppFunctionService(AppFunctionService):
    """`android.app.appfunctions.AppFunctionService`, used without Jetpack.

    There a ValueError (Kotlin's IllegalArgumentException) that escapes from a function is 1001, and
    no library checks access levels below Android 17.2.

    Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionService
    """


class AppFunctionException(Exception):
    """A failure that a function reports to its caller with a code of its choice.

    Codes are `AppFunctionException.ERROR_*`, for example ERROR_NOT_SUPPORTED;
    any other exception reaches the caller as 3000.

    Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionException
    """

    ERROR_DENIED: Final = 1000
    ERROR_INVALID_ARGUMENT: Final = 1001
    ERROR_DISABLED: Final = 1002
    ERROR_FUNCTION_NOT_FOUND: Final = 1003
    ERROR_RESOURCE_NOT_FOUND: Final = 1500
    ERROR_LIMIT_EXCEEDED: Final = 1501
    ERROR_RESOURCE_ALREADY_EXISTS: Final = 1502
    ERROR_SYSTEM_ERROR: Final = 2000
    ERROR_CANCELLED: Final = 2001
    ERROR_APP_UNKNOWN_ERROR: Final = 3000
    ERROR_PERMISSION_REQUIRED: Final = 3500
    ERROR_NOT_SUPPORTED: Final = 3501

    def __init__(
        self, error_code: int, error_message: str = "", extras: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(error_message)
        self.error_code = error_code
        self.error_message = error_message
        self.extras = extras

    @property
    def error_category(self) -> int:
        """`ERROR_CATEGORY_*`: 1 request, 2 system, 3 app, 0 for codes outside 1000 to 3999."""
        thousands = self.error_code // 1000
        return thousands if thousands in (1, 2, 3) else 0


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What `app_function_declaration` recorded."""

    is_enabled: bool = True
    is_described_by_kdoc: bool = False
    timeout_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class AccessLevel:
    """What `app_function_access_level` recorded; the defaults are those without it."""

    level: int = AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED
    is_compat_enforcement_enabled: bool = True


@dataclass(frozen=True, kw_only=True)
class EntryPoint:
    """What `app_function_service_entry_point` recorded."""

    service_name: str
    app_function_xml_file_name: str
    class_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class SchemaDefinition:
    """What `app_function_schema_definition` recorded."""

    category: str
    name: str
    version: int


@dataclass(frozen=True, kw_only=True)
class Serializable:
    """What `app_function_serializable` recorded."""

    is_described_by_kdoc: bool = False


@overload
def app_function_declaration(function: _Function, /) -> _Function: ...
@overload
def app_function_declaration(
    *,
    is_enabled: bool = True,
    is_described_by_kdoc: bool = False,
    timeout_seconds: float | None = None,
) -> Callable[[_Function], _Function]: ...
def app_function_declaration(
    function: Any = None,
    /,
    *,
    is_enabled: bool = True,
    is_described_by_kdoc: bool = False,
    timeout_seconds: float | None = None,
) -> Any:
    """Declare a method as an app function.

    Args:
        is_enabled: Whether callers may run it until `set_app_function_enabled` says otherwise.
        is_described_by_kdoc: Take the descriptions for the model from the docstring.
        timeout_seconds: Ours: how long an execution may take, instead of the host's limit; then it
            is cancelled and answered with 3000.

    Raises:
        ValueError: `timeout_seconds` is not above zero.

    Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionDeclaration
    """
    if timeout_seconds is not None and not 0 < timeout_seconds < math.inf:
        raise ValueError(f"timeout_seconds={timeout_seconds!r}; give a number above zero")
    made = Declaration(
        is_enabled=is_enabled,
        is_described_by_kdoc=is_described_by_kdoc,
        timeout_seconds=timeout_seconds,
    )
    return _mark(_DECLARATION, made) if function is None else _mark(_DECLARATION, made)(function)


def app_function_access_level(
    *, level: int, is_compat_enforcement_enabled: bool
) -> Callable[[_Function], _Function]:
    """Say who may find and run the function; without it, ANDROID_TRUSTED.

    Args:
        level: One of `AppFunctionMetadata.ACCESS_LEVEL_*`.
        is_compat_enforcement_enabled: Below Android 17.2 the library checks the caller itself;
            from 17.2 on the platform does, whatever this says.

    Raises:
        ValueError: `level` is none of the three.

    Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionAccessLevel
    """
    if level not in ACCESS_LEVELS:
        raise ValueError(
            f"level={level!r} is no access level; use AppFunctionMetadata.ACCESS_LEVEL_SELF, "
            "ACCESS_LEVEL_SYSTEM or ACCESS_LEVEL_ANDROID_TRUSTED"
        )
    made = AccessLevel(level=level, is_compat_enforcement_enabled=is_compat_enforcement_enabled)
    return _mark(_ACCESS_LEVEL, made)


def app_function_service_entry_point(
    *, service_name: str, app_function_xml_file_name: str, class_name: str | None = None
) -> Callable[[_Service], _Service]:
    """Name the service that serves the annotated class.

    Args:
        service_name: Name of the generated service class.
        app_function_xml_file_name: Name of its XML asset, without ".xml".
        class_name: Class part of the function ids (ours), when it is to differ from
            `<package>.<Python class>`; for example the Kotlin class of the same app.

    Raises:
        ValueError: The file name ends in ".xml", or a name is empty.

    Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionServiceEntryPoint
    """
    if not service_name:
        raise ValueError("service_name is empty; give the name of the service class")
    if not app_function_xml_file_name or app_function_xml_file_name.endswith(".xml"):
        raise ValueError(
            f"app_function_xml_file_name={app_function_xml_file_name!r}; give the name without .xml"
        )
    if class_name is not None and (not class_name or "#" in class_name):
        raise ValueError(f"class_name={class_name!r} cannot be the class part of a function id")
    made = EntryPoint(
        service_name=service_name,
        app_function_xml_file_name=app_function_xml_file_name,
        class_name=class_name,
    )
    return _mark(_ENTRY_POINT, made)


@overload
def app_function_serializable(cls: _Class, /) -> _Class: ...
@overload
def app_function_serializable(
    *, is_described_by_kdoc: bool = False
) -> Callable[[_Class], _Class]: ...
@dataclass_transform(frozen_default=True)
def app_function_serializable(cls: Any = None, /, *, is_described_by_kdoc: bool = False) -> Any:
    """Make a class a frozen dataclass that app functions take and return.

    A class that is a dataclass or a pydantic model already keeps its own settings.
    `is_described_by_kdoc` takes the descriptions from the class's docstring and from the strings
    below its fields.

    Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionSerializable
    """

    def mark(target: type[Any]) -> type[Any]:
        own = "__dataclass_fields__" in vars(target) or issubclass(target, BaseModel)
        made = target if own else dataclasses.dataclass(frozen=True)(target)
        setattr(made, _SERIALIZABLE, Serializable(is_described_by_kdoc=is_described_by_kdoc))
        return made

    return mark if cls is None else mark(cls)


def app_function_instruction(instruction: str) -> Callable[[_Function], _Function]:
    """Give the model more to read about a function than its description.

    Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionInstruction
    """
    if not instruction.strip():
        raise ValueError("instruction is empty; say what the model should know")
    return _mark(_INSTRUCTION, instruction)


def app_function_schema_definition(
    *, category: str, name: str, version: int
) -> Callable[[_Function], _Function]:
    """Say that the function follows a predefined schema. In Kotlin it stands at the interface.

    Raises ValueError for an empty name or category, and a version below 1.

    Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionSchemaDefinition
    """
    if not category or not name or version < 1:
        raise ValueError(
            f"category={category!r}, name={name!r}, version={version!r}; give both names and a "
            "version from 1 up"
        )
    return _mark(_SCHEMA, SchemaDefinition(category=category, name=name, version=version))


def app_function_signature(
    *, scope: int = AppFunctionMetadata.SCOPE_GLOBAL
) -> Callable[[_Service], _Service]:
    """Declare the functions of a service for registration at run time: no service runs them.

    Args:
        scope: `AppFunctionMetadata.SCOPE_GLOBAL`, or SCOPE_ACTIVITY for functions that belong to
            the activities that register them.

    Raises:
        ValueError: `scope` is neither.

    Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionSignature
    """
    if scope not in (AppFunctionMetadata.SCOPE_GLOBAL, AppFunctionMetadata.SCOPE_ACTIVITY):
        raise ValueError(f"scope={scope!r}; use AppFunctionMetadata.SCOPE_GLOBAL or SCOPE_ACTIVITY")
    return _mark(_SIGNATURE, scope)


def signature_scope_of(service: type[Any]) -> int | None:
    """The scope of functions that are registered at run time; None for those of a service."""
    found = vars(service).get(_SIGNATURE)
    return found if isinstance(found, int) else None


def schema_of(function: object) -> SchemaDefinition | None:
    found = getattr(function, _SCHEMA, None)
    return found if isinstance(found, SchemaDefinition) else None


def instruction_of(function: object) -> str:
    return str(getattr(function, _INSTRUCTION, ""))


def declaration_of(function: object) -> Declaration | None:
    found = getattr(function, _DECLARATION, None)
    return found if isinstance(found, Declaration) else None


def access_level_of(function: object) -> AccessLevel | None:
    found = getattr(function, _ACCESS_LEVEL, None)
    return found if isinstance(found, AccessLevel) else None


def entry_point_of(service: type[Any]) -> EntryPoint | None:
    found = vars(service).get(_ENTRY_POINT)
    return found if isinstance(found, EntryPoint) else None


def serializable_of(cls: object) -> Serializable | None:
    """Not inherited: a subclass has fields of its own to declare."""
    found = vars(cls).get(_SERIALIZABLE) if isinstance(cls, type) else None
    return found if isinstance(found, Serializable) else None


def _mark(name: str, value: object) -> Callable[[Any], Any]:
    def mark(target: Any) -> Any:
        if isinstance(target, (staticmethod, classmethod, property)):
            raise TypeError(
                f"{type(target).__name__} {getattr(target, '__name__', target)!r} cannot be an app "
                "function; declare a plain method of an AppFunctionService"
            )
        setattr(target, name, value)
        return target

    return mark
