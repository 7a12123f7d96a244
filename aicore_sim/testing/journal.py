"""Questions about what a device decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from aicore_protos import aicore_pb2, device_pb2
from aicore_sim.device.journal import JournalEntry

RPCS = tuple(method.name for method in aicore_pb2.DESCRIPTOR.services_by_name["AICore"].methods)
"""The calls that the journal knows: those of AICore."""


class Journal:
    """The journal of AICore's calls. Every method reads it anew."""

    def __init__(
        self,
        read: Callable[[], Iterable[device_pb2.JournalEntry]],
        packages: Callable[[], Iterable[str]],
    ) -> None:
        self._read = read
        self._packages = packages

    def entries(self) -> tuple[JournalEntry, ...]:
        """Everything since the last reset, oldest first."""
        return tuple(_entry(message) for message in self._read())

    def calls(
        self, *, rpc: str | None = None, package: str | None = None
    ) -> tuple[JournalEntry, ...]:
        """The entries of one call and one app; None means any.

        Raises ValueError for a call that AICore does not have and an app that is neither installed
        nor in the journal, so that a slip of the pen does not prove that nothing was called.
        """
        if rpc is not None and rpc not in RPCS:
            raise ValueError(f"rpc {rpc!r} is no call of AICore; there are {', '.join(RPCS)}")
        entries = self.entries()
        if package is not None:
            known = sorted({*self._packages(), *(entry.package_name for entry in entries)})
            if package not in known:
                raise ValueError(
                    f"package {package!r} is not installed and never called; "
                    f"there are {', '.join(known) or 'none'}"
                )
        return tuple(
            entry
            for entry in entries
            if rpc in (None, entry.rpc) and package in (None, entry.package_name)
        )

    def __iter__(self) -> Iterator[JournalEntry]:
        return iter(self.entries())

    def tail(self, count: int = 20) -> str:
        """The last entries, one a line."""
        return "\n".join(describe(entry) for entry in self.entries()[-count:])


def describe(entry: JournalEntry) -> str:
    """An entry in one line."""
    outcome = entry.decision if not entry.error_code else f"{entry.decision} ({entry.error_code})"
    return f"#{entry.id} {entry.time:.3f} {entry.package_name} {entry.rpc}: {outcome}"


def described(entries: Sequence[JournalEntry]) -> str:
    """Entries, one a line, indented."""
    return "\n".join(f"    {describe(entry)}" for entry in entries)


def _entry(message: device_pb2.JournalEntry) -> JournalEntry:
    return JournalEntry(
        id=message.id,
        time=message.time.ToNanoseconds() / 1e9,
        rpc=message.rpc,
        package_name=message.package_name,
        decision=message.decision,
        error_code=message.error_code,
        figures=dict(message.figures),
    )
