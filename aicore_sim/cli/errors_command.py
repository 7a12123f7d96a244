"""`errors`: every code that an app may see, and whether trying again can help."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from aicore_sim.cli import options as shared

Origin = Literal["ErrorCode", "AICore"]

REFERENCE = (
    "https://developers.google.com/android/reference/com/google/mlkit/genai/common/"
    "GenAiException.ErrorCode"
)


@dataclass(frozen=True, kw_only=True)
class KnownError:
    """One code of `GenAiException`."""

    code: int
    name: str
    origin: Origin
    """`ErrorCode` has a constant of ML Kit; `AICore` is a raw code without one."""
    meaning: str
    retry: bool
    """Whether the same call, some time later, may succeed with nothing else done."""
    advice: str


@dataclass(frozen=True, kw_only=True)
class KnownErrorType:
    """The first number of AICore's message."""

    type: int
    name: str
    meaning: str


# Meanings of the constants after REFERENCE, of the raw codes after the reports of
# https://github.com/googlesamples/mlkit/issues. `retry` and the advice are ours.
ERRORS: tuple[KnownError, ...] = (
    KnownError(
        code=0, name="UNKNOWN", origin="ErrorCode",
        meaning="A failure without a closer cause; a download without network shows it, type 1.",
        retry=True, advice="Try again once, with network if it was a download; then report it.",
    ),
    KnownError(
        code=4, name="REQUEST_PROCESSING_ERROR", origin="ErrorCode",
        meaning="The request did not pass a policy check.",
        retry=False, advice="Change the prompt.",
    ),
    KnownError(
        code=6, name="IPC_ERROR", origin="AICore",
        meaning="The connection to the AICore service broke.",
        retry=True, advice="Try again; AICore is bound anew.",
    ),
    KnownError(
        code=7, name="CANCELLED", origin="ErrorCode",
        meaning="The request was cancelled.",
        retry=False, advice="Nothing: the app asked for it. Start again if it did not.",
    ),
    KnownError(
        code=8, name="NOT_AVAILABLE", origin="ErrorCode",
        meaning="Feature, model or AICore is not there or not ready.",
        retry=False, advice="Call checkStatus; download when it is DOWNLOADABLE.",
    ),
    KnownError(
        code=9, name="BUSY", origin="ErrorCode",
        meaning="AICore is busy, or the app has used up its short-term quota.",
        retry=True, advice="Wait for retryDelay when it is not zero, else back off exponentially.",
    ),
    KnownError(
        code=11, name="RESPONSE_PROCESSING_ERROR", origin="ErrorCode",
        meaning="The answer did not pass a policy check.",
        retry=False, advice="Change the prompt.",
    ),
    KnownError(
        code=12, name="REQUEST_TOO_LARGE", origin="ErrorCode",
        meaning="The input has too many tokens.",
        retry=False, advice="Send less: countTokens and getTokenLimit tell how much.",
    ),
    KnownError(
        code=15, name="RESPONSE_GENERATION_ERROR", origin="ErrorCode",
        meaning="A policy check stopped the answer, possibly in the middle of a stream.",
        retry=False, advice="Discard the text so far and change the prompt.",
    ),
    KnownError(
        code=16, name="NOT_SUPPORTED", origin="ErrorCode",
        meaning="The device does not support the feature.",
        retry=False, advice="Hide the feature on this device.",
    ),
    KnownError(
        code=27, name="PER_APP_BATTERY_USE_QUOTA_EXCEEDED", origin="ErrorCode",
        meaning="The app has used up its battery quota of a long period.",
        retry=False, advice="Stop until the period ends; backing off inside it never helps.",
    ),
    KnownError(
        code=28, name="DEVICE_BATTERY_USE_QUOTA_EXCEEDED", origin="AICore",
        meaning="All apps together have used up the battery quota. ML Kit shows it as 9, BUSY.",
        retry=False, advice="As for 27: wait for retryDelay.",
    ),
    KnownError(
        code=29, name="INTERNAL_ERROR", origin="AICore",
        meaning="The inference failed inside AICore, for example because the model crashed.",
        retry=True, advice="Discard the text so far; try again once.",
    ),
    KnownError(
        code=30, name="BACKGROUND_USE_BLOCKED", origin="ErrorCode",
        meaning="The app is not the top foreground app; services and overlays do not count.",
        retry=False, advice="Ask again when the app's activity is on top.",
    ),
    KnownError(
        code=501, name="NOT_ENOUGH_DISK_SPACE", origin="ErrorCode",
        meaning="There is no room for the model.",
        retry=False, advice="Ask the user to free space, then download again.",
    ),
    KnownError(
        code=601, name="BINDING_FAILURE", origin="AICore",
        meaning="The AICore service cannot be bound: just after set-up, or not installed.",
        retry=True, advice="Try again later; update AICore if it stays.",
    ),
    KnownError(
        code=604, name="NEEDS_SYSTEM_UPDATE", origin="ErrorCode",
        meaning="AICore or the system is too old.",
        retry=False, advice="Ask the user to update.",
    ),
    KnownError(
        code=606, name="FEATURE_NOT_FOUND", origin="AICore",
        meaning="AICore does not know the feature: configuration pending, unlocked bootloader, "
        "or an unsupported device.",
        retry=False, advice="Treat as UNAVAILABLE; ask again after hours online at the earliest.",
    ),
    KnownError(
        code=-100, name="REQUEST_TOO_SMALL", origin="ErrorCode",
        meaning="The input is below the minimum.",
        retry=False, advice="Send more.",
    ),
    KnownError(
        code=-101, name="AICORE_INCOMPATIBLE", origin="ErrorCode",
        meaning="AICore is missing, or too old for the library.",
        retry=False, advice="Ask the user to update AICore.",
    ),
    KnownError(
        code=-102, name="INVALID_INPUT_IMAGE", origin="ErrorCode",
        meaning="The image cannot be used.",
        retry=False, advice="Send another image.",
    ),
    KnownError(
        code=-103, name="CACHE_PROCESSING_ERROR", origin="ErrorCode",
        meaning="A prefix cache is invalid, for example after a model update.",
        retry=False, advice="Delete the cache and create it again.",
    ),
    KnownError(
        code=-104, name="STRUCTURED_OUTPUT_REQUEST_ERROR", origin="ErrorCode",
        meaning="The schema or class of a structured answer cannot be used.",
        retry=False, advice="Mend the schema.",
    ),
    KnownError(
        code=-105, name="STRUCTURED_OUTPUT_RESPONSE_ERROR", origin="ErrorCode",
        meaning="The answer does not follow the schema.",
        retry=True, advice="Try again; simplify the schema if it stays.",
    ),
    KnownError(
        code=-106, name="STRUCTURED_OUTPUT_MAX_TOKENS_ERROR", origin="ErrorCode",
        meaning="The answer was cut before its JSON was complete.",
        retry=False, advice="Raise maxOutputTokens.",
    ),
    KnownError(
        code=-107, name="AUDIO_BUFFER_OVERFLOW", origin="ErrorCode",
        meaning="Speech recognition only: audio came faster than it was read.",
        retry=False, advice="Read faster.",
    ),
    KnownError(
        code=-112, name="MAX_TURNS_EXCEEDED", origin="ErrorCode",
        meaning="An agent used up its maxTurns without a final answer.",
        retry=False, advice="Ask for less in one turn, or raise maxTurns.",
    ),
)  # fmt: skip

