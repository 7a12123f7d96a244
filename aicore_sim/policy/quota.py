"""What an app may still infer: the short-term allowance and the battery budgets.

Only inference is charged, in device time (see :mod:`aicore_sim.policy.pacing`), and for what ran,
also when the call was cancelled or failed. Everything refused before inference is free, and so are
status calls, counting tokens and warming up: they never come here.

Documented is that there are a short-term quota answered with BUSY (9) and a longer-term battery
quota answered with 27, both per app: https://developer.android.com/ai/gemini-nano. AICore's 28, the
battery quota of the device, is one of its own codes; ML Kit shows it as 9. Numbers are ours.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import GenAiCode
from aicore_sim.device.profile import QUOTA_OFF, BatteryBudget, QuotaProfile, SlidingCallsQuota
from aicore_sim.policy.failures import DEVICE_BATTERY_QUOTA_EXCEEDED, aicore_failure
from aicore_sim.policy.ledger import WHOLE_DEVICE, Ledger, Period
from aicore_sim.policy.quota_models import (
    RETRY_MARGIN,
    Charge,
    PastUse,
    ShortTermQuota,
    short_term_quota,
)

logger = logging.getLogger(__name__)

_APP_BATTERY = int(GenAiCode.PER_APP_BATTERY_USE_QUOTA_EXCEEDED)


@dataclass(kw_only=True)
class Inference:
    """A call that runs. Set `device_seconds` to what it has used so far."""

    device_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What an app has left."""

    model: str
    """Name of the short-term model, or "off"."""
    available_seconds: float | None
    """Device time of the short-term quota; None when it counts calls or is off."""
    available_calls: int | None
    """Calls of the short-term quota; None when it measures time or is off."""
    retry_delay: float
    """Seconds until the short-term quota admits a call; 0 when it does now."""
    app_battery: Period | None
    device_battery: Period | None
    """Use of the current period; None without a budget or before its first use."""


