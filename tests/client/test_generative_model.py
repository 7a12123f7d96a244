from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from aicore_client import (
    Agent,
    AgentRunner,
    Candidate,
    Content,
    FeatureStatus,
    FinishReason,
    FunctionCall,
    FunctionDeclaration,
    FunctionSchema,
    FunctionType,
    GenerateContentRequest,
    GenerateContentResponse,
    Generation,
    GenerationConfig,
    GenerativeModel,
    ModelConfig,
    ModelPreference,
    ModelReleaseStage,
    Usage,
)
from aicore_protos import aicore_pb2, types_pb2
from tests.client.conftest import Device
from tests.client.fakes import Chunk, Hold, call, finish, malformed, text

PROMPT = Content.builder().text("Hi").build()


@pytest.fixture
def model(device: Device) -> GenerativeModel:
    return Generation.get_client(connection=device.connection)


@pytest.mark.requirement(
    "prompt.count-tokens.input-only",
    "prompt.model.base-name",
    "prompt.model.check-status",
    "prompt.model.token-limit",
)
async def test_status_name_limit_and_count_come_from_the_daemon(
    device: Device, model: GenerativeModel
) -> None:
    assert await model.check_status() is FeatureStatus.AVAILABLE
    assert await model.get_base_model_name() == "nano-v3"
    assert await model.get_token_limit() == 4096
    assert (await model.count_tokens("How many?")).total_tokens == 11
    assert device.aicore.requests[0].contents[0].parts[0].text == "How many?"


@pytest.mark.requirement("common.feature-status.unknown-number")
async def test_a_status_without_a_name_stays_a_number(
    device: Device, model: GenerativeModel
) -> None:
    device.aicore.status = 17

    assert await model.check_status() == 17


@pytest.mark.requirement(
    "prompt.candidate.reason-on-last-chunk",
    "prompt.generate.stream-deltas",
    "prompt.generate.streaming-callback",
)
async def test_a_stream_gives_what_is_new_and_at_last_the_reason(
    device: Device, model: GenerativeModel
) -> None:
    device.aicore.script([Chunk(thought="Hm."), text("a"), text("b"), finish("MAX_TOKENS")])

    chunks = [chunk async for chunk in model.generate_content_stream("x")]

    assert chunks == [
        GenerateContentResponse(thought_process=(Candidate(text="Hm."),)),
        GenerateContentResponse(candidates=(Candidate(text="a"),)),
        GenerateContentResponse(candidates=(Candidate(text="b"),)),
        GenerateContentResponse(
            candidates=(Candidate(finish_reason=FinishReason.MAX_TOKENS),),
            usage=Usage(input_tokens=7, cached_input_tokens=3, output_tokens=2),
        ),
    ]


@pytest.mark.requirement(
    "common.function-call",
    "prompt.candidate.function-calls",
    "prompt.generate.whole-answer",
)
async def test_a_whole_answer_joins_the_chunks(device: Device, model: GenerativeModel) -> None:
    device.aicore.script([text("a"), call("f", x=1), malformed("{", "cut"), text("b"), finish()])

    response = await model.generate_content("x")

    (candidate,) = response.candidates
    assert (candidate.text, candidate.finish_reason) == ("ab", FinishReason.STOP)
    assert candidate.function_calls == (FunctionCall("f", {"x": 1}),)
    assert [item.reason for item in candidate.malformed_function_calls] == ["cut"]
    assert response.usage == Usage(input_tokens=7, cached_input_tokens=3, output_tokens=2)


@pytest.mark.requirement("prompt.generate.cancel-stops-model")
async def test_leaving_the_stream_stops_the_model(device: Device, model: GenerativeModel) -> None:
    hold = Hold()
    device.aicore.script([text("a"), hold])

    async for _ in model.generate_content_stream("x"):
        break

    await asyncio.wait_for(hold.cancelled.wait(), 5)


@pytest.mark.requirement(
    "prompt.model.release-stage-and-preference",
    "prompt.request.system-instruction",
    "prompt.request.tool-choice",
    "prompt.request.tools",
)
async def test_a_request_is_sent_whole(device: Device) -> None:
    config = ModelConfig(release_stage=ModelReleaseStage.PREVIEW, preference=ModelPreference.FAST)
    model = Generation.get_client(
        GenerationConfig(model_config=config), connection=device.connection
    )
    device.aicore.script([finish()])
    size = FunctionSchema(type=FunctionType.INTEGER, minimum=1, maximum=9)

    await model.generate_content(
        GenerateContentRequest(
            contents=[PROMPT],
            system_instruction="Be brief.",
            tools=[
                FunctionDeclaration(
                    name="f",
                    description="Does f.",
                    parameters=FunctionSchema(
                        type=FunctionType.OBJECT, properties={"size": size}, required=("size",)
                    ),
                )
            ],
            tool_choice="required",
            temperature=0.5,
            seed=4,
            session_id="s",
        )
    )

    properties = [
        types_pb2.FunctionSchema.Property(
            name="size",
            schema=types_pb2.FunctionSchema(type="FUNCTION_TYPE_INTEGER", minimum=1, maximum=9),
        )
    ]
    assert device.aicore.requests == [
        aicore_pb2.GenerateContentRequest(
            model=aicore_pb2.ModelSelection(release_stage="PREVIEW", preference="FAST"),
            contents=[aicore_pb2.Content(role="USER", parts=[aicore_pb2.Part(text="Hi")])],
            system_instruction="Be brief.",
            tools=[
                aicore_pb2.FunctionDeclaration(
                    name="f",
                    description="Does f.",
                    parameters=types_pb2.FunctionSchema(
                        type="FUNCTION_TYPE_OBJECT", properties=properties, required=["size"]
                    ),
                )
            ],
            tool_choice=aicore_pb2.ToolChoice(mode="REQUIRED"),
            sampling=aicore_pb2.Sampling(temperature=0.5, seed=4),
            session_id="s",
        )
    ]


