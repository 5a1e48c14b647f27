"""probe: head count and activation, judged by the masked words of a paragraph.

Neither changes the shape of any weight, so a wrong one loads and computes something plausible.
Published configs contradict each other in both (xlarge has 16 or 32 heads; "gelu" is one function
to Google and another to Hugging Face). Weights that were trained predict best in the way they
were trained.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.config import ACTIVATIONS
from albert_keras.losses import cross_entropy
from albert_keras.model import config_of
from albert_keras.reshaping import with_settings
from albert_keras.text.tokenizer import Tokenizer

PARAGRAPHS = (
    "The town lies on the west bank of the river, about twenty miles from the sea. It was founded "
    "in the twelfth century, when a small church and a market were built near the old bridge. For "
    "many years most of the people worked in the fields or went to sea in fishing boats. In the "
    "nineteenth century the railway came, and with it new houses, schools and a large hospital. "
    "During the war much of the centre was destroyed, but it was built again in the following "
    "years. Today the town has a university, two museums and a public library, and every summer "
    "thousands of visitors come to see its gardens and to hear the music that is played there.",
    "这座城市位于河的西岸，离海大约二十公里。它建于十二世纪，当时人们在旧桥附近修建了一座小教堂和一个市场。"
    "多年以来，大多数居民在田里工作，或者乘船出海捕鱼。十九世纪铁路修到了这里，随后出现了新的房屋、学校和一所大医院。"
    "战争期间，市中心的大部分地区遭到破坏，但是在后来的几年里又重新建设起来。今天，这座城市有一所大学、"
    "两个博物馆和一个公共图书馆，每年夏天都有成千上万的游客来参观它的花园。",
)
# Every such piece of a row is masked; each piece in one row.
EVERY = 7
HEAD_SIZES = (32, 64, 128, 256)
# A candidate is better for certain where it wins so many nats a piece, and so many standard errors.
NATS, ERRORS = 0.05, 2
FEWEST = 20


class Candidate(NamedTuple):
    """A value that a setting could have had in training.

    `contradicts` says whether it explains the weights better than the configured value, for
    certain.
    """

    setting: str
    value: Any
    # Nats a masked piece.
    loss: float
    # By how much the configured value's loss is above, with the standard error over the pieces.
    gain: float
    error: float
    contradicts: bool = False


def probe(pretrainer: tf.keras.Model, tokenizer: Tokenizer) -> list[Candidate]:
    """The loss of masked pieces of a built-in paragraph under each head count and activation.

    Args:
        pretrainer: a model of `build_pretrainer` with trained weights.
        tokenizer: its own. The paragraph is English, or Chinese for a vocabulary that has its
            characters.

    Returns:
        Head counts whose heads have 32, 64, 128 or 256 columns, and the activations; the
        configured value of each first, with a gain of 0. Empty when no value makes the model
        predict the masked pieces better than the mean of its own predictions would: then it knows
        nothing of this text, and of how it was trained nothing can be told. Another vocabulary
        than its own is a likely reason. Empty too for rows of less than twenty pieces, and where
        most are unknown.

    Example:

    >>> candidates = probe(pretrainer, Tokenizer.load("30k-clean.model"))
    >>> [c.value for c in candidates if c.contradicts]
    """
    config = config_of(pretrainer)
    rows = _masked_rows(pretrainer, tokenizer)
    labels = rows[1][rows[2]]
    if len(labels) < FEWEST or (labels == tokenizer.unk_id).mean() > 0.5:
        return []
    values = {
        "num_attention_heads": [
            config.hidden_size // size for size in HEAD_SIZES if config.hidden_size % size == 0
        ],
        "hidden_act": ACTIVATIONS,
    }
    configured, informed = _losses(pretrainer, rows)
    candidates = []
    for setting, others in values.items():
        own = getattr(config, setting)
        candidates.append(Candidate(setting, own, float(configured.mean()), 0.0, 0.0))
        for value in others:
            if value != own:
                losses, knows = _losses(with_settings(pretrainer, **{setting: value}), rows)
                gain, error = _mean_and_error(configured - losses)
                better = knows and gain > max(NATS, ERRORS * error)
                candidates.append(
                    Candidate(setting, value, float(losses.mean()), gain, error, better)
                )
                informed |= knows
    return candidates if informed else []


def _masked_rows(pretrainer, tokenizer):
    """Inputs of the pretrainer, one row for each set of masked pieces, and the pieces' ids."""
    most = config_of(pretrainer).max_position_embeddings - 2
    pieces = np.array(_paragraph(tokenizer)[:most], np.int32)
    fixed = pretrainer.input["masked_positions"].shape[1]
    every = max(EVERY, math.ceil(len(pieces) / fixed)) if fixed else EVERY
    width = fixed or math.ceil(len(pieces) / every)
    ids = np.concatenate([[tokenizer.cls_id], pieces, [tokenizer.sep_id]]).astype(np.int32)
    token_ids = np.tile(ids, (every, 1))
    positions = np.zeros((every, width), np.int32)
    weights = np.zeros((every, width), bool)
    for row in range(every):
        places = np.arange(1 + row, 1 + len(pieces), every)
        positions[row, : len(places)] = places
        weights[row, : len(places)] = True
        token_ids[row, places] = tokenizer.mask_id
    inputs = {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": np.ones_like(token_ids),
        "masked_positions": positions,
    }
    return inputs, ids[positions], weights


def _losses(pretrainer, rows):
    """Nats of each masked piece, and whether they are fewer than by the mean prediction."""
    inputs, labels, masked = rows
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    logits = pretrainer(inputs, training=False)["mlm_logits"]
    losses = cross_entropy(tf.constant(labels), logits).numpy()[masked]
    mean = tf.reduce_mean(tf.nn.softmax(tf.boolean_mask(logits, masked)), axis=0)
    return losses, losses.mean() < -np.log(mean.numpy()[labels[masked]]).mean()


def _mean_and_error(values):
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def _paragraph(tokenizer):
    """The ids of the paragraph of which the vocabulary knows most."""
    paragraphs = map(tokenizer.encode, PARAGRAPHS)
    return min(paragraphs, key=lambda ids: ids.count(tokenizer.unk_id) / len(ids))
