"""Cross-entropy and correctness, of any logits, and their sums over a pretraining batch."""

from collections.abc import Mapping

import tensorflow as tf


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """-log softmax(logits)[label] in nats, over the last axis."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def correct(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1.0 where the largest logit is the label's, else 0.0."""
    return tf.cast(
        tf.equal(tf.argmax(logits, axis=-1, output_type=labels.dtype), labels), "float32"
    )


def pretraining_sums(outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """What the losses and accuracies of a batch are quotients of.

    Args:
        outputs: of a pretrainer, mlm_logits `(B, M, V)` and sop_logits `(B, 2)`.
        batch: of `pretraining_batches`.

    Returns:
        float32 `(2, 3)`, of the masked tokens and of the pairs: the weighted sums of their
        cross-entropies, in nats, and of the right answers, and the weights.
    """

    def sums(logits, labels, weights):
        return tf.stack(
            [
                tf.reduce_sum(weights * cross_entropy(labels, logits)),
                tf.reduce_sum(weights * correct(labels, logits)),
                tf.reduce_sum(weights),
            ]
        )

    return tf.stack(
        [
            sums(outputs["mlm_logits"], batch["masked_ids"], batch["masked_weights"]),
            sums(outputs["sop_logits"], batch["sop_labels"], batch["sop_weights"]),
        ]
    )