class Quota:
    """The quota of every app, by uid."""

    def __init__(
        self, profile: QuotaProfile, *, clock: Clock, ledger: Ledger | None = None
    ) -> None:
        """With a `ledger`, goes on where the device stopped."""
        self._profile = profile
        self._clock = clock
        self._ledger = ledger
        self._active = profile.active
        self._model = profile.require(profile.active)
        self._allowances: dict[int, ShortTermQuota] = {}
        self._periods: dict[int, Period] = {}
        self._load()

    @property
    def profile(self) -> QuotaProfile:
        return self._profile

    @property
    def active(self) -> str:
        """Name of the short-term model in force, or "off"."""
        return self._active

    def use(self, name: str) -> None:
        """Put another short-term model of the profile in force, or "off". Every app starts afresh
        in it; the battery budgets go on. Raises ValueError for an unknown name."""
        self._model = self._profile.require(name)
        self._active = name
        self._allowances.clear()
        if self._ledger is not None:
            self._ledger.clear_short_term()

    def check(self, uid: int) -> None:
        """Refuse a call that the app may not make now; costs nothing.

        Raises GenAiError 27 or 28 when a battery budget is used up, with the time until its period
        ends as `retry_delay` (waiting less never helps), then 9 with the time until the next call
        can pass.
        """
        if self._active == QUOTA_OFF:
            return
        now = self._clock.now()
        for owner, budget, code, whose in (
            (uid, self._profile.app_battery, _APP_BATTERY, "This app has"),
            (
                WHOLE_DEVICE,
                self._profile.device_battery,
                DEVICE_BATTERY_QUOTA_EXCEEDED,
                "The apps have",
            ),
        ):
            left = self._until_period_ends(owner, budget, now)
            if left > 0:
                raise aicore_failure(
                    code, f"{whose} used up the battery quota of the period.", retry_delay=left
                )
        delay = self._allowance(uid).retry_delay(now)
        if delay > 0:
            raise aicore_failure(
                GenAiCode.BUSY,
                "The app has exceeded its quota; try again later.",
                retry_delay=delay,
            )

    @contextmanager
    def inference(self, uid: int) -> Iterator[Inference]:
        """Run an inference inside the block and charge what it says it used, however it ends.

        Checks again, since a call may have waited in line while others ran. Raises as `check`.
        Calls that run at once are each admitted by what was charged before they started.
        """
        self.check(uid)
        running = Inference()
        try:
            yield running
        finally:
            self.charge(uid, running.device_seconds)

    def charge(self, uid: int, device_seconds: float) -> None:
        """Charge one call now. Raises ValueError for a negative time."""
        if not device_seconds >= 0:
            raise ValueError(f"an inference cannot take {device_seconds!r} seconds")
        if self._active == QUOTA_OFF:
            return
        now = self._clock.now()
        allowance = self._allowance(uid)
        charge = Charge(at=now, device_seconds=device_seconds)
        allowance.charge(charge)
        if self._ledger is not None:
            self._ledger.record_charge(uid, charge, allowance.level)
        for owner, budget in (
            (uid, self._profile.app_battery),
            (WHOLE_DEVICE, self._profile.device_battery),
        ):
            if budget is not None:
                self._use_battery(owner, budget, now, device_seconds)

    def allowance(self, uid: int) -> Allowance:
        """What the app has left now."""
        now = self._clock.now()
        model = self._model
        short_term = None if model is None else self._allowance(uid)
        left = None if short_term is None else short_term.available(now)
        counts_calls = isinstance(model, SlidingCallsQuota)
        return Allowance(
            model=self._active,
            available_seconds=None if counts_calls else left,
            available_calls=int(left) if counts_calls and left is not None else None,
            retry_delay=0.0 if short_term is None else short_term.retry_delay(now),
            app_battery=self._current_period(uid, self._profile.app_battery, now),
            device_battery=self._current_period(WHOLE_DEVICE, self._profile.device_battery, now),
        )

    def reset(self, uid: int | None = None) -> None:
        """Give one app, or all apps and the device, a fresh start."""
        if uid is None:
            self._allowances.clear()
            self._periods.clear()
        else:
            self._allowances.pop(uid, None)
            self._periods.pop(uid, None)
        if self._ledger is not None:
            self._ledger.clear(uid)

    def reload(self) -> None:
        """Read the ledger again, after its tables were replaced."""
        if self._ledger is not None:
            self._ledger.discard()
        self._allowances.clear()
        self._periods.clear()
        self._load()

    def _load(self) -> None:
        if self._ledger is None:
            return
        state = self._ledger.load()
        self._periods.update(state.periods)
        if self._model is not None:
            for uid, past in state.past.items():
                self._allowances[uid] = short_term_quota(self._model, past)

    def _allowance(self, uid: int) -> ShortTermQuota:
        assert self._model is not None
        found = self._allowances.get(uid)
        if found is None:
            found = self._allowances[uid] = short_term_quota(self._model, PastUse())
        return found

    def _current_period(
        self, owner: int, budget: BatteryBudget | None, now: float
    ) -> Period | None:
        period = self._periods.get(owner)
        if budget is None or period is None or now >= period.started + budget.period_seconds:
            return None
        return period

    def _until_period_ends(self, owner: int, budget: BatteryBudget | None, now: float) -> float:
        """0 while the budget lasts."""
        period = self._current_period(owner, budget, now)
        if budget is None or period is None:
            return 0.0
        used_up = (budget.calls is not None and period.calls >= budget.calls) or (
            budget.inference_seconds is not None
            and period.device_seconds >= budget.inference_seconds
        )
        return period.started + budget.period_seconds - now + RETRY_MARGIN if used_up else 0.0

    def _use_battery(
        self, owner: int, budget: BatteryBudget, now: float, device_seconds: float
    ) -> None:
        period = self._current_period(owner, budget, now) or Period(started=now)
        self._periods[owner] = period.plus(device_seconds)
        if self._ledger is not None:
            self._ledger.record_period(owner, self._periods[owner])
