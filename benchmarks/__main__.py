"""Every measurement, one process each: `make bench`."""

import itertools
import os
import subprocess
import sys

SHAPES, POLICIES = ("16x128", "4x512"), ("float32", "mixed_bfloat16")


def main():
    # Some environments slow NumPy's matrix products down with these; here that would be unfair.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    commands = [
        ["benchmarks.training_step", "--shape", shape, "--policy", policy]
        for shape, policy in itertools.product(SHAPES, POLICIES)
    ]
    commands.append(["benchmarks.depth"])
    if os.environ.get("ALBERT_KERAS_DATA"):
        commands += [["benchmarks.input_share"], ["benchmarks.data_pipeline"]]
        commands += [["benchmarks.records_at_size"], ["benchmarks.finetuning_batches"]]
    else:
        print("Without ALBERT_KERAS_DATA, those of the input and of records are left out.")
    for command in commands:
        subprocess.run([sys.executable, "-m", *command], env=environment, check=True)


if __name__ == "__main__":
    main()
