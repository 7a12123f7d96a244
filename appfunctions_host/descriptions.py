"""Descriptions for the model, from docstrings in Google, Sphinx or KDoc style."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import docstring_parser

# KDoc's `@param name text` and `@return text` become Epydoc's form, which the parser knows.
_KDOC_PARAM = re.compile(r"^([ \t]*)@param[ \t]+(\w+):?[ \t]+", re.MULTILINE)
_KDOC_RETURN = re.compile(r"^([ \t]*)@returns?:?[ \t]+", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Description:
    """A docstring's parts; white space is folded."""

    text: str
    parameters: dict[str, str]
    result: str


def describe(docstring: str | None) -> Description:
    """Read a docstring; one that follows no style is the text as a whole."""
    source = _KDOC_PARAM.sub(r"\1@param \2: ", docstring or "")
    source = _KDOC_RETURN.sub(r"\1@return: ", source)
    try:
        parsed = docstring_parser.parse(source)
    except docstring_parser.ParseError:
        return Description(text=_fold(docstring), parameters={}, result="")
    return _from_parsed(parsed)


def describe_fields(cls: type[Any]) -> tuple[str, dict[str, str]]:
    """A class's text and its fields' texts: `Attributes:` and the strings below the fields."""
    own = describe(cls.__doc__ if "__doc__" in vars(cls) else None)
    inline = _from_parsed(docstring_parser.parse_from_object(cls))
    generated = (cls.__doc__ or "").startswith(f"{cls.__name__}(")
    return "" if generated else own.text, {**own.parameters, **inline.parameters}


def _from_parsed(parsed: docstring_parser.Docstring) -> Description:
    return Description(
        text=_fold(f"{parsed.short_description or ''}\n{parsed.long_description or ''}"),
        parameters={item.arg_name: _fold(item.description) for item in parsed.params},
        result=_fold(parsed.returns.description if parsed.returns else ""),
    )


def _fold(text: str | None) -> str:
    return " ".join((text or "").split())
