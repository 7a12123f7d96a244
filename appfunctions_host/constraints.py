"""Constraints on values, written as `Annotated[str, AppFunctionStringValueConstraint(...)]`.

Android hands them to the model as metadata; whether its library also enforces them is not
documented. Here it does, unless the platform profile says `enforce_constraints = false` (ours).

Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/package-summary
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from appfunctions_host.patterns import PatternMatcher, PatternType

FORMAT_URI: Final = "uri"


@dataclass(frozen=True)
class AppFunctionPatternMatcher:
    """A pattern of `android.os.PatternMatcher`. Raises PatternError, a ValueError."""

    pattern: str
    type: PatternType = PatternType.LITERAL

    def __post_init__(self) -> None:
        PatternMatcher(self.pattern, PatternType(self.type))

    @cached_property
    def matcher(self) -> PatternMatcher:
        return PatternMatcher(self.pattern, PatternType(self.type))


@dataclass(frozen=True, kw_only=True)
class AppFunctionStringValueConstraint:
    """A `str` is one of `enum_values`, and matches one of `pattern_matchers`, where there are any.

    `format` is for the model only.
    """

    enum_values: tuple[str, ...] = ()
    pattern_matchers: tuple[AppFunctionPatternMatcher, ...] = ()
    format: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "enum_values", tuple(self.enum_values))
        object.__setattr__(self, "pattern_matchers", tuple(self.pattern_matchers))
        if not (self.enum_values or self.pattern_matchers or self.format):
            raise ValueError("a constraint that allows everything; give enum_values or patterns")

    def problem(self, value: str) -> str | None:
        """Why the value is not allowed, or None."""
        if self.enum_values and value not in self.enum_values:
            return f"{value!r} is none of {', '.join(map(repr, self.enum_values))}"
        matchers = self.pattern_matchers
        if matchers and not any(one.matcher.matches(value) for one in matchers):
            return f"{value!r} matches none of {', '.join(repr(one.pattern) for one in matchers)}"
        return None


@dataclass(frozen=True, kw_only=True)
class AppFunctionIntValueConstraint:
    """An `int` is one of `enum_values`."""

    enum_values: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "enum_values", tuple(self.enum_values))
        if not self.enum_values:
            raise ValueError("enum_values is empty; nothing would be allowed")

    def problem(self, value: int) -> str | None:
        """Why the value is not allowed, or None."""
        if value not in self.enum_values:
            return f"{value} is none of {', '.join(map(str, self.enum_values))}"
        return None


@dataclass(frozen=True, kw_only=True)
class AppFunctionUriValueConstraint:
    """A `Uri` has one of `allowed_schemes`."""

    allowed_schemes: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed_schemes", tuple(self.allowed_schemes))
        if not self.allowed_schemes:
            raise ValueError("allowed_schemes is empty; nothing would be allowed")

    def problem(self, value: str) -> str | None:
        """Why the value is not allowed, or None."""
        scheme = str(value).partition(":")[0].lower()
        if scheme not in {allowed.lower() for allowed in self.allowed_schemes}:
            return f"{value!r} has none of the schemes {', '.join(self.allowed_schemes)}"
        return None


Constraint = (
    AppFunctionStringValueConstraint | AppFunctionIntValueConstraint | AppFunctionUriValueConstraint
)
