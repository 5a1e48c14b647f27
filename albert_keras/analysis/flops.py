"""Floating-point operations of a configuration: those of its matrix products.

A product of (m, k) and (k, n) counts 2 m k n, a multiplication and an addition each. What is done
element by element (biases, GELU, LayerNorm, softmax, the optimizer) is left out, in the paper's
sizes less than a hundredth. So are lookups, which are gathers here; see `one_hot_flops`.

TensorFlow's profiler counts the same products in the graph of a step; a test holds it.
"""

from albert_keras.analysis.parameters import has_projection
from albert_keras.config import AlbertConfig


def forward_flops(config: AlbertConfig, length: int, masked: int = 0) -> dict[str, int]:
    """FLOPs of a row, forwards, by part.

    Padding is computed like any other piece, so it counts.

    Args:
        config: what the model is.
        length: S, pieces of the row.
        masked: M, slots for masked positions, for which alone the vocabulary is scored. Default 0:
            the encoder, without the heads of pretraining.

    >>> from albert_keras.config import PRESETS
    >>> sum(forward_flops(PRESETS["base"], 128).values()) // 128  # a piece
    174793728
    """
    hidden, embedding = config.hidden_size, config.embedding_size
    layers, vocabulary = config.num_hidden_layers, config.vocab_size
    return {
        "embedding projection": 2 * length * embedding * hidden * has_projection(config),
        "attention projections": layers * 2 * length * 4 * hidden**2,
        "attention": layers * 2 * 2 * length**2 * hidden,
        "feed-forward": layers * 2 * length * 2 * hidden * config.intermediate_size,
        "pooler": 2 * hidden**2,
        "masked-word head": 2 * masked * (hidden * embedding + embedding * vocabulary),
        "pair head": 2 * 2 * hidden if masked else 0,
    }


def training_flops(
    config: AlbertConfig, length: int, masked: int, recompute: bool = False
) -> dict[str, int]:
    """FLOPs of a row in a training step, by what they are for.

    "forward" and "backward", two products for each one forwards, are what the mathematics needs.
    "attention again" is the product of queries and keys, which is computed once more for the
    gradient instead of keeping S probabilities a query (not with dropout on them), and "layers
    again" all of the layers with `recompute`.

    Args:
        config, length, masked: see `forward_flops`.
        recompute: whether layers keep their input alone; see `build_albert`. Default False.

    >>> from albert_keras.config import PRESETS
    >>> flops = training_flops(PRESETS["base"], 512, 77)
    >>> round(flops["backward"] / flops["forward"], 3), flops["layers again"]
    (2.0, 0)
    """
    forward = forward_flops(config, length, masked)
    layers = sum(forward[part] for part in ("attention projections", "attention", "feed-forward"))
    keeps_probabilities = config.attention_probs_dropout_prob > 0
    return {
        "forward": sum(forward.values()),
        "backward": 2 * sum(forward.values()),
        "attention again": 0 if keeps_probabilities else forward["attention"] // 2,
        "layers again": layers if recompute else 0,
    }


def one_hot_flops(config: AlbertConfig, length: int, masked: int = 0) -> int:
    """FLOPs of a row, forwards, that its lookups would add as products with one-hot rows.

    So the original looks tables and masked positions up on a TPU (`use_one_hot_embeddings`); here
    these are gathers, which cost none.
    """
    tables = config.vocab_size + config.type_vocab_size
    return 2 * length * (tables * config.embedding_size + masked * config.hidden_size)
