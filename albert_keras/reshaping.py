"""with_sharing: a model of the same weights in another shape."""

import numpy as np
import tensorflow as tf

from albert_keras.config import SharingPattern
from albert_keras.model import build_albert, config_of


def with_sharing(encoder: tf.keras.Model, sharing: str | int | SharingPattern) -> tf.keras.Model:
    """A new encoder with the weights of `encoder` and another sharing, which computes the same.

    Args:
        encoder: a model of `build_albert`.
        sharing: as in `AlbertConfig`.

    Raises:
        ValueError: `encoder` is no such model, or layers that would share a block have weights
            that differ.

    Example:

    >>> unshared = with_sharing(build_albert("tiny"), "none")
    >>> config_of(unshared).sharing, config_of(with_sharing(unshared, "all")).sharing
    ('none', 'all')
    """
    config = config_of(encoder)
    old = encoder.get_layer("encoder")
    model = build_albert(config, sharing=sharing, output_all_layers=old.output_all_layers)
    new = model.get_layer("encoder")
    for name in ("embeddings", "pooler"):
        model.get_layer(name).set_weights(encoder.get_layer(name).get_weights())
    for half in ("attention", "ffn"):
        old_blocks, new_blocks = getattr(old, f"{half}_blocks"), getattr(new, f"{half}_blocks")
        old_pattern, new_pattern = getattr(old, f"{half}_pattern"), getattr(new, f"{half}_pattern")
        first_layer = {}
        for layer, block in enumerate(new_pattern):
            weights = old_blocks[old_pattern[layer]].get_weights()
            first = first_layer.setdefault(block, layer)
            if first == layer:
                new_blocks[block].set_weights(weights)
            elif not all(map(np.array_equal, weights, new_blocks[block].get_weights())):
                raise ValueError(
                    "Layers can come to share a block where their weights are equal. Received: "
                    f"sharing {sharing!r}, where layers {first} and {layer} would share {half} "
                    "weights that differ. Keep them apart, or train the shared model anew."
                )
    return model
