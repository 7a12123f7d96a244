"""The types that go beyond primitives: dates, Uri, pydantic models, one-of, constraints."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import re
import zoneinfo
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.rpc.values import from_value, to_object
from appfunctions_host import (
    AppFunctionDeniedException,
    AppFunctionException,
    AppFunctionIntValueConstraint,
    AppFunctionMetadata,
    AppFunctionNotSupportedException,
    AppFunctionPatternMatcher,
    AppFunctionService,
    AppFunctionStringValueConstraint,
    AppFunctionUnknownException,
    AppFunctionUriValueConstraint,
    Instant,
    Long,
    PatternType,
    PlatformAppFunctionService,
    Uri,
    app_function_declaration,
    app_function_instruction,
    app_function_schema_definition,
    app_function_serializable,
    app_function_signature,
)
from appfunctions_host.codec import STRICT, ArgumentRules, decode_arguments, encode_result
from appfunctions_host.data_types import DefinitionError, Place, data_type
from appfunctions_host.invoke import Invoker
from appfunctions_host.patterns import PATTERN_LIMIT, PatternError, PatternMatcher
from appfunctions_host.schema import FunctionDefinition, define_service
from tests.host.rig import WAIT

PLACE = Place(package="com.example.app", where="Tools.run")
PACKAGE = "com.example.app"

Size = Annotated[str, AppFunctionStringValueConstraint(enum_values=("S", "M", "L"))]
Code = Annotated[
    str,
    AppFunctionStringValueConstraint(
        pattern_matchers=(
            AppFunctionPatternMatcher("ORD-[0-9]{4}", PatternType.ADVANCED_GLOB),
            AppFunctionPatternMatcher("legacy:", PatternType.PREFIX),
        ),
    ),
]
Rating = Annotated[int, AppFunctionIntValueConstraint(enum_values=(1, 2, 3))]
Link = Annotated[Uri, AppFunctionUriValueConstraint(allowed_schemes=("https", "content"))]


@app_function_serializable
class Card:
    number: str
    cvc: int


@app_function_serializable
class Invoice:
    address: str


@app_function_serializable
class Address(BaseModel):
    street: str
    zip: str = Field(pattern=r"^\d{5}$", description="Five digits")
    floor: int | None = None


@app_function_serializable
class Delivery:
    when: datetime.datetime
    to: Address
    links: list[Link]


class Colour(enum.Enum):
    RED = 1


class Tools(AppFunctionService):
    @app_function_schema_definition(category="shop", name="order", version=2)
    @app_function_instruction("Ask for the size first.")
    @app_function_declaration
    def order(self, size: Size, code: Code, rating: Rating | None = None) -> str:
        return f"{size} {code} {rating}"

    @app_function_declaration
    def pay(self, how: Card | Invoice) -> Card | Invoice:
        return how

    @app_function_declaration
    def deliver(self, delivery: Delivery, extras: list[Card | Invoice]) -> Delivery:
        return delivery

    @app_function_declaration
    def times(
        self,
        day: datetime.date,
        at: datetime.time,
        local: datetime.datetime,
        instant: Annotated[datetime.datetime, Instant],
        zone: zoneinfo.ZoneInfo,
        link: Uri,
        days: list[datetime.date],
    ) -> list[datetime.date]:
        return [day, *days]


FUNCTIONS = {one.method_name: one for one in define_service(Tools, PACKAGE)}
DATE = {"year": 2026, "month": 2, "dayOfMonth": 28}
TIME = {"hour": 23, "minute": 59, "second": 1, "nanoOfSecond": 123_456_789}


def decoded(name: str, rules: ArgumentRules = STRICT, **arguments: object) -> dict[str, Any]:
    return decode_arguments(FUNCTIONS[name], to_object(arguments), rules)


@pytest.mark.requirement("jetpack.types.proxies", "jetpack.metadata.data-types")
def test_dates_times_zones_and_uris_travel_as_jetpacks_proxies() -> None:
    found = decoded(
        "times",
        day=DATE,
        at=TIME,
        local=DATE | TIME,
        instant={"epochSecond": -1, "nanoAdjustment": 5000},
        zone={"zoneID": "Europe/Oslo"},
        link={"uri": "https://example.com/a"},
        days=[DATE],
    )
    assert found == {
        "day": datetime.date(2026, 2, 28),
        "at": datetime.time(23, 59, 1, 123_456),
        "local": datetime.datetime(2026, 2, 28, 23, 59, 1, 123_456),  # noqa: DTZ001 - local
        "instant": datetime.datetime(1969, 12, 31, 23, 59, 59, 5, datetime.UTC),
        "zone": zoneinfo.ZoneInfo("Europe/Oslo"),
        "link": Uri("https://example.com/a"),
        "days": [datetime.date(2026, 2, 28)],
    }
    assert isinstance(found["link"], Uri)
    answer = encode_result(FUNCTIONS["times"], found["days"])
    assert from_value(answer) == [DATE]
    kinds = {item.name: item.data_type for item in FUNCTIONS["times"].metadata.parameters}
    assert kinds["zone"].object_qualified_name == (
        "androidx.appfunctions.internal.serializableproxies.AppFunctionZoneId"
    )
    assert [part.name for part in kinds["local"].properties] == [*DATE, *TIME]
    assert kinds["link"].properties[0].data_type.format == "uri"
    assert kinds["instant"].properties[0].data_type.type == pb.TYPE_LONG


@pytest.mark.parametrize(
    ("parameter", "value", "problem"),
    [
        ("day", {**DATE, "month": 13}, "Parameter 'day' was refused: month must be in 1..12"),
        ("day", "2026-02-28", "should be the type of LocalDate, but was String"),
        ("day", {"year": 2026}, "Parameter 'day.month' should be the type of Int"),
        ("at", {**TIME, "nanoOfSecond": -1}, "no number of nanoseconds"),
        ("zone", {"zoneID": "Mars/Base"}, "'Mars/Base' is no time zone"),
        ("zone", {"zoneID": "../../etc/passwd"}, "is no time zone"),
        ("instant", {"epochSecond": 2**62, "nanoAdjustment": 0}, "outside the years"),
    ],
)
def test_a_value_that_is_no_such_date_is_1001(parameter: str, value: object, problem: str) -> None:
    good: dict[str, object] = {
        "day": DATE, "at": TIME, "local": DATE | TIME, "zone": {"zoneID": "UTC"},
        "instant": {"epochSecond": 0, "nanoAdjustment": 0}, "link": {"uri": "a:b"}, "days": [],
    }  # fmt: skip
    with pytest.raises(AppFunctionError, match=re.escape(problem)) as refused:
        decoded("times", STRICT, **good | {parameter: value})
    assert refused.value.error_code == 1001


@given(st.datetimes(), st.datetimes(timezones=st.just(datetime.UTC)), st.dates(), st.times())
def test_what_is_written_is_read_again(
    local: datetime.datetime, instant: datetime.datetime, day: datetime.date, at: datetime.time
) -> None:
    for hint, value in (
        (datetime.datetime, local),
        (Annotated[datetime.datetime, Instant], instant),
        (datetime.date, day),
        (datetime.time, at),
    ):
        function = _echo(hint)
        wire = encode_result(function, value)
        parameters = types_pb2.ObjectValue(
            fields=[types_pb2.ObjectValue.Field(name="value", value=wire)]
        )
        assert decode_arguments(function, parameters) == {"value": value}


def _echo(hint: object) -> FunctionDefinition:
    def echo(self, value):  # type: ignore[no-untyped-def]
        return value

    echo.__annotations__ = {"value": hint, "return": hint}
    service = type("Echo", (AppFunctionService,), {"echo": app_function_declaration(echo)})
    return define_service(service, PACKAGE)[0]


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (datetime.date, datetime.datetime(2026, 1, 1), "should be the type of LocalDate"),  # noqa: DTZ001
        (datetime.datetime, datetime.datetime.now(datetime.UTC), "has a time zone"),
        (Annotated[datetime.datetime, Instant], datetime.datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001
        (Uri, "https://example.com", "should be the type of Uri, but was str"),
    ],
)
def test_a_result_that_is_no_such_date_is_3000(hint: object, value: object, problem: str) -> None:
    with pytest.raises(AppFunctionError, match=problem) as refused:
        encode_result(_echo(hint), value)
    assert refused.value.error_code == 3000


@pytest.mark.requirement("jetpack.declaration.generics-and-one-of")
def test_one_of_is_the_first_type_that_fits_and_says_why_none_does() -> None:
    assert decoded("pay", how={"number": "1", "cvc": 7}) == {"how": Card("1", 7)}
    assert decoded("pay", how={"address": "Lane 1"}) == {"how": Invoice("Lane 1")}
    assert from_value(encode_result(FUNCTIONS["pay"], Invoice("x"))) == {"address": "x"}
    with pytest.raises(AppFunctionError, match="fits none of its types .Card: .*Invoice: "):
        decoded("pay", how={"number": "1"})
    how = FUNCTIONS["pay"].metadata.parameters[0].data_type
    assert (how.type, len(how.one_of)) == (pb.TYPE_ONE_OF, 2)


@pytest.mark.requirement("jetpack.types.pydantic")
def test_a_pydantic_model_is_read_with_its_own_checks() -> None:
    when = DATE | TIME
    good = {"when": when, "to": {"street": "Lane 1", "zip": "01234"}, "links": []}
    found = decoded("deliver", delivery=good, extras=[{"address": "a"}])
    assert found["delivery"].to == Address(street="Lane 1", zip="01234")
    assert found["extras"] == [Invoice("a")]
    bad = {**good, "to": {"street": "Lane 1", "zip": "x"}}
    with pytest.raises(AppFunctionError, match="'delivery.to' was refused: zip: String should"):
        decoded("deliver", delivery=bad, extras=[])
    address = FUNCTIONS["deliver"].metadata.parameters[0].data_type.properties[1].data_type
    assert list(address.required) == ["street", "zip"]
    assert address.properties[1].data_type.description == "Five digits"


@pytest.mark.requirement("jetpack.constraints")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"size": "XL", "code": "ORD-1234"},
            "'size' is not allowed: 'XL' is none of 'S', 'M', 'L'",
        ),
        ({"size": "S", "code": "ORD-12345"}, "'code' is not allowed: 'ORD-12345' matches none of"),
        ({"size": "S", "code": "legacy:1", "rating": 4}, "'rating' is not allowed: 4 is none of"),
    ],
)
def test_a_value_that_a_constraint_does_not_allow_is_1001_unless_switched_off(
    arguments: dict[str, object], problem: str
) -> None:
    with pytest.raises(AppFunctionError, match=re.escape(problem)) as refused:
        decoded("order", STRICT, **arguments)
    assert refused.value.error_code == 1001
    found = decoded("order", ArgumentRules(enforce_constraints=False), **arguments)
    assert found["size"] == arguments["size"]


@pytest.mark.requirement("jetpack.constraints", "jetpack.instruction", "jetpack.schema-definition")
def test_allowed_values_pass_and_the_metadata_tells_the_model() -> None:
    assert decoded("order", size="M", code="ORD-0042", rating=None) == {
        "size": "M", "code": "ORD-0042", "rating": None,
    }  # fmt: skip
    metadata = FUNCTIONS["order"].metadata
    size, code, rating = (item.data_type for item in metadata.parameters)
    assert list(size.enum_values) == ["S", "M", "L"]
    assert [(one.value, one.type) for one in code.patterns] == [("ORD-[0-9]{4}", 3), ("legacy:", 1)]
    assert (list(rating.enum_values), rating.is_nullable) == (["1", "2", "3"], True)
    assert metadata.instruction == "Ask for the size first."
    schema = metadata.schema
    assert (schema.category, schema.name, schema.version) == ("shop", "order", 2)
    with pytest.raises(ValueError, match="version=0"):
        app_function_schema_definition(category="shop", name="order", version=0)


def test_the_schemes_of_a_uri_are_checked_in_lists_too() -> None:
    good = {"when": DATE | TIME, "to": {"street": "a", "zip": "01234"}}
    links = [{"uri": "https://a"}, {"uri": "CONTENT://b"}]
    assert decoded("deliver", delivery={**good, "links": links}, extras=[])
    bad = {**good, "links": [links[0], {"uri": "file:///c"}]}
    with pytest.raises(
        AppFunctionError, match=r"'delivery.links\[1\]' is not allowed: 'file:///c'"
    ):
        decoded("deliver", delivery=bad, extras=[])


@pytest.mark.requirement("appfunctions.arguments.unknown")
def test_unknown_arguments_are_refused_unless_the_profile_lets_them_pass() -> None:
    with pytest.raises(AppFunctionError, match="Parameter 'colour' is unknown") as refused:
        decoded("order", size="M", code="ORD-0042", colour="red")
    assert refused.value.error_code == 1001
    found = decoded(
        "order", ArgumentRules(ignore_unknown=True), size="M", code="ORD-0042", colour="red"
    )
    assert found == {"size": "M", "code": "ORD-0042", "rating": None}


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (Colour, "use str or int with an AppFunctionStringValueConstraint"),
        (Card | str, "only `T | None` is, and unions of classes"),
        (Annotated[int, AppFunctionStringValueConstraint(enum_values=("a",))], "is not for Int"),
        (Annotated[str, AppFunctionUriValueConstraint(allowed_schemes=("a",))], "not for String"),
        (Annotated[str, Instant], "use Annotated"),
        (dict[str, int], "use a class annotated with"),
        (list[bytes], "lists hold"),
        (Annotated[datetime.datetime, Long], "use Annotated"),
    ],
)
def test_what_android_would_not_compile_is_refused_with_the_reason(
    hint: object, reason: str
) -> None:
    with pytest.raises(DefinitionError, match=re.escape(reason)):
        data_type(hint, PLACE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AppFunctionStringValueConstraint(),
        lambda: AppFunctionIntValueConstraint(enum_values=()),
        lambda: AppFunctionUriValueConstraint(allowed_schemes=()),
        lambda: AppFunctionPatternMatcher("[a", PatternType.ADVANCED_GLOB),
        lambda: AppFunctionPatternMatcher("a", 9),  # type: ignore[arg-type]
    ],
)
def test_a_constraint_without_sense_is_a_value_error(make: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


@pytest.mark.requirement("jetpack.types.pattern-matcher")
@pytest.mark.parametrize(
    ("pattern", "kind", "yes", "no"),
    [
        ("a.c", PatternType.LITERAL, ["a.c"], ["abc"]),
        ("/x", PatternType.PREFIX, ["/x", "/xy"], ["a/x"]),
        (".jpg", PatternType.SUFFIX, ["a.jpg", ".jpg"], ["a.jpgs"]),
        ("a.*b", PatternType.SIMPLE_GLOB, ["ab", "axxb"], ["a", "abc"]),
        ("a*b", PatternType.SIMPLE_GLOB, ["b", "aab"], ["axb"]),
        (r"a\.*b", PatternType.SIMPLE_GLOB, ["ab", "a...b"], ["axb"]),
        ("[^0-9]+x{2,3}", PatternType.ADVANCED_GLOB, ["axx", "abxxx"], ["1xx", "ax", "xxxx1"]),
        ("[a-]{2}", PatternType.ADVANCED_GLOB, ["a-", "--"], ["a", "ab"]),
        ("", PatternType.SIMPLE_GLOB, [""], ["a"]),
    ],
)
def test_patterns_are_those_of_android(
    pattern: str, kind: PatternType, yes: list[str], no: list[str]
) -> None:
    matcher = PatternMatcher(pattern, kind)
    assert [matcher.matches(text) for text in yes] == [True] * len(yes)
    assert [matcher.matches(text) for text in no] == [False] * len(no)


@given(st.from_regex(r"(?:[ab]|\.|\[[ab]\])(?:\*|\+|\{[0-2],[2-3]\})?", fullmatch=True), st.data())
def test_an_advanced_glob_means_the_regular_expression_of_its_parts(
    part: str, data: st.DataObject
) -> None:
    pattern = part + data.draw(st.sampled_from(["", "a", "b*", "[ab]+"]))
    text = data.draw(st.text("abc", max_size=8))
    expected = re.fullmatch(pattern, text) is not None
    assert PatternMatcher(pattern, PatternType.ADVANCED_GLOB).matches(text) is expected


@pytest.mark.requirement("appfunctions.pattern.linear")
def test_a_pattern_that_would_take_for_ever_does_not() -> None:
    matcher = PatternMatcher(".*" * 400 + "x", PatternType.SIMPLE_GLOB)
    assert not matcher.matches("ab" * 1_000_000)
    assert matcher.matches("ab" * 1_000_000 + "x")


def test_a_pattern_forgets_nothing_when_it_has_seen_too_much_to_keep() -> None:
    matcher = PatternMatcher(".*[0-9]" + ".{0,300}" + "x", PatternType.ADVANCED_GLOB)
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 2000)))
    assert not matcher.matches(letters + "x")
    assert matcher.matches(letters + "7" + letters[:299] + "x")
    assert not matcher.matches(letters + "7" + letters[:301] + "x")


@pytest.mark.parametrize("pattern", ["*a", "a{2", "a{3,2}", "]", "[]", "[b-a]", "a\\", "{2}", "++"])
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        PatternMatcher(pattern, PatternType.ADVANCED_GLOB)


def test_a_pattern_is_bounded() -> None:
    with pytest.raises(PatternError, match="steps"):
        PatternMatcher("a{900}" * 3, PatternType.ADVANCED_GLOB)
    with pytest.raises(PatternError, match="characters"):
        PatternMatcher("a" * (PATTERN_LIMIT + 1), PatternType.LITERAL)


@pytest.mark.requirement("jetpack.errors.extra-codes")
async def test_jetpacks_exceptions_carry_their_codes_and_categories() -> None:
    class Raises(AppFunctionService):
        @app_function_declaration
        def fail(self) -> None:
            raise AppFunctionNotSupportedException("not here")

    invoker = Invoker(PACKAGE, [Raises])
    name = invoker.metadata[0].name.function_identifier
    with pytest.raises(AppFunctionError, match="not here") as failed:
        await invoker.invoke(name, types_pb2.ObjectValue())
    assert failed.value.error_code == 3501
    codes = (AppFunctionDeniedException(), AppFunctionException(2001), AppFunctionException(7))
    assert [one.error_category for one in codes] == [1, 2, 0]


@pytest.mark.requirement("jetpack.signature")
def test_a_signature_declares_functions_for_registration_at_run_time() -> None:
    @app_function_signature(scope=AppFunctionMetadata.SCOPE_ACTIVITY)
    class Screen(AppFunctionService):
        @app_function_declaration
        def show(self) -> None:
            """Shows it."""

    metadata = define_service(Screen, PACKAGE)[0].metadata
    assert (metadata.service_name, metadata.scope) == ("@null", pb.SCOPE_ACTIVITY)
    with pytest.raises(ValueError, match="scope=7"):
        app_function_signature(scope=7)


class Odd(AppFunctionService):
    @app_function_declaration
    async def zone(self, value: zoneinfo.ZoneInfo) -> zoneinfo.ZoneInfo:
        return value

    @app_function_declaration
    async def echo(self, value: Code) -> str:
        return value

    @app_function_declaration
    async def strict(self, value: Stops) -> None: ...


class Rude(PlatformAppFunctionService):
    @app_function_declaration
    def huge(self) -> int:
        return 10**10_000

    @app_function_declaration
    def lazy(self) -> Lazy:
        return Lazy()


@app_function_serializable
class Stops:
    text: str

    def __post_init__(self) -> None:
        next(iter(()))


@app_function_serializable
@dataclasses.dataclass
class Lazy:
    size: int

    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> object:
        if name == "size":
            raise ValueError("not measured")
        return super().__getattribute__(name)


async def _invoke(method: str, **arguments: object) -> object:
    invoker = Invoker(PACKAGE, [Odd, Rude])
    service = "Odd" if hasattr(Odd, method) else "Rude"
    call = invoker.invoke(f"{PACKAGE}.{service}#{method}", to_object(arguments))
    return from_value(await asyncio.wait_for(call, WAIT))


@pytest.mark.usefixtures("no_blocking_calls")
async def test_reading_a_time_zone_for_the_first_time_is_no_fault_of_the_function() -> None:
    zoneinfo.ZoneInfo.clear_cache(only_keys=["Pacific/Chatham"])
    zone = {"zoneID": "Pacific/Chatham"}
    assert await _invoke("zone", value=zone) == zone


@pytest.mark.usefixtures("no_blocking_calls")
async def test_five_mebibytes_pass_a_pattern_and_a_refusal_of_them_is_short() -> None:
    big = "legacy:" + "x" * 5 * 2**20
    assert await _invoke("echo", value=big) == big
    with pytest.raises(AppFunctionError) as refused:
        await _invoke("echo", value=big[1:])
    assert (refused.value.error_code, len(refused.value.message) < 10_000) == (1001, True)


@pytest.mark.parametrize("text", ["", "x" * 2**17])
async def test_a_class_that_stops_while_it_reads_its_arguments_is_1001(text: str) -> None:
    with pytest.raises(AppFunctionError, match="'value' was refused") as refused:
        await _invoke("strict", value={"text": text})
    assert refused.value.error_code == 1001


@pytest.mark.requirement("jetpack.types.wrong-result")
@pytest.mark.parametrize(
    ("method", "problem"),
    [("huge", r"\(an integer of 33220 bits\) does not fit into Int"), ("lazy", "not measured")],
)
async def test_a_result_that_cannot_be_encoded_is_3000_in_the_platforms_flavour_too(
    method: str, problem: str
) -> None:
    with pytest.raises(AppFunctionError, match=problem) as failed:
        await _invoke(method)
    assert failed.value.error_code == 3000


def test_a_code_without_a_class_has_the_unknown_exception() -> None:
    error = AppFunctionUnknownException(2002, "policy")
    assert (error.error_code, error.error_category, str(error)) == (2002, 2, "policy")
