"""How many tokens a request may use.

`countTokens` plus the output limit must not exceed the token limit:
https://developers.google.com/ml-kit/genai/prompt/android/get-started
"""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.device.errors import GenAiCode
from aicore_sim.policy.failures import aicore_failure


@dataclass(frozen=True, kw_only=True)
class TokenLimits:
    """Limits in tokens; `total` is input and output together."""

    input: int
    total: int

    def check(self, input_tokens: int, max_output_tokens: int | None) -> None:
        """Raises GenAiError 12 for a request that does not fit.

        Without an output limit one token of output must fit.
        """
        if input_tokens > self.input:
            raise aicore_failure(
                GenAiCode.REQUEST_TOO_LARGE,
                f"The input has {input_tokens} tokens, the limit is {self.input}.",
            )
        output = max_output_tokens or 1
        if input_tokens + output > self.total:
            raise aicore_failure(
                GenAiCode.REQUEST_TOO_LARGE,
                f"The input has {input_tokens} tokens and the output may have {output}; "
                f"together the limit is {self.total}.",
            )
