"""The train step that the proofs look at: the tiny pretrainer's, LAMB included."""

import tensorflow as tf

from albert_keras import Lamb, build_albert, build_pretrainer, with_pretraining_loss

ROWS, LENGTH, SLOTS = 8, 16, 3


def training_model(objective: str, micro_batches: int) -> tf.keras.Model:
    """Compiled, with the optimizer's variables made: a step that makes some is none for a TPU."""
    # One matrix is large enough for LAMB to compile its update where it is alone.
    encoder = build_albert("tiny", vocab_size=6000)
    pretrainer = build_pretrainer(encoder, max_predictions=SLOTS, pair_objective=objective)
    model = with_pretraining_loss(pretrainer, micro_batches)
    model.compile(Lamb(1e-3))
    model.optimizer.build(model.trainable_variables)
    return model


def batch(rows: int = ROWS) -> dict[str, tf.Tensor]:
    """Of the shapes that `pretraining_batches` gives; what is in it does not matter."""
    shapes = {"token_ids": (LENGTH,), "segment_ids": (LENGTH,), "padding_mask": (LENGTH,)}
    shapes |= {"masked_positions": (SLOTS,), "masked_ids": (SLOTS,), "sop_labels": ()}
    ints = {name: tf.ones([rows, *shape], tf.int32) for name, shape in shapes.items()}
    return {**ints, "masked_weights": tf.ones([rows, SLOTS]), "sop_weights": tf.ones([rows])}
