"""Tokenizer: text to piece ids, one interface to both kinds of vocabulary."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.json_file import read_json, write_json
from albert_keras.new_file import write_file
from albert_keras.text.tokenizer_folder import CONFIG_FILE, VOCABULARY_FILES, find_vocabulary
from albert_keras.text.utf8 import repair, to_utf8, valid_utf8


class Tokenizer(tf.Module):
    """Text to piece ids, the same in Python, in a dataset and in a SavedModel.

    There are two kinds, `SentencepieceTokenizer` and `WordpieceTokenizer`; `Tokenizer.load` gives
    the one that the vocabulary is for. In both, every view runs the same graph on the same
    vocabulary, preprocessing included (lower-casing, accents, white space), so a raw string is all
    that a graph needs.

        "Café: 9,9"   ->  ▁cafe : ▁9 , 9         (30k-clean, lower-cased)
                          cafe : 9 , 9           (BERT's, lower-cased)
        "[MASK]"      ->  ▁ [ mas k ]            (text cannot make a special piece)

    It is a tf.Module: an object that is saved with `tf.saved_model.save` and holds one takes the
    vocabulary along. It can be pickled.

    Bytes that are not UTF-8 become U+FFFD first, as do lone surrogates in a Python string.

    Attributes:
        model_bytes: content of the vocabulary's file.
        lowercase: whether text is lower-cased.
        keep_accents: whether accents are kept.
        sha256: str, the same for two tokenizers only if they give the same ids.
        vocab_size: int, V.
        pad_id, unk_id, cls_id, sep_id, mask_id: int, ids of the special pieces.
        piece_kinds: int8 `(V,)`, what each piece is to whole-word masking; see `piece_kinds`.

    Example:
        >>> tokenizer = Tokenizer.load("30k-clean.model")
        >>> tokenizer.encode("Café: 9,9")
        >>> tokenizer(tf.constant(["Café: 9,9", ""]))
    """

    # Each kind's own: the name of its file in a folder, its pieces for padding, unknown text, the
    # ends of a segment and masking, and the class that reads its tokenizer_config.json.
    file_name: str
    special_pieces: tuple[str, str, str, str, str]
    huggingface_class: str

    def __init__(
        self, model_bytes: bytes, lowercase: bool, keep_accents: bool, pieces: Sequence[str]
    ):
        super().__init__(name="tokenizer")
        self.model_bytes = bytes(model_bytes)
        self.lowercase = bool(lowercase)
        self.keep_accents = bool(keep_accents)
        # An array, because tf.Module wraps lists and dicts for tracking, piece by piece.
        self._pieces = np.array(pieces, object)
        self.vocab_size = len(self._pieces)
        special_ids = [list(pieces).index(piece) for piece in self.special_pieces]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = special_ids
        # Python calls run as graphs too. Lambdas, because tf.saved_model.save would trace and save
        # a tf.function that it finds on a tf.Module.
        signature = [tf.TensorSpec([None], tf.string)]
        tokenize = tf.function(self._tokenize, input_signature=signature)
        with_offsets = tf.function(self.tokenize_with_offsets, input_signature=signature)
        self._run = lambda valid_texts: tokenize(valid_texts)
        self._run_with_offsets = lambda texts: with_offsets(texts)

    @staticmethod
    def load(
        path: str | Path,
        lowercase: bool | None = None,
        keep_accents: bool | None = None,
    ) -> "Tokenizer":
        """Reads a vocabulary: ours, Google's or Hugging Face's.

        Args:
            path: a folder with spiece.model or vocab.txt and, as a rule, tokenizer_config.json; or
                such a file, a .txt being a WordPiece vocabulary and any other a SentencePiece
                model. A SentencePiece model that is not baked yet is baked, which takes a second
                or two.
            lowercase: whether text is lower-cased. Default: what the folder's tokenizer_config.json
                or the baked model says, else True.
            keep_accents: whether accents are kept. Default as above, else False; with a WordPiece
                vocabulary, as Google's code does, False when text is lower-cased and True when not.

        Raises:
            ValueError: the path holds no vocabulary that could be ALBERT's or BERT's, or an
                argument contradicts what it says.

        Example:
            >>> tokenizer = Tokenizer.load("30k-clean.model")
            >>> tokenizer = Tokenizer.load("run/checkpoint")
            >>> tokenizer = Tokenizer.load("vocab_chinese.txt")
        """
        # Here, because both import this module.
        from albert_keras.text.sentencepiece_tokenizer import SentencepieceTokenizer
        from albert_keras.text.wordpiece_tokenizer import WordpieceTokenizer

        path = Path(path)
        asked = {"lowercase": lowercase, "keep_accents": keep_accents}
        config = {}
        if path.is_dir():
            if (path / CONFIG_FILE).exists():
                config = read_json(path / CONFIG_FILE)
            path = find_vocabulary(path) or path / SentencepieceTokenizer.file_name
        try:
            model_bytes = path.read_bytes()
        except OSError as error:
            raise ValueError(
                "A vocabulary is a SentencePiece model file or a WordPiece .txt, or a folder that "
                f"holds it as {' or '.join(VOCABULARY_FILES)}. "
                f"Received: {path}, which cannot be read ({error.strerror})."
            ) from error
        kind = WordpieceTokenizer if path.suffix == ".txt" else SentencepieceTokenizer
        return kind.read(model_bytes, path, asked, config)

    def save(self, folder: str | Path) -> None:
        """Writes the vocabulary and tokenizer_config.json, as Hugging Face does.

        Args:
            folder: made when missing.

        Raises:
            ValueError: the folder holds another vocabulary.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / self.file_name
        found = find_vocabulary(folder)
        if found and (found != target or found.read_bytes() != self.model_bytes):
            raise ValueError(
                f"A vocabulary is never written over another. Received: {folder}, which has a "
                f"different {found.name}. Name another folder."
            )
        pad, unk, cls, sep, mask = self.special_pieces
        config = {
            "tokenizer_class": self.huggingface_class,
            **self._config(),
            "unk_token": unk,
            "sep_token": sep,
            "pad_token": pad,
            "cls_token": cls,
            "mask_token": mask,
        }
        write_file(target, self.model_bytes)
        write_json(folder / CONFIG_FILE, config)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Piece ids in graph.

        Args:
            texts: string `(B,)`.

        Returns:
            int32 ragged `(B, None)`, without special pieces.
        """
        return self._tokenize(repair(texts))

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Piece ids in graph, with the bytes of the text that each piece came from.

        Offsets count bytes of the text itself, before normalisation; of the repaired text where it
        was not valid UTF-8. What normalisation drops belongs to the piece before it. The kinds say
        what they do with a character whose letters end up in several pieces.

            "The ﬁrst 1,000"   ->   ▁the 0-3   ▁first 4-10   ▁1 11-12   , 12-13   000 13-16

        Args:
            texts: string `(B,)`.

        Returns:
            ids int32, starts int64, ends int64, each ragged `(B, None)`.
        """
        return self._tokenize_with_offsets(repair(texts))

    def encode(self, text: str) -> list[int]:
        """Piece ids of one text, without special pieces."""
        return self._run([to_utf8(text)]).values.numpy().tolist()

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Piece ids and, for each, the characters `text[start:end]` that it came from.

        See `tokenize_with_offsets`; here the offsets count characters of that very string.

        Example:
            >>> tokenizer.encode_with_offsets("Café: 9,9")[1]
            [(0, 4), (4, 5), (6, 7), (7, 8), (8, 9)]
        """
        ids, starts, ends, _ = self.encode_lines_with_offsets([text])
        return ids.tolist(), list(zip(starts.tolist(), ends.tolist(), strict=True))

    def encode_lines(self, lines: Sequence[str] | Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Piece ids of many texts at once: the fast way to fill records.

        Give it some thousand lines at a time.

        Args:
            lines: texts, or texts as UTF-8 bytes.

        Returns:
            int32 ids of all lines, one after the other, and int64 row splits: the ids of line i
            are `values[splits[i]:splits[i + 1]]`.
        """
        lines = list(lines)
        if not lines:
            return np.zeros(0, np.int32), np.zeros(1, np.int64)
        ragged = self._run(valid_utf8(lines))
        return ragged.values.numpy(), ragged.row_splits.numpy()

    def encode_lines_with_offsets(
        self, lines: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """As `encode_lines`, with the characters `line[start:end]` that each piece came from.

        Args:
            lines: texts; a hundred paragraphs at a time.

        Returns:
            int32 ids, int64 starts and int64 ends of all lines, one after the other, and int64 row
            splits.
        """
        if not lines:
            return np.zeros(0, np.int32), *np.zeros([2, 0], np.int64), np.zeros(1, np.int64)
        data = [to_utf8(line) for line in lines]
        ids, starts, ends = self._run_with_offsets(data)
        # A byte that does not continue a character begins one.
        begins = (np.frombuffer(b"".join(data), np.uint8) & 0xC0) != 0x80
        characters = np.concatenate([[0], np.cumsum(begins)])
        line_begins = np.cumsum([0, *map(len, data[:-1])])
        splits = ids.row_splits.numpy()
        byte = np.repeat(line_begins, np.diff(splits))
        spans = (
            characters[byte + offsets.values.numpy()] - characters[byte]
            for offsets in (starts, ends)
        )
        return ids.values.numpy(), *spans, splits

    def decode(self, ids: Sequence[int]) -> str:
        """The normalised text of some ids; special pieces are left out, except for unknown ones."""
        raise NotImplementedError

    def piece(self, piece_id: int) -> str:
        """The piece with this id, as the vocabulary writes it: "▁the", "##ing"."""
        return self._pieces[self._check_ids([piece_id])[0]]

    def _tokenize(self, valid_texts):
        raise NotImplementedError

    def _tokenize_with_offsets(self, valid_texts):
        raise NotImplementedError

    def _config(self) -> dict[str, Any]:
        """What tokenizer_config.json says of this kind alone."""
        raise NotImplementedError

    def _check_ids(self, ids: Sequence[int]) -> np.ndarray:
        ids = np.asarray(ids, np.int32).reshape(-1)
        wrong = ids[(ids < 0) | (ids >= self.vocab_size)]
        if wrong.size:
            raise ValueError(
                f"An id is at least 0 and below the vocabulary's size of {self.vocab_size}. "
                f"Received: {wrong[:5].tolist()}."
            )
        return ids

    def __reduce__(self):
        return type(self), (self.model_bytes, self.lowercase, self.keep_accents)
