"""Structured answers, several candidates and advice, over a real socket."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aicore_protos import aicore_pb2, types_pb2
from tests.aicore.conftest import StartDaemon

OBJECT = types_pb2.FunctionSchema(
    type=types_pb2.FUNCTION_TYPE_OBJECT,
    properties=[
        types_pb2.FunctionSchema.Property(
            name="done", schema=types_pb2.FunctionSchema(type=types_pb2.FUNCTION_TYPE_BOOLEAN)
        )
    ],
    required=["done"],
)


def asked(**fields: Any) -> aicore_pb2.GenerateContentRequest:
    part = aicore_pb2.Part(text="hi")
    content = aicore_pb2.Content(role=aicore_pb2.USER, parts=[part])
    return aicore_pb2.GenerateContentRequest(contents=[content], **fields)


async def error_code(start_daemon: StartDaemon, script: str) -> int:
    async with start_daemon(script=script) as daemon:
        request = asked(response_schema=OBJECT)
        detail = await daemon.app.fault("GenerateContent", request, stream=True)
    code: int = detail.error_code
    return code


@pytest.mark.requirement("aicore.generate.structured-output-errors")
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("- text: 'I am done.'", -105),
        ("- text: '{\"done\": 1}'", -105),
        ("- text: '{}'", -105),
        ("- {text: '{\"do', finish_reason: max_tokens}", -106),
    ],
)
async def test_a_structured_answer_that_is_none_is_an_error_of_its_own(
    start_daemon: StartDaemon, script: str, code: int
) -> None:
    assert await error_code(start_daemon, script) == code


@pytest.mark.requirement("aicore.generate.structured-output-errors")
async def test_a_structured_answer_of_the_declared_type_passes(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: '{\"done\": true}'") as daemon:
        chunks = await daemon.app.generate(asked(response_schema=OBJECT))

    assert "".join(chunk.text for chunk in chunks) == '{"done": true}'
    assert chunks[-1].finish.reason == aicore_pb2.STOP


async def test_a_call_in_the_place_of_a_structured_answer_passes(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script="- function_calls: [{name: f}]") as daemon:
        chunks = await daemon.app.generate(asked(response_schema=OBJECT))

    assert [chunk.WhichOneof("chunk") for chunk in chunks] == ["function_call", "finish"]


@pytest.mark.requirement("prompt.candidate.several")
async def test_several_candidates_come_whole_and_equal_ones_once(
    start_daemon: StartDaemon,
) -> None:
    script = """
    - {text: one two, usage: {input_tokens: 5, output_tokens: 2}}
    - {text: one two, usage: {input_tokens: 5, output_tokens: 2}}
    - {text: other, finish_reason: max_tokens, usage: {input_tokens: 5, output_tokens: 3}}
    """
    async with start_daemon(script=script) as daemon:
        request = asked(sampling=aicore_pb2.Sampling(candidate_count=3))
        chunks = await daemon.app.generate(request)

    said = [(chunk.candidate, chunk.text) for chunk in chunks if chunk.HasField("text")]
    finishes = [(chunk.candidate, chunk.finish) for chunk in chunks if chunk.HasField("finish")]
    assert said == [(0, "one two"), (1, "other")]
    assert [(number, finish.reason) for number, finish in finishes] == [
        (0, aicore_pb2.STOP),
        (1, aicore_pb2.MAX_TOKENS),
    ]
    assert finishes[-1][1].usage == aicore_pb2.Usage(input_tokens=5, output_tokens=7)


@pytest.mark.requirement("aicore.generate.temperature-advice")
async def test_a_high_temperature_is_warned_of_once(
    start_daemon: StartDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="aicore_sim.service.advice")
    script = "\n".join(["- text: ok"] * 4)
    async with start_daemon(script=script) as daemon:
        for temperature in (None, 0.4, 0.5, 0.9):
            await daemon.app.generate(asked(sampling=aicore_pb2.Sampling(temperature=temperature)))

    warnings = [record for record in caplog.records if record.name == "aicore_sim.service.advice"]
    assert len(warnings) == 1
    assert "0.5" in warnings[0].getMessage()
