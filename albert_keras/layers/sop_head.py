"""SOPHead: what it tells about a pair of segments, and the labels that it gives."""

import tensorflow as tf

from albert_keras.layers.linear import Linear
from albert_keras.layers.sublayers import build_sublayer

# Google's and Hugging Face's checkpoints use the opposite: importers and exporters swap the two
# columns.
SOP_IN_ORDER = 1
SOP_SWAPPED = 0

# Of next-sentence prediction, the objective of BERT that SOP replaced.
NSP_NEXT = 1
NSP_RANDOM = 0

# What a pair of segments is drawn and trained for; "none" is the masked language model alone.
PAIR_OBJECTIVES = ("sop", "nsp", "none")


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class SOPHead(tf.keras.layers.Layer):
    """Says whether two consecutive segments stand in their original order.

    One linear map of the pooled output, without dropout, as the original. Column `SOP_IN_ORDER`
    (1) is the logit of the original order, column `SOP_SWAPPED` (0) of the swapped one.

    The ablations of the paper use the same map: with the objective "nsp", column `NSP_NEXT` (1) is
    the logit of "B follows A" and `NSP_RANDOM` (0) of "B is from another document"; with "none",
    nothing trains it.

    Args:
        objective: str, "sop", "nsp" or "none": what it is trained for. Default "sop".
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernel. Default 0.02.

    Input shape:
        `(B, H)`, float, the pooled output.

    Output shape:
        `(B, 2)`, float32 under every policy.

    Raises:
        ValueError: an unknown objective.

    Example:

    >>> SOPHead()(tf.ones([3, 8])).shape
    TensorShape([3, 2])

    Reference:
        ALBERT, section 3.1, "Inter-sentence coherence loss", and 4.6 for the others,
        https://arxiv.org/abs/1909.11942
    """

    def __init__(self, objective="sop", initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        if objective not in PAIR_OBJECTIVES:
            raise ValueError(
                f"`objective` must be one of {', '.join(PAIR_OBJECTIVES)}. Received: {objective!r}."
            )
        self.objective = objective
        self.initializer_range = initializer_range
        self.dense = Linear(2, initializer_range=initializer_range, dtype="float32", name="dense")

    def build(self, pooled_shape):
        build_sublayer(self.dense, *pooled_shape)
        super().build(pooled_shape)

    def call(self, pooled):
        return self.dense(pooled)

    def get_config(self):
        return {
            **super().get_config(),
            "objective": self.objective,
            "initializer_range": self.initializer_range,
        }

    # No compute_output_shape: on Keras 3 a layer that has one is taken to give its compute type,
    # and these logits are float32. Keras traces the call instead.