ERROR_TYPES: tuple[KnownErrorType, ...] = (
    KnownErrorType(type=1, name="DOWNLOAD_ERROR", meaning="Getting the model"),
    KnownErrorType(type=2, name="INFERENCE_ERROR", meaning="Running the model"),
    KnownErrorType(type=3, name="PREPARATION_ERROR", meaning="Looking up or loading the feature"),
    KnownErrorType(type=4, name="CONNECTION_ERROR", meaning="Reaching the AICore service"),
)


def errors(json_output: shared.Json = False) -> None:
    """Print every error code that an app may see, and whether trying again can help."""
    if json_output:
        shared.print_json(
            {
                "reference": REFERENCE,
                "codes": [asdict(error) for error in ERRORS],
                "types": [asdict(error_type) for error_type in ERROR_TYPES],
            }
        )
        return
    shared.print_rows(
        "Codes of GenAiException",
        ("code", "name", "constant", "retry", "meaning", "what to do"),
        [
            (
                str(error.code),
                error.name,
                "yes" if error.origin == "ErrorCode" else "no",
                "yes" if error.retry else "no",
                error.meaning,
                error.advice,
            )
            for error in ERRORS
        ],
    )
    shared.print_rows(
        "Error types in AICore's messages",
        ("type", "name", "meaning"),
        [(str(known.type), known.name, known.meaning) for known in ERROR_TYPES],
    )
    print(f"Source of the constants: {REFERENCE}")
