"""DeviceControl: importance, time, faults and quota."""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict, ParseDict

from aicore_protos import device_pb2
from aicore_sim.device.app_functions_policy import (
    AppFunctionsPolicy,
    get_policy,
    set_policy,
)
from aicore_sim.device.clock import NANOS, ClockError, ClockMode, SleeperNotIdle
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.faults import FaultError, ListedFault
from aicore_sim.device.packages import SHELL_PACKAGE, SHELL_UID
from aicore_sim.device.profile import QUOTA_OFF, BatteryBudget
from aicore_sim.policy.foreground import Importance
from aicore_sim.policy.ledger import Period
from aicore_sim.rpc.identity import require_shell
from aicore_sim.service.clock import advance_clock, set_clock, to_message, token_of
from aicore_sim.service.parts import DeviceParts, timestamp
from aicore_sim.service.refusals import invalid


class PolicyCalls:
    """The calls of DeviceControl that change what AICore decides by."""

    def __init__(self, parts: DeviceParts) -> None:
        self._parts = parts
        self._clock = parts.generations.clock
        self._foreground = parts.generations.foreground
        self._faults = parts.generations.faults
        self._quota = parts.generations.quota

    async def SetImportance(
        self, request: device_pb2.SetImportanceRequest, context: Any
    ) -> device_pb2.Foreground:
        require_shell("SetImportance")
        importance = None
        if request.package_name or request.importance:
            uid = self._parts.uid_of(request.package_name)
            try:
                importance = Importance(request.importance)
            except ValueError:
                names = ", ".join(Importance.__members__)
                raise invalid("importance", f"{request.importance} is none of {names}") from None
        elif not request.HasField("exclusive"):
            raise invalid("importance", "name an app and its importance, or set `exclusive`")
        if request.HasField("exclusive"):
            self._foreground.set_exclusive(request.exclusive)
        if importance is not None:
            self._foreground.set(uid, importance)
        return self._importances()

    async def GetImportance(
        self, request: device_pb2.GetImportanceRequest, context: Any
    ) -> device_pb2.Foreground:
        require_shell("GetImportance")
        return self._importances()

    async def SetClock(
        self, request: device_pb2.SetClockRequest, context: Any
    ) -> device_pb2.ClockState:
        require_shell("SetClock")
        if not request.HasField("time"):
            return set_clock(self._clock, request)
        left = request.time.ToNanoseconds() - self._clock.now_ns()
        if left < 0:
            raise invalid(
                "time", f"it is {-left / NANOS:g} s before the device's; a clock is never set back"
            )
        if (request.mode or self._clock.mode) == ClockMode.REAL:
            raise invalid("time", "a real clock follows the host and cannot be set")
        if request.mode:
            set_clock(self._clock, request)
        self._parts.apps.release(token_of(context))
        # The clock may have gone on since, when it was real until now.
        left = max(0, request.time.ToNanoseconds() - self._clock.now_ns())
        try:
            return to_message(await self._clock.advance_ns(left))
        except (ClockError, SleeperNotIdle) as error:
            raise SimulatorFault(FaultKind.ILLEGAL_STATE, str(error)) from None

    async def AdvanceClock(
        self, request: device_pb2.AdvanceClockRequest, context: Any
    ) -> device_pb2.ClockState:
        require_shell("AdvanceClock")
        self._parts.apps.release(token_of(context))
        return await advance_clock(self._clock, request)

    async def AddFault(self, request: device_pb2.AddFaultRequest, context: Any) -> device_pb2.Fault:
        require_shell("AddFault")
        table = MessageToDict(request.fault, preserving_proto_field_name=True)
        try:
            return _fault_message(self._faults.add(table))
        except FaultError as error:
            raise invalid("fault", str(error)) from None

    async def ListFaults(
        self, request: device_pb2.ListFaultsRequest, context: Any
    ) -> device_pb2.ListFaultsResponse:
        require_shell("ListFaults")
        return device_pb2.ListFaultsResponse(
            faults=[_fault_message(listed) for listed in self._faults.list()]
        )

    async def ClearFaults(
        self, request: device_pb2.ClearFaultsRequest, context: Any
    ) -> device_pb2.ClearFaultsResponse:
        require_shell("ClearFaults")
        known = [listed.rule.id for listed in self._faults.list()]
        for fault_id in request.ids:
            if fault_id not in known:
                raise SimulatorFault(FaultKind.NOT_FOUND, f"ids: there is no fault {fault_id!r}")
        chosen = set(request.ids or known)
        for fault_id in chosen:
            self._faults.remove(fault_id)
        return device_pb2.ClearFaultsResponse(cleared=len(chosen))

    async def SetAppFunctionsPolicy(
        self, request: device_pb2.SetAppFunctionsPolicyRequest, context: Any
    ) -> device_pb2.AppFunctionsPolicy:
        require_shell("SetAppFunctionsPolicy")
        if request.policy:
            try:
                set_policy(self._parts.connection, AppFunctionsPolicy(request.policy))
            except ValueError:
                known = ", ".join(AppFunctionsPolicy)
                raise invalid("policy", f"{request.policy!r} is none of {known}") from None
        return device_pb2.AppFunctionsPolicy(policy=get_policy(self._parts.connection))

    async def GetQuota(self, request: device_pb2.GetQuotaRequest, context: Any) -> device_pb2.Quota:
        require_shell("GetQuota")
        return self._quota_message(request.package_name)

    async def SetQuota(self, request: device_pb2.SetQuotaRequest, context: Any) -> device_pb2.Quota:
        require_shell("SetQuota")
        uid = self._parts.uid_of(request.package_name)
        seconds = request.charge_seconds
        if not 0 <= seconds <= 1e9:
            raise invalid("charge_seconds", f"{seconds:g} is no time that an inference can take")
        if request.HasField("model"):
            try:
                self._quota.use(request.model)
            except ValueError as error:
                raise invalid("model", str(error)) from None
        if request.HasField("charge_seconds"):
            self._quota.charge(uid, seconds)
        return self._quota_message(request.package_name)

    async def ResetQuota(
        self, request: device_pb2.ResetQuotaRequest, context: Any
    ) -> device_pb2.ResetQuotaResponse:
        require_shell("ResetQuota")
        uid = self._parts.uid_of(request.package_name) if request.package_name else None
        self._quota.reset(uid)
        return device_pb2.ResetQuotaResponse()

    def _importances(self) -> device_pb2.Foreground:
        uids = {SHELL_PACKAGE: SHELL_UID} | {
            package.package_name: package.uid for package in self._parts.store.list()
        }
        return device_pb2.Foreground(
            exclusive=self._foreground.exclusive,
            apps=[
                device_pb2.AppImportance(
                    package_name=name,
                    importance=self._foreground.importance(uid).name,
                )
                for name, uid in uids.items()
            ],
        )

    def _quota_message(self, package_name: str) -> device_pb2.Quota:
        left = self._quota.allowance(self._parts.uid_of(package_name))
        profile = self._quota.profile
        made = device_pb2.Quota(
            model=left.model,
            available_seconds=left.available_seconds,
            available_calls=left.available_calls,
            package_name=package_name or SHELL_PACKAGE,
            models=[*profile.models, QUOTA_OFF],
        )
        if left.retry_delay:
            made.retry_delay.CopyFrom(_duration(left.retry_delay))
        if profile.app_battery is not None:
            made.app_battery.CopyFrom(_budget(profile.app_battery, left.app_battery))
        if profile.device_battery is not None:
            made.device_battery.CopyFrom(_budget(profile.device_battery, left.device_battery))
        return made


def _budget(budget: BatteryBudget, period: Period | None) -> device_pb2.BatteryBudget:
    made = device_pb2.BatteryBudget(
        calls_limit=budget.calls, device_seconds_limit=budget.inference_seconds
    )
    if period is not None:
        made.started.CopyFrom(timestamp(period.started))
        made.ends.CopyFrom(timestamp(period.started + budget.period_seconds))
        made.calls = period.calls
        made.device_seconds = period.device_seconds
    return made


def _fault_message(listed: ListedFault) -> device_pb2.Fault:
    return ParseDict(listed.to_wire(), device_pb2.Fault())


def _duration(seconds: float) -> Duration:
    made = Duration()
    made.FromNanoseconds(round(seconds * NANOS))
    return made
