"""The pretraining loss: masked-language-model plus sentence-order cross-entropy, with metrics."""

import tensorflow as tf


def weighted_mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """sum(weights values) / sum(weights), and 0 where all weights are 0."""
    return tf.math.divide_no_nan(tf.reduce_sum(values * weights), tf.reduce_sum(weights))


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """-log softmax(logits)[label] in nats, over the last axis."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def correct(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1.0 where the largest logit is the label's, else 0.0."""
    return tf.cast(
        tf.equal(tf.argmax(logits, axis=-1, output_type=labels.dtype), labels), "float32"
    )


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class PretrainingLoss(tf.keras.layers.Layer):
    """Adds the pretraining loss of a batch to the model, tracks its parts, and passes the logits
    through.

    loss = mean of the masked tokens' cross-entropy + mean of the pairs' cross-entropy, each
    weighted by the batch's own weights and 0 where those are all 0. The mean is over the batch
    that one replica sees, as in the original, whose 1e-5 in the denominator is left out here.

    Metrics, weighted means since the last reset: `mlm_loss` and `sop_loss` in nats,
    `mlm_accuracy` and `sop_accuracy` in [0, 1].

    Input shape:
        mlm_logits `(B, M, V)`; masked_ids `(B, M)`, int; masked_weights `(B, M)`, 1 for a
        prediction and 0 for an unused slot; sop_logits `(B, 2)`; sop_labels `(B,)`, int, the
        column that is right; sop_weights `(B,)`, 0 for a row that is no sentence pair.

    Output shape:
        mlm_logits and sop_logits, unchanged.

    Example:

    >>> layer = PretrainingLoss()
    >>> one = tf.ones([1, 1], tf.int32)
    >>> _ = layer(tf.zeros([1, 1, 8]), one, tf.ones([1, 1]), tf.zeros([1, 2]), one[0], tf.ones([1]))
    >>> f"{layer.losses[0]:.4f} = log(8) + log(2)"
    '2.7726 = log(8) + log(2)'

    Reference:
        ALBERT, section 3.1, https://arxiv.org/abs/1909.11942
    """

    def __init__(self, **kwargs):
        # Logits, weights and sums are float32 whatever the model computes in.
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.mlm_loss = tf.keras.metrics.Mean(name="mlm_loss")
        self.mlm_accuracy = tf.keras.metrics.Mean(name="mlm_accuracy")
        self.sop_loss = tf.keras.metrics.Mean(name="sop_loss")
        self.sop_accuracy = tf.keras.metrics.Mean(name="sop_accuracy")

    def call(self, mlm_logits, masked_ids, masked_weights, sop_logits, sop_labels, sop_weights):
        mlm_loss = cross_entropy(masked_ids, mlm_logits)  # B, M
        sop_loss = cross_entropy(sop_labels, sop_logits)  # B
        self.add_loss(
            weighted_mean(mlm_loss, masked_weights) + weighted_mean(sop_loss, sop_weights)
        )
        # Under a strategy's scope, but outside its replicas, a functional model is only being
        # built, and there Keras 2 cannot add to a metric.
        if not tf.distribute.in_cross_replica_context():
            self.mlm_loss.update_state(mlm_loss, masked_weights)
            self.mlm_accuracy.update_state(correct(masked_ids, mlm_logits), masked_weights)
            self.sop_loss.update_state(sop_loss, sop_weights)
            self.sop_accuracy.update_state(correct(sop_labels, sop_logits), sop_weights)
        return mlm_logits, sop_logits


def with_pretraining_loss(pretrainer: tf.keras.Model) -> tf.keras.Model:
    """A model that takes a whole pretraining batch and holds its own loss, for `compile` and `fit`.

    It shares the weights of `pretrainer`. `compile` needs the optimizer only, and the logs hold
    loss, mlm_loss, mlm_accuracy, sop_loss and sop_accuracy.

    Args:
        pretrainer: a model of `build_pretrainer`.

    Inputs of the model: the pretrainer's, and
        masked_ids: int32 `(B, M)`, the pieces that were hidden.
        masked_weights: float32 `(B, M)`.
        sop_labels: int32 `(B,)`, `SOP_IN_ORDER` or `SOP_SWAPPED`.
        sop_weights: float32 `(B,)`.

    Outputs of the model: the pretrainer's.

    Raises:
        ValueError: `pretrainer` lacks masked positions or one of the two logits.

    Example:

    >>> from albert_keras.model import build_albert, build_pretrainer
    >>> model = with_pretraining_loss(build_pretrainer(build_albert("tiny")))
    >>> model.compile(tf.keras.optimizers.Adam(1e-3))
    >>> sorted(model.input)[:4]
    ['masked_ids', 'masked_positions', 'masked_weights', 'padding_mask']
    """
    names = [*pretrainer.input, *pretrainer.output]
    if not {"masked_positions", "mlm_logits", "sop_logits"} <= set(names):
        raise ValueError(
            "A pretrainer takes masked_positions and gives mlm_logits and sop_logits. Received: a "
            f"model of {', '.join(names)}. Use one of build_pretrainer."
        )
    slots = pretrainer.input["masked_positions"].shape[1]
    inputs = {
        **pretrainer.input,
        "masked_ids": tf.keras.Input((slots,), dtype="int32", name="masked_ids"),
        "masked_weights": tf.keras.Input((slots,), dtype="float32", name="masked_weights"),
        "sop_labels": tf.keras.Input((), dtype="int32", name="sop_labels"),
        "sop_weights": tf.keras.Input((), dtype="float32", name="sop_weights"),
    }
    mlm_logits, sop_logits = PretrainingLoss(name="pretraining_loss")(
        pretrainer.output["mlm_logits"],
        inputs["masked_ids"],
        inputs["masked_weights"],
        pretrainer.output["sop_logits"],
        inputs["sop_labels"],
        inputs["sop_weights"],
    )
    outputs = {"mlm_logits": mlm_logits, "sop_logits": sop_logits}
    return tf.keras.Model(inputs, outputs, name="albert_pretraining")
