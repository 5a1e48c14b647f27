"""What each piece of a vocabulary is to whole-word masking."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from albert_keras.text import model_proto
from albert_keras.text.digit_comma import is_digit_comma

# Not in any text: never masked, and never drawn as a random replacement.
PIECE_SPECIAL = 0
PIECE_INSIDE = 1
PIECE_START = 2

# Scripts written without spaces, in which each piece counts as a word: first and last character.
_SCRIPTS_WITHOUT_SPACES = (
    ("\u0e00", "\u0eff"),  # Thai, Lao
    ("\u1000", "\u109f"),  # Myanmar
    ("\u1780", "\u17ff"),  # Khmer
    ("\u19e0", "\u19ff"),  # Khmer symbols
    ("\u2e80", "\u2fdf"),  # Han radicals
    ("\u3005", "\u3007"),  # Han iteration mark, zero
    ("\u3021", "\u3029"),  # Han numerals
    ("\u3031", "\u303b"),  # Kana and Han repeat marks, numerals
    ("\u3040", "\u30ff"),  # Hiragana, Katakana
    ("\u31f0", "\u31ff"),  # Katakana extensions
    ("\u3400", "\u4dbf"),  # Han
    ("\u4e00", "\u9fff"),  # Han
    ("\ua9e0", "\ua9ff"),  # Myanmar
    ("\uaa60", "\uaa7f"),  # Myanmar
    ("\uf900", "\ufaff"),  # Han
    ("\uff66", "\uff9f"),  # half-width Katakana
    ("\U0001aff0", "\U0001b16f"),  # Kana
    ("\U00020000", "\U000323af"),  # Han
)


def piece_kinds(pieces: Iterable) -> np.ndarray:
    """One kind for each piece: SPECIAL 0, INSIDE 1 (continues a word), START 2 (starts one).

    A piece starts a word when it begins with SentencePiece's marker, when it is punctuation or a
    symbol, or when it begins with a letter of a script written without spaces. Everything else,
    digits as well, continues the word before it.

        [CLS] 0   ▁the 2   ing 1   7 1   . 2   € 2   日本 2   ▁ 2   <unk> 0

    The original code asks instead whether all characters are English letters or one of a few
    signs, so that each piece with a digit or an accent starts a word; that splits words of every
    language but English.

    Args:
        pieces: the `pieces` of a model's proto.

    Returns:
        int8 `(V,)`.
    """
    return np.array([_kind(piece.piece, piece.type) for piece in pieces], np.int8)


def _kind(piece: str, piece_type: int) -> int:
    never_text = (model_proto.CONTROL, model_proto.UNKNOWN, model_proto.UNUSED)
    if piece_type in never_text or is_digit_comma(piece):
        return PIECE_SPECIAL
    if piece_type == model_proto.BYTE:  # written "<0x41>"
        return PIECE_INSIDE
    starts = (
        piece.startswith(model_proto.MARKER)
        or all(unicodedata.category(char)[0] in "PS" for char in piece)
        or any(first <= piece[0] <= last for first, last in _SCRIPTS_WITHOUT_SPACES)
    )
    return PIECE_START if starts else PIECE_INSIDE


def wordpiece_kinds(pieces: Sequence[str], split_words: Callable) -> np.ndarray:
    """The same for a WordPiece vocabulary, where "##" marks a piece that continues a word.

    A piece that no text gives is special: `[CLS]`, `[unused1]`, one with capitals when text is
    lower-cased, and "##" before a Chinese character or punctuation, which are words of their own
    (a third of Google's Chinese vocabulary, some 7,500 pieces).

        [CLS] 0   the 2   ##ing 1   . 2   ##. 0   日 2   ##日 0   [UNK] 0

    Args:
        pieces: V pieces.
        split_words: the `WordSplitter` that texts go through.

    Returns:
        int8 `(V,)`.
    """
    continues = np.array([piece.startswith("##") for piece in pieces])
    # A piece can come from text if it stays one word and as it is, behind a letter if it continues
    # one.
    texts = ["a" + p[2:] if c else p for p, c in zip(pieces, continues, strict=True)]
    words = split_words(tf.constant(texts)).words.to_list()
    in_text = np.array([w == [t.encode()] for w, t in zip(words, texts, strict=True)])
    in_text &= np.array([piece != "##" for piece in pieces])
    kinds = np.where(continues, PIECE_INSIDE, PIECE_START)
    return np.where(in_text, kinds, PIECE_SPECIAL).astype(np.int8)
