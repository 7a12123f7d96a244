"""DeviceControl: the journal, resets, and the state as a whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from aicore_protos import device_pb2
from aicore_sim.device.clock import ClockError
from aicore_sim.device.errors import FaultKind, GenAiCode, SimulatorFault
from aicore_sim.device.journal import JournalEntry
from aicore_sim.device.state_export import (
    ExportError,
    export_state,
    import_state,
    read_export,
)
from aicore_sim.policy.failures import aicore_failure
from aicore_sim.rpc.identity import require_shell
from aicore_sim.service.clock import to_message
from aicore_sim.service.control_packages import changed, removed
from aicore_sim.service.parts import DeviceParts, timestamp
from aicore_sim.service.refusals import invalid

logger = logging.getLogger(__name__)

_Scope = device_pb2.ResetRequest
_ALL = (_Scope.CONVERSATIONS, _Scope.QUOTA, _Scope.FAULTS, _Scope.JOURNAL)
# Tables of the host, and the device's that outlive a package.
_OF_A_USED_PHONE = ("app_function_states", "allowlist")


class StateCalls:
    """The calls of DeviceControl about the state as a whole."""

    def __init__(self, parts: DeviceParts) -> None:
        self._parts = parts

    async def ReadJournal(
        self, request: device_pb2.ReadJournalRequest, context: Any
    ) -> AsyncIterator[device_pb2.JournalEntry]:
        require_shell("ReadJournal")
        if request.after_id < 0 or request.last < 0:
            name = "after_id" if request.after_id < 0 else "last"
            raise invalid(name, f"{getattr(request, name)} is negative")
        journal = self._parts.journal
        place = journal.last_id
        found = journal.read(
            after_id=request.after_id, rpc=request.rpc, package_name=request.package_name
        )
        for entry in found[-request.last :]:
            yield _entry_message(entry)
        if not request.follow:
            return
        following = journal.follow(
            after_id=max(place, request.after_id),
            rpc=request.rpc,
            package_name=request.package_name,
        )
        async with aclosing(following) as entries:
            async for entry in entries:
                yield _entry_message(entry)

    async def Reset(
        self, request: device_pb2.ResetRequest, context: Any
    ) -> device_pb2.ResetResponse:
        require_shell("Reset")
        known = [number for number in _Scope.Scope.values() if number]
        for number in request.scopes:
            if number not in known:
                names = ", ".join(_Scope.Scope.Name(one) for one in known)
                raise invalid("scopes", f"{number} is none of {names}")
        if not request.scopes:
            raise invalid("scopes", "name what to reset")
        scopes = set(request.scopes)
        if scopes & {_Scope.ALL, _Scope.FACTORY}:
            scopes.update(_ALL)
        generations = self._parts.generations
        if _Scope.CONVERSATIONS in scopes:
            self._end_conversations("The device was reset.")
        if _Scope.QUOTA in scopes:
            generations.quota.reset()
        if _Scope.FAULTS in scopes:
            generations.faults.clear()
        if _Scope.FACTORY in scopes:
            self._factory_reset()
        if _Scope.JOURNAL in scopes:
            self._parts.journal.clear()
        logger.info("reset %s", ", ".join(_Scope.Scope.Name(one) for one in request.scopes))
        return device_pb2.ResetResponse()

    async def ExportState(
        self, request: device_pb2.ExportStateRequest, context: Any
    ) -> device_pb2.ExportStateResponse:
        require_shell("ExportState")
        self._parts.journal.flush()
        self._parts.ledger.flush()
        state = await asyncio.to_thread(
            export_state, self._parts.home.database_path, clock=self._parts.generations.clock.state
        )
        return device_pb2.ExportStateResponse(state=state)

    async def ImportState(
        self, request: device_pb2.ImportStateRequest, context: Any
    ) -> device_pb2.ImportStateResponse:
        require_shell("ImportState")
        parts, generations = self._parts, self._parts.generations
        before = {package.package_name for package in parts.store.list()}
        try:
            state = await asyncio.to_thread(read_export, request.state)
            generations.clock.check_restore(state.clock)
            parts.journal.flush()
            parts.ledger.flush()
            await asyncio.to_thread(import_state, parts.home.database_path, state)
        except ExportError as error:
            raise invalid("state", str(error)) from None
        except ClockError as error:
            raise SimulatorFault(FaultKind.ILLEGAL_STATE, f"state: {error}") from None
        self._end_conversations("The state of the device was replaced.")
        clock = generations.clock.restore(state.clock)
        generations.quota.reload()
        generations.availability.restore(parts.availability_store.load())
        generations.foreground.clear()
        parts.journal.reload()
        packages = parts.store.list()
        for name in sorted(before - {package.package_name for package in packages}):
            parts.events.tell(removed(name))
        for package in packages:
            parts.events.tell(changed(package))
        logger.info("imported the state of a device with %d packages", len(packages))
        return device_pb2.ImportStateResponse(
            packages=[package.package_name for package in packages], clock=to_message(clock)
        )

    def _end_conversations(self, why: str) -> None:
        self._parts.generations.end_all(aicore_failure(GenAiCode.CANCELLED, why), "reset")

    def _factory_reset(self) -> None:
        parts = self._parts
        tables = {
            row[0]
            for row in parts.connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
        }
        for table in _OF_A_USED_PHONE:
            if table in tables:
                parts.connection.execute(f"DELETE FROM {table}")
        for package in parts.store.list():
            parts.store.uninstall(package.package_name)
            parts.events.tell(removed(package.package_name))
        parts.generations.foreground.clear()
        parts.generations.availability.factory_reset()


def _entry_message(entry: JournalEntry) -> device_pb2.JournalEntry:
    return device_pb2.JournalEntry(
        id=entry.id,
        time=timestamp(entry.time),
        rpc=entry.rpc,
        package_name=entry.package_name,
        decision=entry.decision,
        error_code=entry.error_code,
        figures=entry.figures,
    )
