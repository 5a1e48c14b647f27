"""Tokenizer: one SentencePiece model, seen from Python and from a graph."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_keras.json_file import read_json, write_json
from albert_keras.new_file import write_file
from albert_keras.text import model_proto
from albert_keras.text.digit_comma import DigitComma, is_digit_comma
from albert_keras.text.normalization import BAKED_NAMES, normalizer_name
from albert_keras.text.piece_kinds import piece_kinds
from albert_keras.text.sentencepiece import SentencepieceModel
from albert_keras.text.vocabulary import CLS, MASK, PAD, SEP, UNK, bake, parse_vocabulary

MODEL_FILE = "spiece.model"
CONFIG_FILE = "tokenizer_config.json"

# What str.isspace() accepts, in RE2's words.
_LEADING_SPACE = "^[\\s\\x0b\\x1c-\\x1f\\x{85}\\pZ]+"
_SURROGATES = re.compile("[\ud800-\udfff]")


class Tokenizer(tf.Module):
    """Text to piece ids, the same in Python, in a dataset and in a SavedModel.

    Every view runs tensorflow-text's SentencepieceTokenizer on the same model bytes. Those hold
    the preprocessing as well (lower-casing, accents, white space), so a raw string is all that a
    graph needs.

        "Café: 9,9"   ->  ▁cafe : ▁9 , 9   (30k-clean, lower-cased)
        "[MASK]"      ->  ▁ [ mas k ]      (text cannot make a special piece)

    It is a tf.Module: an object that is saved with `tf.saved_model.save` and holds one takes the
    vocabulary along. It can be pickled.

    Bytes that are not UTF-8 become U+FFFD first, as do lone surrogates in a Python string.

    Args:
        model_bytes: a baked model, from `train_vocabulary`, `bake` or `Tokenizer.model_bytes`.
        lowercase: whether the model lower-cases. Default True.
        keep_accents: whether it keeps accents. Default False.

    Raises:
        ValueError: the bytes are no ALBERT vocabulary, are not baked, or are baked another way.

    Example:
        >>> tokenizer = Tokenizer.load("30k-clean.model")
        >>> tokenizer.encode("Café: 9,9")
        >>> tokenizer(tf.constant(["Café: 9,9", ""]))

    Reference: SentencePiece (arXiv 1808.06226); ALBERT (arXiv 1909.11942) 4.1.
    """

    def __init__(self, model_bytes: bytes, lowercase: bool = True, keep_accents: bool = False):
        super().__init__(name="tokenizer")
        model = parse_vocabulary(model_bytes)
        expected = normalizer_name(lowercase, keep_accents)
        if model.normalizer_spec.name != expected:
            raise ValueError(
                f"The model must be baked with lowercase={lowercase}, keep_accents={keep_accents}. "
                f"Received: normaliser {model.normalizer_spec.name!r} instead of {expected!r}. "
                "Use Tokenizer.load, or albert_keras.text.vocabulary.bake on the original model."
            )
        self.model_bytes = bytes(model_bytes)
        self.lowercase = bool(lowercase)
        self.keep_accents = bool(keep_accents)
        self.sha256 = hashlib.sha256(self.model_bytes).hexdigest()
        try:
            self._op = SentencepieceModel(self.model_bytes)
        except tf.errors.OpError as error:
            raise ValueError(
                f"SentencePiece must be able to load the model. Received: {error.message}"
            ) from error
        # Arrays, because tf.Module wraps lists and dicts for tracking, piece by piece.
        self._pieces = np.array([piece.piece for piece in model.pieces], object)
        self.piece_kinds = piece_kinds(model.pieces)
        concerned = [
            index
            for index, piece in enumerate(model.pieces)
            if is_digit_comma(piece.piece) and piece.type == model_proto.NORMAL
        ]
        self.vocab_size = len(self._pieces)
        ids = {piece: index for index, piece in enumerate(self._pieces)}
        self.pad_id = ids[PAD]
        self.unk_id = ids[UNK]
        self.cls_id = ids[CLS]
        self.sep_id = ids[SEP]
        self.mask_id = ids[MASK]
        self._lone_marker_id = ids.get(model_proto.MARKER, -1)
        self._digit_comma = None
        if concerned:
            self._digit_comma = DigitComma(self._pieces, concerned, self._op, self.unk_id)
        # Python calls run as graphs too. Lambdas, because tf.saved_model.save would trace and save
        # a tf.function that it finds on a tf.Module.
        signature = [tf.TensorSpec([None], tf.string)]
        tokenize = tf.function(self._tokenize, input_signature=signature)
        with_offsets = tf.function(self.tokenize_with_offsets, input_signature=signature)
        self._run = lambda valid_texts: tokenize(valid_texts)
        self._run_with_offsets = lambda texts: with_offsets(texts)

    @classmethod
    def load(
        cls,
        path: str | Path,
        lowercase: bool | None = None,
        keep_accents: bool | None = None,
    ) -> "Tokenizer":
        """Reads a vocabulary: ours, Google's or Hugging Face's.

        Args:
            path: a folder with spiece.model and, as a rule, tokenizer_config.json, or a model
                file. A model that is not baked yet is baked, which takes a second or two.
            lowercase: whether text is lower-cased. Default: what the folder's tokenizer_config.json
                or the baked model says, else True.
            keep_accents: whether accents are kept. Default as above, else False.

        Raises:
            ValueError: the path holds no ALBERT vocabulary, or an argument contradicts what it
                says.

        Example:
            >>> tokenizer = Tokenizer.load("30k-clean.model")
            >>> tokenizer = Tokenizer.load("run/checkpoint")
        """
        path = Path(path)
        asked = {"lowercase": lowercase, "keep_accents": keep_accents}
        config = {}
        if path.is_dir():
            config = _read_config(path / CONFIG_FILE)
            path = path / MODEL_FILE
        try:
            model_bytes = path.read_bytes()
        except OSError as error:
            raise ValueError(
                "A vocabulary is a SentencePiece model file, or a folder that holds it as "
                f"{MODEL_FILE}. Received: {path}, which cannot be read ({error.strerror})."
            ) from error
        name = parse_vocabulary(model_bytes, str(path)).normalizer_spec.name
        baked = dict(zip(("lowercase", "keep_accents"), BAKED_NAMES.get(name, ()), strict=False))
        settings = {"lowercase": True, "keep_accents": False}
        for source in (asked, config, baked):
            settings.update({k: v for k, v in source.items() if v is not None})
        for source, values in (("the arguments say", asked), (f"{CONFIG_FILE} says", config)):
            for key, value in values.items():
                if value is not None and value != settings[key]:
                    said = "the model is baked with" if key in baked else f"{CONFIG_FILE} says"
                    raise ValueError(
                        f"A vocabulary is used as it was trained. Received: {path}, for which "
                        f"{source} {key}={value} and {said} {key}={settings[key]}. "
                        "Leave the setting out."
                    )
        if not baked:
            model_bytes = bake(model_bytes, **settings, source=str(path))
        try:
            return cls(model_bytes, **settings)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def save(self, folder: str | Path) -> None:
        """Writes spiece.model (the baked bytes) and tokenizer_config.json, as Hugging Face does.

        Args:
            folder: made when missing.

        Raises:
            ValueError: the folder holds another vocabulary.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / MODEL_FILE
        if target.exists() and target.read_bytes() != self.model_bytes:
            raise ValueError(
                f"A vocabulary is never written over another. Received: {folder}, which has a "
                f"different {MODEL_FILE}. Name another folder."
            )
        config = {
            "tokenizer_class": "AlbertTokenizer",
            "do_lower_case": self.lowercase,
            "keep_accents": self.keep_accents,
            "remove_space": True,
            "bos_token": CLS,
            "eos_token": SEP,
            "unk_token": UNK,
            "sep_token": SEP,
            "pad_token": PAD,
            "cls_token": CLS,
            "mask_token": MASK,
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
        return self._tokenize(_repair(texts))

    def _tokenize(self, valid_texts: tf.Tensor) -> tf.RaggedTensor:
        ids = self._op.tokenize(valid_texts)
        return self._digit_comma.cut(ids) if self._digit_comma else ids

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Piece ids in graph, with the bytes of the text that each piece came from.

        Offsets count bytes of the text itself, before normalisation; of the repaired text where it
        was not valid UTF-8. The white space that a piece's marker stands for is not counted in,
        so a lone marker has an empty span. What normalisation drops belongs to the piece before
        it. A character whose letters end up in several pieces belongs to the last of them, and to
        each that would have nothing else.

            "The ﬁrst 1,000"   ->   ▁the 0-3   ▁first 4-10   ▁1 11-12   , 12-13   000 13-16

        Args:
            texts: string `(B,)`.

        Returns:
            ids int32, starts int64, ends int64, each ragged `(B, None)`.
        """
        texts = _repair(texts)
        ids, starts, ends = self._op.tokenize_with_offsets(texts)
        first, last = starts.values, ends.values
        own_text = tf.gather(texts, ids.value_rowids())
        surface = tf.strings.substr(own_text, first, last - first)
        visible = tf.strings.regex_replace(surface, _LEADING_SPACE, "")
        first += tf.cast(tf.strings.length(surface) - tf.strings.length(visible), tf.int64)
        if self._digit_comma:
            ids, first, last = self._digit_comma.cut_spans(ids, visible, first)
        # SentencePiece gives a character that becomes several pieces to the last of them and
        # leaves the others empty.
        own_text = tf.gather(texts, ids.value_rowids())
        four_bytes = tf.strings.substr(own_text, first, tf.zeros_like(first) + 4)
        character = tf.strings.substr(four_bytes, 0, 1, unit="UTF8_CHAR")
        shared = (first == last) & (ids.values != self._lone_marker_id)
        last += tf.where(shared, tf.cast(tf.strings.length(character), tf.int64), 0)
        return ids, ids.with_values(first), ids.with_values(last)

    def encode(self, text: str) -> list[int]:
        """Piece ids of one text, without special pieces."""
        return self._run([_to_bytes(text)]).values.numpy().tolist()

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Piece ids and, for each, the characters `text[start:end]` that it came from.

        See `tokenize_with_offsets`; here the offsets count characters of that very string.

        Example:
            >>> tokenizer.encode_with_offsets("Café: 9,9")[1]
            [(0, 4), (4, 5), (6, 7), (7, 8), (8, 9)]
        """
        data = _to_bytes(text)
        ids, starts, ends = self._run_with_offsets([data])
        # A byte that does not continue a character begins one.
        begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
        characters = np.concatenate([[0], np.cumsum(begins)])
        spans = zip(
            characters[starts.values.numpy()].tolist(),
            characters[ends.values.numpy()].tolist(),
            strict=True,
        )
        return ids.values.numpy().tolist(), list(spans)

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
        ragged = self._run(_valid(lines))
        return ragged.values.numpy(), ragged.row_splits.numpy()

    def decode(self, ids: Sequence[int]) -> str:
        """The normalised text of some ids; special pieces are left out, `<unk>` is " ⁇ "."""
        ids = self._check_ids(ids)
        return self._op.detokenize(tf.RaggedTensor.from_tensor(ids[np.newaxis])).numpy()[0].decode()

    def piece(self, piece_id: int) -> str:
        """The piece with this id, its word-start marker "▁" included."""
        return self._pieces[self._check_ids([piece_id])[0]]

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
        return Tokenizer, (self.model_bytes, self.lowercase, self.keep_accents)


def _read_config(path: Path) -> dict[str, bool]:
    """The two settings of a tokenizer_config.json; empty when there is no such file."""
    if not path.exists():
        return {}
    config = read_json(path)
    settings = {
        # Hugging Face's defaults.
        "lowercase": config.get("do_lower_case", True),
        "keep_accents": config.get("keep_accents", False),
    }
    for key, value in settings.items():
        if not isinstance(value, bool):
            raise ValueError(
                f"do_lower_case and keep_accents are true or false. Received: {path} with "
                f"{key}={value!r}."
            )
    return settings


def _repair(texts: tf.Tensor) -> tf.Tensor:
    """`texts` with U+FFFD for every byte sequence that is not UTF-8."""
    texts = tf.convert_to_tensor(texts, tf.string)
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def _to_bytes(text: str) -> bytes:
    if not isinstance(text, str):
        raise ValueError(
            f"A text is a str. Received: {type(text).__name__}. "
            "Decode bytes first, or give them to encode_lines."
        )
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def _valid(lines: list[str] | list[bytes]) -> tf.Tensor:
    """The lines as a tensor of valid UTF-8, repaired only if need be, because that takes time."""
    if not isinstance(lines[0], bytes):
        try:
            return tf.constant(lines)
        except ValueError:  # lone surrogates
            return tf.constant([_to_bytes(line) for line in lines])
    try:
        b"\n".join(lines).decode()
    except UnicodeDecodeError:
        return _repair(lines)
    return tf.constant(lines)
