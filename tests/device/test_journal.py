"""The journal of decisions: what it keeps, over restarts and for slow readers."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from aicore_sim.device import journal as journal_module
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.database import open_database
from aicore_sim.device.journal import Journal, JournalEntry
from aicore_sim.device.virtual_clock import DeviceClock

APP, OTHER = "com.example.app", "com.example.other"
LIMIT = 5.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "device.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(path, create=True)
    yield connection
    connection.close()


def journal_of(
    connection: sqlite3.Connection, *, in_memory: int = 100, keep: int = 1000, batch: int = 10
) -> Journal:
    clock = DeviceClock(ClockMode.VIRTUAL, now=1000)
    return Journal(connection, clock=clock, in_memory=in_memory, keep=keep, batch=batch)


def record(journal: Journal, count: int, rpc: str = "GenerateContent", app: str = APP) -> None:
    for _ in range(count):
        journal.record(rpc=rpc, package_name=app)


def ids(entries: tuple[JournalEntry, ...]) -> list[int]:
    return [entry.id for entry in entries]


def rows(path: Path) -> int:
    with sqlite3.connect(path) as other:
        found: int = other.execute("SELECT count(*) FROM journal").fetchone()[0]
    other.close()
    return found


@pytest.mark.requirement("simulator.journal")
async def test_an_entry_has_the_device_time_the_rule_and_the_figures(
    connection: sqlite3.Connection,
) -> None:
    clock = DeviceClock(ClockMode.VIRTUAL, now=1000)
    journal = Journal(connection, clock=clock)
    await clock.advance(1.5)
    made = journal.record(
        rpc="GenerateContent",
        package_name=APP,
        decision="quota:token-bucket",
        error_code=9,
        figures={"input_tokens": 40, "cached_tokens": 30, "queue_seconds": 0.25},
    )
    assert made == JournalEntry(
        id=1,
        time=1001.5,
        rpc="GenerateContent",
        package_name=APP,
        decision="quota:token-bucket",
        error_code=9,
        figures={"input_tokens": 40.0, "cached_tokens": 30.0, "queue_seconds": 0.25},
    )
    assert journal.record(rpc="CheckStatus", package_name=APP).decision == "ok"
    assert journal.read(limit=1) == (made,)


@pytest.mark.requirement("simulator.journal")
async def test_entries_survive_a_restart_and_ids_go_on(
    path: Path, connection: sqlite3.Connection
) -> None:
    journal = journal_of(connection)
    record(journal, 13)
    assert rows(path) == 10
    before = journal.read()
    journal.close()
    journal.close()
    again = journal_of(connection)
    assert (again.read(), again.last_id) == (before, 13)
    again.clear()
    assert (again.read(), rows(path)) == ((), 0)
    assert journal_of(connection).record(rpc="CheckStatus", package_name=APP).id == 14


async def test_what_waits_is_written_after_a_moment(
    path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "FLUSH_DELAY", 0.01)
    journal = journal_of(connection)
    record(journal, 3)
    assert rows(path) == 0
    async with asyncio.timeout(LIMIT):
        while rows(path) != 3:  # noqa: ASYNC110 - another connection cannot signal
            await asyncio.sleep(0.005)


def test_without_an_event_loop_a_full_batch_or_a_flush_writes(
    path: Path, connection: sqlite3.Connection
) -> None:
    journal = journal_of(connection)
    record(journal, 12)
    assert rows(path) == 10
    assert journal.flush()
    assert rows(path) == 12


@pytest.mark.parametrize("in_memory", [10, 100])
async def test_entries_are_found_by_place_call_and_app(
    connection: sqlite3.Connection, in_memory: int
) -> None:
    journal = journal_of(connection, in_memory=in_memory)
    for _ in range(10):
        record(journal, 1, "CheckStatus", APP)
        record(journal, 2, "GenerateContent", OTHER)
    assert ids(journal.read()) == list(range(1, 31))
    assert ids(journal.read(after_id=28)) == [29, 30]
    assert ids(journal.read(rpc="CheckStatus", limit=3)) == [1, 4, 7]
    assert ids(journal.read(package_name=OTHER, after_id=2, limit=2)) == [3, 5]
    assert ids(journal.read(rpc="CheckStatus", package_name=OTHER)) == []
    assert ids(journal.read(after_id=99)) == []


async def test_memory_and_table_are_bounded(path: Path, connection: sqlite3.Connection) -> None:
    journal = journal_of(connection, in_memory=50, keep=200, batch=50)
    record(journal, 1000)
    assert rows(path) == 200
    assert ids(journal.read()) == list(range(801, 1001))


async def test_a_long_journal_is_read_in_pages(connection: sqlite3.Connection) -> None:
    journal = journal_of(connection, in_memory=100, keep=5000, batch=100)
    record(journal, 1250)
    assert ids(journal.read()) == list(range(1, 1251))


async def test_a_follower_gets_what_is_there_and_then_what_comes(
    connection: sqlite3.Connection,
) -> None:
    journal = journal_of(connection)
    record(journal, 3)
    seen: list[int] = []
    third, fifth = asyncio.Event(), asyncio.Event()

    async def follow() -> None:
        async for entry in journal.follow(after_id=1, package_name=APP):
            seen.append(entry.id)
            if entry.id == 3:
                third.set()
            if entry.id == 5:
                fifth.set()

    task = asyncio.create_task(follow())
    await asyncio.wait_for(third.wait(), LIMIT)
    record(journal, 1, app=OTHER)
    record(journal, 1)
    await asyncio.wait_for(fifth.wait(), LIMIT)
    assert seen == [2, 3, 5]
    record(journal, 1)
    journal.close()
    await asyncio.wait_for(task, LIMIT)
    assert seen == [2, 3, 5, 6]


async def test_a_slow_follower_misses_nothing_and_holds_nobody_up(
    connection: sqlite3.Connection,
) -> None:
    journal = journal_of(connection, in_memory=10, keep=1000)
    record(journal, 1)
    follower = journal.follow()
    assert (await anext(follower)).id == 1
    record(journal, 700)
    seen = [(await asyncio.wait_for(anext(follower), LIMIT)).id for _ in range(650)]
    record(journal, 1)
    seen += [(await asyncio.wait_for(anext(follower), LIMIT)).id for _ in range(51)]
    assert seen == list(range(2, 703))
    await follower.aclose()


async def test_a_follower_skips_what_is_dropped(connection: sqlite3.Connection) -> None:
    journal = journal_of(connection, in_memory=10, keep=20)
    follower = journal.follow()
    record(journal, 50)
    assert (await anext(follower)).id == 31
    journal.clear()
    record(journal, 1)
    remaining = [(await asyncio.wait_for(anext(follower), LIMIT)).id for _ in range(20)]
    assert remaining == [*range(32, 51), 51]
    await follower.aclose()


async def test_followers_that_leave_leave_nothing(connection: sqlite3.Connection) -> None:
    journal = journal_of(connection)

    async def follow() -> None:
        async for _ in journal.follow():
            pass

    tasks = [asyncio.create_task(follow()) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[:10]:
        task.cancel()
    await asyncio.wait(tasks[:10], timeout=LIMIT)
    record(journal, 1)
    journal.close()
    done, waiting = await asyncio.wait(tasks, timeout=LIMIT)
    assert (len(done), waiting) == (20, set())


async def test_a_refused_write_keeps_the_entries_and_is_tried_again(
    path: Path, connection: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    journal = journal_of(connection, in_memory=20, batch=10)
    connection.execute("PRAGMA busy_timeout = 0")
    other = open_database(path, create=False)
    other.execute("BEGIN IMMEDIATE")
    record(journal, 15)
    assert [entry.levelno for entry in caplog.records] == [logging.ERROR]
    assert ids(journal.read(after_id=5)) == list(range(6, 16))
    assert not journal.flush()
    other.execute("ROLLBACK")
    other.close()
    assert journal.flush()
    assert rows(path) == 15
    assert ids(journal.read()) == list(range(1, 16))
    record(journal, 10)
    assert rows(path) == 25


@pytest.mark.parametrize(
    "wrong",
    [
        {"rpc": ""},
        {"rpc": "two\nlines"},
        {"decision": "x" * 201},
        {"decision": "ein Wort mit Ü"},
        {"package_name": ""},
        {"figures": {"the secret prompt": 1.0}},
        {"figures": {"input_tokens": float("nan")}},
        {"figures": {"input_tokens": float("inf")}},
        {"figures": {f"f{number}": 1.0 for number in range(33)}},
    ],
)
async def test_what_may_be_content_is_no_entry(
    connection: sqlite3.Connection, wrong: dict[str, object]
) -> None:
    journal = journal_of(connection)
    fields: dict[str, object] = {"rpc": "GenerateContent", "package_name": APP, **wrong}
    with pytest.raises(ValueError, match="is no|are more than"):
        journal.record(**fields)  # type: ignore[arg-type]
    assert (journal.read(), journal.last_id) == ((), 0)


def test_sizes_that_cannot_work_are_refused(connection: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="must hold"):
        journal_of(connection, in_memory=5, batch=10)
