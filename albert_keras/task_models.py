"""The functional models of tasks: a head on the encoder."""

from collections.abc import Mapping

import tensorflow as tf

from albert_keras.answerable_span_head import AnswerableSpanHead
from albert_keras.model import config_of, pooled_output_of

# The names that the layers of the heads have in their models.
TASK_HEADS = ("classifier", "span_predictor", "answerable_span_predictor", "multiple_choice")


def build_classifier(
    encoder: tf.keras.Model, num_labels: int, dropout: float = 0.1
) -> tf.keras.Model:
    """The encoder with a linear classifier on its pooled output. It shares the encoder's weights.

    Args:
        encoder: a model of `build_albert`.
        num_labels: int > 0, C. One label makes a regression head.
        dropout: float in [0, 1), rate on the pooled output. Default 0.1.

    Inputs of the model: the encoder's.

    Outputs of the model:
        logits: float32 `(B, C)`.

    Raises:
        ValueError: `encoder` is no model of `build_albert`, `num_labels` below 1, or `dropout` out
            of range.

    Example:

    >>> classifier = build_classifier(build_albert("tiny"), num_labels=3)
    >>> classifier.output["logits"].shape[-1]
    3
    """
    config = config_of(encoder)
    if num_labels < 1:
        raise ValueError(f"`num_labels` must be at least 1. Received: {num_labels}.")
    logits = _linear(pooled_output_of(encoder), num_labels, dropout, config, "classifier")
    return tf.keras.Model(encoder.input, {"logits": logits}, name="albert_classifier")


def build_span_predictor(encoder: tf.keras.Model, dropout: float = 0.0) -> tf.keras.Model:
    """The encoder with two scores for every position: an answer's first piece, and its last one.

    The head of SQuAD 1.1, where every question has an answer. It shares the encoder's weights; the
    pooler is not part of it.

    Padding and question get scores like any other position, as in the original and in Hugging
    Face's model: whoever picks an answer looks at the passage's positions only. A loss over all
    positions teaches the others low scores.

    Args:
        encoder: a model of `build_albert`.
        dropout: float in [0, 1), rate on the sequence output. Default 0, as the original.

    Inputs of the model: the encoder's.

    Outputs of the model, float32 `(B, S)`:
        start_logits: of the answer's first piece.
        end_logits: of its last piece.

    Raises:
        ValueError: `encoder` is no model of `build_albert`, or `dropout` out of range.

    Example:

    >>> predictor = build_span_predictor(build_albert("tiny"))
    >>> ids = tf.constant([[2, 17, 3, 45, 99, 3]])
    >>> outputs = predictor({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1})
    >>> outputs["start_logits"].shape, outputs["end_logits"].shape
    (TensorShape([1, 6]), TensorShape([1, 6]))

    Reference:
        https://github.com/google-research/albert, `create_v1_model` of run_squad_v1.py
    """
    config = config_of(encoder)
    logits = _linear(encoder.output["sequence_output"], 2, dropout, config, "span_predictor")
    outputs = {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}
    return tf.keras.Model(encoder.input, named_outputs(outputs), name="albert_span_predictor")


def build_answerable_span_predictor(
    encoder: tf.keras.Model, dropout: float = 0.1
) -> tf.keras.Model:
    """The encoder with the likeliest answers of a passage, and whether there is one at all.

    The head of SQuAD 2.0, where a question may have no answer. It shares the encoder's weights; the
    pooler is not part of it. A row is `[CLS] question [SEP] passage [SEP]`, padded at its end;
    question, `[SEP]` and padding are no answer, whatever they score.

    This form predicts; `span_training.with_gold_starts` makes the one that trains.

    Args:
        encoder: a model of `build_albert`.
        dropout: float in [0, 1), rate on the features of answerability. Default 0.1, as the
            original.

    Inputs of the model: the encoder's, S at least 5.

    Outputs of the model, see `AnswerableSpanHead`:
        start_positions: int32 `(B, 5)`, the likeliest first pieces.
        start_log_probs: float32 `(B, 5)`, natural logarithms, falling.
        end_positions: int32 `(B, 5, 5)`, for each start the likeliest last pieces.
        end_log_probs: float32 `(B, 5, 5)`, given the start.
        unanswerable_logits: float32 `(B,)`, above 0 where no answer is the likelier.

    Raises:
        ValueError: `encoder` is no model of `build_albert`, or `dropout` out of range.

    Example:

    >>> predictor = build_answerable_span_predictor(build_albert("tiny"))
    >>> ids, segments = tf.constant([[2, 17, 3, 45, 99, 3]]), tf.constant([[0, 0, 0, 1, 1, 1]])
    >>> inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": 0 * ids + 1}
    >>> sorted(predictor(inputs)["start_positions"].numpy()[0, :3].tolist())  # [CLS], 45, 99
    [0, 3, 4]

    Reference:
        https://github.com/google-research/albert, `create_v2_model` of squad_utils.py
    """
    config = config_of(encoder)
    head = AnswerableSpanHead(dropout, config.initializer_range, name="answerable_span_predictor")
    inputs = encoder.input
    outputs = head(encoder.output["sequence_output"], inputs["segment_ids"], inputs["padding_mask"])
    return tf.keras.Model(inputs, outputs, name="albert_answerable_span_predictor")


