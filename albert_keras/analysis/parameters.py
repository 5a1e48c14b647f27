"""The parameters of a configuration, by part."""

import dataclasses

from albert_keras.checkpoints.huggingface_config import groups_for
from albert_keras.config import AlbertConfig

HEADS = ("masked-word head", "pair head")


def parameters_of(config: AlbertConfig) -> dict[str, int]:
    """How many parameters each part of a pretrainer has, those of shared layers counted once.

    Without `HEADS` they are the encoder's.

    >>> from albert_keras.config import PRESETS
    >>> parameters_of(PRESETS["base"])["attention"]
    2363904
    >>> sum(parameters_of(PRESETS["bert-large"]).values())
    335691058
    """
    vocabulary, embedding = config.vocab_size, config.embedding_size
    hidden, inner = config.hidden_size, config.intermediate_size
    attention, ffn = (max(half) + 1 for half in config.sharing_pattern)
    rows = config.max_position_embeddings + config.type_vocab_size
    return {
        "token table": vocabulary * embedding,
        "positions, segments, LayerNorm": (rows + 2) * embedding,
        "embedding projection": (embedding + 1) * hidden * has_projection(config),
        "attention": attention * (4 * (hidden + 1) * hidden + 2 * hidden),
        "feed-forward": ffn * ((hidden + 1) * inner + (inner + 1) * hidden + 2 * hidden),
        "pooler": (hidden + 1) * hidden,
        "masked-word head": (hidden + 1) * embedding + 2 * embedding + vocabulary,
        "pair head": 2 * (hidden + 1),
    }


def has_projection(config: AlbertConfig) -> bool:
    """Whether the embeddings are projected from E to H."""
    return config.always_project or config.embedding_size != config.hidden_size


def saved_parameters(config: AlbertConfig) -> int:
    """How many a pretrainer's checkpoint folder has.

    Hugging Face's layout always has the projection, and layers that share in a way it cannot say
    as layers of their own.
    """
    groups = groups_for(config.sharing_pattern)
    unshared = dataclasses.replace(
        config,
        num_hidden_layers=groups.groups * groups.inner,
        sharing="none",
        always_project=True,
    )
    return sum(parameters_of(unshared).values())


def bert_of(config: AlbertConfig) -> AlbertConfig:
    """The BERT of the same L and H: no layer is shared, and E = H."""
    return dataclasses.replace(
        config, embedding_size=config.hidden_size, sharing="none", always_project=False
    )
