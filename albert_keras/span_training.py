"""What trains a span predictor, of SQuAD 1.1 or 2.0: the gold starts, and the losses."""

from typing import Any

import tensorflow as tf

from albert_keras.model import config_of, encoder_of, layers_of
from albert_keras.task_models import named_outputs


def with_gold_starts(predictor: tf.keras.Model) -> tf.keras.Model:
    """A model that trains an answerable span predictor, whose weights it shares.

    It is told where each answer starts, and scores the ends for that start. A passage without the
    answer starts and ends at 0, `[CLS]`.

    Args:
        predictor: a model of `build_answerable_span_predictor`.

    Inputs of the model: the encoder's, and start_positions, int32 `(B,)`.

    Outputs of the model, float32:
        start_logits: `(B, S)`, -1e30 where no answer may be.
        end_logits: `(B, S)`, of the last pieces of answers that start at start_positions.
        unanswerable_logits: `(B,)`.

    Raises:
        ValueError: `predictor` has no such head.

    Example:

    >>> from albert_keras.task_models import build_answerable_span_predictor
    >>> predictor = build_answerable_span_predictor(build_albert("tiny"))
    >>> model = with_gold_starts(predictor)
    >>> model.compile("adam", **span_losses(model))
    >>> ids, segments = tf.constant([[2, 17, 3, 45, 99, 3]]), tf.constant([[0, 0, 0, 1, 1, 1]])
    >>> inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": 0 * ids + 1}
    >>> inputs["start_positions"] = tf.constant([3])
    >>> targets = {"start_logits": [3], "end_logits": [4], "unanswerable_logits": [0]}
    >>> targets = {name: tf.constant(value) for name, value in targets.items()}
    >>> _ = model.fit(inputs, targets, verbose=0)  # or batches of such pairs
    """
    config_of(predictor)
    head = layers_of(predictor).get("answerable_span_predictor")
    if head is None:
        raise ValueError(
            "Gold starts are for an answerable span predictor. Received: a model with the layers "
            f"{', '.join(layers_of(predictor))}. Use one of build_answerable_span_predictor."
        )
    encoder = encoder_of(predictor)
    starts = tf.keras.Input(shape=(), dtype="int32", name="start_positions")
    inputs = {**encoder.input, "start_positions": starts}
    outputs = head(
        encoder.output["sequence_output"], inputs["segment_ids"], inputs["padding_mask"], starts
    )
    return tf.keras.Model(inputs, named_outputs(outputs), name="albert_answerable_span_training")


def span_losses(model: tf.keras.Model) -> dict[str, Any]:
    """The arguments of `compile` that train a span predictor, of either kind.

    The mean of two cross-entropies, of the first and of the last piece; for a model of
    `with_gold_starts` also half the binary cross-entropy of "no answer". In nats.

    The targets of `fit` are then a dict of `(B,)`, by the names of the outputs:
        start_logits, end_logits: int, the right positions; where `with_gold_starts` trains, 0 if
            the passage has no answer.
        unanswerable_logits: 1 if the passage has no answer, else 0.

    Args:
        model: of `build_span_predictor` or `with_gold_starts`.

    Raises:
        ValueError: a model of other outputs.

    Example:

    >>> model = build_span_predictor(build_albert("tiny"))
    >>> model.compile("adam", **span_losses(model))

    Reference:
        https://github.com/google-research/albert, run_squad_v1.py and squad_utils.py
    """
    known = {
        "start_logits": tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "end_logits": tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "unanswerable_logits": _binary_cross_entropy,
    }
    if "start_logits" not in model.output:
        raise ValueError(
            "A span predictor trains by its `start_logits`. Received: a model with the outputs "
            f"{', '.join(model.output)}. Use one of build_span_predictor or with_gold_starts."
        )
    losses = {name: known[name] for name in model.output}
    return {"loss": losses, "loss_weights": dict.fromkeys(losses, 0.5)}


def _binary_cross_entropy(labels, logits):
    # A loss for each row, where Keras's own would average over the axis of the batch.
    return tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, logits.dtype), logits)
