"""export_classifier: a SavedModel that takes raw strings and gives labels."""

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

import albert_keras
from albert_keras.json_file import write_json
from albert_keras.model import config_of
from albert_keras.new_folder import new_folder, refuse_existing
from albert_keras.text.packing import BYTES_PER_PIECE, pack_texts
from albert_keras.text.tokenizer import Tokenizer

from .clean_process import SIGNATURE
from .self_check import check_export

KERAS = "keras" if hasattr(tf.keras, "ops") else "tf_keras"  # tf.keras is one or the other

# Each row is a batch that the self-check asks: nothing, no text, the odd, the long, all together.
SHORT = b"The answer to a raw string."
ODD = (
    "Ｆｕｌｌ wıdth, Ça\u0301fé 9,9 \U0001f600 [MASK] [SEP] <pad> \x00 ".encode()
    + b"\xff\xc3( cut \xe2\x82"
)
LONG = b"one two three " * 1000
QUESTIONS = ([], [b""], [SHORT], [ODD], [LONG], [b"", SHORT, ODD, LONG, b"  ", SHORT])


def export_classifier(
    model: tf.keras.Model,
    tokenizer: Tokenizer,
    labels: Sequence[str],
    folder: str | Path,
    *,
    version: int = 1,
    max_length: int | None = None,
) -> Path:
    """Writes `folder/version/`, a SavedModel that TensorFlow Serving can load, and proves it.

    Tokenising, truncating and padding happen in the graph, so a client sends text and there is
    nothing that could differ from training. Before the folder appears, a process without this
    library and without the model answers with it and must agree with the Keras model.

    Signature `serving_default`, for any batch size B, 0 included:

        text           string  (B,)    UTF-8; what is broken becomes U+FFFD
        label          string  (B,)
        score          float32 (B,)    the label's probability
        probabilities  float32 (B, C)
        logits         float32 (B, C)

    A text is cut to `max_length - 2` pieces between `[CLS]` and `[SEP]`, and rows are padded to
    the longest of the batch, rounded up to a multiple of 16.

    Args:
        model: of `build_classifier`, C labels.
        tokenizer: the one the model was trained with.
        labels: C names, in the order of the logits.
        folder: of the model's versions; made when missing.
        version: int > 0, the subfolder, which must not exist yet. Default 1.
        max_length: int, longest row in pieces; None (default) for as many as the model has
            positions.

    Returns:
        The version's folder.

    Raises:
        ValueError: the folder exists; labels, tokenizer or `max_length` do not fit the model; or
            the model does not compute in float32.
        RuntimeError: the self-check failed; the message says how, and nothing is written.

    Example:

    >>> export_classifier(classifier, tokenizer, ["ham", "spam"], "served/mail")
    PosixPath('served/mail/1')
    """
    if type(version) is not int or version < 1:
        raise ValueError(f"`version` must be a whole number from 1 on. Received: {version!r}.")
    target = Path(folder) / str(version)
    refuse_existing(target)
    labels = list(labels)
    max_length = _check(model, tokenizer, labels, max_length)

    texts = {text for batch in QUESTIONS for text in batch}
    answers = {text: _keras_logits(model, tokenizer, text, max_length) for text in texts}
    expected = [
        np.array([answers[text] for text in batch], np.float32).reshape(len(batch), len(labels))
        for batch in QUESTIONS
    ]
    served = ServedClassifier(model, tokenizer, labels, max_length)
    with new_folder(target) as partial:
        tf.saved_model.save(served, str(partial), signatures={SIGNATURE: served.answer})
        try:
            report = check_export(partial, QUESTIONS, expected, labels)
        except RuntimeError as error:
            raise RuntimeError(
                f"The export failed its self-check, so {target} was not written:\n{error}"
            ) from error
        metadata = {
            "labels": labels,
            "max_length": max_length,
            "byte_limit": BYTES_PER_PIECE * max_length,
            "vocabulary_sha256": tokenizer.sha256,
            "lowercase": tokenizer.lowercase,
            "keep_accents": tokenizer.keep_accents,
            "config": config_of(model).to_dict(),
            "versions": {
                "albert_keras": albert_keras.__version__,
                "tensorflow": tf.__version__,
                "tensorflow_text": importlib.metadata.version("tensorflow-text"),
                KERAS: importlib.metadata.version(KERAS),
            },
            "self_check": report,
        }
        extra = partial / "assets.extra"
        extra.mkdir()
        write_json(extra / "metadata.json", metadata)
    return target


