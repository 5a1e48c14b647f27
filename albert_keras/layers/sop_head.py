"""SOPHead: sentence-order prediction, and the two labels it gives."""

import tensorflow as tf

from albert_keras.layers.linear import Linear
from albert_keras.layers.sublayers import build_sublayer

# Google's and Hugging Face's checkpoints use the opposite: importers and exporters swap the two
# columns.
SOP_IN_ORDER = 1
SOP_SWAPPED = 0


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class SOPHead(tf.keras.layers.Layer):
    """Says whether two consecutive segments stand in their original order.

    One linear map of the pooled output, without dropout, as the original. Column `SOP_IN_ORDER`
    (1) is the logit of the original order, column `SOP_SWAPPED` (0) of the swapped one.

    Args:
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernel. Default 0.02.

    Input shape:
        `(B, H)`, float, the pooled output.

    Output shape:
        `(B, 2)`, float32 under every policy.

    Example:

    >>> SOPHead()(tf.ones([3, 8])).shape
    TensorShape([3, 2])

    Reference:
        ALBERT, section 3.1, "Inter-sentence coherence loss", https://arxiv.org/abs/1909.11942
    """

    def __init__(self, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range
        self.dense = Linear(2, initializer_range=initializer_range, dtype="float32", name="dense")

    def build(self, pooled_shape):
        build_sublayer(self.dense, *pooled_shape)
        super().build(pooled_shape)

    def call(self, pooled):
        return self.dense(pooled)

    def get_config(self):
        return {**super().get_config(), "initializer_range": self.initializer_range}

    # No compute_output_shape: on Keras 3 a layer that has one is taken to give its compute type,
    # and these logits are float32. Keras traces the call instead.
