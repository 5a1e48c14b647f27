"""A model's weights in another shape or use: positions, pieces, sharing, settings.

Each function gives a new model, not compiled, and leaves the old one as it is. What was frozen
within a layer is to be frozen again. They take whatever
is built around an encoder: the encoder itself, a pretrainer, a task's model.
"""

import warnings
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.config import SharingPattern, config_from
from albert_keras.model import config_of, layers_of
from albert_keras.rebuilding import disagreements, fill_layer, rebuilt, rebuilt_stack


def resize_positions(
    model: tf.keras.Model, max_positions: int, method: str = "copy"
) -> tf.keras.Model:
    """A new model with the weights of `model` and another number of positions.

    More positions are a start for further training on longer rows, not a model for them:

        copy          row i is the old row i mod P. Rows of up to P pieces get the outputs they
                      had. In longer ones attention cannot tell a position from its copy, which
                      makes the first P worse, too.
        interpolate   the P old rows stretched over the new ones, linearly, the first and the last
                      kept. Every row of pieces, also a short one, gets other outputs: neighbours
                      now lie nearer to each other than in any training.

    Measured as the held-out masked-language-model loss, in nats, of a model of two layers that was
    trained on rows of 64 (3.84 there; guesses by frequency 6.0) and made longer to 128:

                      rows of 64   rows of 65-128   after 300 steps on rows of 128
        copy          3.84         5.19             3.87         4.43
        interpolate   5.98         6.06             4.83         4.98
        random rows   3.84         4.82             3.86         4.69 (not offered)

    Fewer positions are the first of the old ones, by either method: what still fits gets the
    outputs it had. So a table that was trained on shorter rows than it has positions should be
    cut to their length before it grows.

    Args:
        model: of `build_albert`, or built around one.
        max_positions: int > 0, the longest row of pieces that the new model takes.
        method: "copy" or "interpolate". Default "copy".

    Warns:
        UserWarning: the new model has more positions.

    Raises:
        ValueError: `model` has no ALBERT encoder, `max_positions` below 1, or an unknown method.

    Example:

    >>> with warnings.catch_warnings(action="ignore"):
    ...     longer = resize_positions(build_albert("tiny"), 96)
    >>> config_of(longer).max_position_embeddings
    96

    Reference:
        copy: Longformer, section 5, https://arxiv.org/abs/2004.05150
        interpolate: Chen et al. 2023, https://arxiv.org/abs/2306.15595, for rotary positions; of
        learned ones, with further training, Zhu et al. 2024, https://arxiv.org/abs/2404.12096
    """
    config_from(config_of(model), {"max_position_embeddings": max_positions})  # checks it
    if method not in ("copy", "interpolate"):
        raise ValueError(f"`method` must be copy or interpolate. Received: {method!r}.")

    old = layers_of(model)["embeddings"]
    table = old.position_embeddings.numpy()
    places = np.arange(max_positions)
    rows = table[places % len(table)]
    if max_positions > len(table):
        what = (
            f"positions {len(table)} to {max_positions - 1} repeat the first ones. Rows of more "
            f"than {len(table)} pieces"
        )
        if method == "interpolate":
            places = np.linspace(0, len(table) - 1, max_positions)
            columns = [np.interp(places, np.arange(len(table)), column) for column in table.T]
            rows = np.stack(columns, axis=1)
            what = f"{len(table)} positions were stretched to {max_positions}. Rows of any length"
        warnings.warn(
            f"No training has seen the new positions: {what} score worse until the model is "
            "trained further on long ones.",
            stacklevel=2,
        )
    new = rebuilt(model, {"embeddings": {"max_positions": max_positions}})
    fill_layer(layers_of(new)["embeddings"], old, position_embeddings=rows)
    return new


def resize_vocabulary(model: tf.keras.Model, vocab_size: int, seed: int = 0) -> tf.keras.Model:
    """A new model with the weights of `model` and room for more pieces, with ids from V on.

    The old pieces keep their rows of the word table, and in a pretrainer their output biases. A
    new row is the mean of the old ones plus a normal draw with the config's `initializer_range`;
    a new output bias is the mean of the old ones. So a new piece is about as likely as an average
    one: 400 pieces added to 4,000 raised a small model's held-out masked-language-model loss by
    0.002 nats, and by 0.013 where they were drawn around 0 with a bias of 0.

    Args:
        model: of `build_albert`, or built around one.
        vocab_size: int >= V, pieces of the new vocabulary, whose first V are the old ones.
        seed: int >= 0, of the draw. Default 0.

    Raises:
        ValueError: `model` has no ALBERT encoder, or `vocab_size` is below V.

    Example:

    >>> larger = resize_vocabulary(build_pretrainer(build_albert("tiny")), 120)
    >>> larger.output["mlm_logits"].shape[-1]
    120

    Reference:
        Hewitt 2021, https://nlp.stanford.edu/~johnhew/vocab-expansion.html
    """
    config = config_of(model)
    config_from(config, {"vocab_size": vocab_size})  # checks it
    if vocab_size < config.vocab_size:
        raise ValueError(
            "A vocabulary can grow, not shrink: the pieces cut off would still be in texts. "
            f"Received: vocab_size {vocab_size}, of a model with {config.vocab_size}. Keep the "
            "pieces; those that no text has do no harm."
        )
    heads = [name for name in layers_of(model) if name == "masked_lm"]
    new = rebuilt(model, {name: {"vocabulary_size": vocab_size} for name in ("embeddings", *heads)})

    old = layers_of(model)["embeddings"]
    table = old.word_embeddings.numpy()
    more = vocab_size - len(table)
    draw = np.random.default_rng(seed).normal(
        table.mean(axis=0), config.initializer_range, (more, config.embedding_size)
    )
    fill_layer(layers_of(new)["embeddings"], old, word_embeddings=np.concatenate([table, draw]))
    for name in heads:
        old = layers_of(model)[name]
        bias = old.output_bias.numpy()
        # The table is tied, so a mean row and a mean bias give a new piece the mean of all logits,
        # and at most the mean of all probabilities. A very low bias would add as many nats to the
        # loss wherever a new piece is the answer.
        longer = np.concatenate([bias, np.full(more, bias.mean())])
        fill_layer(layers_of(new)[name], old, output_bias=longer)
    return new


