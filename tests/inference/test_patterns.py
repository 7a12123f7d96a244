"""Patterns and formats, written anew for grammars, mean what they meant."""

from __future__ import annotations

import base64
import json
import re
from datetime import datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.inference.dialect import JsonNotation, MarkedNotation
from aicore_sim.inference.grammar import FORMATS
from aicore_sim.inference.grammar.patterns import PatternError, written_pattern
from tests.inference.schemas import READERS

JSON = JsonNotation()
MARKED = MarkedNotation(quote="<escape>")
PRINTABLE = st.characters(min_codepoint=0x20, max_codepoint=0x7E)

PATTERNS = (
    r"^[A-Z]{3}-[0-9]{4}$",
    r"^a/b+$",
    r"\d{2}",
    r"x$",
    r"^(?:cat|dog|)s?$",
    r"^...$",
    r"""^["'\\]{1,3}$""",
    r"^[^a-z]{2,4}$",
    r"^\w+@\w+\.(?P<end>com|org)$",
    r"^[]^-]+$",
    r"^\S\s?\S$",
    r"^(a|b(c|d){1,2})*?e$",
    r"^\x41\u0042\t?$",
    r"a|^b$",
    r"(^a|b$)",
    r"^é{1,2}$",
    r"^x{,2}y{2,}$",
    r"^{}$",
    r"^a\{1\}$",
    r"",
)


@pytest.mark.requirement("aicore.generate.constrained-types")
@given(data=st.data(), pattern=st.sampled_from(PATTERNS))
def test_what_a_written_pattern_matches_is_a_json_string_that_the_pattern_matches(
    data: st.DataObject, pattern: str
) -> None:
    expression = written_pattern(pattern, JSON.character).expression

    written = data.draw(st.from_regex(f"(?s:{expression})", fullmatch=True))

    value = json.loads(f'"{written}"')
    assert re.search(pattern, value) is not None
    assert json.dumps(value) == f'"{written}"'


@pytest.mark.requirement("aicore.generate.constrained-types")
@given(data=st.data(), pattern=st.sampled_from(PATTERNS))
def test_every_ascii_string_that_a_pattern_matches_may_be_written(
    data: st.DataObject, pattern: str
) -> None:
    written = written_pattern(pattern, JSON.character)
    alphabet = st.one_of(PRINTABLE, st.just("é")) if "é" in pattern else PRINTABLE
    value = data.draw(st.from_regex(pattern, alphabet=alphabet)).rstrip("\n")

    assert re.fullmatch(f"(?s:{written.expression})", json.dumps(value)[1:-1]) is not None
    assert written.shortest <= len(value)
    assert written.longest is None or len(value) <= written.longest


@pytest.mark.parametrize(
    ("pattern", "forced"),
    [("^ORD-[0-9]{4}$", 8), ("^(ab)*$", 2), ("^(abc|d)$", 3), ('^"{3}$', 6), ("^(ab){3}$", 6)],
)
def test_how_much_a_pattern_dictates_in_one_go_is_bounded(pattern: str, forced: int) -> None:
    assert written_pattern(pattern, JSON.character).forced == forced


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(unclosed", "no regular expression"),
        ("a(?=b)", "'(?='"),
        (r"(a)\1", r"'\1'"),
        (r"\bword", r"'\b'"),
        ("a^b", "anchor"),
        ("(?:a$)+", "anchor"),
        ("a{2000}", "1000 times"),
        ("((a{100}){100})", "4000 characters"),
        ("[\u4e00-\u9fff]", "512 characters"),
        (r"[^ -~]", "printable ASCII"),
        ("(?i)a", "'(?i'"),
        ("(" * 40 + ")" * 40, "30 levels"),
    ],
)
def test_a_pattern_that_a_grammar_cannot_follow_is_refused_with_the_reason(
    pattern: str, reason: str
) -> None:
    with pytest.raises(PatternError) as caught:
        written_pattern(pattern, JSON.character)

    assert reason in str(caught.value)


def test_strings_between_marks_have_no_escapes() -> None:
    assert written_pattern(r'^"\\$', MARKED.character).expression == r"[\x22][\x5C]"
    with pytest.raises(ValueError, match="not printable ASCII"):
        written_pattern("^é$", MARKED.character)


OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda n: timezone(timedelta(minutes=n)))
EXAMPLES: dict[str, st.SearchStrategy[str]] = {
    "date": st.dates().map(str),
    "time": st.times(timezones=OFFSETS).map(time.isoformat),
    "date-time": st.datetimes(timezones=OFFSETS).map(datetime.isoformat),
    "uuid": st.uuids().map(str),
    "ipv4": st.ip_addresses(v=4).map(str),
    "ipv6": st.ip_addresses(v=6).map(lambda address: address.exploded),
    "duration": st.sampled_from(["P1D", "P2W", "PT5M", "P1DT12H30M", "PT1H2M3S"]),
    "email": st.sampled_from(["a@b.org", "first.last+tag@mail.example.com"]),
    "hostname": st.sampled_from(["localhost", "a-1.example.com"]),
    "uri": st.sampled_from(["https://a.org/x?y=1#z", "tel:+49-1", "content://a/b%20c"]),
    "byte": st.binary(max_size=50).map(lambda data: base64.b64encode(data).decode()),
}


@pytest.mark.requirement("aicore.generate.constrained-types")
@given(data=st.data(), name=st.sampled_from(sorted(READERS)))
def test_what_a_format_lets_through_is_read_by_the_standard_library(
    data: st.DataObject, name: str
) -> None:
    READERS[name](data.draw(st.from_regex(FORMATS[name], fullmatch=True)))


@given(data=st.data(), name=st.sampled_from(sorted(EXAMPLES)))
def test_a_format_lets_every_ordinary_value_through(data: st.DataObject, name: str) -> None:
    assert re.fullmatch(FORMATS[name], data.draw(EXAMPLES[name])) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("date", "2023-02-29"),
        ("date", "2024-04-31"),
        ("date", "0000-01-01"),
        ("time", "24:00:00Z"),
        ("time", "12:00:00"),
        ("date-time", "2024-01-01 12:00:00Z"),
        ("ipv4", "1.2.3.256"),
        ("duration", "P"),
        ("duration", "PT"),
        ("uuid", "1234"),
        ("email", "a@"),
        ("uri", "no scheme"),
        ("byte", "abc"),
    ],
)
def test_a_format_lets_nothing_else_through(name: str, value: str) -> None:
    assert re.fullmatch(FORMATS[name], value) is None


def test_every_format_is_within_what_a_grammar_can_follow() -> None:
    assert {name: written_pattern(FORMATS[name], JSON.character).shortest for name in FORMATS}
    assert all(written_pattern(text, MARKED.character).longest for text in FORMATS.values())
