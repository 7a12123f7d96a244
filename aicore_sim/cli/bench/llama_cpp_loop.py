"""The loop of `aicore_sim.inference.bare_loop`, for llama.cpp.

`python -m aicore_sim.cli.bench.llama_cpp_loop GGUF THREADS CONTEXT PARENT`; ends with its parent.
https://github.com/abetlen/llama-cpp-python
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from aicore_sim.device.process import die_with_parent


def measure(model: Any, tokens: list[int], output: int) -> dict[str, float]:
    """Times of one greedy generation: to the first token, and from there to the last."""
    model.reset()  # nothing of an earlier prompt is reused
    first, made = 0.0, 0
    started = time.perf_counter()
    for _ in model.generate(tokens, temp=0.0):
        made += 1
        if made == 1:
            first = time.perf_counter()
        if made == output:
            break
    ended = time.perf_counter()
    return {"first_seconds": first - started, "rest_seconds": ended - first, "output": made}


def main() -> None:
    """Ends when standard input does."""
    gguf, threads, context, parent = sys.argv[1:]
    die_with_parent(int(parent))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what native code prints must not get between the answers
    import llama_cpp

    model = llama_cpp.Llama(
        model_path=gguf,
        n_ctx=int(context),
        n_threads=int(threads),
        n_threads_batch=int(threads),
        verbose=False,
    )
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        found = measure(model, asked["tokens"], asked["output"])
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
