"""Memory and time of a training step against depth, with and without recomputation.

    python -m benchmarks.depth --rows 1 --length 512

ALBERT-base with all layers shared, in float32; L layers, of the same parameters for every L. Each
measurement is a process of its own, so that nothing has been compiled.

A JSON line each: `build_seconds` from the config to a compiled model; `first_step_seconds` of a
step on a row of eight pieces, which is the tracing, the optimization of the graph and the kernels,
and hardly any arithmetic; and for the depths of `--memory` a step on whole rows after it,
`step_seconds` and `step_mb`, the most that its tensors take beside the weights and moments that are
there before.

Seconds are of this process on all its cores together, so a busy machine hardly changes them.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Whose allocator counts; elsewhere than on recent Intel processors it must be asked for.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


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
    import tensorflow as tf

    from albert_keras import Lamb, build_albert, build_pretrainer, with_pretraining_loss
    from benchmarks.floor import random_batch

    class Meter(tf.keras.callbacks.Callback):
        """Seconds and memory of each step."""

        def __init__(self):
            super().__init__()
            self.seconds, self.megabytes = [], []

        def on_train_batch_begin(self, batch, logs=None):
            tf.config.experimental.reset_memory_stats("CPU:0")
            self._before = tf.config.experimental.get_memory_info("CPU:0")["current"]
            self._start = time.process_time()

        def on_train_batch_end(self, batch, logs=None):
            self.seconds.append(time.process_time() - self._start)
            peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
            self.megabytes.append((peak - self._before) / 1e6)

    start = time.process_time()
    encoder = build_albert("base", num_hidden_layers=layers[0], recompute=recompute)
    model = with_pretraining_loss(build_pretrainer(encoder))
    model.compile(Lamb(1e-4))
    result = {
        "benchmark": "depth",
        "layers": layers[0],
        "recompute": recompute,
        "parameters": encoder.count_params(),
        "build_seconds": round(time.process_time() - start, 2),
    }
    shapes = [(1, 8)] + [(rows, length)] * len(memory)
    # Concatenated, so that the step is traced for any shape.
    batches = [tf.data.Dataset.from_tensors(random_batch(*s, s[1] // 7)) for s in [*shapes, (2, 9)]]
    for more in batches[1:]:
        batches[0] = batches[0].concatenate(more)
    meter = Meter()
    model.fit(batches[0], steps_per_epoch=len(shapes), verbose=0, callbacks=[meter])
    result["first_step_seconds"] = round(meter.seconds[0], 1)
    if memory:
        result |= {
            "shape": f"{rows}x{length}",
            "step_seconds": round(meter.seconds[1], 1),
            "step_mb": round(meter.megabytes[1]),
        }
    machine = {"machine": platform.machine(), "cpus": len(os.sched_getaffinity(0))}
    return {**result, "tensorflow": tf.__version__, **machine}


if __name__ == "__main__":
    main()
