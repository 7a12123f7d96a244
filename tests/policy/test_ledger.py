"""What the quota remembers: across restarts, a killed process, and a clock that was ahead."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aicore_sim.device.database import open_database
from aicore_sim.device.errors import GenAiError
from aicore_sim.device.profile import QuotaProfile, load_profile
from aicore_sim.policy.ledger import WHOLE_DEVICE, Ledger, Period
from aicore_sim.policy.quota import Quota
from aicore_sim.policy.quota_models import Charge, Level
from tests.policy.clocks import START, ManualClock, turns

APP, OTHER_APP = 10_001, 10_002
PIXEL_10 = load_profile("pixel-10").quota
MODELS = [*PIXEL_10.models]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "device.db", create=True)
    yield connection
    connection.close()


def ledger(connection: sqlite3.Connection, clock: ManualClock) -> Ledger:
    return Ledger(connection, clock=clock, keep_seconds=PIXEL_10.longest_window_seconds)


def rows(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    return list(connection.execute(f"SELECT * FROM {table}"))


def active(name: str) -> QuotaProfile:
    return QuotaProfile.model_validate(PIXEL_10.model_dump() | {"active": name})


@pytest.mark.parametrize("name", MODELS)
def test_an_allowance_goes_on_after_a_restart(connection: sqlite3.Connection, name: str) -> None:
    clock = ManualClock()
    first = ledger(connection, clock)
    quota = Quota(active(name), clock=clock, ledger=first)
    for _ in range(30):
        clock.forward(1.5)
        quota.charge(APP, 1.5)
    first.close()
    clock.forward(7)

    again = Quota(active(name), clock=clock, ledger=ledger(connection, clock))
    assert again.allowance(APP) == quota.allowance(APP)
    assert again.allowance(OTHER_APP) == quota.allowance(OTHER_APP)
    clock.forward(40)
    assert again.allowance(APP) == quota.allowance(APP)


def test_a_used_up_battery_budget_is_used_up_after_a_restart(
    connection: sqlite3.Connection,
) -> None:
    clock = ManualClock()
    first = ledger(connection, clock)
    Quota(PIXEL_10, clock=clock, ledger=first).charge(APP, 7200)
    first.close()
    clock.forward(80_000)
    again = Quota(PIXEL_10, clock=clock, ledger=ledger(connection, clock))
    with pytest.raises(GenAiError) as refused:
        again.check(APP)
    assert refused.value.error_code == 27
    device = again.allowance(APP).device_battery
    assert device == Period(started=START, calls=1, device_seconds=7200)


def test_charges_that_no_window_needs_are_pruned(connection: sqlite3.Connection) -> None:
    clock = ManualClock()
    kept = ledger(connection, clock)
    for _ in range(200):
        clock.forward(10)
        kept.record_charge(APP, Charge(at=clock.now(), device_seconds=1), None)
        kept.flush()
    assert len(rows(connection, "quota_charges")) <= 9 + 6
    clock.forward(1000)
    kept.load()
    assert rows(connection, "quota_charges") == []


def test_a_reset_forgets_one_app_or_all(connection: sqlite3.Connection) -> None:
    clock = ManualClock()
    kept = ledger(connection, clock)
    quota = Quota(PIXEL_10, clock=clock, ledger=kept)
    quota.charge(APP, 5)
    quota.charge(OTHER_APP, 6)
    quota.reset(APP)
    assert [uid for uid, *_ in rows(connection, "quota_levels")] == [OTHER_APP]
    assert {owner for owner, *_ in rows(connection, "quota_periods")} == {OTHER_APP, WHOLE_DEVICE}
    quota.charge(APP, 1)
    quota.reset()
    kept.flush()
    assert kept.load().past == {}
    assert kept.load().periods == {}


def test_another_model_starts_afresh_and_keeps_the_batteries(
    connection: sqlite3.Connection,
) -> None:
    clock = ManualClock()
    kept = ledger(connection, clock)
    quota = Quota(PIXEL_10, clock=clock, ledger=kept)
    quota.charge(APP, 5)
    quota.use("sliding-time")
    kept.flush()
    state = kept.load()
    assert state.past == {}
    assert state.periods[APP] == Period(started=START, calls=1, device_seconds=5)


def test_a_clock_that_was_ahead_keeps_nobody_waiting_for_it(
    connection: sqlite3.Connection,
) -> None:
    clock = ManualClock(START + 1_000_000)
    first = ledger(connection, clock)
    Quota(PIXEL_10, clock=clock, ledger=first).charge(APP, 40)
    first.close()
    clock.jump_to(START)
    quota = Quota(PIXEL_10, clock=clock, ledger=ledger(connection, clock))
    assert quota.allowance(APP).retry_delay == pytest.approx(10 / 0.48, abs=0.01)
    period = quota.allowance(APP).app_battery
    assert period is not None
    assert period.started == START


async def test_the_first_charge_is_written_at_once_and_later_ones_together(
    connection: sqlite3.Connection,
) -> None:
    clock = ManualClock()
    kept = Ledger(connection, clock=clock, keep_seconds=90, write_interval=3600)
    writer = asyncio.create_task(kept.run())
    try:
        for number in range(100):
            kept.record_charge(
                APP, Charge(at=clock.now(), device_seconds=number), Level(at=START, seconds=1)
            )
            await turns()
        assert len(rows(connection, "quota_charges")) == 1, "one write in an interval"
        kept.close()
        assert len(rows(connection, "quota_charges")) == 100
    finally:
        writer.cancel()
        await asyncio.wait({writer}, timeout=5)


async def test_charges_wait_while_the_database_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "device.db"
    connection, other = open_database(path, create=True), sqlite3.connect(path, timeout=0)
    connection.execute("PRAGMA busy_timeout = 0")
    kept = Ledger(connection, clock=ManualClock(), keep_seconds=90, write_interval=3600)
    other.execute("BEGIN IMMEDIATE")
    kept.record_charge(APP, Charge(at=START, device_seconds=1), Level(at=START, seconds=29))
    writer = asyncio.create_task(kept.run())
    try:
        await turns()
        assert "cannot be written" in caplog.text
        assert not writer.done()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            kept.close()
        other.rollback()
        kept.close()
        assert rows(connection, "quota_charges") == [(APP, START, 1.0)]
        assert rows(connection, "quota_levels") == [(APP, START, 29.0)]
    finally:
        writer.cancel()
        await asyncio.wait({writer}, timeout=5)
        other.close()
        connection.close()


_KILLED = """
import asyncio, sys, threading
from pathlib import Path
from aicore_sim.device.database import open_database
from aicore_sim.device.profile import load_profile
from aicore_sim.policy.ledger import Ledger
from aicore_sim.policy.quota import Quota
from tests.policy.clocks import ManualClock

async def main():
    clock = ManualClock()
    connection = open_database(Path(sys.argv[1]), create=True)
    ledger = Ledger(connection, clock=clock, keep_seconds=90)
    quota = Quota(load_profile("pixel-10").quota, clock=clock, ledger=ledger)
    writer = asyncio.create_task(ledger.run())
    quota.charge(10001, 12.5)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    quota.charge(10001, 4.0)
    print("charged", flush=True)
    threading.Event().wait()

asyncio.run(main())
"""


def test_a_killed_process_loses_only_the_last_interval(tmp_path: Path) -> None:
    path = tmp_path / "device.db"
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "charged\n"
        finally:
            process.send_signal(signal.SIGKILL)
    clock = ManualClock()
    connection = open_database(path, create=False)
    try:
        quota = Quota(PIXEL_10, clock=clock, ledger=ledger(connection, clock))
        assert quota.allowance(APP).available_seconds == 17.5
    finally:
        connection.close()
