"""Types of the standard library that travel as objects, as Jetpack's proxies do.

Property names and types are those of Jetpack's proxy classes:
https://github.com/androidx/androidx/tree/androidx-main/appfunctions/appfunctions/src/main/java/androidx/appfunctions/internal/serializableproxies
Python keeps microseconds, so the last three digits of nanoseconds are cut off.
"""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aicore_protos import appfunctions_pb2 as pb

_PACKAGE = "androidx.appfunctions.internal.serializableproxies"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NANOS = 1_000_000_000


class Uri(str):
    """`android.net.Uri`: a text that says that it is one."""

    __slots__ = ()


class Instant:
    """Marks an aware `datetime` as Java's Instant: `Annotated[datetime, Instant]`. A bare
    `datetime` is a LocalDateTime and has no time zone."""


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """How one type travels. `read` and `write` raise ValueError for a value that does not fit."""

    kotlin_name: str
    class_name: str
    properties: tuple[tuple[str, pb.DataType], ...]
    python_type: type[Any]
    read: Callable[[Mapping[str, Any]], Any]
    write: Callable[[Any], tuple[object, ...]]
    """The values of `properties`, in their order."""

    @property
    def qualified_name(self) -> str:
        return f"{_PACKAGE}.{self.class_name}"


_DATE = (("year", pb.TYPE_INT), ("month", pb.TYPE_INT), ("dayOfMonth", pb.TYPE_INT))
_TIME = (
    ("hour", pb.TYPE_INT),
    ("minute", pb.TYPE_INT),
    ("second", pb.TYPE_INT),
    ("nanoOfSecond", pb.TYPE_INT),
)


def _micros(nanos: int) -> int:
    if not 0 <= nanos < _NANOS:
        raise ValueError(f"{nanos} is no number of nanoseconds in a second")
    return nanos // 1000


def _read_date(given: Mapping[str, Any]) -> datetime.date:
    return datetime.date(given["year"], given["month"], given["dayOfMonth"])


def _read_time(given: Mapping[str, Any]) -> datetime.time:
    micros = _micros(given["nanoOfSecond"])
    return datetime.time(given["hour"], given["minute"], given["second"], micros)


def _read_local(given: Mapping[str, Any]) -> datetime.datetime:
    return datetime.datetime.combine(_read_date(given), _read_time(given))


def _read_instant(given: Mapping[str, Any]) -> datetime.datetime:
    seconds, micros = given["epochSecond"], _micros(given["nanoAdjustment"])
    try:
        return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=micros)
    except OverflowError:
        raise ValueError(f"the second {seconds} is outside the years 1 to 9999") from None


def _read_zone(given: Mapping[str, Any]) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(given["zoneID"])
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{given['zoneID']!r} is no time zone") from None


def _write_time(value: datetime.time) -> tuple[object, ...]:
    if value.tzinfo is not None:
        raise ValueError(f"{value!r} has a time zone, which a LocalTime has not")
    return value.hour, value.minute, value.second, value.microsecond * 1000


def _write_local(value: datetime.datetime) -> tuple[object, ...]:
    if value.tzinfo is not None:
        raise ValueError(
            f"{value!r} has a time zone, which a LocalDateTime has not; "
            "declare Annotated[datetime, Instant]"
        )
    return value.year, value.month, value.day, *_write_time(value.time())


def _write_instant(value: datetime.datetime) -> tuple[object, ...]:
    if value.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone, which an Instant needs")
    seconds, micros = divmod((value - _EPOCH) // datetime.timedelta(microseconds=1), 1_000_000)
    return seconds, micros * 1000


def _write_zone(value: zoneinfo.ZoneInfo) -> tuple[object, ...]:
    if value.key is None:
        raise ValueError("a time zone without a key cannot be sent")
    return (value.key,)


LOCAL_DATE = Proxy(
    kotlin_name="LocalDate",
    class_name="AppFunctionLocalDate",
    properties=_DATE,
    python_type=datetime.date,
    read=_read_date,
    write=lambda value: (value.year, value.month, value.day),
)
LOCAL_TIME = Proxy(
    kotlin_name="LocalTime",
    class_name="AppFunctionLocalTime",
    properties=_TIME,
    python_type=datetime.time,
    read=_read_time,
    write=_write_time,
)
LOCAL_DATE_TIME = Proxy(
    kotlin_name="LocalDateTime",
    class_name="AppFunctionLocalDateTime",
    properties=(*_DATE, *_TIME),
    python_type=datetime.datetime,
    read=_read_local,
    write=_write_local,
)
INSTANT = Proxy(
    kotlin_name="Instant",
    class_name="AppFunctionInstant",
    properties=(("epochSecond", pb.TYPE_LONG), ("nanoAdjustment", pb.TYPE_INT)),
    python_type=datetime.datetime,
    read=_read_instant,
    write=_write_instant,
)
ZONE_ID = Proxy(
    kotlin_name="ZoneId",
    class_name="AppFunctionZoneId",
    properties=(("zoneID", pb.TYPE_STRING),),
    python_type=zoneinfo.ZoneInfo,
    read=_read_zone,
    write=_write_zone,
)
URI = Proxy(
    kotlin_name="Uri",
    class_name="AppFunctionUri",
    properties=(("uri", pb.TYPE_STRING),),
    python_type=Uri,
    read=lambda given: Uri(given["uri"]),
    write=lambda value: (str(value),),
)

PROXIES: Mapping[object, Proxy] = {
    proxy.python_type: proxy for proxy in (LOCAL_DATE, LOCAL_TIME, LOCAL_DATE_TIME, ZONE_ID, URI)
}
"""By the Python type; `Annotated[datetime, Instant]` is INSTANT."""


def is_of(proxy: Proxy, value: object) -> bool:
    """A datetime is a date to Python, and not to Android."""
    if proxy is LOCAL_DATE and isinstance(value, datetime.datetime):
        return False
    return isinstance(value, proxy.python_type)
