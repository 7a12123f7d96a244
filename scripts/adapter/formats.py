"""Tokens that each way of declaring functions costs, over the examples of a split.

python -m scripts.adapter.formats --model FOLDER [--count 300] [--seed 1]
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import get_args

from aicore_sim.inference.dialect import HermesDialect
from aicore_sim.inference.dialect.hermes import Declarations
from scripts.adapter.conversations import Example, Writer
from scripts.adapter.encode import ExampleEncoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a converted folder")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    examples = list(islice(Writer("validation", options.seed).examples(), options.count))
    functions = mean(len(example.request.tools) for example in examples)
    print(f"{options.count} examples with {functions:.1f} functions on average")
    for form in get_args(Declarations):
        encoder = ExampleEncoder(options.model, HermesDialect(declarations=form))
        whole = mean(len(encoder.prompt(example.request)) for example in examples)
        bare = mean(len(encoder.prompt(_without_tools(example))) for example in examples)
        print(f"{form}: {whole - bare:.0f} tokens of declarations, {whole:.0f} of the whole prompt")


def _without_tools(example: Example) -> Example:
    return example.model_copy(update={"request": example.request.model_copy(update={"tools": ()})})


if __name__ == "__main__":
    main()
