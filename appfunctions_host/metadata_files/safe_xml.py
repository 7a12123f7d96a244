"""XML as a small tree, from a file that nobody vouches for.

No document type, so no entities of any kind; bounded size, depth and number of elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
MAX_ELEMENTS = 500_000


class XmlError(ValueError):
    """A file that is not read, with the line where that is known."""


@dataclass(kw_only=True)
class Element:
    """`name` is folded: `schema_name` and `schemaName` are one."""

    name: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    """By folded name."""
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """The children of that name."""
        return (child for child in self.children if child.name == name)

    def first(self, name: str) -> Element | None:
        return next(self.all(name), None)

    def value(self, *names: str) -> str | None:
        """The text of the first child that has one of the names, in their order."""
        for name in names:
            found = self.first(name)
            if found is not None:
                return found.text.strip()
        return None


def fold(name: str) -> str:
    """A tag without namespace, underscores and capitals."""
    return name.rpartition(":")[2].replace("_", "").lower()


def parse(data: bytes) -> Element:
    """The root element. Raises XmlError."""
    if len(data) > MAX_BYTES:
        raise XmlError(f"the file has {len(data)} bytes, the limit is {MAX_BYTES}")
    parser = expat.ParserCreate()
    stack: list[Element] = []
    roots: list[Element] = []
    counted = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal counted
        counted += 1
        line = parser.CurrentLineNumber
        if counted > MAX_ELEMENTS:
            raise XmlError(f"line {line}: the file has more than {MAX_ELEMENTS} elements")
        if len(stack) >= MAX_DEPTH:
            raise XmlError(f"line {line}: elements nest deeper than {MAX_DEPTH}")
        folded = {fold(key): text for key, text in attributes.items()}
        made = Element(name=fold(name), line=line, attributes=folded)
        (stack[-1].children if stack else roots).append(made)
        stack.append(made)

    def end(name: str) -> None:
        stack.pop()

    def text(data: str) -> None:
        if stack:
            stack[-1].text += data

    def refuse_document_type(*_: object) -> None:
        raise XmlError(
            f"line {parser.CurrentLineNumber}: the file has a document type, and with it could "
            "bring entities; remove the <!DOCTYPE>"
        )

    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse_document_type
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise XmlError(f"not well-formed: {error}") from None
    except (ValueError, LookupError) as error:
        if isinstance(error, XmlError):
            raise
        raise XmlError(f"cannot be read: {error}") from None
    return roots[0]
