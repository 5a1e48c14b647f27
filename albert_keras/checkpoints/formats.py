"""import_checkpoint: a model and what belongs to it, from any of the formats that are read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from albert_keras.checkpoints.bert import is_bert, read_bert
from albert_keras.checkpoints.filling import Fit
from albert_keras.checkpoints.folder import WEIGHTS, check_size, is_folder, load_head, read_folder
from albert_keras.checkpoints.keras_hub import is_keras_hub, read_keras_hub
from albert_keras.checkpoints.model_garden import is_model_garden, read_model_garden
from albert_keras.checkpoints.tf1 import is_tf1, read_tf1
from albert_keras.model import config_of, layers_of
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.tokenizer_folder import find_vocabulary

HUGGING_FACE, GOOGLE = "Hugging Face", "Google"


class Format(NamedTuple):
    """A format of others: whether a path looks like it, and its reader, which takes the path,
    `allow_missing` and `allow_unused`."""

    name: str
    recognises: Callable[[Path], bool]
    read: Callable[..., tuple[tf.keras.Model, Fit]]


# In the order in which they are tried.
FORMATS = (
    Format("keras-hub", is_keras_hub, read_keras_hub),
    Format("BERT", is_bert, read_bert),
    Format("TF Model Garden", is_model_garden, read_model_garden),
    Format(GOOGLE, is_tf1, read_tf1),
)
# Where they keep a vocabulary, the likelier first.
VOCABULARIES = ("assets/*/*.spm", "*.model", "assets/*.model", "vocab*.txt")


class Imported(NamedTuple):
    """What was read: the model, and what belongs to it where the format has it.

    `labels` are a classifier's names, `max_length` the longest row that it was trained on.
    """

    format: str
    model: tf.keras.Model
    fit: Fit
    tokenizer: Tokenizer | None
    labels: list[str] | None = None
    max_length: int | None = None


def import_checkpoint(
    source: str | Path,
    *,
    vocab: str | Path | None = None,
    lowercase: bool | None = None,
    keep_accents: bool | None = None,
    head: str | None = None,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
) -> Imported:
    """Reads a checkpoint of this library, Hugging Face, keras-hub, TF Model Garden, Google, or a
    BERT.

    Args:
        source: its folder, or the prefix of a TensorFlow checkpoint.
        vocab: its vocabulary. Default: the one in the folder, if there is one.
        lowercase, keep_accents: see `Tokenizer.load`.
        head: of one of Google's with a single logit, "classifier" or "multiple_choice": nothing
            in the file tells which. Default None.
        allow_missing: patterns of tensors, by their names in the format, that it may lack; those
            weights are drawn anew.
        allow_unused: patterns of tensors to leave out.

    Raises:
        ValueError: no format that is known, or what the reader of the format refuses.

    Example:

    >>> save_albert(build_albert("tiny"), "my-albert")
    >>> import_checkpoint("my-albert").format
    'Hugging Face'
    """
    source = Path(source)
    folder = source if source.is_dir() else source.parent
    allowed = {"allow_missing": allow_missing, "allow_unused": allow_unused}
    settings = {"lowercase": lowercase, "keep_accents": keep_accents}
    format = next((format for format in FORMATS if format.recognises(source)), None)
    if head is not None:
        if format is None or format.name != GOOGLE:
            raise ValueError(f"`head` is for Google's checkpoints. Received: {head}, for {source}.")
        allowed["head"] = head
    if format is not None:
        if is_tf1(source) and source.is_dir() and (source / WEIGHTS).exists():
            raise ValueError(
                f"A folder holds one checkpoint. Received: {source} with {WEIGHTS} and one of "
                "TensorFlow's. Put them apart, or name the latter by its prefix."
            )
        model, fit = format.read(source, **allowed)
        vocab = vocab or _vocabulary_in(folder)
        tokenizer = Tokenizer.load(vocab, **settings) if vocab else None
        if tokenizer is not None:
            check_size(tokenizer, config_of(model))
        layers, labels = layers_of(model), None
        if "classifier" in layers:  # none of these formats has names for them
            labels = [f"LABEL_{index}" for index in range(layers["classifier"].units)]
        if "masked_lm" in layers and tokenizer is not None:  # nor keeps which piece is [MASK]
            layers["masked_lm"].mask_id = tokenizer.mask_id
        return Imported(format.name, model, fit, tokenizer, labels)
    if not is_folder(source):
        raise ValueError(
            "A checkpoint is config.json and model.safetensors (Hugging Face, this library), "
            "config.json and model.weights.h5 (keras-hub), albert_config.json and a TensorFlow "
            "checkpoint (Google, TF Model Garden), or those of a BERT. Received: "
            f"{source}, which " + ("is none of them." if source.exists() else "does not exist.")
        )
    model, tokenizer, fit = read_folder(source, **allowed)
    if vocab is not None or settings != dict.fromkeys(settings):
        tokenizer = Tokenizer.load(vocab or source, **settings)
        check_size(tokenizer, config_of(model))
    head = load_head(source, allow_unused=allow_unused)
    return Imported(HUGGING_FACE, model, fit, tokenizer, head.get("labels"), head["max_length"])


def _vocabulary_in(folder: Path) -> Path | None:
    if find_vocabulary(folder):
        return folder  # what its tokenizer_config.json says belongs to it
    for pattern in VOCABULARIES:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            raise ValueError(
                f"A model has one vocabulary. Received: {folder} with "
                f"{', '.join(path.name for path in found)}. Name the file."
            )
        if found:
            return found[0]
    return None
