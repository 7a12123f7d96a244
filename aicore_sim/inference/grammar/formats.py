"""Formats of strings, as patterns. Formats that are not named here are descriptions only.

https://json-schema.org/understanding-json-schema/reference/type#built-in-formats
"""

from __future__ import annotations

from typing import Final

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY_OF_YEAR = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = rf"(?:{_YEAR}-{_DAY_OF_YEAR}|{_LEAP_YEAR}-02-29)"
_HOUR_AND_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_HOUR_AND_MINUTE}:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|[+-]{_HOUR_AND_MINUTE})"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL}){{0,7}}"
_ATOM = r"[A-Za-z0-9_+-]{1,32}"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{0,31}"
_OF_URI = r"(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
_CLOCK_PART = (
    r"(?:[0-9]{1,9}H(?:[0-9]{1,9}M)?(?:[0-9]{1,9}S)?"
    r"|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S)"
)

FORMATS: Final[dict[str, str]] = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "duration": (rf"^P(?:[0-9]{{1,9}}W|[0-9]{{1,9}}D(?:T{_CLOCK_PART})?|T{_CLOCK_PART})$"),
    "uuid": r"^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
    "uri": f"^{_SCHEME}:{_OF_URI}{{1,500}}$",
    "email": rf"^{_ATOM}(?:\.{_ATOM}){{0,3}}@{_DOMAIN}$",
    "hostname": f"^{_DOMAIN}$",
    "ipv4": rf"^{_OCTET}(?:\.{_OCTET}){{3}}$",
    "ipv6": r"^(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}$",
    "byte": (r"^(?:[A-Za-z0-9+/]{4}){0,250}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"),
}
"""Patterns of the understood syntax, anchored at both ends, by the name of the format."""
