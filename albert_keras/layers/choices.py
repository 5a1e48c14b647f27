"""FoldChoices and UnfoldChoices: an axis of choices into the batch, and out of it again."""

import tensorflow as tf


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class FoldChoices(tf.keras.layers.Layer):
    """Makes a row of each choice, so that an encoder sees an ordinary batch.

    Input shape:
        `(B, C, S)`, int32.

    Output shape:
        `(B * C, S)`, row b * C + c is choice c of example b.

    Example:

    >>> FoldChoices()(tf.constant([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])).numpy().tolist()
    [[1, 2], [3, 4], [5, 6], [7, 8]]
    """

    # No compute_output_shape here and below, see SOPHead.
    def call(self, rows):
        batch, choices, length = tf.unstack(tf.shape(rows))
        return tf.reshape(rows, [batch * choices, length])


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class UnfoldChoices(tf.keras.layers.Layer):
    """Gathers the scores of an example's choices.

    Input shape:
        scores: `(B * C, 1)`, of the rows that `FoldChoices` made.
        rows: `(B, C, S)`, what it made them of.

    Output shape:
        `(B, C)`.

    Example:

    >>> UnfoldChoices()(tf.constant([[0.1], [0.2], [0.3], [0.4]]), tf.zeros([2, 2, 9])).numpy()
    array([[0.1, 0.2],
           [0.3, 0.4]], dtype=float32)
    """

    def call(self, scores, rows):
        return tf.reshape(scores, tf.shape(rows)[:2])
