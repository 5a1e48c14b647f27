"""The training step of Hugging Face's ALBERT-base, measured as `training_step` measures ours.

    .venv-parity/bin/python -m benchmarks.training_step_hugging_face --shape 16x128

In the environment of `make parity`. `AlbertForPreTraining` at its best: through torch.compile, and
on a processor that is not Intel's with the library of `benchmarks.serving` that takes torch's
products off their slow path. It computes the logits of all positions, where the floor counts the
masked ones alone. Both losses, AdamW, dropout 0; bfloat16 is autocast. The floor is of torch's own
product.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

import numpy as np
import torch
import transformers

from benchmarks.floor import PRODUCT, random_batch, step_flops, step_line
from benchmarks.serving import unslowing_library

IGNORED = -100  # as a label


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="16x128", help="rows x length")
    parser.add_argument("--policy", default="float32", choices=("float32", "mixed_bfloat16"))
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.measure:
        measure(arguments)
        return
    # A preloaded library takes a process that starts with it.
    with contextlib.ExitStack() as stack:
        library = unslowing_library(stack)
        preloaded = {"LD_PRELOAD": str(library)} if library else {}
        command = [sys.executable, "-m", "benchmarks.training_step_hugging_face", "--measure"]
        command += sys.argv[1:] if argv is None else argv
        subprocess.run(command, env={**os.environ, **preloaded}, check=True)


def measure(arguments):
    rows, length = map(int, arguments.shape.split("x"))
    predictions = round(0.15 * length)  # as many as the library masks
    dtype = torch.float32 if arguments.policy == "float32" else torch.bfloat16
    model = transformers.AlbertForPreTraining(
        transformers.AlbertConfig(
            hidden_size=768,
            num_attention_heads=12,
            intermediate_size=3072,
            classifier_dropout_prob=0.0,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    compiled = torch.compile(model)
    ours = random_batch(rows, length, predictions)
    labels = np.full((rows, length), IGNORED)
    np.put_along_axis(labels, ours["masked_positions"], ours["masked_ids"], axis=1)
    batch = {
        "input_ids": ours["token_ids"],
        "token_type_ids": ours["segment_ids"],
        "attention_mask": ours["padding_mask"],
        "labels": labels,
        "sentence_order_label": ours["sop_labels"],
    }
    batch = {name: torch.tensor(values, dtype=torch.long) for name, values in batch.items()}

    def step():
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            loss = compiled(**batch).loss
        loss.backward()
        optimizer.step()
        loss.item()
        return time.perf_counter() - start

    before = product_flops_per_second(dtype)
    first, *seconds = (step() for _ in range(1 + arguments.steps))
    floor = step_flops(rows, length, predictions) / max(before, product_flops_per_second(dtype))
    line = step_line("training_step_hugging_face", arguments, seconds, first, floor) | {
        "unslowed": "LD_PRELOAD" in os.environ,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    print(json.dumps(line))


def product_flops_per_second(dtype: torch.dtype, repeats: int = 7) -> float:
    """As `floor.product_flops_per_second`, by torch."""
    a, b = (torch.randn(PRODUCT, PRODUCT).to(dtype) for _ in range(2))
    a @ b
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(4):
            a @ b
        seconds.append((time.perf_counter() - start) / 4)
    return 2 * PRODUCT**3 / min(seconds)


if __name__ == "__main__":
    main()
