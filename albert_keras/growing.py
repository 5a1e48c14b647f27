"""grown: a larger model that starts from the weights of a smaller one."""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_keras.config import AlbertConfig
from albert_keras.model import config_of, layers_of
from albert_keras.rebuilding import disagreements, rebuilt, rebuilt_stack
from albert_keras.reshaping import resize_positions, resize_vocabulary, with_settings

# Fields of the config that can become larger.
SIZES = ("vocab_size", "max_position_embeddings", "embedding_size", "num_hidden_layers")
# Those that may be anything: they change no weight of the old model.
FREE = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"),
    "sharing",
)


def grown(model: tf.keras.Model, config: AlbertConfig, seed: int = 0) -> tf.keras.Model:
    """A new model with the sizes of `config`, started from the weights of a smaller `model`.

    What it computes at the start, beside the old model:

        pieces, positions   the same for texts of before; see `resize_vocabulary`, and
                            `resize_positions` with "copy"
        wider embeddings    the same encoder outputs. A new column of the three tables is the mean
                            of a row's old ones. That adds nothing to the deviation by which
                            LayerNorm divides, except that there are more columns, and the old
                            gammas make up for it; and it comes out of LayerNorm as 0, whatever
                            the projection makes of it, whose new rows are drawn at random.
                            The head for masked words has an activation before its LayerNorm, so
                            there the old columns are repeated, and the new ones read by a gamma
                            of 0. Its logits are the same where the new size is a multiple of the
                            old one; elsewhere some columns count more often than others (32 -> 48
                            took a small model's loss from 1.350 to 1.359 nats).
        more layers         another function, with a loss as high as without any training, but one
                            that is soon left behind. Layer i of L' begins as layer floor(i L / L')
                            of L; where all share their weights, these are used more often. So the
                            paper trained L = 1, 3, 6, 12, 24 and 48, each from the one before.
        another sharing     the same where the weights agree. Where they differ, layers that come
                            to share a block take what the first of them starts from.

    Moments of an optimizer do not come along, nor a step: it is the start of a new run, whose
    rate warms up again.

    Args:
        model: of `build_albert`, or built around one, without `output_all_layers`.
        config: of the new model.
        seed: int >= 0, of what is drawn. Default 0.

    Warns:
        UserWarning: there are more positions.

    Raises:
        ValueError: `model` has no ALBERT encoder, or cannot grow to `config`: what stands in the
            way is listed.

    Example:

    >>> shallow = build_albert("tiny", num_hidden_layers=1)
    >>> config = dataclasses.replace(config_of(shallow), num_hidden_layers=3)
    >>> config_of(grown(shallow, config)).num_hidden_layers
    3

    Reference:
        ALBERT, appendix A.2, Table 11, https://arxiv.org/abs/1909.11942
    """
    _refuse_others(model, config)
    # First, because what is drawn below is drawn by them.
    new = with_settings(
        model, **{name: getattr(config, name) for name in FREE if name != "sharing"}
    )
    old = config_of(model)
    if config.max_position_embeddings > old.max_position_embeddings:
        new = resize_positions(new, config.max_position_embeddings)
    if config.vocab_size > old.vocab_size:
        new = resize_vocabulary(new, config.vocab_size, seed)
    if (config.embedding_size, config.always_project) != (old.embedding_size, old.always_project):
        new = _with_wider_embeddings(new, config, seed)
    if config.sharing_pattern != old.sharing_pattern:  # other depths have others
        new = rebuilt_stack(new, config.sharing_pattern, layer_sources(old, config))
    return new


def growth(model: tf.keras.Model, config: AlbertConfig) -> list[str]:
    """What `grown` changes, a line for each field of the config.

    Raises:
        ValueError: as `grown`.

    Example:

    >>> deeper = dataclasses.replace(config_of(build_albert("tiny")), num_hidden_layers=6)
    >>> growth(build_albert("tiny"), deeper)
    ['num_hidden_layers 3 -> 6: the shared layer is used more often']
    """
    _refuse_others(model, config)
    old, stack = config_of(model), layers_of(model)["encoder"]
    sources = layer_sources(old, config)
    remarks = {
        "vocab_size": "new pieces begin near the mean of the old ones",
        "max_position_embeddings": "new positions repeat the old ones, and no training has seen "
        "them",
        "embedding_size": "outputs of the encoder stay as they were",
        "num_hidden_layers": "the shared layer is used more often"
        if len(stack.attention_blocks) == len(stack.ffn_blocks) == 1
        else f"they begin as layers {', '.join(map(str, sources))}",
    }
    if "masked_lm" in layers_of(model) and config.embedding_size % old.embedding_size:
        remarks["embedding_size"] += ", those of the head for masked words change a little"
    lines = []
    for name, before, after in _differences(old, config):
        remark = f": {remarks[name]}" if name in remarks else ""
        lines.append(f"{name} {before} -> {after}{remark}")
    conflicts = disagreements(stack, config.sharing_pattern, sources)
    for half in dict.fromkeys(half for half, _, _ in conflicts):
        layers = ", ".join(str(layer) for name, _, layer in conflicts if name == half)
        lines.append(f"{half} weights left out: layers {layers} take those of an earlier one")
    return lines


