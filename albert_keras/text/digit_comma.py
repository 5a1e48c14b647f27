"""The original's rule that a comma after a digit is a piece of its own."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_keras.text.model_proto import MARKER


def is_digit_comma(piece: str) -> bool:
    """Whether the rule concerns this piece, as it does "▁1999," or "5,"."""
    return piece[-1:] == "," and piece[-2:-1].isdigit()


class DigitComma:
    """Replaces each piece that ends in a digit and a comma by smaller ones and a comma.

    The original does so after SentencePiece has cut the text, and encodes the digits again by
    themselves. To leave those pieces out of the vocabulary would be simpler, but SentencePiece
    would then cut some numbers elsewhere: with 30k-clean, 43 of 100,000 made-up ones.

        ▁21, 029  ->  ▁21 , 029          (and not ▁2 1,0 29)

    The original means to remove the marker that the digits get when they are encoded by
    themselves, though the piece stood inside a word, but compares a str with bytes and never does.
    This removes it, as XLNet's and Hugging Face's code do. Google's vocabulary has no such piece.

        ▁199 9,   ->  ▁199 9 ,           (the original: ▁199 ▁9 ,)

    Args:
        pieces: all pieces, in the order of their ids.
        concerned: ids of the pieces to replace.
        op: tensorflow-text's tokenizer with this vocabulary.
        unk_id: stands for a digit that is no piece without the marker.

    Reference: google-research/albert, `tokenization.py`, `encode_pieces`.
    """

    def __init__(self, pieces: Sequence[str], concerned: Sequence[int], op, unk_id: int):
        ids = {piece: index for index, piece in enumerate(pieces)}
        table = [[index] for index in range(len(pieces))]
        # Number of characters of the replaced piece behind the start of each of its parts.
        self._from_end = [[0] for _ in pieces]
        digits = [pieces[index][:-1].replace(MARKER, "") for index in concerned]
        for index, encoded in zip(concerned, op.tokenize(digits).to_list(), strict=True):
            parts = [pieces[part] for part in encoded] + [","]
            if not pieces[index].startswith(MARKER) and parts[0].startswith(MARKER):
                parts[0] = parts[0].removeprefix(MARKER)
            parts = [part for part in parts if part]
            table[index] = [ids.get(part, unk_id) for part in parts]
            lengths = [len(part.removeprefix(MARKER)) for part in parts]
            self._from_end[index] = np.cumsum(lengths[::-1])[::-1].tolist()
        self._splits = np.cumsum([0, *map(len, table)], dtype=np.int32)
        self._parts = np.concatenate(table).astype(np.int32)
        self._from_end = np.concatenate(self._from_end).astype(np.int32)

    def cut(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """int32 ragged `(B, None)` with the pieces replaced."""
        parts = self._parts_of(ids, self._parts)
        splits = tf.gather(parts.row_splits, ids.row_splits)
        splits = tf.cast(splits, ids.row_splits.dtype)
        return tf.RaggedTensor.from_row_splits(parts.values, splits, validate=False)

    def cut_spans(
        self, ids: tf.RaggedTensor, surfaces: tf.Tensor, starts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """The same with the bytes of the text that each part came from.

        Args:
            ids: int32 ragged `(B, None)` of N pieces in all.
            surfaces: string `(N,)`, the text of each piece.
            starts: int64 `(N,)`, where in the text it starts, in bytes.

        Returns:
            The new ids, and int64 starts and ends of the new pieces.
        """
        from_end = self._parts_of(ids, self._from_end)
        source = from_end.value_rowids()
        surface = tf.gather(surfaces, source)
        length = tf.strings.length(surface, unit="UTF8_CHAR")
        # Counted from the end, where characters of the text and of the piece correspond: what can
        # differ, such as "⑩" for "10", comes before.
        is_first = tf.concat([[True], source[1:] != source[:-1]], 0)[: tf.size(source)]
        begin = tf.where(is_first, 0, tf.clip_by_value(length - from_end.values, 0, length))
        is_last = tf.roll(is_first, -1, 0)
        end = tf.where(is_last, length, tf.roll(begin, -1, 0))

        def position(characters):
            before = tf.strings.substr(surface, tf.zeros_like(characters), characters, "UTF8_CHAR")
            return tf.gather(starts, source) + tf.cast(tf.strings.length(before), tf.int64)

        return self.cut(ids), position(begin), position(end)

    def _parts_of(self, ids, values):
        table = tf.RaggedTensor.from_row_splits(values, self._splits, validate=False)
        return tf.gather(table, ids.values)
