"""WordpieceModel: tensorflow-text's WordPiece op on one vocabulary, by its kernel."""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_keras.text.sentencepiece import text_package

# The original's limit: a longer word is unknown.
MAX_LETTERS = 200
MAX_BYTES = 4 * MAX_LETTERS


@functools.cache
def wordpiece_ops():
    """The kernels, without the Python package around them, which would import Keras."""
    return tf.load_op_library(
        str(text_package() / "python" / "ops" / "_fast_wordpiece_tokenizer.so")
    )


class WordpieceModel:
    """The op that cuts words into the longest pieces of one vocabulary, from the left.

    The compiled vocabulary is a constant of each graph that uses it, so there is no resource that
    could be lost or would have to be saved.

    Args:
        pieces: V pieces, one that continues a word with "##" before it.
        unknown: the piece that stands for a word that cannot be cut.

    Raises:
        RuntimeError: a piece has more than 256 bytes.
    """

    def __init__(self, pieces: Sequence[str], unknown: str):
        # Here, because it imports Keras. Loaded by its file as the kernels are, it would end the
        # process with an error when tensorflow_text is imported as well (seen with 2.21).
        from tensorflow_text.core.pybinds import pywrap_fast_wordpiece_tokenizer_model_builder

        compiled = pywrap_fast_wordpiece_tokenizer_model_builder.build_fast_wordpiece_model(
            list(pieces), MAX_BYTES, "##", unknown, True, False
        )
        self._compiled = np.frombuffer(compiled, np.uint8)

    def tokenize(
        self, words: tf.Tensor, letter_counts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Words to ids, first bytes and ends in the word, ragged `(W, None)`, int32, int64, int64.

        The end of a word that is too long lies somewhere behind it.

        Args:
            words: string `(W,)`.
            letter_counts: int64 `(W,)`, their lengths in characters.
        """
        # A word that is too long in bytes as well is unknown in any vocabulary.
        known = tf.where(letter_counts > MAX_LETTERS, "x" * (MAX_BYTES + 1), words)
        _, ids, splits, starts, ends = wordpiece_ops().fast_wordpiece_tokenize_with_offsets(
            input_values=known, wp_model=self._compiled
        )
        ids = tf.RaggedTensor.from_row_splits(tf.cast(ids, tf.int32), splits, validate=False)
        return ids, ids.with_values(starts), ids.with_values(ends)
