"""WordpieceTokenizer: the kind of vocabulary that BERT and the Chinese ALBERTs have."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.text.piece_kinds import wordpiece_kinds
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.tokenizer_folder import CONFIG_FILE, agreed_settings
from albert_keras.text.wordpiece import WordpieceModel
from albert_keras.text.words import WordSplitter, row_ids

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
# Marks a piece that continues a word.
CONTINUES = "##"


class WordpieceTokenizer(Tokenizer):
    """A `Tokenizer` with a WordPiece vocabulary.

    Texts are split into words (see `WordSplitter`) and each word into the longest pieces, from the
    left. A word that cannot be cut into pieces is one unknown piece.

        "Unaffable 日本 9,9"   ->   un ##aff ##able 日 本 9 , 9

    Offsets: a character whose letters end up in several pieces belongs to each of them.

    Args:
        model_bytes: content of a vocab.txt: a piece a line, its id the number of the line.
        lowercase: whether text is lower-cased. Default True.
        keep_accents: whether accents are kept. Default False.

    Raises:
        ValueError: the bytes are no such vocabulary.

    Example:
        >>> tokenizer = WordpieceTokenizer(Path("vocab.txt").read_bytes())

    Reference: BERT (arXiv 1810.04805); google-research/albert, `tokenization.py`, `FullTokenizer`
    with a vocab_file.
    """

    file_name = "vocab.txt"
    special_pieces = (PAD, UNK, CLS, SEP, MASK)
    huggingface_class = "BertTokenizer"

    def __init__(self, model_bytes: bytes, lowercase: bool = True, keep_accents: bool = False):
        pieces = parse_wordpieces(model_bytes)
        super().__init__(model_bytes, lowercase, keep_accents, pieces)
        # The file alone does not decide the ids.
        settings = f"lowercase={self.lowercase} keep_accents={self.keep_accents}"
        self.sha256 = hashlib.sha256(self.model_bytes + settings.encode()).hexdigest()
        self._splitter = WordSplitter(lowercase, keep_accents)
        try:
            self._model = WordpieceModel(pieces, UNK)
        except RuntimeError as error:
            raise ValueError(
                f"tensorflow-text must be able to use the vocabulary. Received: {error}"
            ) from error
        self.piece_kinds = wordpiece_kinds(pieces, self._splitter)

    @classmethod
    def read(
        cls,
        model_bytes: bytes,
        path: Path,
        asked: Mapping[str, bool | None],
        config: Mapping[str, Any],
    ) -> "WordpieceTokenizer":
        """See `Tokenizer.load`, which reads the files.

        Args:
            model_bytes: the vocabulary's content.
            path: of it.
            asked: the arguments `lowercase` and `keep_accents`.
            config: tokenizer_config.json; empty when there is none.
        """
        _refuse_other_words(config, path.parent / CONFIG_FILE)
        strips = config.get("strip_accents")
        said = {
            "lowercase": config.get("do_lower_case"),
            "keep_accents": not strips if isinstance(strips, bool) else strips,
        }
        settings = agreed_settings(path, asked, said, {})
        try:
            if "lowercase" not in settings:
                _refuse_capitals(parse_wordpieces(model_bytes))
            lowercase = settings.get("lowercase", True)
            return cls(model_bytes, lowercase, settings.get("keep_accents", not lowercase))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def decode(self, ids: Sequence[int]) -> str:
        """The words of some ids with a space between; special pieces except [UNK] are left out."""
        ids = self._check_ids(ids)
        left_out = [self.pad_id, self.cls_id, self.sep_id, self.mask_id]
        text = " ".join(self._pieces[ids[~np.isin(ids, left_out)]])
        return text.replace(f" {CONTINUES}", "").removeprefix(CONTINUES)

    def _tokenize(self, valid_texts):
        words = self._splitter(valid_texts)
        ids, _, _ = self._model.tokenize(words.words.values, words.letters.row_lengths())
        return _of_texts(ids, words)

    def _tokenize_with_offsets(self, valid_texts):
        words = self._splitter(valid_texts)
        ids, starts, ends = self._model.tokenize(words.words.values, words.letters.row_lengths())
        # First byte of each letter when all words are written one after the other.
        letters = words.letters.values
        sizes = 1 + sum(tf.cast(letters >= limit, tf.int64) for limit in (0x80, 0x800, 0x10000))
        byte = tf.concat([[0], tf.cumsum(sizes)], 0)
        word = row_ids(ids.row_splits, tf.size(ids.values, out_type=tf.int64))
        word_start = tf.gather(byte, tf.gather(words.letters.row_starts(), word))
        word_end = tf.gather(byte, tf.gather(words.letters.row_limits(), word))

        def character(of_byte):
            letter = tf.searchsorted(byte, of_byte, side="right") - 1
            return tf.gather(words.sources, letter)

        first = tf.gather(words.starts, character(word_start + starts.values))
        end = tf.minimum(word_start + ends.values, word_end)
        last = tf.gather(words.ends, character(end - 1))
        ids = _of_texts(ids, words)
        return ids, ids.with_values(first), ids.with_values(last)

    def _config(self):
        return {
            "do_lower_case": self.lowercase,
            "strip_accents": not self.keep_accents,
            "tokenize_chinese_chars": True,
        }


def parse_wordpieces(model_bytes: bytes) -> list[str]:
    """The pieces of a vocab.txt, in the order of their ids.

    A line of nothing but white space is a piece that no text has: Google's Chinese vocabulary has
    one, U+2028 in line 344. Empty lines at the end, which some copies of it have, are left out.

    Raises:
        ValueError: the bytes are no such vocabulary.
    """
    try:
        # Not splitlines(): white space other than a line feed can be a piece.
        lines = model_bytes.decode().rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            "A WordPiece vocabulary is UTF-8 text, a piece a line. Received: a file that is not "
            f"UTF-8 (line {model_bytes[: error.start].count(10) + 1}). Copy the file again."
        ) from error
    pieces = [line.strip() or " " for line in lines]
    missing = [piece for piece in (PAD, UNK, CLS, SEP, MASK) if piece not in pieces]
    if missing:
        raise ValueError(
            "A WordPiece vocabulary has the pieces [PAD] [UNK] [CLS] [SEP] [MASK], each on a line. "
            f"Received: {len(model_bytes)} bytes without {' '.join(missing)}. "
            "Is this the whole file, and of a BERT or ALBERT?"
        )
    if len(set(pieces)) < len(pieces):
        seen = set()
        twice = [piece for piece in pieces if piece in seen or seen.add(piece)]
        raise ValueError(
            f"Each piece must occur once. Received: {twice[:5]} repeated. Which id is meant cannot "
            "be known: Google's code for BERT takes the last and ALBERT's closes the gap."
        )
    spaced = [piece for piece in pieces if len(piece.split()) > 1]
    if spaced:
        raise ValueError(
            f"A line holds one piece and nothing else. Received: {spaced[:5]}. "
            "Leave out scores or counts."
        )
    return pieces


def _of_texts(ids: tf.RaggedTensor, words) -> tf.RaggedTensor:
    """Ids of each word as ids of each text."""
    splits = tf.gather(ids.row_splits, words.words.row_splits)
    return tf.RaggedTensor.from_row_splits(ids.values, splits, validate=False)


def _refuse_other_words(config: Mapping[str, Any], path: Path) -> None:
    """Of Hugging Face's tokenizers with a vocab.txt, some split words in another way."""
    kind = config.get("tokenizer_class")
    chinese = config.get("tokenize_chinese_chars", True)
    if kind not in (None, "BertTokenizer", "BertTokenizerFast") or chinese is not True:
        raise ValueError(
            "A WordPiece vocabulary is used with BERT's way to split words, Chinese characters "
            f"apart. Received: {path} with tokenizer_class={kind!r}, "
            f"tokenize_chinese_chars={chinese!r}. If BERT's way is meant, load the vocab.txt by "
            "its own path."
        )


def _refuse_capitals(pieces: list[str]) -> None:
    """Pieces with capitals, when nobody said whether text is lower-cased."""
    cased = [piece for piece in pieces if piece != piece.lower() and not piece.startswith("[")]
    if 20 * len(cased) > len(pieces):
        raise ValueError(
            "Whether text is lower-cased must be said of a vocabulary with capitals. Received: "
            f"{len(cased)} of {len(pieces)} pieces with some, such as {cased[:3]}, and no "
            f"{CONFIG_FILE} that says it. Pass lowercase=False, or True."
        )
