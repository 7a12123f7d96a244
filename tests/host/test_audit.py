"""The journal of decisions: what is kept, and how it is followed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import errors_pb2
from aicore_sim.device.clock import RealClock
from aicore_sim.device.database import open_database
from appfunctions_host.access import Rule, allow, deny
from appfunctions_host.audit import AuditEntry, AuditJournal
from appfunctions_host.wire_errors import error_detail
from tests.host.rig import WAIT, Device, name_of, raw_provider, running_device, soon, trusted
from tests.host.shop import PACKAGE

F = "T#f"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_database(tmp_path / "device.db", create=True)) as opened:
        yield opened


def _record(journal: AuditJournal, number: int) -> AuditEntry:
    return journal.record(
        "execute",
        caller=f"com.caller{number}",
        decision=deny(Rule.DISABLED, 1002) if number % 2 else allow(Rule.ALLOWLISTED),
        package_name=PACKAGE,
        function_identifier=F,
    )


@pytest.mark.requirement("simulator.audit.decisions")
async def test_decisions_survive_a_restart_and_ids_go_on(connection: sqlite3.Connection) -> None:
    journal = AuditJournal(connection, RealClock())
    made = tuple(_record(journal, number) for number in range(3))
    journal.close()

    again = AuditJournal(connection, RealClock())

    assert again.read() == made
    assert again.read(after_id=2) == made[2:]
    assert _record(again, 3).id == 4
    assert [entry.reason for entry in made[:2]] == [
        "caller holds EXECUTE_APP_FUNCTIONS and the allowlist names the target",
        "the function is disabled",
    ]
    again.close()


async def test_older_decisions_than_the_memory_holds_are_read_from_the_table_until_dropped(
    connection: sqlite3.Connection,
) -> None:
    journal = AuditJournal(connection, RealClock(), in_memory=2, keep=4)
    made = []
    for number in range(7):
        made.append(_record(journal, number))
        journal.flush()

    assert journal.read() == tuple(made[3:])
    assert journal.read(after_id=6) == tuple(made[6:])
    journal.close()


async def test_names_that_callers_choose_are_bounded(connection: sqlite3.Connection) -> None:
    journal = AuditJournal(connection, RealClock())
    entry = journal.record(
        "execute",
        caller="com.a",
        decision=deny(Rule.NO_PERMISSION),
        package_name="p" * 5000,
        function_identifier="f" * 5000,
    )
    journal.close()

    assert (entry.target_package, entry.function_identifier) == ("p" * 200, "f" * 200)


async def test_a_database_that_refuses_loses_nothing_and_stops_nobody(
    connection: sqlite3.Connection,
) -> None:
    journal = AuditJournal(connection, RealClock())
    connection.execute("ALTER TABLE app_function_decisions RENAME TO away")
    first = _record(journal, 1)
    journal.flush()
    connection.execute("ALTER TABLE away RENAME TO app_function_decisions")
    second = _record(journal, 2)
    journal.close()

    assert AuditJournal(connection, RealClock()).read() == (first, second)


async def _next(decisions: AsyncIterator[AuditEntry]) -> int:
    return (await soon(anext(aiter(decisions)))).id


@pytest.mark.requirement("simulator.audit.watch")
async def test_a_follower_sees_the_recorded_decisions_then_new_ones_and_ends_with_the_journal(
    connection: sqlite3.Connection,
) -> None:
    journal = AuditJournal(connection, RealClock())
    _record(journal, 1)
    following = journal.follow()
    seen = [await _next(following)]
    waiting = asyncio.create_task(_next(following))
    await asyncio.sleep(0)
    _record(journal, 2)
    seen.append(await soon(waiting))
    _record(journal, 3)
    journal.close()
    seen += [entry.id async for entry in following]

    assert seen == [1, 2, 3]


@pytest.mark.requirement("simulator.audit.decisions", "simulator.audit.watch")
async def test_every_call_of_an_app_is_a_decision_that_the_shell_can_watch(device: Device) -> None:
    shop = device.install(PACKAGE)
    stranger = device.install("com.ordinary")
    shell = device.shell()
    stream = shell.stub.WatchDecisions(pb.WatchDecisionsRequest(), metadata=shell.metadata)
    async with raw_provider(device, trusted(F)):
        await stranger.call("Search", pb.SearchRequest())
        await stranger.call("GetStates", pb.GetStatesRequest(names=[name_of(F)]))
        await stranger.failure("IsEnabled", pb.IsEnabledRequest(name=name_of(F)))
        disable = pb.SetEnabledRequest(name=name_of(F), state=pb.APP_FUNCTION_STATE_DISABLED)
        await stranger.failure("SetEnabled", disable)
        await shop.call("SetEnabled", disable)
        await stranger.failure("Search", pb.SearchRequest(calling_package=PACKAGE))
        await stranger.code(F)
        await shop.code(F)
    found = [await soon(stream.read()) for _ in range(10)]
    stream.cancel()

    assert [
        (item.operation, item.calling_package, item.rule, item.allowed, item.error_code)
        for item in found
    ] == [
        ("register", PACKAGE, "PROVIDER_JOINED", True, 0),
        ("search", "com.ordinary", "NO_PERMISSION", False, 1000),
        ("get_states", "com.ordinary", "NO_PERMISSION", False, 1000),
        ("is_enabled", "com.ordinary", "NO_PERMISSION", False, 1000),
        ("set_enabled", "com.ordinary", "NOT_OWN", False, 0),
        ("set_enabled", PACKAGE, "SAME_PACKAGE", True, 0),
        ("search", "com.ordinary", "FOREIGN_CLAIM", False, 1000),
        ("execute", "com.ordinary", "NO_PERMISSION", False, 1000),
        ("execute", PACKAGE, "DISABLED", False, 1002),
        ("unregister", PACKAGE, "PROVIDER_LEFT", True, 0),
    ]
    assert [item.id for item in found] == list(range(1, 11))
    assert found[7].function == name_of(F)
    assert found[7].reason == "caller holds no permission for app functions of other packages"


async def test_a_refused_provider_is_a_decision(device: Device) -> None:
    device.install(PACKAGE)
    with suppress(grpc.aio.AioRpcError):
        async with raw_provider(device, trusted(F, access_level=7)):
            raise AssertionError("the level 7 does not exist")

    (entry,) = device.host.journal.read()
    assert (entry.operation, entry.rule, entry.allowed) == ("register", "PROVIDER_REFUSED", False)


async def test_only_the_shell_may_watch(device: Device) -> None:
    app = device.install("com.ordinary")
    stream = app.stub.WatchDecisions(pb.WatchDecisionsRequest(), metadata=app.metadata)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await soon(stream.read())

    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    detail = error_detail(refused.value)
    assert detail is not None
    assert detail.simulator.kind == errors_pb2.SimulatorError.FORBIDDEN


async def test_watchers_end_with_the_host_and_its_last_decisions_are_written(
    tmp_path: Path,
) -> None:
    async with running_device(tmp_path) as device:
        shell = device.shell()
        stream = shell.stub.WatchDecisions(pb.WatchDecisionsRequest(), metadata=shell.metadata)
        stranger = device.install("com.ordinary")
        assert await stranger.code(F) == 1000
        first = await soon(stream.read())
        ending = asyncio.create_task(stream.read())
        await soon(device.running.stop(grace=WAIT))

        assert await soon(ending) is grpc.aio.EOF
        with closing(open_database(device.home.database_path, create=False)) as connection:
            stored = AuditJournal(connection, RealClock()).read()

    assert [entry.id for entry in stored] == [first.id] == [1]
