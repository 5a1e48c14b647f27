"""The training step of keras-hub's ALBERT-base, measured as `training_step` measures ours.

    .venv-parity/bin/python -m benchmarks.training_step_keras_hub --shape 16x128 --policy float32

In the environment of `make parity`. keras-hub has no sentence-order head, so its step does less
than ours, and its floor leaves the head out. AdamW, dropout 0.
"""

import argparse
import json
import os
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import keras_hub
import tensorflow as tf

from benchmarks.floor import product_flops_per_second, random_batch, step_flops, step_line


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="16x128", help="rows x length")
    parser.add_argument("--policy", default="float32", choices=("float32", "mixed_bfloat16"))
    parser.add_argument("--steps", type=int, default=7)
    arguments = parser.parse_args(argv)
    rows, length = map(int, arguments.shape.split("x"))
    predictions = round(0.15 * length)  # as many as the library masks

    keras.config.set_dtype_policy(arguments.policy)
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=30_000,
        num_layers=12,
        num_heads=12,
        embedding_dim=128,
        hidden_dim=768,
        intermediate_dim=3072,
        max_sequence_length=512,
        dropout=0.0,
    )
    model = keras_hub.models.AlbertMaskedLM(backbone=backbone, preprocessor=None)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, weight_decay=0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    ours = random_batch(rows, length, predictions)
    features = {
        "token_ids": ours["token_ids"],
        "segment_ids": ours["segment_ids"],
        "padding_mask": ours["padding_mask"],
        "mask_positions": ours["masked_positions"],
    }
    dtype = "float32" if arguments.policy == "float32" else "bfloat16"

    before = product_flops_per_second(dtype)
    seconds = []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.start = time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            seconds.append(time.perf_counter() - self.start)

    batches = tf.data.Dataset.from_tensors((features, ours["masked_ids"])).repeat()
    model.fit(batches, steps_per_epoch=1 + arguments.steps, verbose=0, callbacks=[Clock()])
    first = seconds.pop(0)
    flops = step_flops(rows, length, predictions) - 6 * (768**2 + 2 * 768) * rows
    floor = flops / max(before, product_flops_per_second(dtype))
    line = step_line("training_step_keras_hub", arguments, seconds, first, floor) | {
        "keras_hub": keras_hub.__version__,
        "tensorflow": tf.__version__,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
