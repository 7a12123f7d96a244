"""What callers read: search, states, enabling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.database import open_database
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import SHELL, Identity, PackageStore
from appfunctions_host.catalog import Catalog, FunctionName, SearchSpec
from appfunctions_host.registrations import Registrations
from appfunctions_host.registry import RUNTIME_SERVICE, ProviderCall, Registry
from appfunctions_host.state import EnabledStates
from tests.host.rig import identity, rules_of

A = identity("com.a")
AGENT = identity("com.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])
STRANGER = identity("com.stranger")


class Idle:
    def __init__(self, *, current: bool = True) -> None:
        self.current = current

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        raise AssertionError("not called here")

    def is_current(self) -> bool:
        return self.current


def _function(
    package: str,
    identifier: str,
    *,
    level: int = 300,
    enabled: bool = True,
    schema: tuple[str, str, int] | None = None,
    scope: pb.Scope = pb.SCOPE_GLOBAL,
) -> pb.AppFunctionMetadata:
    made = pb.AppFunctionMetadata(
        name=pb.AppFunctionName(package_name=package, function_identifier=identifier),
        access_level=level,
        is_enabled_by_default=enabled,
        scope=scope,
        service_name=RUNTIME_SERVICE if scope == pb.SCOPE_ACTIVITY else "",
    )
    if schema is not None:
        made.schema.category, made.schema.name, made.schema.version = schema
    return made


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "device.db"


@pytest.fixture
def states(database: Path) -> Iterator[EnabledStates]:
    with closing(open_database(database, create=True)) as connection:
        packages = PackageStore(connection)
        for name in ("com.a", "com.b"):
            packages.install(name)
        yield EnabledStates(connection)


@pytest.fixture
def catalog(states: EnabledStates) -> Catalog:
    registry = Registry()
    registry.declare(
        "com.a",
        [
            _function("com.a", "T#own", level=100),
            _function("com.a", "T#off", enabled=False),
            _function("com.a", "T#note", schema=("notes", "create", 2)),
        ],
        Idle(),
    )
    registry.declare(
        "com.b",
        [
            _function("com.b", "T#note", schema=("notes", "create", 3)),
            _function("com.b", "T#screen", scope=pb.SCOPE_ACTIVITY),
        ],
        Idle(),
    )
    registry.declare("com.gone", [_function("com.gone", "T#x")], Idle(current=False))
    return Catalog(registry, states, rules_of(), Registrations(registry))


def _search(catalog: Catalog, spec: SearchSpec) -> list[FunctionName]:
    page, more = catalog.search(AGENT, spec)
    assert more == ""
    return [(item.name.package_name, item.name.function_identifier) for item in page]


@pytest.mark.requirement("appfunctions.search.absent-hidden", "appfunctions.search.filters")
@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (
            SearchSpec(),
            [
                ("com.a", "T#note"),
                ("com.a", "T#off"),
                ("com.b", "T#note"),
                ("com.b", "T#screen"),
            ],
        ),
        (SearchSpec(package_names=frozenset({"com.a"})), [("com.a", "T#note"), ("com.a", "T#off")]),
        (SearchSpec(function_names=frozenset({("com.b", "T#note")})), [("com.b", "T#note")]),
        (
            SearchSpec(
                package_names=frozenset({"com.a"}), function_names=frozenset({("com.b", "T#note")})
            ),
            [],
        ),
        (SearchSpec(schema_name="create"), [("com.a", "T#note"), ("com.b", "T#note")]),
        (SearchSpec(schema_category="mail"), []),
        (SearchSpec(min_schema_version=3), [("com.b", "T#note")]),
        (SearchSpec(scopes=frozenset({1})), [("com.b", "T#screen")]),
        (SearchSpec(package_names=frozenset({"com.missing"})), []),
    ],
)
def test_filters_all_must_match_and_nothing_found_is_no_error(
    catalog: Catalog, spec: SearchSpec, found: list[FunctionName]
) -> None:
    assert _search(catalog, spec) == found


@pytest.mark.requirement("appfunctions.search.paged")
def test_pages_of_one_hold_together_what_one_page_holds(catalog: Catalog) -> None:
    found: list[str] = []
    token = ""
    for _ in range(4):
        page, token = catalog.search(AGENT, SearchSpec(), page_size=1, page_token=token)
        found += [f"{item.name.package_name}/{item.name.function_identifier}" for item in page]

    assert found == ["com.a/T#note", "com.a/T#off", "com.b/T#note", "com.b/T#screen"]
    assert token == ""


@pytest.mark.requirement("appfunctions.search.page-bytes")
def test_a_page_is_full_with_two_mebibytes_and_holds_one_function_at_least(
    states: EnabledStates,
) -> None:
    registry = Registry()
    functions = [_function("com.a", f"T#f{number}") for number in range(5)]
    for function in functions:
        function.description = "d" * (900 * 1024)
    registry.declare("com.a", functions, Idle())
    catalog = Catalog(registry, states, rules_of(), Registrations(registry))
    pages, token = [], ""
    for _ in range(3):
        page, token = catalog.search(AGENT, SearchSpec(), page_token=token)
        pages.append([item.name.function_identifier for item in page])

    assert pages == [["T#f0", "T#f1"], ["T#f2", "T#f3"], ["T#f4"]]
    assert token == ""


@pytest.mark.parametrize(("page_size", "page_token"), [(-1, ""), (0, "nonsense")])
def test_a_bad_page_is_the_callers_error(catalog: Catalog, page_size: int, page_token: str) -> None:
    with pytest.raises(SimulatorFault) as refused:
        catalog.search(AGENT, SearchSpec(), page_size=page_size, page_token=page_token)

    assert refused.value.kind is FaultKind.INVALID_REQUEST


@pytest.mark.requirement("appfunctions.state.get-states-omits")
def test_states_leave_out_missing_and_hidden_functions(catalog: Catalog) -> None:
    names = [
        ("com.b", "T#note"),
        ("com.a", "T#own"),
        ("com.a", "T#off"),
        ("com.a", "T#missing"),
        ("com.gone", "T#x"),
    ]

    assert _states(catalog, AGENT, names) == (
        (("com.b", "T#note"), True),
        (("com.a", "T#off"), False),
    )
    assert _states(catalog, STRANGER, names) == ()


@pytest.mark.requirement("appfunctions.state.is-enabled-hidden")
@pytest.mark.parametrize("name", [("com.a", "T#own"), ("com.a", "T#missing"), ("com.no", "T#x")])
def test_a_hidden_function_and_a_missing_one_are_the_same_illegal_argument(
    catalog: Catalog, name: FunctionName
) -> None:
    with pytest.raises(SimulatorFault) as refused:
        catalog.is_enabled(AGENT, name)

    assert (refused.value.kind, refused.value.message) == (
        FaultKind.ILLEGAL_ARGUMENT,
        "App function not found.",
    )


@pytest.mark.requirement("appfunctions.state.default-follows-declaration")
def test_the_runtime_state_wins_until_it_is_default_again(catalog: Catalog) -> None:
    name = ("com.a", "T#off")
    seen = [catalog.is_enabled(A, name)]
    for state in (1, 2, 0):
        catalog.set_enabled(A, name, state)
        seen.append(catalog.is_enabled(A, name))

    assert seen == [False, True, False, False]


def test_the_shell_may_switch_any_function(catalog: Catalog) -> None:
    catalog.set_enabled(SHELL, ("com.b", "T#note"), 2)

    assert not catalog.is_enabled(AGENT, ("com.b", "T#note"))


@pytest.mark.requirement("appfunctions.state.set-bad-state", "appfunctions.state.set-own-only")
@pytest.mark.parametrize(
    ("caller", "name", "state", "message"),
    [
        (AGENT, ("com.a", "T#note"), 2, "Function T#note does not exist"),
        (A, ("com.a", "T#missing"), 2, "Function T#missing does not exist"),
        (SHELL, ("com.gone", "T#x"), 2, "Function T#x does not exist"),
        (A, ("com.a", "T#note"), 7, "Invalid state: 7"),
    ],
)
def test_switching_another_apps_function_or_to_no_state_is_an_illegal_argument(
    catalog: Catalog,
    caller: object,
    name: FunctionName,
    state: int,
    message: str,
) -> None:
    with pytest.raises(SimulatorFault) as refused:
        catalog.set_enabled(caller, name, state)  # type: ignore[arg-type]

    assert (refused.value.kind, refused.value.message) == (FaultKind.ILLEGAL_ARGUMENT, message)


@pytest.mark.requirement("appfunctions.state.survives-restart")
def test_the_state_survives_a_restart(database: Path, states: EnabledStates) -> None:
    states.set("com.a", "T#x", 2)
    states.set("com.a", "T#y", 1)
    states.set("com.a", "T#y", 0)

    with closing(open_database(database, create=False)) as connection:
        again = EnabledStates(connection)
        assert [again.get("com.a", name) for name in ("T#x", "T#y", "T#z")] == [2, 0, 0]


def _states(
    catalog: Catalog, caller: Identity, names: list[tuple[str, str]]
) -> tuple[tuple[tuple[str, str], bool], ...]:
    return tuple((state.name, state.is_enabled) for state in catalog.states(caller, names))
