"""In-process AICore and AppFunction host with scripted answers, over real gRPC.

Both are strict: a call without a step fails the test that made it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status

from aicore_client._values import from_object, to_object, to_value
from aicore_protos import (
    aicore_pb2,
    aicore_pb2_grpc,
    appfunctions_pb2,
    appfunctions_pb2_grpc,
    errors_pb2,
)

TOKEN = "token-of-the-shop"
SHOP = "com.example.shop"
Chunk = aicore_pb2.GenerateContentResponse


def text(value: str) -> Chunk:
    return Chunk(text=value)


def call(name: str, **args: object) -> Chunk:
    return Chunk(function_call=aicore_pb2.FunctionCall(name=name, args=to_object(args)))


def malformed(value: str, reason: str) -> Chunk:
    return Chunk(
        malformed_function_call=aicore_pb2.MalformedFunctionCall(text=value, reason=reason)
    )


def finish(reason: str = "STOP") -> Chunk:
    usage = aicore_pb2.Usage(input_tokens=7, cached_input_tokens=3, output_tokens=2)
    return Chunk(finish=aicore_pb2.Finish(reason=reason, usage=usage))


def gen_ai_error(code: int, message: str = "no", retry_seconds: int = 0) -> errors_pb2.ErrorDetail:
    delay = duration_pb2.Duration(seconds=retry_seconds) if retry_seconds else None
    return errors_pb2.ErrorDetail(
        gen_ai=errors_pb2.GenAiError(error_code=code, message=message, retry_delay=delay)
    )


def app_function_error(
    code: int, message: str = "", extras: Mapping[str, object] | None = None
) -> errors_pb2.ErrorDetail:
    return errors_pb2.ErrorDetail(
        app_function=errors_pb2.AppFunctionError(
            error_code=code,
            error_message=message,
            extras=None if extras is None else to_object(extras),
        )
    )


def simulator_error(kind: str, message: str = "wrong") -> errors_pb2.ErrorDetail:
    return errors_pb2.ErrorDetail(simulator=errors_pb2.SimulatorError(kind=kind, message=message))


@dataclass(frozen=True)
class BareStatus:
    """A failure of the transport: no typed detail."""

    code: grpc.StatusCode
    message: str = "transport"


@dataclass
class Hold:
    """Keeps a stream open until the caller goes away; `cancelled` is set when it does."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)


Item = Chunk | errors_pb2.ErrorDetail | BareStatus | Hold


async def abort(context: Any, failure: errors_pb2.ErrorDetail | BareStatus) -> None:
    if isinstance(failure, BareStatus):
        await context.abort(failure.code, failure.message)
        return
    packed = any_pb2.Any()
    packed.Pack(failure)
    status = status_pb2.Status(code=code_pb2.FAILED_PRECONDITION, message="", details=[packed])
    await context.abort_with_status(rpc_status.to_status(status))


async def check_token(context: Any) -> None:
    if ("authorization", f"Bearer {TOKEN}") not in tuple(context.invocation_metadata()):
        await abort(context, simulator_error("UNAUTHENTICATED", "The token is unknown."))


