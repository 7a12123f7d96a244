"""The XML in which an app declares its functions: read, left out, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.invoke import Invoker
from appfunctions_host.metadata_files.reader import read_functions
from appfunctions_host.metadata_files.safe_xml import MAX_BYTES, MAX_DEPTH, XmlError, parse
from appfunctions_host.metadata_files.writer import write_v1, write_v2
from appfunctions_host.registry import RUNTIME_SERVICE
from tests.host.shop import PACKAGE, OrderTools
from tests.host.test_types import Tools

NOTES = Path(__file__).parent / "data" / "notes_functions_v2.xml"
NOTES_PACKAGE = "com.example.notes"
CREATE = "com.example.notes.NoteFunctions#createNote"


def file_of(*functions: str, more: str = "") -> bytes:
    return f"<appfunctions>{''.join(functions)}{more}</appfunctions>".encode()


def function(identifier: str = "a.B#c", more: str = "") -> str:
    return f"<appfunction><functionId>{identifier}</functionId>{more}</appfunction>"


def parameter(data_type: str) -> str:
    return (
        f"<parameters><name>p</name><dataTypeMetadata>{data_type}</dataTypeMetadata></parameters>"
    )


def problems(*functions: str, more: str = "") -> str:
    """What is said of the one function that is left out."""
    found = read_functions(file_of(*functions, function("a.B#good"), more=more), "com.app")
    assert [one.name.function_identifier for one in found.functions] == ["a.B#good"]
    [problem] = found.problems
    return problem


@pytest.mark.requirement("jetpack.entry-point.xml", "appfunctions.xml.v2")
def test_a_file_as_a_build_makes_it_is_read_whole() -> None:
    found = read_functions(NOTES.read_bytes(), NOTES_PACKAGE)

    assert found.problems == ()
    create, pin, print_ = found.functions
    assert create.name == pb.AppFunctionName(package_name=NOTES_PACKAGE, function_identifier=CREATE)
    assert create.description == "Creates a note."
    assert create.access_level == 300
    assert create.is_compat_enforcement_enabled
    assert create.is_enabled_by_default
    [note, color] = create.parameters
    assert (note.name, note.is_required, note.description) == ("note", True, "the note to create")
    assert note.data_type.type == pb.TYPE_REFERENCE
    assert color.data_type.enum_values == ["0", "1"]
    assert set(create.components) == {
        "com.example.notes.Note",
        "com.example.notes.Attachment",
        "java.time.LocalDate",
    }
    kept = create.components["com.example.notes.Note"]
    assert [one.name for one in kept.properties] == ["title", "due", "attachments", "parent"]
    assert kept.properties[1].data_type.is_nullable
    assert kept.properties[0].data_type.patterns[0].type == 2
    assert create.response.value_type.data_type_reference == "com.example.notes.Note"

    assert pin.service_name == RUNTIME_SERVICE
    assert pin.scope == pb.SCOPE_ACTIVITY
    assert pin.access_level == 100
    assert pin.deprecation_message == "Use archive."

    assert (print_.schema.name, print_.schema.category, print_.schema.version) == (
        "print",
        "notes",
        2,
    )
    assert not print_.is_enabled_by_default


@pytest.mark.requirement("appfunctions.xml.written")
@pytest.mark.parametrize("service", [OrderTools, Tools])
def test_what_is_written_is_read_again_as_it_was(service: type) -> None:
    functions = Invoker(PACKAGE, [service]).metadata
    # A time limit and the class of the service are of the simulator, not of the file.
    for one in functions:
        one.timeout_seconds = 0
        one.service_name = ""
    found = read_functions(write_v2(functions), PACKAGE)

    assert found.problems == ()
    assert list(found.functions) == list(functions)


@pytest.mark.requirement("appfunctions.xml.written")
def test_a_file_that_was_read_is_written_as_it_was() -> None:
    found = read_functions(NOTES.read_bytes(), NOTES_PACKAGE)
    assert read_functions(write_v2(found.functions), NOTES_PACKAGE) == found


@pytest.mark.requirement("appfunctions.xml.v1")
def test_the_older_file_knows_names_schemas_and_states() -> None:
    written = write_v1(read_functions(NOTES.read_bytes(), NOTES_PACKAGE).functions)
    assert b"<function_id>" in written
    assert b"parameters" not in written
    found = read_functions(written, NOTES_PACKAGE)
    assert found.problems == ()
    assert [one.name.function_identifier.partition("#")[2] for one in found.functions] == [
        "createNote",
        "pinNote",
        "printNote",
    ]
    assert [one.is_enabled_by_default for one in found.functions] == [True, True, False]
    assert found.functions[2].schema.version == 2
    assert found.functions[0].access_level == 300


@pytest.mark.requirement("appfunctions.xml.bad-function-dropped")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (function(more="<accessLevel>root</accessLevel>"), "its accesslevel 'root' is none of"),
        (function(more="<scope>screen</scope>"), "its scope 'screen' is none of"),
        (function(more="<packageName>com.other</packageName>"), "of the package 'com.other'"),
        (function(more="<enabledByDefault>maybe</enabledByDefault>"), "neither true nor false"),
        (function("a.B#good"), "another function has the same id"),
        (function(""), "it has no functionId"),
        ("<appfunction><id>unused</id></appfunction>", "it has no functionId"),
        (function("x" * 2000), "identifier of 2000 characters"),
        (function(more=parameter("<type>97</type>")), "the data type 97"),
        (function(more=parameter("<type>eight</type>")), "'eight', no integer"),
        (function(more=parameter("")), "has no type"),
        (function(more="<parameters><name>p</name></parameters>"), "no dataTypeMetadata"),
        (
            function(more=parameter("<type>11</type><dataTypeReference>a.C</dataTypeReference>")),
            "refers to the type 'a.C', which the file does not have",
        ),
        (
            function(
                more=parameter("<type>8</type><patterns><value>[a</value><type>3</type></patterns>")
            ),
            "the pattern at line 1 is wrong",
        ),
        (
            function(
                more=parameter("<type>8</type><patterns><value>a</value><type>9</type></patterns>")
            ),
            "the pattern type 9",
        ),
    ],
)
def test_a_wrong_function_is_left_out_and_the_rest_is_read(wrong: str, said: str) -> None:
    order = (wrong,) if "#good" not in wrong else (function("a.B#good"),)
    assert said in problems(*order)


@pytest.mark.requirement("appfunctions.xml.bad-function-dropped")
def test_an_element_that_nobody_reads_is_named_once() -> None:
    wrong = parameter("<type>7</type><enumValue>1</enumValue><enumValue>2</enumValue>")
    found = read_functions(file_of(function(more=wrong)), "com.app")
    assert len(found.functions) == 1
    assert found.problems == ("line 1: the element <enumvalue> is unknown, and is not read",)


@pytest.mark.requirement("appfunctions.xml.bad-pattern-drops-package")
def test_a_wrong_pattern_in_the_shared_types_takes_all_functions_with_it() -> None:
    shared = (
        "<AppFunctionComponentMetadataDocument><dataTypes><name>a.C</name><dataTypeMetadata>"
        "<type>8</type><patterns><value>[</value><type>3</type></patterns>"
        "</dataTypeMetadata></dataTypes></AppFunctionComponentMetadataDocument>"
    )
    found = read_functions(file_of(function(), more=shared), "com.app")
    assert found.functions == ()
    [problem] = found.problems
    assert "no function of com.app is used: a shared type is wrong" in problem


@pytest.mark.requirement("appfunctions.xml.refused-safely")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not well-formed"),
        (b"<appfunctions>", "not well-formed"),
        (b"no xml at all", "not well-formed"),
        (b"\x00\xff\xfe", "not well-formed"),
        (b'<?xml version="1.0" encoding="rot13"?><appfunctions/>', "rot13"),
        (b"<functions/>", "the root is <functions>, expected <appfunctions>"),
        (
            b'<!DOCTYPE a [<!ENTITY b "x">]><appfunctions>&b;</appfunctions>',
            "remove the <!DOCTYPE>",
        ),
        (
            b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><appfunctions/>',
            "remove the <!DOCTYPE>",
        ),
        (b"<a>" * (MAX_DEPTH + 1) + b"</a>" * (MAX_DEPTH + 1), f"nest deeper than {MAX_DEPTH}"),
        (b"<appfunctions>" + b" " * MAX_BYTES + b"</appfunctions>", "the limit is"),
        (b"<appfunctions>" + b"<a/>" * 500_001 + b"</appfunctions>", "more than 500000 elements"),
    ],
)
def test_what_is_no_such_file_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(XmlError, match=said.replace("<", "\\<")):
        read_functions(data, "com.app")


def test_an_entity_bomb_ends_before_it_grows() -> None:
    lines = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    with pytest.raises(XmlError, match="DOCTYPE"):
        parse(f'<!DOCTYPE b [<!ENTITY e0 "x">{lines}]><b>&e11;</b>'.encode())
