"""The format of suites: what is read, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from aicore_sim.evaluation.loading import SuiteError, load_suite, parse_suite, select
from tests.evaluation.cases import BOOKED, TOOLS

CASE: dict[str, Any] = {
    "id": "one",
    "category": "some",
    "system": "You book tables.",
    "tools": TOOLS,
    "contents": [
        {"user": "A table for four at seven."},
        {"model": "I look.", "calls": [{"name": "book_table", "args": BOOKED}]},
        {"results": [{"name": "book_table", "response": {"error": "full", "next": ["20:00"]}}]},
        {"model": "It is full then. At eight?"},
        {"user": "Yes."},
    ],
    "expect": {"calls": [{"name": "book_table", "args": {**BOOKED, "at": "20:00"}}]},
}


def read(*cases: Any) -> Any:
    return parse_suite(yaml.safe_dump(list(cases)), source="mine", lines=False)


def changed(**changes: Any) -> dict[str, Any]:
    return {**CASE, **changes}


def test_yaml_and_json_lines_say_the_same() -> None:
    other = changed(id="two", expect={"contains": [["full", "taken"], "20:00"]})
    lines = "".join(f"{json.dumps(case)}\n\n" for case in (CASE, other))

    assert read(CASE, other) == parse_suite(lines, source="mine", lines=True)


def test_a_case_is_read_whole() -> None:
    [case] = read(CASE)

    assert [turn.of_model for turn in case.contents] == [False, True, False, True, False]
    assert case.contents[2].results[0].response == {"error": "full", "next": ["20:00"]}
    assert case.expect.right_calls[0][0].args == {"guests": 4, "at": "20:00"}
    assert case.tool_choice == "auto"
    schema = case.schema_of("book_table")
    assert schema is not None
    assert schema.required == ("guests", "at")
    assert case.schema_of("cancel_table").properties == {}
    assert case.schema_of("other") is None


def test_one_text_stands_for_a_list_of_one() -> None:
    [case] = read(changed(expect={"contains": ["20:00", ["a", "b"]]}))
    [asking] = read(changed(expect={"asks_for": "time"}))

    assert case.expect.contains == (("20:00",), ("a", "b"))
    assert asking.expect.asks_for == ("time",)


@pytest.mark.requirement("simulator.command.eval.suite")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"note": "x"}, "key 'note': unknown key"),
        ({"id": ""}, "key 'id': String should have at least 1 character"),
        ({"category": "a b"}, "key 'category'"),
        ({"tool_choice": "maybe"}, "key 'tool_choice'"),
        ({"contents": []}, "key 'contents'"),
        ({"contents": [{"user": "a", "model": "b"}]}, "key 'contents.0': a turn is one of"),
        ({"contents": [{}]}, "key 'contents.0': a turn is one of"),
        ({"contents": [{"says": "a"}]}, "key 'contents.0.says': unknown key"),
        ({"contents": [{"model": "a"}]}, "the last of contents is the model's"),
        ({"expect": {}}, "key 'expect': expect either calls, or a text"),
        ({"expect": {"no_call": True, "calls": [{"name": "cancel_table"}]}}, "either calls, or"),
        ({"expect": {"no_call": True, "ordered": True}}, "there are none"),
        ({"expect": {"calls": [{"name": "cancel_table"}], "alternatives": [[]]}}, "one is empty"),
        ({"expect": {"contains": [[]]}}, "key 'expect.contains.0'"),
        ({"expect": {"calls": [{"name": "cancel"}]}}, "expect calls 'cancel', tools are"),
        ({"expect": {"calls": [{"name": "book_table", "args": {"guests": "4"}}]}}, "do not fit"),
        (
            {"expect": {"calls": [{"name": "cancel_table", "args": {"x": 1}}]}},
            "'x' is not declared",
        ),
        ({"expect": {"no_call": True}, "tool_choice": "required"}, "tool_choice is required"),
        ({"tools": [*TOOLS, TOOLS[0]]}, "two tools have the same name"),
        ({"tools": [{"name": "a", "parameters": {"typ": "x"}}]}, "unknown keys ['typ']"),
        ({"tools": [{"name": "a", "parameters": {"type": "any"}}]}, "'any' is not one of"),
        (
            {"tools": [{"name": "a", "parameters": {"type": "integer", "minimum": "low"}}]},
            "parameters.minimum: 'low'",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_the_case_and_the_key(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(SuiteError) as refused:
        read(changed(**changes))

    assert str(refused.value).startswith("suite 'mine', case 1")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "lines", "said"),
    [
        ("a: 1", False, "no list of cases"),
        ("- [", False, "is not YAML"),
        ("- 1", False, "case 1, the case"),
        ("[]", False, "has no case"),
        ("", True, "has no case"),
        ("{}\n", True, "line 1, key 'id'"),
        ("\n{oops\n", True, "line 2 is not JSON"),
        ("- {id: a, category: b, contents: [{user: x}], expect: {contains: [2026-01-02]}}", False,
         "key 'expect.contains.0'"),
    ],
)  # fmt: skip
def test_what_is_no_suite_is_refused(text: str, lines: bool, said: str) -> None:
    with pytest.raises(SuiteError, match="^suite 'mine'") as refused:
        parse_suite(text, source="mine", lines=lines)

    assert said in str(refused.value)


def test_an_id_is_used_once() -> None:
    with pytest.raises(SuiteError, match="the id 'one' is used more than once"):
        read(CASE, CASE)


def test_files_are_known_by_their_ending(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(yaml.safe_dump([CASE]))
    (tmp_path / "mine.jsonl").write_text(json.dumps(CASE))

    assert load_suite(str(tmp_path / "mine.yml")) == load_suite(str(tmp_path / "mine.jsonl"))
    with pytest.raises(SuiteError, match="neither a shipped suite"):
        load_suite(str(tmp_path / "mine.txt"))
    with pytest.raises(SuiteError, match="cannot read"):
        load_suite(str(tmp_path / "none.yaml"))


def test_a_part_of_a_suite_has_the_first_of_each_category() -> None:
    cases = read(*(changed(id=f"{name}{n}", category=name) for n in range(3) for name in "ab"))

    assert [case.id for case in select(cases, limit=1)] == ["a0", "b0"]
    assert [case.id for case in select(cases, categories=["b"], limit=2)] == ["b0", "b1"]
    assert select(cases) == cases
    with pytest.raises(SuiteError, match="no case is of the category 'c'"):
        select(cases, categories=["c"])
