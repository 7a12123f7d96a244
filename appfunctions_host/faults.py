"""How fault rules reach a call of the host: before anything is decided about it."""

from __future__ import annotations

import logging
import sqlite3

import grpc
import grpc.aio

from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.device.faults import before_call
from aicore_sim.device.shared_faults import FollowedFaults

logger = logging.getLogger(__name__)


class HostFaults:
    """The rules that `aicore-sim ctl fault` sets for calls of the host."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._clock = clock
        self._rules = FollowedFaults(connection, clock=clock)

    async def meet(
        self,
        rpc: str,
        context: grpc.aio.ServicerContext,
        *,
        package_name: str,
        function_identifier: str = "",
    ) -> None:
        """Pass the delays; then fail, or break off, if a rule says so.

        Raises AppFunctionError, and what `context.abort` raises for a call that is dropped.
        """
        fired = self._rules.decide(
            rpc, package_name=package_name, function_identifier=function_identifier
        )
        if not fired:
            return
        logger.info(
            "%s of %s meets %s", rpc, package_name, ", ".join(one.fault_id for one in fired)
        )
        await before_call(fired, clock=self._clock, failure=AppFunctionError)
        if fired[-1].action.drop_after_tokens is not None:
            # Without a typed detail, as when the process is gone.
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
