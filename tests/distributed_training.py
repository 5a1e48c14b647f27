"""Trains the tiny pretrainer under a strategy, in a process of its own: logical devices and workers
must be configured before TensorFlow starts.

    python -m tests.distributed_training RECORDS OUT CASE...

A case is "devices,micro_batches,steps_per_execution"; "workers" for devices reads TF_CONFIG, and
{worker} in OUT is the index. ",taught" at its end gives it a teacher, also of its layers. OUT, an
.npz file, gets of each the loss of every call, the weights at the end, and the token ids of the
first two batches, as far as this process sees them.
"""

import dataclasses
import sys

import numpy as np
import tensorflow as tf

from albert_keras import Lamb, with_pretraining_loss
from albert_keras.config import config_from
from albert_keras.data.record_set import RecordSet
from albert_keras.distillation import Distillation
from albert_keras.distilled_model import DistilledPretraining
from albert_keras.recipes import PretrainingRecipe
from albert_keras.tasks.pretraining import new_pretrainer, training_batches
from albert_keras.tasks.teacher import for_pretrainer
from albert_keras.training.strategy import refuse_uneven_batch, strategy_named
from albert_keras.training.workers import worker_index
from tests.small_tokenizer import small_tokenizer

DEVICES = 4
STEPS = 8
RECIPE = PretrainingRecipe(sequence_length=64, batch_size=8)


class Losses(tf.keras.callbacks.Callback):
    """The mean loss of every call of the train function, which stands for one or several steps."""

    def on_train_begin(self, logs=None):
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(float(logs["loss"]))
        self.model.reset_metrics()


def trained(records, strategy, micro_batches=1, steps_per_execution=1, *taught):
    """What `STEPS` steps give, from the same start."""
    refuse_uneven_batch(RECIPE.batch_size, strategy, micro_batches)
    tokenizer = small_tokenizer()
    config = config_from("tiny", {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 1})
    with strategy.scope():
        pretrainer = new_pretrainer(config, RECIPE, tokenizer, output_all_layers=bool(taught))
        if taught:
            other = dataclasses.replace(RECIPE, seed=1)
            teacher = new_pretrainer(config, other, tokenizer, output_all_layers=True)
            distillation = Distillation(teacher, sha256="", hidden_weight=0.1)
            distillation = for_pretrainer(distillation, pretrainer, RECIPE.longest)
            model = DistilledPretraining(pretrainer, distillation, micro_batches)
        else:
            model = with_pretraining_loss(pretrainer, micro_batches)
        model.compile(Lamb(1e-2), steps_per_execution=steps_per_execution)
        model.optimizer.build(model.trainable_variables)  # or the first step is traced twice
    losses = Losses()
    batches = training_batches(pretrainer, records, tokenizer, RECIPE)(0)
    model.fit(
        batches.take(STEPS), steps_per_epoch=STEPS, callbacks=[losses], verbose=0, shuffle=False
    )
    weights = np.concatenate([np.ravel(weight) for weight in pretrainer.get_weights()])
    return {
        "losses": np.array(losses.values),
        "weights": weights,
        **seen(batches.take(2), strategy),
    }


def seen(batches, strategy):
    """This process's part of the batches: token ids (batches, rows, S), weights of their pairs."""
    names = {"rows": "token_ids", "pairs": "sop_weights"}
    parts = {name: [] for name in names}
    for batch in strategy.experimental_distribute_dataset(batches):
        for name, key in names.items():
            parts[name].append(np.concatenate(strategy.experimental_local_results(batch[key])))
    return {name: np.stack(values) for name, values in parts.items()}


def main(records, out, *cases):
    # With fewer threads than devices, as on a machine of few cores, reductions stall for minutes.
    tf.config.threading.set_inter_op_parallelism_threads(DEVICES)
    if not any(case.startswith("workers") for case in cases):
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * DEVICES
        tf.config.set_logical_device_configuration(cpu, devices)
    results = {}
    for case in cases:
        devices, micro_batches, steps_per_execution, *taught = case.split(",")
        if devices == "workers":
            strategy = strategy_named("multiworker")
            out = out.format(worker=worker_index(strategy))
        elif devices == "1":
            strategy = tf.distribute.get_strategy()
        else:
            strategy = tf.distribute.MirroredStrategy([f"CPU:{k}" for k in range(int(devices))])
        found = trained(
            RecordSet.load(records, small_tokenizer()),
            strategy,
            int(micro_batches),
            int(steps_per_execution),
            *taught,
        )
        results |= {f"{case} {name}": values for name, values in found.items()}
    np.savez(out, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
