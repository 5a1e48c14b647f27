"""Cross-entropy and correctness, of any logits."""

import tensorflow as tf


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """-log softmax(logits)[label] in nats, over the last axis."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def correct(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1.0 where the largest logit is the label's, else 0.0."""
    return tf.cast(
        tf.equal(tf.argmax(logits, axis=-1, output_type=labels.dtype), labels), "float32"
    )
