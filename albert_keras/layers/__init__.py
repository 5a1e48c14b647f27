"""The layers ALBERT is made of, usable on their own.

They take plain values, never a config, and run unchanged on Keras 2 and Keras 3.
"""

from albert_keras.backend import refuse_other_backends
from albert_keras.layers.attention import SelfAttention
from albert_keras.layers.factorized_embedding import FactorizedEmbedding
from albert_keras.layers.feed_forward import FeedForward
from albert_keras.layers.layer_norm import LayerNorm
from albert_keras.layers.linear import Linear
from albert_keras.layers.ngram_masked_lm import NgramMaskedLM
from albert_keras.layers.pooler import Pooler
from albert_keras.layers.shared_transformer_stack import SharedTransformerStack
from albert_keras.layers.sop_head import SOP_IN_ORDER, SOP_SWAPPED, SOPHead

__all__ = [
    "SOP_IN_ORDER",
    "SOP_SWAPPED",
    "FactorizedEmbedding",
    "FeedForward",
    "LayerNorm",
    "Linear",
    "NgramMaskedLM",
    "Pooler",
    "SOPHead",
    "SelfAttention",
    "SharedTransformerStack",
]

refuse_other_backends()
