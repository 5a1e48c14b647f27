"""SentencepieceTokenizer: ALBERT's own kind of vocabulary."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_keras.text import model_proto
from albert_keras.text.digit_comma import DigitComma, is_digit_comma
from albert_keras.text.normalization import BAKED_NAMES, normalizer_name
from albert_keras.text.piece_kinds import piece_kinds
from albert_keras.text.sentencepiece import SentencepieceModel
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.tokenizer_folder import agreed_settings
from albert_keras.text.vocabulary import CLS, MASK, PAD, SEP, UNK, bake, parse_vocabulary
from albert_keras.text.words import row_ids

# What str.isspace() accepts, in RE2's words.
_LEADING_SPACE = "^[\\s\\x0b\\x1c-\\x1f\\x{85}\\pZ]+"


class SentencepieceTokenizer(Tokenizer):
    """A `Tokenizer` with a SentencePiece vocabulary.

    Every view runs tensorflow-text's SentencepieceTokenizer on the same model bytes, which hold the
    preprocessing as well.

    Offsets: the white space that a piece's marker stands for is not counted in, so a lone marker
    has an empty span. A character whose letters end up in several pieces belongs to the last of
    them, and to each that would have nothing else.

    Args:
        model_bytes: a baked model, from `train_vocabulary`, `bake` or `Tokenizer.model_bytes`.
        lowercase: whether the model lower-cases. Default True.
        keep_accents: whether it keeps accents. Default False.

    Raises:
        ValueError: the bytes are no ALBERT vocabulary, are not baked, or are baked another way.

    Example:
        >>> tokenizer = SentencepieceTokenizer(train_vocabulary(sentences, vocab_size=8000))

    Reference: SentencePiece (arXiv 1808.06226); ALBERT (arXiv 1909.11942) 4.1.
    """

    file_name = "spiece.model"
    special_pieces = (PAD, UNK, CLS, SEP, MASK)
    huggingface_class = "AlbertTokenizer"

    def __init__(self, model_bytes: bytes, lowercase: bool = True, keep_accents: bool = False):
        model = parse_vocabulary(model_bytes)
        expected = normalizer_name(lowercase, keep_accents)
        if model.normalizer_spec.name != expected:
            raise ValueError(
                f"The model must be baked with lowercase={lowercase}, keep_accents={keep_accents}. "
                f"Received: normaliser {model.normalizer_spec.name!r} instead of {expected!r}. "
                "Use Tokenizer.load, or albert_keras.text.vocabulary.bake on the original model."
            )
        pieces = [piece.piece for piece in model.pieces]
        super().__init__(model_bytes, lowercase, keep_accents, pieces)
        self.sha256 = hashlib.sha256(self.model_bytes).hexdigest()
        self.piece_kinds = piece_kinds(model.pieces)
        try:
            self._op = SentencepieceModel(self.model_bytes)
        except tf.errors.OpError as error:
            raise ValueError(
                f"SentencePiece must be able to load the model. Received: {error.message}"
            ) from error
        concerned = [
            index
            for index, piece in enumerate(model.pieces)
            if is_digit_comma(piece.piece) and piece.type == model_proto.NORMAL
        ]
        self._lone_marker_id = (
            pieces.index(model_proto.MARKER) if model_proto.MARKER in pieces else -1
        )
        self._digit_comma = None
        if concerned:
            self._digit_comma = DigitComma(pieces, concerned, self._op, self.unk_id)

    @classmethod
    def read(
        cls,
        model_bytes: bytes,
        path: Path,
        asked: Mapping[str, bool | None],
        config: Mapping[str, Any],
    ) -> "SentencepieceTokenizer":
        """See `Tokenizer.load`, which reads the files.

        Args:
            model_bytes: the model file's content.
            path: of the model file.
            asked: the arguments `lowercase` and `keep_accents`.
            config: tokenizer_config.json; empty when there is none.
        """
        if config:  # Hugging Face's defaults
            config = {
                "lowercase": config.get("do_lower_case", True),
                "keep_accents": config.get("keep_accents", False),
            }
        name = parse_vocabulary(model_bytes, str(path)).normalizer_spec.name
        baked = dict(zip(("lowercase", "keep_accents"), BAKED_NAMES.get(name, ()), strict=False))
        settings = {"lowercase": True, "keep_accents": False}
        settings |= agreed_settings(path, asked, config, baked)
        if not baked:
            model_bytes = bake(model_bytes, **settings, source=str(path))
        try:
            return cls(model_bytes, **settings)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def decode(self, ids: Sequence[int]) -> str:
        """The normalised text of some ids; special pieces are left out, `<unk>` is " ⁇ "."""
        ids = tf.RaggedTensor.from_tensor(self._check_ids(ids)[None])
        return self._op.detokenize(ids).numpy()[0].decode()

    def _tokenize(self, valid_texts):
        ids = self._op.tokenize(valid_texts)
        return self._digit_comma.cut(ids) if self._digit_comma else ids

    def _tokenize_with_offsets(self, valid_texts):
        ids, starts, ends = self._op.tokenize_with_offsets(valid_texts)
        first, last = starts.values, ends.values
        # One string: a copy of its text for each piece would take the square of the text's length.
        sizes = tf.cast(tf.strings.length(valid_texts), tf.int64)
        joined, begins = tf.strings.reduce_join(valid_texts), tf.cumsum(sizes, exclusive=True)
        begin = tf.gather(begins, row_ids(ids.row_splits, tf.size(ids.values, out_type=tf.int64)))
        surface = tf.strings.substr(joined, begin + first, last - first)
        visible = tf.strings.regex_replace(surface, _LEADING_SPACE, "")
        first += tf.cast(tf.strings.length(surface) - tf.strings.length(visible), tf.int64)
        if self._digit_comma:
            ids, first, last = self._digit_comma.cut_spans(ids, visible, first)
        # SentencePiece gives a character that becomes several pieces to the last of them and
        # leaves the others empty.
        text = row_ids(ids.row_splits, tf.size(ids.values, out_type=tf.int64))
        left = tf.gather(sizes, text) - first
        four_bytes = tf.strings.substr(joined, tf.gather(begins, text) + first, tf.minimum(left, 4))
        character = tf.strings.substr(four_bytes, 0, 1, unit="UTF8_CHAR")
        shared = (first == last) & (ids.values != self._lone_marker_id)
        last += tf.where(shared, tf.cast(tf.strings.length(character), tf.int64), 0)
        return ids, ids.with_values(first), ids.with_values(last)

    def _config(self):
        return {
            "do_lower_case": self.lowercase,
            "keep_accents": self.keep_accents,
            "remove_space": True,
            "bos_token": CLS,
            "eos_token": SEP,
        }
