"""Apps of which only the XML is there, with results from a file."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.profile import PlatformName
from aicore_sim.rpc.values import from_value, to_object
from appfunctions_host.apps import AppSpecError
from appfunctions_host.metadata_files.safe_xml import XmlError
from appfunctions_host.metadata_files.stub_apps import add_stubs, read_apps
from appfunctions_host.metadata_files.stub_file import StubError, load_stubs
from tests.host.cli_rig import Served, ended, prepared, ready, start
from tests.host.rig import Caller, Device, running_device
from tests.host.test_metadata_files import CREATE, NOTES, NOTES_PACKAGE, file_of, function

PRINT = "com.example.notes.NoteFunctions#printNote"
NOTE: dict[str, Any] = {"title": "Milk", "due": None, "attachments": []}
APP = "com.app"
TRUSTED = f"{APP}.Tools#say"
SYSTEM = f"{APP}.Tools#reset"
OWN = f"{APP}.Tools#own"
LIVE = f"{APP}.Live#tick"
TEXT = (
    "<parameters><name>text</name><isRequired>false</isRequired>"
    "<dataTypeMetadata><type>8</type><isNullable>true</isNullable></dataTypeMetadata></parameters>"
    "<response><valueType><type>8</type><isNullable>true</isNullable></valueType></response>"
)
TOOLS = file_of(
    function(TRUSTED, TEXT),
    function(SYSTEM, f"{TEXT}<accessLevel>system</accessLevel>"),
    function(OWN, f"{TEXT}<accessLevel>self</accessLevel>"),
    function(LIVE, f"{TEXT}<scope>global</scope>"),
)


@contextlib.asynccontextmanager
async def stubbed(
    folder: Path,
    results: str,
    *,
    xml: bytes = TOOLS,
    package_name: str = APP,
    platform: PlatformName = "android-17.2",
) -> AsyncIterator[tuple[Device, Caller]]:
    """A device with one such app, and the app as a caller of its own functions."""
    (folder / "functions.xml").write_bytes(xml)
    (folder / "results.yaml").write_text(results)
    apps = read_apps([f"{package_name}={folder / 'functions.xml'}"])
    async with running_device(folder, platform=platform) as device:
        owner = device.install(package_name)
        add_stubs(device.host, apps, load_stubs(folder / "results.yaml"), source="results")
        yield device, owner


async def execute(caller: Caller, identifier: str, package: str = APP, **arguments: Any) -> Any:
    name = pb.AppFunctionName(package_name=package, function_identifier=identifier)
    request = pb.ExecuteRequest(name=name, parameters=to_object(arguments))
    return from_value((await caller.call("Execute", request)).return_value)


async def failure(
    caller: Caller, identifier: str, package: str = APP, **arguments: Any
) -> tuple[int, str]:
    name = pb.AppFunctionName(package_name=package, function_identifier=identifier)
    request = pb.ExecuteRequest(name=name, parameters=to_object(arguments))
    detail = await caller.failure("Execute", request)
    return detail.app_function.error_code, detail.app_function.error_message


async def code(caller: Caller, identifier: str) -> int:
    try:
        await execute(caller, identifier)
    except grpc.aio.AioRpcError:
        return (await failure(caller, identifier))[0]
    return 0


@pytest.mark.requirement("appfunctions.xml.stubbed")
async def test_results_come_one_after_the_other_and_the_last_stays(tmp_path: Path) -> None:
    results = """
        say: [{value: one}, {error: {code: 1500, message: gone}}, {echo: text}]
        com.app.Tools#own: {value: null}
    """
    async with stubbed(tmp_path, results) as (_, owner):
        assert await execute(owner, TRUSTED) == "one"
        assert await failure(owner, TRUSTED) == (1500, "gone")
        assert await execute(owner, TRUSTED, text="hello") == "hello"
        assert await execute(owner, TRUSTED) is None
        assert await execute(owner, OWN) is None
        missing, told = await failure(owner, SYSTEM)
        assert missing == 3000
        assert "--stub" in told


@pytest.mark.requirement("appfunctions.xml.stubbed")
async def test_a_stub_refuses_arguments_as_the_apps_library_does(tmp_path: Path) -> None:
    results = "createNote: {echo: note}\n"
    xml, package = NOTES.read_bytes(), NOTES_PACKAGE
    async with stubbed(tmp_path, results, xml=xml, package_name=package) as (_, owner):
        attached = {**NOTE, "attachments": [{"name": "a.png", "size": 5}], "parent": NOTE}
        made = await execute(owner, CREATE, package, note=attached, color=1)
        assert made == attached
        for arguments, said in (
            ({}, "'note' should be the type of Note, but it is missing"),
            ({"note": None}, "'note' should be the type of Note, but was null"),
            ({"note": "x"}, "'note' should be the type of object, but was String"),
            (
                {"note": {}},
                "'note.title' should be the type of String, but it is missing",
            ),
            (
                {"note": {"title": 5}},
                "'note.title' should be the type of String, but was Long",
            ),
            (
                {"note": {**NOTE, "attachments": [{"name": "a"}]}},
                "'note.attachments[0].size' should be the type of Long, but it is missing",
            ),
            (
                {"note": {**NOTE, "parent": {**NOTE, "due": {"year": 2**40}}}},
                "'note.parent.due.year' should be the type of Int, but was 1099511627776",
            ),
            (
                {"note": NOTE, "color": 7},
                "'color' is not allowed: '7' is none of '0', '1'",
            ),
            (
                {"note": NOTE, "shade": 1},
                "'shade' is unknown; the declared ones are: note",
            ),
        ):
            failed, told = await failure(owner, CREATE, package, **arguments)
            assert failed == 1001
            assert f"{CREATE}: Parameter {said}" in told


@pytest.mark.requirement("appfunctions.xml.stubbed")
async def test_a_delay_is_device_time(tmp_path: Path) -> None:
    async with stubbed(tmp_path, "say: {value: late, delay: 0.05}") as (device, owner):
        started = device.host.clock.monotonic()
        assert await execute(owner, TRUSTED) == "late"
        assert device.host.clock.monotonic() - started >= 0.05


@pytest.mark.requirement("appfunctions.xml.levels")
@pytest.mark.parametrize(
    ("platform", "codes"),
    [("android-17.2", (0, 1000, 1000)), ("android-17.0", (0, 1000, 1000))],
)
async def test_levels_of_the_file_hold_on_every_platform(
    tmp_path: Path, platform: PlatformName, codes: tuple[int, ...]
) -> None:
    results = "{say: {value: a}, reset: {value: b}, own: {value: c}}"
    async with stubbed(tmp_path, results, platform=platform) as (device, _):
        agent = device.install("com.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])
        assert tuple([await code(agent, one) for one in (TRUSTED, SYSTEM, OWN)]) == codes


@pytest.mark.requirement("appfunctions.xml.runtime-functions")
async def test_functions_with_a_scope_are_registered_at_run_time(tmp_path: Path) -> None:
    async with stubbed(tmp_path, "say: {value: x}") as (_, owner):
        assert await code(owner, LIVE) == 1002
    (tmp_path / "second").mkdir()
    async with stubbed(tmp_path / "second", "tick: {value: tock}") as (_, owner):
        assert await execute(owner, LIVE) == "tock"


async def test_two_callers_at_once_get_one_answer_each(tmp_path: Path) -> None:
    results = "say: [{value: a, delay: 0.01}, {value: b}]"
    async with stubbed(tmp_path, results) as (_, owner):
        found = await asyncio.gather(*(execute(owner, TRUSTED) for _ in range(3)))
        assert sorted(found) == ["a", "b", "b"]


@pytest.mark.requirement("appfunctions.xml.stub-errors")
@pytest.mark.parametrize(
    ("results", "said"),
    [
        ("- a", "expected functions and their answers"),
        ("5: {value: 1}", "5 is no function"),
        ("say: []", "say: the list has no answer"),
        ("say: 5", "valid dictionary"),
        ("say: {}", "one of value, error and echo"),
        ("say: {value: a, echo: text}", "one of value, error and echo"),
        ("say: [{value: a}, {valeu: b}]", "say: answer 2: valeu: unknown key"),
        ("say: {error: {code: NO_SUCH}}", "there is no code 'NO_SUCH'"),
        ("say: {error: {code: true}}", "True is no code"),
        ("say: {value: a, delay: -1}", "delay: Input should be greater than or equal to 0"),
        ("say: {value: a, delay: .inf}", "delay: "),
        ("say: {value: *a}", "aliases"),
        ("a: &b [x]\nc: *b", "line 2: aliases"),
        ("say: {value: " + "[" * 50 + "]" * 50 + "}", "nested more than"),
        ("say: {value: !!int x}", "not YAML"),
        ("say: !!python/object/apply:os.system [true]", "not YAML"),
        ("say: {value: a", "not YAML"),
        ("[" * 100_000, "nest"),
    ],
)
def test_a_file_of_results_that_is_wrong_is_refused(
    tmp_path: Path, results: str, said: str
) -> None:
    path = tmp_path / "results.yaml"
    path.write_text(results)
    with pytest.raises(StubError) as refused:
        load_stubs(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.requirement("appfunctions.xml.stub-errors")
@pytest.mark.parametrize(
    ("results", "said"),
    [
        ("shout: {value: a}", "'shout' is no function of the XML files; these are: com.app.Tools"),
        ("com.app.Tools#say: {value: 5}", "should be the type of String, but was Long"),
        ("say: {value: .nan}", "not a finite number"),
        ("say: {value: 2020-01-01}", "'date' cannot be sent"),
        ("say: {echo: words}", "there is no parameter 'words'; it has text"),
        ("{say: {value: a}, com.app.Tools#say: {value: b}}", "are both com.app.Tools#say"),
    ],
)
async def test_results_that_no_function_can_give_are_refused(
    tmp_path: Path, results: str, said: str
) -> None:
    with pytest.raises(StubError) as refused:
        async with stubbed(tmp_path, results):
            pass
    assert said in str(refused.value)


async def test_a_method_of_two_apps_is_named_with_its_app(tmp_path: Path) -> None:
    (tmp_path / "functions.xml").write_bytes(TOOLS)
    apps = read_apps(f"{name}={tmp_path / 'functions.xml'}" for name in (APP, "com.two"))
    for key in ("say", TRUSTED):
        (tmp_path / "results.yaml").write_text(f"{key}: {{value: a}}")
        async with running_device(tmp_path) as device:
            with pytest.raises(StubError, match=f"write one of: {APP}/{TRUSTED}, com.two/"):
                add_stubs(device.host, apps, load_stubs(tmp_path / "results.yaml"), source="r")
    (tmp_path / "results.yaml").write_text(f"com.two/{TRUSTED}: {{value: two}}")
    async with running_device(tmp_path) as device:
        two = device.install("com.two")
        add_stubs(device.host, apps, load_stubs(tmp_path / "results.yaml"), source="r")
        assert await execute(two, TRUSTED, "com.two") == "two"


def test_two_files_of_one_app_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "one.xml").write_bytes(file_of(function("a.B#c", "<description>1</description>")))
    (tmp_path / "two.xml").write_bytes(file_of(function("a.B#c"), function("a.D#e")))
    declared = read_apps(f"{APP}={tmp_path / name}" for name in ("one.xml", "two.xml")).declared
    assert list(declared[APP]) == ["a.B#c", "a.D#e"]
    assert declared[APP]["a.B#c"].description == "1"


@pytest.mark.parametrize("spec", ["com.app", "com.app=", "=a.xml", "com app=a.xml"])
def test_a_word_that_names_no_file_is_refused(spec: str) -> None:
    with pytest.raises(AppSpecError, match="is not PACKAGE=FILE"):
        read_apps([spec])


def test_a_file_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(XmlError, match=r"nowhere\.xml.*cannot be read"):
        read_apps([f"com.app={tmp_path / 'nowhere.xml'}"])


@pytest.mark.requirement(
    "jetpack.entry-point.xml", "appfunctions.xml.commands", "shell.read-app-description"
)
def test_the_commands_serve_and_write_such_an_app(tmp_path: Path) -> None:
    results = tmp_path / "results.yaml"
    results.write_text("createNote: {echo: note}\nprintNote: {error: {code: ERROR_DISABLED}}\n")
    with prepared(tmp_path) as (home, packages):
        packages.install(NOTES_PACKAGE)
        described = tmp_path / "app_metadata.xml"
        described.write_text(
            '<AppFunctionAppMetadata xmlns:appfn="http://schemas.android.com/apk/res-auto" '
            'appfn:description="Keeps notes." appfn:displayDescription="@string/about" />'
        )
        files = [
            word for file in (described, NOTES) for word in ("--xml", f"{NOTES_PACKAGE}={file}")
        ]
        process = start(home, *files, "--stub", str(results))
        with ended(process):
            served = Served(home=home, packages=packages, process=process, facts=ready(process))
            ran = served.run(
                *("execute-app-function", "--package", NOTES_PACKAGE, "--function", "createNote"),
                *("--parameters", json.dumps({"note": NOTE}), "--brief-yaml"),
            )
            assert ran.exit_code == 0, ran.output
            assert "title: Milk" in ran.stdout
            written = tmp_path / "written.xml"
            done = served.run("export-xml", "--package", NOTES_PACKAGE, "-o", str(written))
            assert done.exit_code == 0, done.output
            assert served.run("export-xml", "--package", "com.none").exit_code == 255
            said = served.run("read-app-description", "--package", NOTES_PACKAGE)
            assert (said.exit_code, said.stdout) == (0, "Keeps notes.\n")
            assert served.run("read-app-description").exit_code == 255
            older = served.run("export-xml", "--package", NOTES_PACKAGE, "--v1").stdout
    one, two = (read_apps([f"a={path}"]).declared["a"] for path in (NOTES, written))
    assert sorted(one.items()) == sorted(two.items())
    assert older.count("<function_id>") == 3


@pytest.mark.parametrize(
    ("xml", "results", "said"),
    [
        ("<appfunctions>", "{}", "not well-formed"),
        ("<appfunctions/>", "say: {value: a}", "'say' is no function of the XML files"),
        ("<appfunctions/>", "say: 5", "say: "),
    ],
)
def test_a_host_with_a_wrong_file_ends_with_the_reason(
    tmp_path: Path, xml: str, results: str, said: str
) -> None:
    (tmp_path / "a.xml").write_text(xml)
    (tmp_path / "r.yaml").write_text(results)
    with prepared(tmp_path) as (home, _):
        words = ["--xml", f"com.app={tmp_path / 'a.xml'}", "--stub", str(tmp_path / "r.yaml")]
        process = start(home, *words)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert said in errors
    assert "Traceback" not in errors
