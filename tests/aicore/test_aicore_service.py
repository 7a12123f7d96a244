"""What an app gets from the AICore service, over a real socket."""

from __future__ import annotations

import asyncio
import logging

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from aicore_protos import aicore_pb2, errors_pb2, types_pb2
from aicore_sim import __version__
from aicore_sim.server import AicoreServer
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import TIMEOUT, App, detail_of, eventually, prompt, texts
from tests.aicore.conftest import Daemon, StartDaemon

PREVIEW = aicore_pb2.ModelSelection(release_stage=aicore_pb2.PREVIEW, preference=aicore_pb2.FULL)
BAD_MODEL = "AICore failed with error type 3-PREPARATION_ERROR and error code 8-NOT_AVAILABLE: "


async def until_queue_is(daemon: Daemon, running: int, waiting: int) -> None:
    async with asyncio.timeout(TIMEOUT):
        while True:
            device = await daemon.shell.device()
            if (device.running, device.waiting) == (running, waiting):
                return


async def status_of(app: App, model: aicore_pb2.ModelSelection | None = None) -> int:
    answer = await app.call("CheckStatus", aicore_pb2.CheckStatusRequest(model=model))
    status: int = answer.status
    return status


@pytest.mark.requirement("aicore.generate.finish-last")
async def test_an_answer_streams_as_the_model_made_it(start_daemon: StartDaemon) -> None:
    script = """
    - thought: Hm.
      text: Let me look.
      function_calls: [{name: fetch, args: {orderId: ORD-1, count: 9007199254740993}}]
      malformed_call: {text: "{", reason: cut off}
      usage: {input_tokens: 40, output_tokens: 9, cached_input_tokens: 30}
      finish_reason: max_tokens
    """
    async with start_daemon(script=script) as daemon:
        chunks = await daemon.app.generate()
    args = types_pb2.ObjectValue(
        fields=[
            types_pb2.ObjectValue.Field(
                name="orderId", value=types_pb2.Value(string_value="ORD-1")
            ),
            types_pb2.ObjectValue.Field(
                name="count", value=types_pb2.Value(int_value=9007199254740993)
            ),
        ]
    )
    made = aicore_pb2.GenerateContentResponse
    assert chunks == [
        made(thought="Hm."),
        made(text="Let"),
        made(text=" me"),
        made(text=" look."),
        made(function_call=aicore_pb2.FunctionCall(name="fetch", args=args)),
        made(malformed_function_call=aicore_pb2.MalformedFunctionCall(text="{", reason="cut off")),
        made(
            finish=aicore_pb2.Finish(
                reason=aicore_pb2.MAX_TOKENS,
                usage=aicore_pb2.Usage(input_tokens=40, cached_input_tokens=30, output_tokens=9),
            )
        ),
    ]


