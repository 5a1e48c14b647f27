"""Memory and time of a training step against depth, with and without recomputation.

    python -m benchmarks.depth --rows 1 --length 512

ALBERT-base with all layers shared, in float32; L layers, of the same parameters for every L. Each
measurement is a process of its own, so that nothing has been compiled.

A JSON line each: `build_seconds`, `first_step_seconds` as in `step_costs`; and for the depths of
`--memory` four steps on whole rows after it: `step_seconds`, the median, least and most of the last
three, and `step_mb`, the most that tensors take beside the weights and moments that are there
before.

Seconds are of this process on all its cores together, so a busy machine hardly changes them.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys

from benchmarks.step_costs import step_costs

REPEATS = 3


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="*", default=[1, 3, 6, 12, 24, 48])
    parser.add_argument("--memory", type=int, nargs="*", default=[12, 24, 48])
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--recompute", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        print(json.dumps(measured(**{k: v for k, v in vars(arguments).items() if k != "one"})))
        return
    shape = ["--rows", str(arguments.rows), "--length", str(arguments.length)]
    for layers in arguments.layers:
        memory = [str(layers)] if layers in arguments.memory else []
        for recompute in ([], ["--recompute"]):
            options = ["--one", "--layers", str(layers), "--memory", *memory, *shape, *recompute]
            subprocess.run([sys.executable, "-m", "benchmarks.depth", *options], check=True)


def measured(layers, memory, rows, length, recompute):
    shapes = [(rows, length)] * (1 + REPEATS) if memory else []
    of_model, steps = step_costs("base", layers[0], recompute, shapes)
    result = {"benchmark": "depth", "layers": layers[0], "recompute": recompute, **of_model}
    if steps:
        _, *seconds = (step["processor_seconds"] for step in steps)
        result |= {
            "shape": f"{rows}x{length}",
            "step_seconds": [round(f(seconds), 2) for f in (statistics.median, min, max)],
            "step_mb": round(max(step["megabytes"] for step in steps)),
        }
    import tensorflow as tf

    machine = {"machine": platform.machine(), "cpus": len(os.sched_getaffinity(0))}
    return {**result, "tensorflow": tf.__version__, **machine}


if __name__ == "__main__":
    main()
