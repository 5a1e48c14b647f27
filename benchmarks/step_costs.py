"""Time and memory of training steps of one compiled model, shape by shape.

Imported before TensorFlow: its allocator counts only with oneDNN, which must be asked for elsewhere
than on recent Intel processors.
"""

import os
import time
from collections.abc import Sequence

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def step_costs(
    preset: str, layers: int, recompute: bool, shapes: Sequence[tuple[int, int]]
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Builds the preset with all layers shared, in float32, and trains it for a step on each shape.

    Args:
        preset: name; its vocabulary becomes one of 30,000 pieces.
        layers: its depth.
        recompute: whether layers are recomputed for the gradient.
        shapes: rows and length of each step, in this order.

    Returns:
        Of the model `parameters`, `build_seconds` from the config to a compiled model, and
        `first_step_seconds` of a step on a row of eight pieces before all others, which is tracing,
        the optimization of the graph and the kernels, and hardly any arithmetic; both of the
        processor. And of each step `clock_seconds`, `processor_seconds` of this process on all its
        cores together, which a busy machine hardly changes, and `megabytes`, the most that its
        tensors take beside the weights and moments that are there before.
    """
    import tensorflow as tf

    from albert_keras import Lamb, build_albert, build_pretrainer, with_pretraining_loss
    from benchmarks.floor import random_batch

    class Meter(tf.keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.steps = []

        def on_train_batch_begin(self, batch, logs=None):
            tf.config.experimental.reset_memory_stats("CPU:0")
            self._before = tf.config.experimental.get_memory_info("CPU:0")["current"]
            self._start = time.perf_counter(), time.process_time()

        def on_train_batch_end(self, batch, logs=None):
            clock, processor = self._start
            peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
            self.steps.append(
                {
                    "clock_seconds": time.perf_counter() - clock,
                    "processor_seconds": time.process_time() - processor,
                    "megabytes": (peak - self._before) / 1e6,
                }
            )

    start = time.process_time()
    encoder = build_albert(preset, vocab_size=30_000, num_hidden_layers=layers, recompute=recompute)
    model = with_pretraining_loss(build_pretrainer(encoder))
    model.compile(Lamb(1e-4))
    build_seconds = time.process_time() - start
    shapes = [(1, 8), *shapes]
    # Concatenated, and with another shape in the end, so that the step is traced for any shape.
    batches = [tf.data.Dataset.from_tensors(random_batch(*s, s[1] // 7)) for s in [*shapes, (2, 9)]]
    for more in batches[1:]:
        batches[0] = batches[0].concatenate(more)
    meter = Meter()
    model.fit(batches[0], steps_per_epoch=len(shapes), verbose=0, callbacks=[meter])
    first, *steps = meter.steps
    of_model = {
        "parameters": encoder.count_params(),
        "build_seconds": round(build_seconds, 2),
        "first_step_seconds": round(first["processor_seconds"], 1),
    }
    return of_model, steps