@pytest.mark.requirement("aicore.availability.feature-id", "aicore.model-info.simulated-by")
async def test_the_status_of_a_model_that_works_is_available(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        assert await status_of(daemon.app) == aicore_pb2.AVAILABLE
        info = await daemon.app.call("GetModelInfo", aicore_pb2.GetModelInfoRequest())
    assert info == aicore_pb2.GetModelInfoResponse(
        base_model_name="nano-v3",
        simulated_by="scripted",
        token_limit=8192,
        features=[
            aicore_pb2.SYSTEM_PROMPT,
            aicore_pb2.PREFIX_CACHING,
            aicore_pb2.FUNCTION_CALLING,
        ],
        feature_id=636,
        dialect="scripted",
        version=__version__,
    )


@pytest.mark.requirement("aicore.limits.request-too-large")
async def test_a_model_with_less_room_than_the_profile_sets_the_token_limit(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        info = await daemon.app.call("GetModelInfo", aicore_pb2.GetModelInfoRequest())
        assert info.token_limit == 1000
        assert aicore_pb2.STRUCTURED_OUTPUT in info.features
        backend.input_tokens = 1000
        fault = await daemon.app.fault("GenerateContent", prompt("hi"), stream=True)
    assert fault.error_code == 12
    assert backend.requests == []


@pytest.mark.requirement("aicore.availability.feature-not-found")
async def test_a_feature_that_the_device_lacks_is_refused_by_every_call_with_its_id(
    start_daemon: StartDaemon,
) -> None:
    request = prompt("hi", model=PREVIEW)
    calls = [
        ("CheckStatus", aicore_pb2.CheckStatusRequest(model=PREVIEW), False),
        ("GetModelInfo", aicore_pb2.GetModelInfoRequest(model=PREVIEW), False),
        ("CountTokens", aicore_pb2.CountTokensRequest(request=request), False),
        ("GenerateContent", request, True),
    ]
    async with start_daemon(script="- text: never") as daemon:
        faults = [await daemon.app.fault(name, req, stream=s) for name, req, s in calls]
        assert (await daemon.shell.call("GetScript", _get_script())).consumed == 0
    expected = errors_pb2.GenAiError(
        error_code=606,
        error_type=3,
        message="AICore failed with error type 3-PREPARATION_ERROR and error code "
        "606-FEATURE_NOT_FOUND: Feature 648 is not available.",
    )
    assert faults == [expected] * 4


@pytest.mark.requirement("prompt.count-tokens.input-only")
async def test_counted_tokens_are_those_that_a_generation_uses(start_daemon: StartDaemon) -> None:
    request = prompt("Where is my order ORD-8492?", system_instruction="Be brief.")
    async with start_daemon(script="- text: Here.") as daemon:
        counted = await daemon.app.call(
            "CountTokens", aicore_pb2.CountTokensRequest(request=request)
        )
        finish = (await daemon.app.generate(request))[-1].finish
    assert (counted.total_tokens, finish.usage.input_tokens) == (11, 11)
    assert finish.usage.output_tokens == 2


@pytest.mark.requirement("aicore.limits.empty-prompt")
@pytest.mark.parametrize(
    "request_",
    [
        aicore_pb2.GenerateContentRequest(),
        aicore_pb2.GenerateContentRequest(system_instruction="Be brief."),
        aicore_pb2.GenerateContentRequest(contents=[aicore_pb2.Content()]),
        prompt(""),
        prompt(" \n\t"),
    ],
)
async def test_an_empty_prompt_is_too_small(
    start_daemon: StartDaemon, request_: aicore_pb2.GenerateContentRequest
) -> None:
    async with start_daemon(script="- text: never") as daemon:
        fault = await daemon.app.fault("GenerateContent", request_, stream=True)
        counting = aicore_pb2.CountTokensRequest(request=request_)
        assert await daemon.app.fault("CountTokens", counting) == fault
    assert fault == errors_pb2.GenAiError(error_code=-100, message="The prompt is empty.")


@pytest.mark.requirement("aicore.limits.request-too-large")
@pytest.mark.parametrize(
    ("words", "max_output_tokens", "code"),
    [(4000, None, None), (4001, None, 12), (4000, 4192, None), (4000, 4193, 12)],
)
async def test_a_prompt_over_a_token_limit_is_refused_before_inference(
    start_daemon: StartDaemon, words: int, max_output_tokens: int | None, code: int | None
) -> None:
    request = prompt("word " * words, sampling={"max_output_tokens": max_output_tokens})
    async with start_daemon(script="- text: answer") as daemon:
        if code is None:
            assert len(await daemon.app.generate(request)) == 2
        else:
            fault = await daemon.app.fault("GenerateContent", request, stream=True)
            assert (fault.error_code, fault.error_type) == (code, 2)
        script = await daemon.shell.call("GetScript", _get_script())
        assert script.consumed == (1 if code is None else 0)


@pytest.mark.requirement("aicore.error.codes-pass", "common.error.app-unknown-codes")
async def test_a_failure_of_the_model_ends_the_stream_with_its_code(
    start_daemon: StartDaemon,
) -> None:
    script = "- {text: one two, error: {code: 15, message: Filtered.}}\n- error: {code: 4711}\n"
    async with start_daemon(script=script) as daemon:
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        assert [(await stream.read()).text for _ in range(2)] == ["one", " two"]
        with pytest.raises(grpc.aio.AioRpcError) as broken:
            await stream.read()
        unknown = await daemon.app.fault("GenerateContent", prompt("hi"), stream=True)
    assert detail_of(broken.value).gen_ai == errors_pb2.GenAiError(
        error_code=15,
        error_type=2,
        message="AICore failed with error type 2-INFERENCE_ERROR and error code "
        "15-RESPONSE_GENERATION_ERROR: Filtered.",
    )
    assert unknown.error_code == 4711


@pytest.mark.requirement("simulator.script.drift")
async def test_a_generation_without_a_step_is_drift(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: one") as daemon:
        await daemon.app.generate()
        fault = await daemon.app.fault("GenerateContent", prompt("again"), stream=True)
        assert fault.kind == errors_pb2.SimulatorError.SCRIPT_DRIFT
        assert "generation 2 has no step: the script has 1 steps" in fault.message
        assert (await daemon.shell.device()).running == 0


@pytest.mark.requirement("aicore.queue.contention-has-no-delay", "aicore.queue.full-is-busy")
async def test_status_and_health_answer_while_a_generation_runs_and_others_wait(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        streams = [daemon.app.start("GenerateContent", prompt("hi")) for _ in range(9)]
        reads = [asyncio.ensure_future(texts(stream)) for stream in streams]
        await until_queue_is(daemon, 1, 8)
        busy = await daemon.app.fault("GenerateContent", prompt("hi"), stream=True)
        assert (busy.error_code, busy.HasField("retry_delay")) == (9, False)
        assert await status_of(daemon.app) == aicore_pb2.AVAILABLE
        checks = health_pb2_grpc.HealthStub(daemon.channel)
        request = health_pb2.HealthCheckRequest(service="aicore.sim.v1.AICore")
        health = await checks.Check(request, timeout=TIMEOUT)
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        assert len(backend.requests) == 1
        backend.release(2)
        backend.finish()
        for _ in range(8):
            backend.release()
        answers = await asyncio.wait_for(asyncio.gather(*reads), TIMEOUT)
        await until_queue_is(daemon, 0, 0)
    assert len(answers) == len(backend.requests) == 9


@pytest.mark.requirement("prompt.generate.cancel-stops-model")
@pytest.mark.parametrize("chunks_before", [0, 1, 50])
async def test_cancelling_a_call_stops_the_model_and_frees_its_slot(
    start_daemon: StartDaemon, chunks_before: int
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        first = daemon.app.start("GenerateContent", prompt("first"))
        backend.release(chunks_before)
        for _ in range(min(chunks_before, 1)):
            await first.read()
        await until_queue_is(daemon, 1, 0)
        waiting = daemon.app.start("GenerateContent", prompt("waiting"))
        leaving = daemon.app.start("GenerateContent", prompt("leaving"))
        await until_queue_is(daemon, 1, 2)
        leaving.cancel()
        await until_queue_is(daemon, 1, 1)
        first.cancel()
        await eventually(lambda: len(backend.requests) == 2)
        assert backend.open == 1
        backend.finish()
        assert (await asyncio.wait_for(waiting.read(), TIMEOUT)) is not None
        await until_queue_is(daemon, 0, 0)
    assert [request.contents[0].parts[0].text for request in backend.requests] == [  # type: ignore[union-attr]
        "first",
        "waiting",
    ]


async def test_an_app_that_stops_reading_and_cancels_frees_the_slot(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend, quota="off") as daemon:
        for _ in range(5):
            stream = daemon.app.start("GenerateContent", prompt("hi"))
            backend.release(2000)
            await stream.read()
            stream.cancel()
            await asyncio.wait_for(backend.closed.wait(), TIMEOUT)
        await until_queue_is(daemon, 0, 0)


@pytest.mark.requirement("aicore.availability.unavailable-model")
async def test_a_model_that_cannot_be_used_gives_8_at_once_and_the_reason_in_the_log(
    start_daemon: StartDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    backend = HandDrivenBackend(reason="genai_config.json: unknown key 'modle'")
    async with start_daemon(backend=backend) as daemon:
        await daemon.server.wait_ready()
        assert await status_of(daemon.app) == aicore_pb2.UNAVAILABLE
        faults = [
            await daemon.app.fault("GenerateContent", prompt("hi"), stream=True),
            await daemon.app.fault(
                "CountTokens", aicore_pb2.CountTokensRequest(request=prompt("x"))
            ),
            await daemon.app.fault("GetModelInfo", aicore_pb2.GetModelInfoRequest()),
        ]
        assert (await daemon.shell.device()).unavailable_reason == backend.reason
    assert {(fault.error_code, fault.error_type) for fault in faults} == {(8, 3)}
    assert faults[0].message.startswith(BAD_MODEL)
    assert "modle" not in faults[0].message
    assert "genai_config.json: unknown key 'modle'" in caplog.text


async def test_a_model_that_is_lost_gives_8_at_once_also_when_others_wait(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        running = daemon.app.start("GenerateContent", prompt("hi"))
        await until_queue_is(daemon, 1, 0)
        backend.reason = "the worker died"
        async with asyncio.timeout(1.0):
            fault = await daemon.app.fault("GenerateContent", prompt("hi"), stream=True)
        assert fault.error_code == 8
        running.cancel()


async def test_a_backend_that_fails_to_load_makes_the_model_unavailable(
    start_daemon: StartDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    backend = HandDrivenBackend(failure=OSError("no such library"))
    async with start_daemon(backend=backend) as daemon:
        await daemon.server.wait_ready()
        assert await status_of(daemon.app) == aicore_pb2.UNAVAILABLE
        device = await daemon.shell.device()
        assert device.unavailable_reason == "loading failed with OSError: no such library"
    assert "Traceback" in caplog.text


@pytest.mark.requirement("aicore.availability.while-loading")
async def test_calls_answer_while_the_model_loads_and_generations_wait_for_it(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend(loaded=False)
    async with start_daemon(backend=backend) as daemon:
        assert await status_of(daemon.app) == aicore_pb2.AVAILABLE
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        await until_queue_is(daemon, 1, 0)
        assert backend.requests == []
        backend.may_load.set()
        backend.release()
        assert (await stream.read()).text == "token "
        stream.cancel()


async def test_stopping_ends_a_stream_and_then_the_model(start_daemon: StartDaemon) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        backend.release()
        await stream.read()
        async with asyncio.timeout(TIMEOUT):
            await daemon.server.stop()
        with pytest.raises(grpc.aio.AioRpcError):
            await stream.read()
        assert (backend.open, backend.stopped) == (0, True)
        await daemon.server.stop()


@pytest.mark.requirement("aicore.generate.seeded")
async def test_requests_without_a_seed_get_the_same_ones_on_every_device_of_one_seed(
    start_daemon: StartDaemon,
) -> None:
    seeds: list[list[int | None]] = []
    for _ in range(2):
        backend = HandDrivenBackend()
        backend.finish()
        async with start_daemon(backend=backend) as daemon:
            await daemon.app.generate()
            backend.finish()
            await daemon.app.generate()
            backend.finish()
            await daemon.app.generate(prompt("hi", sampling={"seed": 5}))
        seeds.append([request.sampling.seed for request in backend.requests])
    assert seeds[0] == seeds[1]
    assert seeds[0][0] != seeds[0][1]
    assert seeds[0][2] == 5


async def test_the_log_has_a_line_for_each_call_and_never_what_was_said(
    start_daemon: StartDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with start_daemon(script="- text: answer-secret") as daemon:
        await daemon.app.generate(prompt("prompt-secret"))
        await daemon.app.fault("GenerateContent", prompt("prompt-secret"), stream=True)
    lines = [line for line in caplog.messages if line.startswith("rpc=GenerateContent")]
    assert [line.rpartition(" seconds=")[0] for line in lines] == [
        "rpc=GenerateContent caller=com.example.app outcome=ok code=0 "
        "input_tokens=3 output_tokens=3",
        "rpc=GenerateContent caller=com.example.app outcome=script-drift code=0 "
        "input_tokens=3 output_tokens=0",
    ]
    assert "secret" not in caplog.text


async def test_the_address_is_unknown_before_the_start(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        assert daemon.server.address == f"unix:{daemon.home.path / 'aicore.sock'}"
        fresh = AicoreServer(daemon.server.options)
    with pytest.raises(RuntimeError, match="not been started"):
        fresh.address  # noqa: B018
    with pytest.raises(RuntimeError, match="not been started"):
        await fresh.wait_ready()


def _get_script() -> object:
    from aicore_protos import device_pb2

    return device_pb2.GetScriptRequest()
