"""What is known of one call while it runs, and what the journal says of it afterwards."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from enum import IntEnum

from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import AppFunctionError, DeviceError, GenAiError, SimulatorFault
from aicore_sim.device.journal import OK, Journal
from aicore_sim.inference.backend import Usage

logger = logging.getLogger(__name__)

CANCELLED = "cancelled"
INTERNAL = "internal"
_LONGEST_RULE = 200


class Phase(IntEnum):
    """Members and numbers of `Generation.Phase` in device.proto."""

    QUEUED = 1
    LOADING_MODEL = 2
    PREFILL = 3
    DECODING = 4


_FIGURE = {
    Phase.QUEUED: "queue_seconds",
    Phase.LOADING_MODEL: "load_seconds",
    Phase.PREFILL: "prefill_seconds",
    Phase.DECODING: "decode_seconds",
}


@dataclass(kw_only=True)
class CallTrace:
    """One call of an app. Times are in device time."""

    rpc: str
    package_name: str
    uid: int
    clock: Clock
    rule: str = ""
    """What would refuse the call now; the decision when something does."""
    phase: Phase | None = None
    since: float = 0.0
    """When the phase began, in seconds since the epoch."""
    decision: str = ""
    error_code: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    started: float = 0.0
    _since: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock.monotonic()

    def enter(self, phase: Phase | None) -> None:
        """Go on to a phase; None after the last one."""
        now = self.clock.monotonic()
        if self.phase is not None:
            name = _FIGURE[self.phase]
            self.figures[name] = self.figures.get(name, 0.0) + now - self._since
        self.phase, self._since = phase, now
        self.since = self.clock.now()

    def used(self, usage: Usage) -> None:
        """The tokens that the model reported."""
        self.figures["input_tokens"] = usage.input_tokens
        self.figures["cached_tokens"] = usage.cached_input_tokens
        self.figures["output_tokens"] = usage.output_tokens

    def decide(self, rule: str) -> None:
        """A rule decided about the call while it ran; the first one counts."""
        self.decision = self.decision or rule[:_LONGEST_RULE]

    def failed(self, error: DeviceError) -> None:
        """The call ends with an error that its app sees."""
        match error:
            case GenAiError() | AppFunctionError():
                self.error_code = error.error_code
                if isinstance(error, GenAiError) and error.retry_delay > 0:
                    self.figures["retry_delay_seconds"] = error.retry_delay
                self.decide(self.rule)
            case SimulatorFault():
                self.decide(error.kind.name.lower().replace("_", "-"))
        self.decide(type(error).__name__)

    def close(self, journal: Journal) -> None:
        """Write the call into the journal and the log: who, what and how long, never what was
        said."""
        self.enter(None)
        decision = self.decision or OK
        try:
            journal.record(
                rpc=self.rpc,
                package_name=self.package_name,
                decision=decision,
                error_code=self.error_code,
                figures=self.figures,
            )
        except ValueError:
            # An id of a fault may be any text.
            journal.record(
                rpc=self.rpc,
                package_name=self.package_name,
                decision=decision.partition(":")[0],
                error_code=self.error_code,
                figures=self.figures,
            )
        logger.info(
            "rpc=%s caller=%s outcome=%s code=%d input_tokens=%d output_tokens=%d seconds=%.3f",
            self.rpc,
            self.package_name,
            decision,
            self.error_code,
            self.figures.get("input_tokens", 0),
            self.figures.get("output_tokens", 0),
            self.clock.monotonic() - self.started,
        )
