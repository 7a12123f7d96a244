"""What an agent is: instructions, tools and limits.

https://developers.google.com/android/reference/com/google/mlkit/genai/agent/Agent
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from aicore_client.tools import AgentTool, require_app_function_root

DEFAULT_MAX_TURNS: Final = 10


@dataclass(frozen=True, kw_only=True)
class Agent:
    """Instructions, tools and limits of an agent.

    `max_turns` counts model calls inside one user turn. `is_app_functions_enabled` gives the
    agent every AppFunction of the app's own package; `enabled_app_function_ids` only those, each
    a full id (`Class#method`) or the bare method name. Both are resolved when the agent runs.

    Raises ValueError when `max_turns` is below 1, an id is blank, two tools share a name, or a
    tool has no AppFunction at its root.
    """

    name: str = "Agent"
    instructions: str = ""
    tools: Sequence[AgentTool] = ()
    max_turns: int = DEFAULT_MAX_TURNS
    is_app_functions_enabled: bool = False
    enabled_app_function_ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        ids = tuple(dict.fromkeys(self.enabled_app_function_ids))
        object.__setattr__(self, "enabled_app_function_ids", ids)
        if self.max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, not {self.max_turns!r}")
        if any(not function_id.strip() for function_id in ids):
            raise ValueError("an AppFunction id must not be blank")
        for tool in self.tools:
            require_app_function_root(tool)
        names = Counter(tool.name for tool in self.tools)
        shared = sorted(name for name, uses in names.items() if uses > 1)
        if shared:
            raise ValueError(
                f"two tools are named {shared[0]!r}; give one another name with "
                "AgentTool(delegate, name=…)"
            )

    @property
    def has_app_functions(self) -> bool:
        """Whether AppFunctions are configured, all of them or by id."""
        return self.is_app_functions_enabled or bool(self.enabled_app_function_ids)

    @staticmethod
    def builder() -> AgentBuilder:
        return AgentBuilder()


@dataclass
class AgentBuilder:
    """`Agent.Builder`. Every setter returns the builder."""

    _name: str = "Agent"
    _instructions: str = ""
    _max_turns: int = DEFAULT_MAX_TURNS
    _app_functions: bool = False
    _ids: list[str] = field(default_factory=list)
    _tools: list[AgentTool] = field(default_factory=list)

    def set_name(self, name: str) -> Self:
        self._name = name
        return self

    def set_instructions(self, instructions: str) -> Self:
        self._instructions = instructions
        return self

    def set_max_turns(self, max_turns: int) -> Self:
        self._max_turns = max_turns
        return self

    def enable_app_functions(self, enable: bool = True) -> Self:
        self._app_functions = enable
        return self

    def add_app_function_id(self, function_id: str) -> Self:
        self._ids.append(function_id)
        return self

    def add_app_function_ids(self, *function_ids: str | Iterable[str]) -> Self:
        """Ids one by one, or a list of them."""
        for given in function_ids:
            self._ids.extend([given] if isinstance(given, str) else given)
        return self

    def add_tool(self, tool: AgentTool) -> Self:
        self._tools.append(tool)
        return self

    def add_tools(self, *tools: AgentTool | Iterable[AgentTool]) -> Self:
        """Tools one by one, or a list of them such as `AppFunctionAgentTools.discover` returns."""
        for given in tools:
            self._tools.extend([given] if isinstance(given, AgentTool) else given)
        return self

    def build(self) -> Agent:
        """Raises what :class:`Agent` raises."""
        return Agent(
            name=self._name,
            instructions=self._instructions,
            tools=self._tools,
            max_turns=self._max_turns,
            is_app_functions_enabled=self._app_functions,
            enabled_app_function_ids=self._ids,
        )
