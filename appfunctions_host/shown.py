"""Text of apps on a terminal: it may not steer it."""

from __future__ import annotations

import re
import sys

# C0 but the end of a line, DEL and C1, and what changes the direction of writing.
_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    """`text` with every steering character but the end of a line as `\\uXXXX`.

    JSON stays the same JSON: there such characters stand inside of strings only.
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def line(text: str) -> str:
    """As `shown`, in one line."""
    return shown(text).replace("\n", "\\n")


def show(text: str, *, error: bool = False) -> None:
    """Print `shown` text at once."""
    print(shown(text), file=sys.stderr if error else sys.stdout, flush=True)