def layer_sources(old: AlbertConfig, new: AlbertConfig) -> list[int]:
    """The layer of `old` that each layer of `new` starts from.

    >>> layer_sources(AlbertConfig(num_hidden_layers=2), AlbertConfig(num_hidden_layers=5))
    [0, 0, 0, 1, 1]
    """
    layers = range(new.num_hidden_layers)
    return [layer * old.num_hidden_layers // new.num_hidden_layers for layer in layers]


def _differences(old, new):
    for field in dataclasses.fields(AlbertConfig):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after:
            yield field.name, before, after


def _refuse_others(model, config):
    old = config_of(model)
    wrong = [
        (name, before, after)
        for name, before, after in _differences(old, config)
        if name not in (*FREE, "always_project") and not (name in SIZES and after > before)
    ]
    projects = layers_of(model)["embeddings"].embedding_hidden_mapping_in is not None
    if projects and not config.always_project and config.embedding_size == config.hidden_size:
        wrong.append(("always_project", True, False))
    if wrong:
        raise ValueError(
            f"A model grows in {', '.join(SIZES)}, and shrinks in none; everything else must be "
            "what it was. Received: "
            + "; ".join(f"{name} {before} -> {after}" for name, before, after in wrong)
            + ". Keep "
            + ", ".join(f"{name}={before!r}" for name, before, _ in wrong)
            + ", or train that model from the start."
        )
    if layers_of(model)["encoder"].output_all_layers:
        raise ValueError(
            "A model that grows has one output of its layers. Received: one built with "
            "output_all_layers=True. Grow it as it is saved, and build that once more."
        )


def _with_wider_embeddings(model, config, seed):
    """With more columns in the tables, and with a projection where the config has one."""
    size, hidden_size = config.embedding_size, config.hidden_size
    heads = [name for name in layers_of(model) if name == "masked_lm"]
    new_model = rebuilt(
        model,
        {
            "embeddings": {"embedding_size": size, "always_project": config.always_project},
            **{name: {"embedding_size": size} for name in heads},
        },
    )
    old, new = layers_of(model)["embeddings"], layers_of(new_model)["embeddings"]
    more = size - old.embedding_size
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        table = getattr(old, name).numpy()
        means = np.repeat(table.mean(axis=1, keepdims=True), more, axis=1)
        getattr(new, name).assign(np.concatenate([table, means], axis=1))
    # A column of means adds nothing to the squared deviations, but they are shared by more columns.
    shrunk = old.layer_norm.gamma.numpy() * (old.embedding_size / size) ** 0.5
    new.layer_norm.gamma.assign(np.concatenate([shrunk, np.ones(more)]))
    new.layer_norm.beta.assign(np.pad(old.layer_norm.beta.numpy(), (0, more)))
    if new.embedding_hidden_mapping_in is not None:
        kernel, bias = np.eye(hidden_size), np.zeros(hidden_size)
        if old.embedding_hidden_mapping_in is not None:
            kernel = old.embedding_hidden_mapping_in.kernel.numpy()
            bias = old.embedding_hidden_mapping_in.bias.numpy()
        # Not the draw that new pieces take.
        draw = np.random.default_rng([seed, size])
        rows = draw.normal(0, config.initializer_range, (more, hidden_size))
        new.embedding_hidden_mapping_in.kernel.assign(np.concatenate([kernel, rows]))
        new.embedding_hidden_mapping_in.bias.assign(bias)
    for name in heads:
        old, new = layers_of(model)[name], layers_of(new_model)[name]
        columns = np.arange(size) % old.embedding_size
        new.dense.kernel.assign(old.dense.kernel.numpy()[:, columns])
        new.dense.bias.assign(old.dense.bias.numpy()[columns])
        new.layer_norm.gamma.assign(np.pad(old.layer_norm.gamma.numpy(), (0, more)))
        new.layer_norm.beta.assign(np.pad(old.layer_norm.beta.numpy(), (0, more)))
        new.output_bias.assign(old.output_bias)
    return new_model
