"""Calls that the protos declare and a later version will answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from aicore_sim.service.refusals import unimplemented

_Servicer = TypeVar("_Servicer", bound=type)


def refuse_the_rest(
    service: ServiceDescriptor, *, check: Callable[[str], None] | None = None
) -> Callable[[_Servicer], _Servicer]:
    """A class decorator: calls of `service` that the servicer does not define are refused by name.

    `check` runs first with the name of the call, and may raise, so that a caller without the
    right to a call learns that and nothing else.
    """

    def complete(servicer: _Servicer) -> _Servicer:
        for method in service.methods:
            if method.name not in vars(servicer):
                setattr(servicer, method.name, _refusal(method, check))
        return servicer

    return complete


def _refusal(method: MethodDescriptor, check: Callable[[str], None] | None) -> Any:
    def refuse() -> None:
        if check is not None:
            check(method.name)
        raise unimplemented(f"{method.containing_service.name}.{method.name}")

    async def unary(self: object, request: object, context: object) -> None:
        refuse()

    async def stream(self: object, request: object, context: object) -> AsyncIterator[None]:
        refuse()
        yield

    made: Callable[..., Awaitable[None] | AsyncIterator[None]] = (
        stream if method.server_streaming else unary
    )
    return made