class FakeAICore(aicore_pb2_grpc.AICoreServicer):
    """`steps` is first in, first out: one list of stream items for each GenerateContent."""

    def __init__(self) -> None:
        self.steps: deque[Sequence[Item]] = deque()
        self.requests: list[aicore_pb2.GenerateContentRequest] = []
        """Also those that were only counted."""
        self.generated: list[aicore_pb2.GenerateContentRequest] = []
        self.answer: Callable[[aicore_pb2.GenerateContentRequest], Sequence[Item]] | None = None
        self.unary_failure: errors_pb2.ErrorDetail | BareStatus | None = None
        self.status = 3
        self.token_limit = 4096
        self.features: Sequence[Any] = ()
        self.count: Callable[[aicore_pb2.GenerateContentRequest], int] = lambda request: 11

    def script(self, *steps: Sequence[Item]) -> None:
        self.steps.extend(steps)

    async def GenerateContent(
        self, request: aicore_pb2.GenerateContentRequest, context: Any
    ) -> AsyncIterator[Chunk]:
        await check_token(context)
        self.requests.append(request)
        self.generated.append(request)
        if self.answer is not None:
            items = self.answer(request)
        elif self.steps:
            items = self.steps.popleft()
        else:
            await abort(context, simulator_error("SCRIPT_DRIFT", "No step is left."))
            return
        try:
            for item in items:
                if isinstance(item, Hold):
                    item.reached.set()
                    await item.release.wait()
                elif isinstance(item, Chunk):
                    yield item
                else:
                    await abort(context, item)
        except (asyncio.CancelledError, GeneratorExit):
            # Also when the caller left before the stream came to it.
            for item in items:
                if isinstance(item, Hold):
                    item.cancelled.set()
            raise

    async def CheckStatus(self, request: Any, context: Any) -> aicore_pb2.CheckStatusResponse:
        await self._unary(context)
        response = aicore_pb2.CheckStatusResponse()
        response.status = self.status  # type: ignore[assignment]
        return response

    async def GetModelInfo(self, request: Any, context: Any) -> aicore_pb2.GetModelInfoResponse:
        await self._unary(context)
        return aicore_pb2.GetModelInfoResponse(
            base_model_name="nano-v3", token_limit=self.token_limit, features=self.features
        )

    async def CountTokens(
        self, request: aicore_pb2.CountTokensRequest, context: Any
    ) -> aicore_pb2.CountTokensResponse:
        await self._unary(context)
        self.requests.append(request.request)
        return aicore_pb2.CountTokensResponse(total_tokens=self.count(request.request))

    async def _unary(self, context: Any) -> None:
        await check_token(context)
        if self.unary_failure is not None:
            await abort(context, self.unary_failure)


Function = Callable[[dict[str, object]], object]


