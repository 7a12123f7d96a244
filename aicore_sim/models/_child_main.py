"""The heavy steps of a pull, each run in a process of its own (see `_child`).

    python -m aicore_sim.models._child_main pip ARGUMENTS...
    python -m aicore_sim.models._child_main convert GGUF FOLDER [ADAPTER]
    python -m aicore_sim.models._child_main generate FOLDER

`convert` and `generate` report on standard output, one JSON object a line: `step` (done, total),
and at the end `peak` (bytes) or `failed` (kind, message). The process ends at once when its
standard input closes, so that a killed parent leaves nothing running.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import runpy
import sys
import threading
from pathlib import Path
from typing import Any

from aicore_sim.models.errors import UnsupportedModel

OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PROMPT = "The capital of France is"
TRIAL_TOKENS = 8


def main(arguments: list[str]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    command, *rest = arguments
    if command == "pip":
        sys.argv = ["pip", *rest]
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
        return 0
    try:
        if command == "convert":
            _convert(*map(Path, rest))
        elif command == "generate":
            _generate(Path(rest[0]))
        else:
            raise ValueError(f"unknown command {command!r}")
    except UnsupportedModel as error:
        _say(failed={"kind": "conversion", "message": str(error)})
        return 1
    except OSError as error:
        kind = "no_space" if error.errno in OUT_OF_SPACE else "conversion"
        _say(failed={"kind": kind, "message": str(error)})
        return 1
    _say(peak=_peak_memory())
    return 0


def _convert(source: Path, folder: Path, adapter: Path | None = None) -> None:
    from aicore_sim.models.convert import convert

    convert(source, folder, lambda done, total: _say(step=[done, total]), adapter=adapter)


def _generate(folder: Path) -> None:
    """Proves that the runtime loads the model and that it generates numbers."""
    import numpy as np
    import onnxruntime_genai as og

    model = og.Model(str(folder))
    tokenizer = og.Tokenizer(model)
    prompt = tokenizer.encode(_PROMPT)
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(max_length=len(prompt) + TRIAL_TOKENS, do_sample=False)
    generator = og.Generator(model, parameters)
    generator.append_tokens(prompt)
    done = 0
    while not generator.is_done():
        if not np.isfinite(generator.get_logits()).all():
            raise ArithmeticError("the model's output holds values that are no numbers")
        generator.generate_next_token()
        done += 1
        _say(step=[done, TRIAL_TOKENS])


def _peak_memory() -> int:
    """In bytes. `ru_maxrss` is second choice on Linux: it counts the parent's pages at fork."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _say(**report: Any) -> None:
    print(json.dumps(report), flush=True)


def _end_with_parent() -> None:
    # os.read and not sys.stdin: a thread inside a buffered read aborts the interpreter's exit.
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
