"""measured: what a configuration takes here, in time and memory, by running it.

Each measurement is a process of its own, in which nothing has been compiled and no other model has
left memory behind: `python -m albert_keras.analysis.measuring`, with JSON on standard input.
"""

import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from albert_keras.analysis.setting import Setting
from albert_keras.config import AlbertConfig

# The first step compiles; then as many as take some seconds.
_FIRST, _FEWEST, _MOST, _SECONDS = 2, 3, 30, 5.0


class Measured(NamedTuple):
    """What one process measured.

    Args:
        seconds: median of a training step, or of an encoder's answer to the batch.
        peak_bytes: the most that tensors took at once, weights and moments included, as
            TensorFlow's allocator counts; None where it does not count.
        process_bytes: the most that the process took, TensorFlow included.
        flops_per_second: the floor, of this process's best matrix product in the same type.
    """

    seconds: float
    peak_bytes: int | None
    process_bytes: int
    flops_per_second: float


def measured(config: AlbertConfig, setting: Setting, *, training: bool) -> Measured:
    """Runs `config` here, with random weights and pieces.

    Args:
        config: what the model is.
        setting: batch, length, policy and recomputation.
        training: a step of pretraining with LAMB; otherwise the encoder's answer to the batch.

    Raises:
        RuntimeError: the process failed, as when memory ran out; with its last words.
    """
    asked = {"config": config.to_dict(), "setting": dataclasses.asdict(setting)}
    environment = {
        # Whose allocator counts; elsewhere than on recent Intel processors it must be asked for.
        "TF_ENABLE_ONEDNN_OPTS": "1",
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    process = subprocess.run(
        [sys.executable, "-m", "albert_keras.analysis.measuring"],
        input=json.dumps({**asked, "training": training}),
        env=environment,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        last = process.stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise RuntimeError(f"The measurement did not end: {last[0]}")
    return Measured(**json.loads(process.stdout.splitlines()[-1]))


def _measured_here(config: AlbertConfig, setting: Setting, training: bool) -> Measured:
    import tensorflow as tf

    from albert_keras.analysis.floor import product_flops_per_second
    from albert_keras.analysis.random_batch import random_batch

    tf.keras.mixed_precision.set_global_policy(setting.policy)
    batch = random_batch(setting.batch, setting.length, setting.masked, config.vocab_size)
    meter = _Meter()
    repeat = (_training if training else _inference)(config, setting, batch, meter)
    dtype = setting.policy.removeprefix("mixed_")
    before = product_flops_per_second(dtype)
    repeat(_FIRST)
    last = meter.seconds[-1]
    meter.seconds.clear()
    repeat(min(max(round(_SECONDS / last), _FEWEST), _MOST))
    return Measured(
        seconds=statistics.median(meter.seconds),
        peak_bytes=meter.peak_bytes,
        process_bytes=_process_bytes(),
        flops_per_second=max(before, product_flops_per_second(dtype)),
    )


def _training(config, setting, batch, meter):
    """A function that makes so many steps, by `fit`, as a run does."""
    import tensorflow as tf

    from albert_keras.model import build_albert, build_pretrainer
    from albert_keras.optimizers import Lamb
    from albert_keras.pretraining_model import with_pretraining_loss

    class Each(tf.keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            meter.start()

        def on_train_batch_end(self, batch, logs=None):
            meter.stop()

    encoder = build_albert(config, recompute=setting.recompute)
    model = with_pretraining_loss(build_pretrainer(encoder, max_predictions=setting.masked))
    model.compile(Lamb(1e-4))
    batches = tf.data.Dataset.from_tensors(batch).repeat()

    def repeat(steps):
        # Keras 3 goes past the end of an endless one.
        model.fit(batches.take(steps), steps_per_epoch=steps, verbose=0, callbacks=[Each()])

    return repeat


def _inference(config, setting, batch, meter):
    """A function that answers the batch so many times."""
    import tensorflow as tf

    from albert_keras.model import ENCODER_INPUTS, build_albert

    encoder = build_albert(config)
    inputs = {name: tf.constant(batch[name], tf.int32) for name in ENCODER_INPUTS}
    answer = tf.function(lambda inputs: encoder(inputs, training=False))

    def repeat(times):
        for _ in range(times):
            meter.start()
            answer(inputs)["pooled_output"].numpy()
            meter.stop()

    return repeat


class _Meter:
    """Seconds of each run between `start` and `stop`, and the most that its tensors took."""

    def __init__(self):
        import tensorflow as tf

        self.seconds: list[float] = []
        self.peak_bytes: int | None = 0
        self._memory = tf.config.experimental
        self._device = "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"

    def start(self):
        try:
            self._memory.reset_memory_stats(self._device)
        except ValueError:  # an allocator that does not count
            self.peak_bytes = None
        self._start = time.perf_counter()

    def stop(self):
        self.seconds.append(time.perf_counter() - self._start)
        if self.peak_bytes is not None:
            peak = self._memory.get_memory_info(self._device)["peak"]
            self.peak_bytes = max(self.peak_bytes, peak)


def available_bytes() -> int | None:
    """Memory that a new process may take; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return None
    return next((1024 * int(line.split()[1]) for line in lines if "MemAvailable" in line), None)


def _process_bytes():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    found = _measured_here(
        AlbertConfig.from_dict(asked["config"]), Setting(**asked["setting"]), asked["training"]
    )
    print(json.dumps(found._asdict()))