class ServedClassifier(tf.Module):
    """The graph from raw strings to labels, and the variables and vocabulary that it needs.

    Args:
        model, tokenizer, labels, max_length: see `export_classifier`.
    """

    def __init__(
        self, model: tf.keras.Model, tokenizer: Tokenizer, labels: list[str], max_length: int
    ):
        super().__init__()
        self.weights = raw_variables(model)
        self.tokenizer = tokenizer
        self.answer = tf.function(
            lambda text: _answer(text, model, tokenizer, labels, max_length),
            input_signature=[tf.TensorSpec([None], tf.string, name="text")],
            jit_compile=False,  # TensorFlow Serving refuses to run a function that must be compiled
        )


def raw_variables(model: tf.keras.Model) -> list[tf.Variable]:
    """The model's weights as plain variables.

    A SavedModel that holds the variables of Keras 3 themselves, or a model of Keras 3, loads and
    then fails at the first request in any loader that runs the graph's own restore op.
    """
    return [v.value if hasattr(tf.keras, "ops") else v for v in model.weights]


def _answer(text, model, tokenizer, labels, max_length):
    rows = pack_texts(text, tokenizer, max_length)
    logits = model(rows, training=False)["logits"]
    probabilities = tf.nn.softmax(logits)
    return {
        "label": tf.gather(tf.constant(labels), tf.argmax(logits, axis=-1)),
        "score": tf.reduce_max(probabilities, axis=-1),
        "probabilities": probabilities,
        "logits": logits,
    }


def _keras_logits(model, tokenizer, text: bytes, max_length: int) -> np.ndarray:
    """What the Keras model says, eagerly, about one text: alone, so without padding, and without
    the byte limit."""
    pieces = tokenizer(tf.constant([text])).to_list()[0]
    row = np.array([[tokenizer.cls_id, *pieces[: max_length - 2], tokenizer.sep_id]], np.int32)
    rows = {"token_ids": row, "segment_ids": 0 * row, "padding_mask": 0 * row + 1}
    with tf.device("/CPU:0"):  # where the self-check computes; a GPU's float32 may be coarser
        return model(rows, training=False)["logits"].numpy()[0]


def _check(model, tokenizer, labels: list[str], max_length: int | None) -> int:
    """Raises a `ValueError` for what does not fit, and gives the length."""
    config = config_of(model)
    output = model.output
    size = output["logits"].shape[-1] if isinstance(output, dict) and "logits" in output else None
    if size is None or size < 2:
        raise ValueError(
            "An exported classifier needs an output `logits` with at least 2 columns. Received: "
            f"{model.name} with {output}. Use build_classifier."
        )
    if len(labels) != size or len(set(labels)) != size or not all(labels):
        raise ValueError(
            f"`labels` must be {size} different names, one for each logit. Received: {labels}."
        )
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            "A tokenizer must not have more pieces than the model. Received: "
            f"{tokenizer.vocab_size} pieces, vocab_size {config.vocab_size}."
        )
    computes_in = model.get_layer("encoder").compute_dtype
    if computes_in != "float32":
        raise ValueError(
            "An export computes in float32, so that it can be compared with the model; TensorFlow "
            f"Serving can lower that by itself. Received: a model that computes in {computes_in}. "
            "Save it with save_albert and load it under the float32 policy."
        )
    positions = config.max_position_embeddings
    if max_length is None:
        return positions
    if not 3 <= max_length <= positions:
        raise ValueError(
            f"`max_length` must lie between 3 and the model's {positions} positions. "
            f"Received: {max_length}."
        )
    return max_length
