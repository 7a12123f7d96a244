"""The file of a recorded run: every request to the model with its answer, as JSON lines.

The first line says what recorded it, the last one that it is whole::

    {"format": "aicore-sim-run", "version": 1, "model": {...}, "keeps_prefixes": false}
    {"kind": "answer", "app": "com.example.shop", "request": {...}, "answer": [...], ...}
    {"kind": "end", "answers": 1, "concurrent": [], "sha256": "..."}

Requests hold no time, no drawn seed and no random id, so that the same run gives the same lines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aicore_sim.inference.backend import (
    Chunk,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    ModelInfo,
)

FORMAT: Final = "aicore-sim-run"
VERSION: Final = 1
MAX_RECORDING_BYTES = 256 * 1024 * 1024


class RecordingError(ValueError):
    """A file that is no whole recording; the message names file and line, and what to do."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_T = TypeVar("_T", bound=_Line)


class Header(_Line):
    format: Literal["aicore-sim-run"] = "aicore-sim-run"
    version: Literal[1] = 1
    model: ModelInfo | None
    """What the model said of itself; None when it was never loaded."""
    keeps_prefixes: bool = False


class Failure(_Line):
    code: int
    message: str


class Spoken(_Line):
    """A chunk, and the seconds of device time that the model took for it."""

    chunk: Chunk
    after: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class Answer(_Line):
    """One request and what the model said: to its end, to a failure, or until it was stopped."""

    kind: Literal["answer"] = "answer"
    app: str
    request: GenerateRequest
    input_tokens: int | None = None
    """What counting the request gave; None when it was not counted."""
    answer: tuple[Spoken, ...] = ()
    failure: Failure | None = None
    failed_after: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Seconds of device time from the last chunk to the failure."""
    interrupted: bool = False
    """The app, or a rule of the device, stopped it."""


class Count(_Line):
    """A request that was counted and never answered."""

    kind: Literal["count"] = "count"
    request: GenerateRequest
    input_tokens: int


class _End(_Line):
    kind: Literal["end"] = "end"
    answers: int
    concurrent: tuple[str, ...]
    sha256: str


class Recording(_Line):
    """A recorded run, read."""

    header: Header
    answers: tuple[Answer, ...]
    counts: tuple[Count, ...] = ()
    concurrent: tuple[str, ...] = ()
    """Apps that had several requests under way at once."""


def normalised(request: GenerateRequest) -> GenerateRequest:
    """The request without what differs from run to run: a seed that the device drew, ids of calls
    (numbered instead, so that calls and their results still belong together), and who asks."""
    ids: dict[str, str] = {}

    def numbered(part: Any) -> Any:
        if not isinstance(part, FunctionCallPart | FunctionResponsePart) or not part.id:
            return part
        return part.model_copy(update={"id": ids.setdefault(part.id, f"#{len(ids) + 1}")})

    contents = tuple(
        content.model_copy(update={"parts": tuple(numbered(part) for part in content.parts)})
        for content in request.contents
    )
    sampling = request.sampling
    if sampling.seed_drawn:
        sampling = sampling.model_copy(update={"seed": None, "seed_drawn": False})
    return request.model_copy(update={"contents": contents, "sampling": sampling, "app": ""})


def prompt_key(request: GenerateRequest) -> str:
    """The same for requests whose prompts have the same tokens."""
    made = to_plain(normalised(request))
    made.pop("sampling", None)
    return json.dumps(made, ensure_ascii=False)


def to_plain(request: GenerateRequest) -> dict[str, Any]:
    """A request as JSON, without what is at its default."""
    made = request.model_dump(mode="json", exclude_defaults=True)
    for content, written in zip(request.contents, made.get("contents", ()), strict=True):
        written["parts"] = [_with_kind(part) for part in content.parts]
    return made


def header_line(header: Header) -> str:
    made: dict[str, Any] = {"format": header.format, "version": header.version}
    made["model"] = None if header.model is None else header.model.model_dump(mode="json")
    return _dumped({**made, "keeps_prefixes": header.keeps_prefixes})


def answer_line(answer: Answer) -> str:
    made: dict[str, Any] = {
        "kind": answer.kind,
        "app": answer.app,
        "request": to_plain(answer.request),
    }
    if answer.input_tokens is not None:
        made["input_tokens"] = answer.input_tokens
    made["answer"] = [
        {"chunk": _with_kind(spoken.chunk)} | ({"after": spoken.after} if spoken.after else {})
        for spoken in answer.answer
    ]
    if answer.failure is not None:
        made["failure"] = answer.failure.model_dump()
        made |= {"failed_after": answer.failed_after} if answer.failed_after else {}
    if answer.interrupted:
        made["interrupted"] = True
    return _dumped(made)


def count_line(count: Count) -> str:
    return _dumped(
        {
            "kind": count.kind,
            "request": to_plain(count.request),
            "input_tokens": count.input_tokens,
        }
    )


def end_line(*, answers: int, concurrent: Collection[str], before: str) -> str:
    """The last line. `before` is the SHA-256 of all bytes before it."""
    return _dumped(
        {
            "kind": "end",
            "answers": answers,
            "concurrent": sorted(concurrent),
            "sha256": before,
        }
    )


def load_recording(path: Path) -> Recording:
    """Read a recorded run. Raises RecordingError for a file that cannot be read, that is none, of
    another version, not finished, or changed since."""
    name = f"recording {str(path)!r}"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RECORDING_BYTES + 1)
    except OSError as error:
        raise RecordingError(f"cannot read {name}: {error.strerror}") from None
    if len(data) > MAX_RECORDING_BYTES:
        raise RecordingError(f"{name} has more than {MAX_RECORDING_BYTES} bytes")
    lines = data.splitlines(keepends=True)
    header = _header(lines[0] if lines else b"", name)
    last = _parsed(lines[-1], f"{name}, line {len(lines)}") if data.endswith(b"\n") else {}
    if last.get("kind") != "end":
        raise RecordingError(
            f"{name} was not finished: its last line is no end; the device that recorded it was "
            "killed, or still runs. Record it again"
        )
    end = _validated(_End, last, f"{name}, line {len(lines)}")
    found = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    if found != end.sha256:
        raise RecordingError(
            f"{name} was changed after it was recorded: its SHA-256 is {found}, its last line says "
            f"{end.sha256!r}. Record it again, or take the file back from version control"
        )
    answers, counts = [], []
    for number, line in enumerate(lines[1:-1], 2):
        where = f"{name}, line {number}"
        table = _parsed(line, where)
        if table.get("kind") == "count":
            counts.append(_validated(Count, table, where))
        else:
            answers.append(_validated(Answer, table, where))
    if len(answers) != end.answers:
        raise RecordingError(
            f"{name} has {len(answers)} answers, its last line says {end.answers}; record it again"
        )
    return Recording(
        header=header, answers=tuple(answers), counts=tuple(counts), concurrent=end.concurrent
    )


def _header(line: bytes, name: str) -> Header:
    try:
        table = json.loads(line)
    except ValueError:
        table = None
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise RecordingError(
            f"{name} is no recorded run: its first line does not say format {FORMAT!r}; "
            "`aicore-sim exec --record FILE` makes one"
        )
    if table.get("version") != VERSION:
        raise RecordingError(
            f"{name} has version {table.get('version')!r}, this simulator reads {VERSION}; "
            "record it again"
        )
    return _validated(Header, table, f"{name}, line 1")


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise RecordingError(f"{where} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise RecordingError(f"{where} is no JSON object")
    return found


def _validated(kind: type[_T], table: dict[str, Any], where: str) -> _T:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, wrong["loc"]))
        raise RecordingError(f"{where}, key {key!r}: {wrong['msg']}") from None


def _with_kind(part: Any) -> dict[str, Any]:
    """The kind is a default, and yet what tells the parts apart."""
    return {"kind": part.kind, **part.model_dump(mode="json", exclude_defaults=True)}


def _dumped(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
