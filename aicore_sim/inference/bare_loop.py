"""What the engine itself takes: a generation without daemon, queue, parser or prefix reuse.

`python -m aicore_sim.inference.bare_loop FOLDER THREADS` reads a JSON object a line (`tokens`, the
prompt; `output`, how many tokens to make) and answers each with one (`first_seconds`,
`rest_seconds`, `output`). For benchmarks.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import onnxruntime_genai as og

from aicore_sim.inference.engine import open_model


def measure(model: Any, tokens: list[int], output: int) -> dict[str, float]:
    """Times of one greedy generation: to the first token, and from there to the last."""
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(tokens) + output + 1, do_sample=False)
    started = time.perf_counter()
    generator = og.Generator(model, params)
    generator.append_tokens(tokens)
    generator.generate_next_token()
    first = time.perf_counter()
    made = 1
    while made < output and not generator.is_done():
        generator.generate_next_token()
        generator.get_next_tokens()
        made += 1
    ended = time.perf_counter()
    return {"first_seconds": first - started, "rest_seconds": ended - first, "output": made}


def main() -> None:
    """Ends when standard input does."""
    _, model = open_model(sys.argv[1], threads=int(sys.argv[2]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(measure(model, asked["tokens"], asked["output"])), flush=True)


if __name__ == "__main__":
    main()