def build_multiple_choice(encoder: tf.keras.Model, dropout: float = 0.1) -> tf.keras.Model:
    """The encoder with one score for each of an example's choices, from the pooled output.

    Each choice is a row of its own, `[CLS] passage [SEP] question and choice [SEP]`; the scores of
    an example are the logits of a softmax over its choices. It shares the encoder's weights and
    has the encoder as one layer, for `encoder_of` to take out.

    Args:
        encoder: a model of `build_albert`.
        dropout: float in [0, 1), rate on the pooled output. Default 0.1.

    Inputs of the model: the encoder's, with an axis for the choices, int32 `(B, C, S)`. C can
    differ from batch to batch.

    Outputs of the model:
        logits: float32 `(B, C)`.

    Raises:
        ValueError: `encoder` is no model of `build_albert`, or `dropout` out of range.

    Example:

    >>> model = build_multiple_choice(build_albert("tiny"))
    >>> ids = tf.constant([[[2, 17, 3, 45, 3], [2, 17, 3, 99, 3], [2, 17, 3, 8, 3]]])
    >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    >>> model(inputs)["logits"].shape
    TensorShape([1, 3])

    Reference:
        https://github.com/google-research/albert, `create_model` of race_utils.py
    """
    config = config_of(encoder)
    pooled_output_of(encoder)  # checks that there is one
    inputs = {
        name: tf.keras.Input(shape=(None, None), dtype="int32", name=name) for name in encoder.input
    }
    # As one layer: its layers called a second time would no longer have one output each, which
    # Keras 2 then refuses to name.
    fold = _FoldChoices(name="fold_choices")
    outputs = encoder({name: fold(rows) for name, rows in inputs.items()})
    scores = _linear(outputs["pooled_output"], 1, dropout, config, "multiple_choice")
    unfold = _UnfoldChoices(dtype="float32", name="unfold_choices")
    outputs = {"logits": unfold(scores, inputs["token_ids"])}
    return tf.keras.Model(inputs, outputs, name="albert_multiple_choice")


def named_outputs(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The same, float32, each from a layer of that name: Keras 2 names the losses of `fit` so."""
    return {
        name: tf.keras.layers.Activation("linear", dtype="float32", name=name)(value)
        for name, value in outputs.items()
    }


# No compute_output_shape here and below, see SOPHead.
@tf.keras.utils.register_keras_serializable(package="albert_keras")
class _FoldChoices(tf.keras.layers.Layer):
    """Makes a row of each choice, so that an encoder sees an ordinary batch: `(B, C, S)` to
    `(B * C, S)`, where row b * C + c is choice c of example b.

    >>> _FoldChoices()(tf.constant([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])).numpy().tolist()
    [[1, 2], [3, 4], [5, 6], [7, 8]]
    """

    def call(self, rows):
        batch, choices, length = tf.unstack(tf.shape(rows))
        return tf.reshape(rows, [batch * choices, length])


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class _UnfoldChoices(tf.keras.layers.Layer):
    """Gathers the scores `(B * C, 1)` of an example's choices: `(B, C)`, as in the `rows`
    `(B, C, S)` that were folded.

    >>> _UnfoldChoices()(tf.constant([[0.1], [0.2], [0.3], [0.4]]), tf.zeros([2, 2, 9])).numpy()
    array([[0.1, 0.2],
           [0.3, 0.4]], dtype=float32)
    """

    def call(self, scores, rows):
        return tf.reshape(scores, tf.shape(rows)[:2])


def _linear(features, units, dropout, config, name):
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be at least 0 and below 1. Received: {dropout}.")
    if dropout > 0:
        features = tf.keras.layers.Dropout(dropout, name=f"{name}_dropout")(features)
    return tf.keras.layers.Dense(
        units,
        kernel_initializer=tf.keras.initializers.TruncatedNormal(stddev=config.initializer_range),
        dtype="float32",
        name=name,
    )(features)
