"""Why a model is not to be had."""

from __future__ import annotations

from typing import Literal


class ModelError(Exception):
    """Root of everything this package raises on purpose."""


class ModelNotFound(ModelError):
    """No such model on this machine. The message says how to get one."""


class UnsupportedModel(ModelError):
    """A weight file that the converter does not know. The message names what was found."""


PullFailure = Literal[
    "no_pip",  # this Python environment cannot download
    "no_hub",  # the library of the Hugging Face Hub is not installed
    "not_found",  # the Hub has no such repository, revision or file
    "no_access",  # the Hub wants a token, or one with more rights
    "download",
    "source",  # the wheel or the file given is not what it should be
    "checksum",
    "no_space",
    "conversion",
    "verification",  # the converted model does not generate
    "cache",  # the cache folder cannot be written
    "busy",  # another pull holds the cache for too long
]


class PullError(ModelError):
    """A pull that failed and left nothing behind.

    `failure` is the kind for programs, the message says what was wrong, and `hint` what to do.
    """

    def __init__(self, failure: PullFailure, message: str, hint: str) -> None:
        super().__init__(f"{message} {hint}")
        self.failure: PullFailure = failure
        self.message = message
        self.hint = hint