class FakeHost(appfunctions_pb2_grpc.AppFunctionManagerServicer):
    """Serves `functions`; what runs is in `executed`. `own` is the package of the token."""

    def __init__(self) -> None:
        self.own = SHOP
        self.sdk_int_full = 3_700_002
        self.uid = 10001
        self.functions: list[appfunctions_pb2.AppFunctionMetadata] = []
        self.bodies: dict[str, Function] = {}
        self.executed: list[tuple[str, dict[str, object]]] = []
        self.page_size = 100
        self.failure: errors_pb2.ErrorDetail | BareStatus | None = None
        self.states: dict[str, str] = {}
        self.searches: list[appfunctions_pb2.SearchRequest] = []
        self.activities: dict[str, list[str]] = {}

    def add(
        self,
        identifier: str,
        body: Function = lambda args: None,
        *,
        package: str = SHOP,
        parameters: Sequence[appfunctions_pb2.ParameterMetadata] = (),
        description: str = "",
    ) -> None:
        self.functions.append(
            appfunctions_pb2.AppFunctionMetadata(
                name=appfunctions_pb2.AppFunctionName(
                    package_name=package, function_identifier=identifier
                ),
                parameters=parameters,
                description=description,
                access_level=300,
                is_enabled_by_default=True,
            )
        )
        self.bodies[identifier] = body

    async def Search(
        self, request: appfunctions_pb2.SearchRequest, context: Any
    ) -> appfunctions_pb2.SearchResponse:
        await self._check(request, context)
        copied = appfunctions_pb2.SearchRequest()
        copied.CopyFrom(request)
        self.searches.append(copied)
        found = [
            function
            for function in self.functions
            if not request.package_names or function.name.package_name in request.package_names
            if not request.function_names or function.name in request.function_names
        ]
        start = int(request.page_token or 0)
        end = start + self.page_size
        return appfunctions_pb2.SearchResponse(
            functions=found[start:end], next_page_token=str(end) if end < len(found) else ""
        )

    async def Execute(
        self, request: appfunctions_pb2.ExecuteRequest, context: Any
    ) -> appfunctions_pb2.ExecuteResponse:
        await self._check(request, context)
        identifier = request.name.function_identifier
        args = from_object(request.parameters)
        self.executed.append((identifier, args))
        result = self.bodies[identifier](args)
        if isinstance(result, errors_pb2.ErrorDetail | BareStatus):
            await abort(context, result)
        return appfunctions_pb2.ExecuteResponse(return_value=to_value(result))

    async def GetStates(
        self, request: appfunctions_pb2.GetStatesRequest, context: Any
    ) -> appfunctions_pb2.GetStatesResponse:
        await self._check(request, context)
        return appfunctions_pb2.GetStatesResponse(
            states=[
                appfunctions_pb2.AppFunctionState(name=name, is_enabled=True)
                for name in request.names
                if name.function_identifier in self.bodies
            ]
        )

    async def GetActivityStates(
        self, request: appfunctions_pb2.GetActivityStatesRequest, context: Any
    ) -> appfunctions_pb2.GetActivityStatesResponse:
        await self._check(request, context)
        return appfunctions_pb2.GetActivityStatesResponse(
            states=[
                appfunctions_pb2.AppFunctionActivityState(
                    activity_id=activity_id,
                    names=[
                        appfunctions_pb2.AppFunctionName(
                            package_name=self.own, function_identifier=identifier
                        )
                        for identifier in self.activities[activity_id]
                    ],
                )
                for activity_id in request.activity_ids
                if activity_id in self.activities
            ]
        )

    async def IsEnabled(
        self, request: appfunctions_pb2.IsEnabledRequest, context: Any
    ) -> appfunctions_pb2.IsEnabledResponse:
        await self._check(request, context)
        identifier = request.name.function_identifier
        if identifier not in self.bodies:
            await abort(context, simulator_error("ILLEGAL_ARGUMENT", "App function not found."))
        enabled = self.states.get(identifier) != "APP_FUNCTION_STATE_DISABLED"
        return appfunctions_pb2.IsEnabledResponse(is_enabled=enabled)

    async def GetCallingPackage(
        self, request: appfunctions_pb2.GetCallingPackageRequest, context: Any
    ) -> appfunctions_pb2.GetCallingPackageResponse:
        await check_token(context)
        if self.failure is not None:
            await abort(context, self.failure)
        return appfunctions_pb2.GetCallingPackageResponse(
            package_name=self.own, uid=self.uid, sdk_int_full=self.sdk_int_full
        )

    async def SetEnabled(
        self, request: appfunctions_pb2.SetEnabledRequest, context: Any
    ) -> appfunctions_pb2.SetEnabledResponse:
        await self._check(request, context)
        self.states[request.name.function_identifier] = appfunctions_pb2.EnabledState.Name(
            request.state
        )
        return appfunctions_pb2.SetEnabledResponse()

    async def _check(self, request: Any, context: Any) -> None:
        await check_token(context)
        if self.failure is not None:
            await abort(context, self.failure)
        if request.calling_package not in ("", self.own):
            await abort(context, app_function_error(1000, "Specified calling package is wrong"))


def parameter(
    name: str, type_name: str = "TYPE_STRING", *, required: bool = True, description: str = ""
) -> appfunctions_pb2.ParameterMetadata:
    return appfunctions_pb2.ParameterMetadata(
        name=name,
        is_required=required,
        data_type=appfunctions_pb2.DataTypeMetadata(type=type_name),
        description=description,
    )


def sent_values(content: aicore_pb2.Content) -> list[object]:
    """The parts of a request's content, as plain values."""
    values: list[object] = []
    for part in content.parts:
        if part.WhichOneof("part") == "function_call":
            wanted = part.function_call
            values.append(("call", wanted.id, wanted.name, from_object(wanted.args)))
        elif part.WhichOneof("part") == "function_response":
            answered = part.function_response
            values.append(("response", answered.id, answered.name, from_object(answered.response)))
        else:
            values.append(part.text)
    return values
