"""What an agent may call: AppFunctions of its own app, and decorators around them.

https://developers.google.com/android/reference/com/google/mlkit/genai/agent/AgentTool
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

from aicore_client._schema import parameters_schema
from aicore_client.app_functions import AppFunctionManager, ExecuteAppFunctionRequest
from aicore_client.connection import DeviceConnection
from aicore_client.metadata import AppFunctionMetadata
from aicore_client.schema import FunctionDeclaration


class AgentTool(ABC):
    """A tool that wraps another one.

    Subclass it to ask the user first, to cut an answer, to rename a tool. `execute` gets what the
    model wrote and returns what the model is told; return `{"error": "…"}` for a failure that is
    to be expected. An exception reaches the model as such a map, by its message alone.
    """

    def __init__(
        self, delegate: AgentTool, name: str | None = None, description: str | None = None
    ) -> None:
        if not isinstance(delegate, AgentTool):
            raise TypeError(f"delegate must be an AgentTool, not {delegate!r}")
        self._delegate: AgentTool | None = delegate
        self._name = delegate.name if name is None else name
        self._description = delegate.description if description is None else description
        if not self._name.strip():
            raise ValueError("the name of a tool must not be blank")

    @property
    def delegate(self) -> AgentTool | None:
        """The wrapped tool; None for an AppFunction itself."""
        return self._delegate

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self._name

    @property
    def description(self) -> str:
        return self._description

    @abstractmethod
    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        """Runs the tool once."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"


@final
class _AppFunctionTool(AgentTool):
    def __init__(self, function: AppFunctionMetadata, name: str, manager: AppFunctionManager):
        self._delegate = None
        self._name = name
        self._description = " ".join(
            text for text in (function.description, function.instruction) if text
        )
        self._manager = manager
        self.function_identifier = function.name.function_identifier
        self.package_name = function.name.package_name
        self.parameters = parameters_schema(function)

    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        """Raises AppFunctionException."""
        response = await self._manager.execute_app_function(
            ExecuteAppFunctionRequest(
                target_package_name=self.package_name,
                function_identifier=self.function_identifier,
                parameters=args,
            )
        )
        return as_response(response.return_value)


@final
class AppFunctionAgentTools:
    """https://developers.google.com/android/reference/com/google/mlkit/genai/agent/AppFunctionAgentTools"""

    @staticmethod
    async def discover(
        enabled_app_function_ids: str | Iterable[str] | None = None,
        *,
        connection: DeviceConnection | None = None,
    ) -> list[AgentTool]:
        """The AppFunctions of the app's own package, all of them or those named.

        An id is a full one (`com.example.shop.OrderTools#cancel_order`) or the bare method name.
        A tool's name is the bare method name; where two classes share it, the class's is put in
        front (ours).

        Raises ValueError for an id that names nothing or more than one function, and
        AppFunctionException when the host cannot be reached.
        """
        if isinstance(enabled_app_function_ids, str):
            enabled_app_function_ids = [enabled_app_function_ids]
        return await discover_tools(enabled_app_function_ids, connection)


async def discover_tools(
    ids: Iterable[str] | None,
    connection: DeviceConnection | None,
    *,
    besides: Sequence[AgentTool] = (),
) -> list[AgentTool]:
    """As `discover`, without the functions that `besides` wraps already, and with other names."""
    manager = AppFunctionManager(connection)
    functions = await manager.own_functions()
    if ids is not None:
        functions = _select(functions, list(ids))
    wrapped = {_root(tool).function_identifier for tool in besides}
    functions = [item for item in functions if item.name.function_identifier not in wrapped]
    names = _tool_names(
        [function.name.function_identifier for function in functions],
        taken=[tool.name for tool in besides],
    )
    return [
        _AppFunctionTool(function, name, manager)
        for function, name in zip(functions, names, strict=True)
    ]


def require_app_function_root(tool: AgentTool) -> None:
    """ValueError for a tool that wraps no AppFunction, TypeError for what is no tool."""
    if not isinstance(tool, AgentTool):
        raise TypeError(f"a tool must be an AgentTool, not {tool!r}")
    _root(tool)


def declaration_of(tool: AgentTool) -> FunctionDeclaration:
    """Name and text of the outermost tool, parameters of the AppFunction inside."""
    return FunctionDeclaration(
        name=tool.name, description=tool.description, parameters=_root(tool).parameters
    )


def as_response(value: object) -> dict[str, object]:
    """What a function returned, as the map that the model is told."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {"result": value}


def _root(tool: AgentTool) -> _AppFunctionTool:
    inner: AgentTool | None = tool
    while inner is not None and not isinstance(inner, _AppFunctionTool):
        inner = getattr(inner, "_delegate", None)
    if inner is None:
        raise ValueError(
            f"{type(tool).__name__} is neither an AppFunction tool nor a decorator around one; "
            "get tools from AppFunctionAgentTools.discover() and call super().__init__(delegate)"
        )
    return inner


def _select(
    functions: Sequence[AppFunctionMetadata], ids: Sequence[str]
) -> list[AppFunctionMetadata]:
    known = {function.name.function_identifier: function for function in functions}
    selected: dict[str, AppFunctionMetadata] = {}
    for wanted in ids:
        matches = [wanted] if wanted in known else [full for full in known if _bare(full) == wanted]
        if len(matches) > 1:
            raise ValueError(
                f"the AppFunction id {wanted!r} is ambiguous; use one of {', '.join(matches)}"
            )
        if not matches:
            raise ValueError(_unknown_id(wanted, list(known)))
        selected[matches[0]] = known[matches[0]]
    return list(selected.values())


def _unknown_id(wanted: str, known: list[str]) -> str:
    if not known:
        return f"there is no AppFunction {wanted!r}: the app's package has none registered"
    names = [*known, *map(_bare, known)]
    near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    return f"there is no AppFunction {wanted!r} in the app's package; {hint}"


def _tool_names(identifiers: Sequence[str], *, taken: Sequence[str]) -> list[str]:
    bare = Counter([*map(_bare, identifiers), *taken])
    names = [_bare(full) if bare[_bare(full)] == 1 else _qualified(full) for full in identifiers]
    uses = Counter([*names, *taken])
    return [
        name if uses[name] == 1 else re.sub(r"\W", "_", full)
        for name, full in zip(names, identifiers, strict=True)
    ]


def _bare(identifier: str) -> str:
    return identifier.rpartition("#")[2]


def _qualified(identifier: str) -> str:
    qualified_class, _, method = identifier.rpartition("#")
    return f"{qualified_class.rpartition('.')[2]}_{method}"
