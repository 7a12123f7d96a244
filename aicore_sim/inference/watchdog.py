"""Tells a worker that hangs from one that only takes long."""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.inference import frames


@dataclass(frozen=True, kw_only=True)
class WorkerLimits:
    """How long a worker may give no sign of life before it is ended, in seconds."""

    silence: float = 10.0
    """Without any frame, while its interpreter is free to answer."""
    step: float = 120.0
    """For one step of the engine. A prefill step holds the interpreter's lock, so that the worker
    cannot answer meanwhile; with a large model on few cores it takes tens of seconds."""
    load: float = 300.0
    """For loading the model."""


class Watchdog:
    """Judges one worker by what it sends.

    Counts the time that its caller saw pass, not what a clock says: a daemon that was itself
    stopped for a minute must not convict its worker.
    """

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self.interval = min(1.0, limits.silence / 4, limits.step / 4)
        """Seconds between two calls of `tick`."""
        self.awaits_pong = False
        self.in_prefill = False
        """Whether the engine is, as far as known, in a step during which nothing is answered."""
        self._silent = 0.0
        self._stuck = 0.0
        self._steps = 0

    def heard(self, event: frames.Event) -> None:
        """Any frame of the worker is a sign of life."""
        self._silent = 0.0
        if isinstance(event, frames.Progress):
            self.in_prefill, self._stuck = event.prefill, 0.0
        elif isinstance(event, frames.Produced):
            self.in_prefill = False
        elif isinstance(event, frames.Pong):
            self.awaits_pong = False
            if not event.working or event.steps != self._steps:
                self._stuck = 0.0
            self._steps = event.steps

    def tick(self, elapsed: float) -> str | None:
        """Says, `elapsed` seconds after the last call, how the worker hangs, if it does."""
        elapsed = min(elapsed, 2 * self.interval)
        self._silent += elapsed
        self._stuck += elapsed
        silence = self._limits.step if self.in_prefill else self._limits.silence
        if self._silent >= silence:
            return f"gave no sign of life for {silence:g} s"
        if self._stuck >= self._limits.step:
            return f"made no progress for {self._limits.step:g} s"
        return None
