"""warm_start: a pretraining run that starts from a checkpoint instead of random weights."""

import hashlib
import warnings
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from albert_keras.checkpoints.bert import is_bert
from albert_keras.checkpoints.formats import import_checkpoint
from albert_keras.growing import grown, growth
from albert_keras.model import config_of, encoder_of, layers_of, pair_objective_of
from albert_keras.rebuilding import fill_layer, weights_in
from albert_keras.text.tokenizer import Tokenizer

# What stands on the encoder, by its names in each format: where it is missing it is drawn anew.
HEADS = ("predictions.*", "cls/*", "sop*", "*pooler*")
# BERT's heads, which are read in no case.
BERT_HEADS = ("cls*",)


class Origin(NamedTuple):
    """What a run started from.

    Args:
        text: what was taken, what grew and what is new, in lines.
        sha256: of the weights that were read, for a resumed run to compare.
    """

    text: str
    sha256: str


def warm_start(
    pretrainer: tf.keras.Model, source: str | Path, tokenizer: Tokenizer, seed: int = 0
) -> Origin:
    """Gives a new pretrainer the weights of a checkpoint, which may be of a smaller model.

    A released checkpoint, to be trained further on other text; or a shallower one, as the paper
    starts each depth; or any other that `grown` can make of the pretrainer's sizes. It is a new
    run: moments and steps of the old one are not in a checkpoint, and the rate warms up again.

    Heads that the checkpoint lacks stay as they were drawn, and so does the head for pairs where
    the checkpoint's was trained for another objective; a head that a pretrainer has not, such as a
    classifier, is left out. The text says so.

    Args:
        pretrainer: of `build_pretrainer`, with the settings of the new run; filled in place.
        source: of any format that `import_checkpoint` reads.
        tokenizer: of the new run. Its first pieces must be those of the checkpoint's vocabulary.
        seed: int >= 0, of what `grown` draws. Default 0.

    Raises:
        ValueError: what `import_checkpoint` refuses, a pretrainer that the checkpoint's model
            cannot grow to, or another vocabulary.

    Example:

    >>> pretrainer = build_pretrainer(build_albert("base"), max_predictions=77)
    >>> print(warm_start(pretrainer, "albert-base-v2", tokenizer).text)
    """
    imported = import_checkpoint(
        source, allow_missing=HEADS, allow_unused=BERT_HEADS if is_bert(source) else ()
    )
    old = imported.model
    if "masked_lm" not in layers_of(old):
        old = encoder_of(old)
    config = config_of(pretrainer)
    lines = [
        f"starts from {source} ({imported.format}, {imported.model.name})",
        *_about_vocabulary(imported.tokenizer, tokenizer, source),
        *growth(old, config),
    ]
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        layers = layers_of(grown(old, config, seed))  # what it warns of is in the lines
    if "sop" in layers and pair_objective_of(old) != pair_objective_of(pretrainer):
        del layers["sop"]
    drawn = [*imported.fit.missing]
    for name, layer in layers_of(pretrainer).items():
        if name in layers:
            fill_layer(layer, layers[name])
        elif layer.weights:
            drawn.append(name)
    left_out = [*imported.fit.unused]
    left_out += [
        f"{name} ({layer.objective})" if name == "sop" else name
        for name, layer in layers_of(imported.model).items()
        if layer.weights and name not in layers
    ]
    if drawn:
        lines.append(f"new, drawn at random: {', '.join(drawn)}")
    if left_out:
        lines.append(f"of the checkpoint, not used: {', '.join(left_out)}")
    return Origin("\n".join(lines), _sha256(imported.model))


def _about_vocabulary(theirs, ours, source):
    if theirs is None:
        return ["vocabulary: the checkpoint has none; its pieces are taken to be the run's"]
    if theirs.sha256 == ours.sha256:
        return []
    for index in range(theirs.vocab_size):
        piece = ours.piece(index) if index < ours.vocab_size else None
        if piece != theirs.piece(index):
            raise ValueError(
                "A run's vocabulary must begin with the pieces of the checkpoint that it starts "
                f"from. Received: {source}, whose piece {index} is {theirs.piece(index)!r}, and "
                f"{piece!r} in the run's. Make the records with the checkpoint's vocabulary."
            )
    line = f"vocabulary: the checkpoint's {theirs.vocab_size} pieces are the first of the run's"
    for name in ("lowercase", "keep_accents"):
        before, after = getattr(theirs, name), getattr(ours, name)
        if before != after:
            line += f"; {name} {before} -> {after}"
    return [line]


def _sha256(model):
    digest = hashlib.sha256()
    for name, layer in layers_of(model).items():
        for path, weight in weights_in(layer).items():
            digest.update(f"{name}/{path}".encode())
            digest.update(weight.numpy().tobytes())
    return digest.hexdigest()