def with_sharing(
    model: tf.keras.Model, sharing: str | int | SharingPattern, differing: str = "refuse"
) -> tf.keras.Model:
    """A new model with the weights of `model` and another sharing.

    Where layers that come to share a block have equal weights, the new model computes what the
    old one does. Where they differ, `differing="first"` makes it another function, a start for
    fine-tuning; how far off it is before that depends on how far the layers differ. Six layers
    kept and the seventh used six times, a regulariser for small data sets:

        pattern = (0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6)
        with_sharing(model, (pattern, pattern), differing="first")

    Args:
        model: of `build_albert`, or built around one.
        sharing: as in `AlbertConfig`.
        differing: what to do where layers that come to share a block have weights that differ.
            "refuse", or "first": all take those of the first such layer. Default "refuse".

    Raises:
        ValueError: `model` has no ALBERT encoder, a sharing that does not fit its layers, an
            unknown `differing`, or weights that differ and `differing` is "refuse".

    Example:

    >>> unshared = with_sharing(build_albert("tiny"), "none")
    >>> config_of(unshared).sharing, config_of(with_sharing(unshared, "all")).sharing
    ('none', 'all')
    """
    if differing not in ("refuse", "first"):
        raise ValueError(f"`differing` must be refuse or first. Received: {differing!r}.")
    pattern = config_from(config_of(model), {"sharing": sharing}).sharing_pattern
    stack = layers_of(model)["encoder"]
    same_layers = range(stack.num_layers)
    conflicts = disagreements(stack, pattern, same_layers) if differing == "refuse" else []
    for half, first, layer in conflicts:
        raise ValueError(
            "Layers can come to share a block where their weights are equal. Received: "
            f"sharing {sharing!r}, where layers {first} and {layer} would share {half} weights "
            'that differ. Keep them apart, or pass differing="first" to give both those of the '
            "first, and train the model further."
        )
    return rebuilt_stack(model, pattern, same_layers)


# Fields of the config that change no weight, and their names in the layers that have them.
SETTINGS = {
    "num_attention_heads": {"encoder": "num_heads"},
    "hidden_act": {"encoder": "activation", "masked_lm": "activation"},
    "hidden_dropout_prob": {"embeddings": "dropout", "encoder": "dropout"},
    "attention_probs_dropout_prob": {"encoder": "attention_dropout"},
    "initializer_range": dict.fromkeys(
        ("embeddings", "encoder", "pooler", "masked_lm", "sop"), "initializer_range"
    ),
    "layer_norm_eps": {
        "embeddings": "layer_norm_epsilon",
        "encoder": "layer_norm_epsilon",
        "masked_lm": "layer_norm_epsilon",
    },
}


def with_settings(model: tf.keras.Model, **settings: Any) -> tf.keras.Model:
    """A new model of the same weights, used in another way.

    Args:
        model: of `build_albert`, or built around one.
        **settings: fields of `AlbertConfig` that change no weight: `num_attention_heads`,
            `hidden_act`, `layer_norm_eps`, the rates of dropout, and `initializer_range`, which
            is of weights yet to be drawn.

    Raises:
        ValueError: `model` has no ALBERT encoder, another field, or a value that makes no model.

    Example:

    >>> config_of(with_settings(build_albert("tiny"), hidden_dropout_prob=0.1)).hidden_dropout_prob
    0.1
    """
    others = [name for name in settings if name not in SETTINGS]
    if others:
        raise ValueError(
            f"Only {', '.join(SETTINGS)} can change while the weights stay. Received: "
            f"{', '.join(others)}."
        )
    config_from(config_of(model), settings)  # checks the values
    changes: dict[str, dict[str, Any]] = {}
    for name in layers_of(model):
        for field, value in settings.items():
            if name in SETTINGS[field]:
                changes.setdefault(name, {})[SETTINGS[field][name]] = value
    new = rebuilt(model, changes)
    for name in changes:
        fill_layer(layers_of(new)[name], layers_of(model)[name])
    return new
