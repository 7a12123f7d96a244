"""The decorator of the guide; `aicore_client.HitlConfirmationTool` is one with more to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aicore_client import AgentTool


class HitlConfirmationTool(AgentTool):
    def __init__(
        self,
        delegate: AgentTool,
        on_confirm: Callable[[str, dict[str, Any]], Awaitable[bool]],
    ) -> None:
        super().__init__(delegate)
        self._on_confirm = on_confirm

    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        confirmed = await self._on_confirm(self.name, args)
        if not confirmed:
            return {
                "status": "CANCELLED_BY_USER",
                "message": "Action was declined by the user.",
            }
        assert self.delegate is not None
        return await self.delegate.execute(args)
