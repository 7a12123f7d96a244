"""Asks the user before a tool runs.

Google's guide writes this decorator out by hand; here it is ready made.
https://developers.google.com/ml-kit/genai/agent/android/define-tools
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from aicore_client.connection import DeviceConnection
from aicore_client.device_clock import DeviceClock
from aicore_client.tools import AgentTool

CANCELLED_BY_USER: Final = "CANCELLED_BY_USER"
CONFIRMATION_TIMED_OUT: Final = "CONFIRMATION_TIMED_OUT"
"""Ours: nobody answered, which is no refusal."""


@dataclass(frozen=True)
class Declined:
    """A refusal with a reason that the model is told; ours."""

    reason: str


OnConfirm = Callable[[str, Mapping[str, Any]], Awaitable["bool | Declined"]]
"""Name of the tool and its arguments → whether it may run."""


class HitlConfirmationTool(AgentTool):
    """A tool that runs only when the user says so.

    `on_confirm` gets a copy of the arguments, so that what the user saw is what runs. Where it
    gives False or :class:`Declined`, the delegate is not called and the model is told
    `CANCELLED_BY_USER`; where no answer comes within `timeout` of device time, it is told
    `CONFIRMATION_TIMED_OUT` and `on_confirm` is cancelled. None waits for ever.

    Raises ValueError for a timeout that is not positive.
    """

    def __init__(
        self,
        delegate: AgentTool,
        on_confirm: OnConfirm,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: timedelta | None = None,
        connection: DeviceConnection | None = None,
    ) -> None:
        super().__init__(delegate, name, description)
        if timeout is not None and timeout <= timedelta():
            raise ValueError(f"timeout must be positive, not {timeout}")
        self._inner = delegate
        self._on_confirm = on_confirm
        self._timeout = timeout
        self._clock = DeviceClock(connection)

    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        answer = await self._answer(args)
        if answer is None:
            return {
                "status": CONFIRMATION_TIMED_OUT,
                "message": "The user gave no answer in time; the action was not carried out.",
            }
        if answer is True:
            return await self._inner.execute(args)
        declined = {"status": CANCELLED_BY_USER, "message": "Action was declined by the user."}
        if isinstance(answer, Declined):
            declined["reason"] = answer.reason
        return declined

    async def _answer(self, args: dict[str, Any]) -> bool | Declined | None:
        """None when there was none in time. Raises what `on_confirm` raises."""
        asked = asyncio.ensure_future(self._on_confirm(self.name, copy.deepcopy(args)))
        waits: set[asyncio.Future[Any]] = {asked}
        if self._timeout is not None:
            waits.add(asyncio.ensure_future(self._clock.sleep(self._timeout)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            for wait in waits - {asked}:
                wait.result()  # a clock that cannot be read is no timeout
            return None
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
