"""Explicit prefix caches: texts that an app has given a name.

https://developers.google.com/ml-kit/genai/prompt/android/prefix-caching
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from aicore_sim.device.errors import GenAiCode
from aicore_sim.inference.backend import Content, GenerateRequest, Sampling, TextPart
from aicore_sim.policy.failures import aicore_failure
from aicore_sim.service.refusals import invalid

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cached_contexts (
    uid INTEGER NOT NULL,
    name TEXT NOT NULL,
    prompt_prefix TEXT NOT NULL,
    model TEXT NOT NULL,
    PRIMARY KEY (uid, name)
) STRICT;
"""


@dataclass(frozen=True, kw_only=True)
class CachedContext:
    name: str
    prompt_prefix: str


class CachedContexts:
    """Keeps the named prefixes of every app in the device's database; a phone keeps them as files
    of the app.

    Kept is the text. What the model made of it stays in the worker's memory while there is room,
    and is computed again when it has gone. An app is known by its uid, which no later app gets.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.executescript(_SCHEMA)

    def put(self, uid: int, context: CachedContext, *, model: str) -> None:
        """Keep a prefix for `model`, in the place of one of this name for whatever model."""
        self._connection.execute(
            "INSERT OR REPLACE INTO cached_contexts VALUES (?, ?, ?, ?)",
            (uid, context.name, context.prompt_prefix, model),
        )

    def get(self, uid: int, name: str) -> CachedContext:
        """Raises GenAiError -103 when there is none."""
        return self._row(uid, name)[0]

    def require(self, uid: int, name: str, *, model: str) -> CachedContext:
        """Raises GenAiError -103 when there is none, or when it was made for another model."""
        context, made_for = self._row(uid, name)
        if made_for != model:
            raise _failure(
                f"The cache {name!r} was made for another model; delete it and create it again."
            )
        return context

    def list(self, uid: int) -> tuple[CachedContext, ...]:
        """By name."""
        rows = self._connection.execute(
            "SELECT name, prompt_prefix FROM cached_contexts WHERE uid = ? ORDER BY name", (uid,)
        )
        return tuple(CachedContext(name=name, prompt_prefix=prefix) for name, prefix in rows)

    def delete(self, uid: int, name: str) -> bool:
        """Whether there was one."""
        deleted = self._connection.execute(
            "DELETE FROM cached_contexts WHERE uid = ? AND name = ?", (uid, name)
        )
        return deleted.rowcount > 0

    def _row(self, uid: int, name: str) -> tuple[CachedContext, str]:
        row = self._connection.execute(
            "SELECT prompt_prefix, model FROM cached_contexts WHERE uid = ? AND name = ?",
            (uid, name),
        ).fetchone()
        if row is None:
            raise _failure(f"There is no cache {name!r}.")
        return CachedContext(name=name, prompt_prefix=row[0]), row[1]


def checked_context(name: str, prompt_prefix: str) -> CachedContext:
    """Raises SimulatorFault (INVALID_REQUEST) without a name, GenAiError -100 without a text."""
    if not name.strip():
        raise invalid("cached_context.name", "a cache needs a name")
    if not prompt_prefix.strip():
        raise aicore_failure(GenAiCode.REQUEST_TOO_SMALL, "The prefix is empty.")
    return CachedContext(name=name, prompt_prefix=prompt_prefix)


def prefill_request(prompt_prefix: str) -> GenerateRequest:
    """Makes the model read a prefix; the one token that it says is of no use."""
    content = Content(role="user", parts=(TextPart(text=prompt_prefix),))
    return GenerateRequest(contents=(content,), sampling=Sampling(max_output_tokens=1))


def with_prefix(request: GenerateRequest, prompt_prefix: str) -> GenerateRequest:
    """The request with the prefix directly before its first text, as one text."""
    first, *others = request.contents
    if first.role != "user":
        content = Content(role="user", parts=(TextPart(text=prompt_prefix),))
        return request.model_copy(update={"contents": (content, *request.contents)})
    part, rest = first.parts[0], first.parts[1:]
    parts = (
        (TextPart(text=prompt_prefix + part.text), *rest)
        if isinstance(part, TextPart)
        else (TextPart(text=prompt_prefix), *first.parts)
    )
    content = Content(role="user", parts=parts)
    return request.model_copy(update={"contents": (content, *others)})


def _failure(detail: str) -> Exception:
    return aicore_failure(GenAiCode.CACHE_PROCESSING_ERROR, detail)
