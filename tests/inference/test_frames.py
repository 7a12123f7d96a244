"""The bytes between the daemon and its worker."""

from __future__ import annotations

import io

import pytest
from pydantic import BaseModel

from aicore_sim.inference import frames
from aicore_sim.inference.backend import (
    Finish,
    FunctionCall,
    FunctionCallPart,
    GenerateRequest,
    MalformedCall,
    ModelInfo,
    TextDelta,
    Usage,
)
from aicore_sim.inference.warm_states import WarmFigures
from tests.inference.requests import ask, ask_with_tools, said

REQUEST = ask_with_tools("Grüße 👨‍👩‍👧", mode="required")


@pytest.mark.parametrize(
    "command",
    [
        frames.Load(
            model_dir="/m",
            threads=2,
            token_limit=None,
            name="n",
            prefix_memory_mb=8,
            chunk_seconds=0.5,
        ),
        frames.Forget(id=5, app="com.a"),
        frames.Generate(id=1, request=REQUEST),
        frames.Count(id=2, request=REQUEST),
        frames.Cancel(id=3),
        frames.Taken(id=4, count=16),
        frames.Ping(),
        frames.Shutdown(),
    ],
)
def test_a_command_reads_back_as_it_was_written(command: frames.Command) -> None:
    stream = io.BytesIO(frames.encode(command) * 2)

    assert frames.read_command(stream) == command
    assert frames.read_command(stream) == command
    assert frames.read_command(stream) is None


@pytest.mark.parametrize(
    "event",
    [
        frames.Loaded(info=ModelInfo(name="n", token_limit=9, dialect="hermes", constrained=True)),
        frames.LoadFailed(reason="why"),
        frames.Pong(working=True, steps=3, warm=WarmFigures(states=1, bytes=2, evicted=3)),
        frames.Forgotten(id=5),
        frames.Progress(id=1, prefill=False),
        frames.Produced(id=1, chunk=TextDelta(text="\n\u2028é")),
        frames.Produced(id=1, chunk=FunctionCall(name="f", args={"a": [2**62, None, {"b": 0.5}]})),
        frames.Produced(id=1, chunk=MalformedCall(text="{", reason="cut")),
        frames.Produced(
            id=1, chunk=Finish(reason="stop", usage=Usage(input_tokens=1, output_tokens=2))
        ),
        frames.Counted(id=2, tokens=7),
        frames.Failed(id=3, error_code=12, message="too large"),
        frames.Ended(id=4, output_tokens=3, tokens_after_cancel=1),
    ],
)
def test_an_event_reads_back_as_it_was_written(event: frames.Event) -> None:
    data = frames.encode(event)

    assert frames.body_length(data[: frames.HEADER]) == len(data) - frames.HEADER
    assert frames.parse_event(data[frames.HEADER :]) == event


def test_a_stream_that_ends_inside_a_frame_has_ended() -> None:
    data = frames.encode(frames.Cancel(id=3))

    for length in (1, frames.HEADER, len(data) - 1):
        assert frames.read_command(io.BytesIO(data[:length])) is None


@pytest.mark.parametrize(
    "header", [b"\0\0\0\0", (frames.MAX_FRAME + 1).to_bytes(4, "big"), b"\xff" * 4]
)
def test_a_length_that_no_frame_has_is_refused(header: bytes) -> None:
    with pytest.raises(frames.FrameError):
        frames.read_command(io.BytesIO(header + b"{}"))


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"op": "dance"}', b'{"op": "cancel", "id": "x"}'])
def test_a_body_that_is_no_command_is_refused(body: bytes) -> None:
    with pytest.raises(frames.FrameError):
        frames.parse_command(body)


def test_the_error_for_a_bad_frame_does_not_repeat_its_content() -> None:
    body = b'{"op": "generate", "id": 1, "request": {"contents": "my secret"}}'

    with pytest.raises(frames.FrameError) as caught:
        frames.parse_command(body)
    with pytest.raises(frames.FrameError) as caught_event:
        frames.parse_event(b'{"event": "counted", "id": "my secret", "tokens": 1}')

    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught_event.value)


def test_a_frame_over_the_limit_is_not_written() -> None:
    big: BaseModel = frames.LoadFailed(reason="x" * frames.MAX_FRAME)

    with pytest.raises(frames.FrameError):
        frames.encode(big)


def called_with_depth(depth: int) -> GenerateRequest:
    args: dict[str, object] = {}
    for _ in range(depth):
        args = {"secret": args}
    return GenerateRequest(contents=(said("model", FunctionCallPart(name="f", args=args)),))


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (ask("secret \ud800"), "surrogate"),
        (called_with_depth(220), "this form"),
        (called_with_depth(2000), "this form"),
    ],
    ids=["surrogate", "deep", "deeper"],
)
def test_a_request_that_could_not_be_read_is_not_written_and_not_repeated(
    request_: GenerateRequest, named: str
) -> None:
    with pytest.raises(frames.NotSendableError, match=named) as caught:
        frames.encode(frames.Count(id=1, request=request_))

    assert "secret" not in str(caught.value)


def test_what_is_written_reads_back_at_every_depth() -> None:
    for depth in range(0, 300, 7):
        count = frames.Count(id=1, request=called_with_depth(depth))
        try:
            data = frames.encode(count)
        except frames.NotSendableError:
            assert depth > 100
        else:
            assert frames.read_command(io.BytesIO(data)) == count