@pytest.mark.requirement("prompt.request.contents-required", "prompt.request.sampling-ranges")
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"contents": []}, "contents"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"seed": -1}, "seed"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_a_request_outside_its_range_is_refused(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        GenerateContentRequest(**{"contents": [PROMPT], **settings})  # type: ignore[arg-type]


@pytest.mark.requirement("prompt.content.empty-refused")
async def test_an_empty_prompt_never_reaches_the_daemon(
    device: Device, model: GenerativeModel
) -> None:
    with pytest.raises(ValueError, match="empty"):
        await model.generate_content(" ")
    assert device.aicore.requests == []


@pytest.mark.requirement("prompt.model.close")
async def test_a_closed_client_refuses_calls(model: GenerativeModel) -> None:
    model.close()
    model.close()

    with pytest.raises(RuntimeError, match="closed"):
        await model.check_status()


class Canned(GenerativeModel):
    """A model of the app's own, as tests of apps bring it."""

    async def generate_content_stream(
        self, request: str | GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse]:
        yield GenerateContentResponse(candidates=(Candidate(text="canned"),))


@pytest.mark.requirement("agent.runner.custom-model")
async def test_a_runner_uses_the_model_that_it_is_given() -> None:
    runner = AgentRunner(Agent(), generative_model=Canned())

    messages = [text async for text in runner.run_single_turn_async(PROMPT).text_messages()]

    assert messages == ["canned"]


@pytest.mark.requirement(
    "prompt.model.release-stage-and-preference",
    "prompt.model.config-default",
    "prompt.candidate.finish-reasons",
    "common.feature-status",
)
def test_numbers_and_defaults_are_those_of_the_phone() -> None:
    assert {status.name: status.value for status in FeatureStatus} == {
        "UNAVAILABLE": 0,
        "DOWNLOADABLE": 1,
        "DOWNLOADING": 2,
        "AVAILABLE": 3,
    }
    assert {reason.name: reason.value for reason in FinishReason} == {
        "STOP": 0,
        "MAX_TOKENS": 1,
        "OTHER": -100,
    }
    assert [stage.value for stage in ModelReleaseStage] == [0, 1]
    assert [(choice.name, choice.value) for choice in ModelPreference] == [("FAST", 1), ("FULL", 2)]
    assert GenerationConfig().model_config == ModelConfig(
        release_stage=ModelReleaseStage.STABLE, preference=ModelPreference.FULL
    )


@pytest.mark.requirement(
    "prompt.model.get-client",
)
def test_a_client_is_made_without_a_call() -> None:
    assert isinstance(Generation.get_client(), GenerativeModel)


@pytest.mark.requirement("prompt.candidate.several")
async def test_several_candidates_are_told_apart(device: Device, model: GenerativeModel) -> None:
    device.aicore.script(
        [
            aicore_pb2.GenerateContentResponse(text="a"),
            aicore_pb2.GenerateContentResponse(finish=aicore_pb2.Finish()),
            aicore_pb2.GenerateContentResponse(text="b", candidate=1),
            aicore_pb2.GenerateContentResponse(
                finish=aicore_pb2.Finish(reason="MAX_TOKENS"), candidate=1
            ),
        ]
    )
    request = GenerateContentRequest(contents=[PROMPT], candidate_count=2)

    answer = await model.generate_content(request)

    assert answer.candidates == (
        Candidate(text="a", finish_reason=FinishReason.STOP),
        Candidate(text="b", finish_reason=FinishReason.MAX_TOKENS),
    )
    assert device.aicore.requests[-1].sampling.candidate_count == 2


@pytest.mark.requirement("prompt.candidate.several")
async def test_several_candidates_are_not_for_streams(model: GenerativeModel) -> None:
    request = GenerateContentRequest(contents=[PROMPT], candidate_count=2)

    with pytest.raises(ValueError, match="candidate_count 2"):
        await anext(model.generate_content_stream(request))


@pytest.mark.parametrize("count", [0, 9])
def test_the_number_of_candidates_is_1_to_8(count: int) -> None:
    with pytest.raises(ValueError, match=f"candidate_count must be 1 to 8, not {count}"):
        GenerateContentRequest(contents=[PROMPT], candidate_count=count)
