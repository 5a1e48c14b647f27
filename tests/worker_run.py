"""One worker of a run on linear regression; TF_CONFIG says which.

    python -m tests.worker_run FOLDER RESUME [WORKER STEP]

WORKER is killed after STEP, as by `kill -9`.
"""

import os
import signal
import sys
from pathlib import Path

import tensorflow as tf

from albert_keras.run_folder import begin_run
from albert_keras.training.loop import train
from albert_keras.training.strategy import strategy_named
from albert_keras.training.workers import from_all_workers, worker_index
from tests.regression_run import BATCH, STEPS, batches_from, regression


class Dying(tf.keras.callbacks.Callback):
    def __init__(self, step):
        super().__init__()
        self._step = step

    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations.numpy() == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


def shared_batches_from(start):
    """Each worker takes its rows of every batch, as of `pretraining_batches`."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return batches_from(start).with_options(options)


def main(folder, resume, dying="-1", step="0"):
    strategy = strategy_named("multiworker")
    folder, index = Path(folder), worker_index(strategy)
    with strategy.scope():
        model = regression(clip=None)
    if index == int(dying):
        fit = model.fit
        model.fit = lambda data, callbacks, **rest: fit(
            data, callbacks=[*callbacks, Dying(int(step))], **rest
        )
    if index == 0:
        begin_run(folder, {"batch": BATCH}, resume=resume == "resume")
    from_all_workers(strategy, [0])  # the folder is there
    train(
        model,
        shared_batches_from,
        folder,
        total_steps=STEPS,
        tokens_per_step=BATCH,
        log_every=1,
        save_every=2,
        quiet=True,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
