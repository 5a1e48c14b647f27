"""WordSplitter: BERT's basic tokenization, in graph."""

import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.text.unicode_version import NEWER_THAN_UNICODE_14

# What the original calls Chinese characters: each is a word. Kana and Hangul are not.
_IDEOGRAPHS = (
    ("\u3400", "\u4dbf"),
    ("\u4e00", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\U00020000", "\U0002a6df"),
    ("\U0002a700", "\U0002b73f"),
    ("\U0002b740", "\U0002b81f"),
    ("\U0002b820", "\U0002ceaf"),
    ("\U0002f800", "\U0002fa1f"),
)
_ASCII_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
# Code points whose treatment is looked up one by one: planes 0 to 2, and the tags and variation
# selectors of plane 14. All others are letters that stay as they are.
_LOOKED_UP = (*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE0200))
_BLOCK = 256  # characters that share an entry of the first of two tables
_MOST_LETTERS = 4  # that a character becomes; in Unicode 14 there are three
# In a rule: the character itself, whichever it is.
_ITSELF = -1
_SPACE = ord(" ")


class Words(NamedTuple):
    """The words of B texts, and where they came from: W words of L letters from C characters."""

    words: tf.RaggedTensor  # string (B, None)
    letters: tf.RaggedTensor  # int32 (W, None), code points of each word
    sources: tf.Tensor  # int32 (L,), the character that each letter came from
    starts: tf.Tensor  # int64 (C,), first byte of each character in its text
    ends: tf.Tensor  # int64 (C,), first byte behind it and all dropped characters that follow it


class WordSplitter:
    """Splits texts into words, and normalises them, as BERT does.

    Characters without a shape are dropped (U+0000, U+FFFD, controls, format characters), text is
    lower-cased, accents are removed (NFD without nonspacing marks), and words end at white space.
    Punctuation, ASCII's signs, and Chinese characters are words of their own.

        "Café: \\u00ad9,9 日本"   ->   cafe : 9 , 9 日 本

    tensorflow-text's BertTokenizer and FastBertTokenizer mean to do the same and do not: they case
    fold with NFKC, so that "，" becomes "," and "①" becomes "1", and put a space where a control or
    format character was. Of 240 paragraphs of Chinese Wikipedia 239 get other ids, of 240 German
    ones 140 ("ß" becomes "ss"), of 240 English ones 1.

    What becomes of a character depends on that character alone, so all is a table, made with
    Python's `unicodedata` as the original. Three things differ from it:

    - Python's `lower()` writes a capital sigma at the end of a word as "ς"; here it is always "σ".
    - NFD orders several marks on a letter; here they stay as they come. It shows only with two
      spacing marks, which are kept, of different classes in the wrong order.
    - Characters newer than Unicode 14 are ordinary letters; see `unicode_version`.

    Args:
        lowercase: whether text is lower-cased.
        keep_accents: whether the decomposition and the removal of marks are left out.

    Reference: google-research/bert, `tokenization.py`, `BasicTokenizer`.
    """

    def __init__(self, lowercase: bool, keep_accents: bool):
        self._rules = _rules(bool(lowercase), bool(keep_accents))

    def __call__(self, texts: tf.Tensor) -> Words:
        """The words of some texts.

        Args:
            texts: string `(B,)`, valid UTF-8.
        """
        rules = self._rules
        characters, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        code = characters.flat_values
        text_splits = tf.cast(characters.row_splits, tf.int32)
        block = tf.gather(rules.block, code // _BLOCK)
        rule = tf.gather(rules.rule, block * _BLOCK + code % _BLOCK)
        count = tf.gather(rules.count, rule)

        # One entry for each letter or space that comes out: four times the character's index, plus
        # which of its letters it is.
        index = tf.range(tf.size(code)) * _MOST_LETTERS
        index = tf.ragged.range(index, index + count).flat_values
        source = index // _MOST_LETTERS
        entry = tf.gather(tf.gather(rules.first, rule), source) + index % _MOST_LETTERS
        letter = tf.gather(rules.letter, entry)
        letter = tf.where(letter == _ITSELF, tf.gather(code, source), letter)

        kept = tf.where(letter != _SPACE)[:, 0]
        letter, source = tf.gather(letter, kept), tf.gather(source, kept)
        alone = tf.gather(tf.gather(rules.alone, entry), kept)
        begins = (
            alone
            | _before(alone, True)
            | (kept != _before(kept, -1) + 1)  # a space between
            | _marked(tf.searchsorted(source, text_splits[:-1]), tf.size(source))  # another text
        )
        first = tf.where(begins)[:, 0]
        letters = tf.RaggedTensor.from_row_starts(letter, first, validate=False)
        words = tf.RaggedTensor.from_row_splits(
            tf.strings.unicode_encode(letters, "UTF-8"),
            tf.cast(tf.searchsorted(tf.gather(source, first), text_splits), tf.int64),
            validate=False,
        )
        return Words(words, letters, source, offsets.flat_values, _ends(texts, offsets, count))


def row_ids(splits: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """The row of each of `size` values, int32.

    `RaggedTensor.value_rowids` says the same by a mask of rows times the longest row, which takes
    half of the time of all that is done here, and gigabytes when a single text is long.
    """
    marks = tf.scatter_nd(splits[1:-1, tf.newaxis], tf.ones_like(splits[1:-1]), [size + 1])
    return tf.cast(tf.cumsum(marks)[:-1], tf.int32)


def _marked(indices: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """bool `(size,)`, true at the indices; one may also be `size` itself."""
    marks = tf.scatter_nd(indices[:, tf.newaxis], tf.ones_like(indices), [size + 1])
    return marks[:-1] > 0


def _before(values: tf.Tensor, first) -> tf.Tensor:
    """The value before each, and `first` before the first."""
    return tf.concat([tf.constant([first], values.dtype), values[:-1]], 0)


def _ends(texts, offsets, count):
    """The byte where the next character that is not dropped starts, or the text's length."""
    stays = tf.where(count > 0)[:, 0]
    size = tf.size(count, out_type=tf.int64)
    upcoming = tf.concat([stays, size[tf.newaxis]], 0)
    following = tf.gather(upcoming, tf.cumsum(tf.cast(count > 0, tf.int32)))
    text = row_ids(offsets.row_splits, size)
    in_text = following < tf.gather(offsets.row_limits(), text)
    starts = tf.concat([offsets.flat_values, [0]], 0)
    length = tf.cast(tf.gather(tf.strings.length(texts), text), tf.int64)
    return tf.where(in_text, tf.gather(starts, following), length)


class _Rules(NamedTuple):
    """Rule r of a character writes entries first[r], ..., first[r] + count[r] - 1."""

    block: np.ndarray  # int32 (4352,), of a code point // 256
    rule: np.ndarray  # int32 (blocks * 256,)
    first: np.ndarray  # int32 (rules,)
    count: np.ndarray  # int32 (rules,)
    letter: np.ndarray  # int32 (entries,)
    alone: np.ndarray  # bool (entries,), whether the letter is a word of its own


@functools.cache  # They take half a second and are the same for every vocabulary.
def _rules(lowercase: bool, keep_accents: bool) -> _Rules:
    numbers = {((_ITSELF, False),): 0}
    rule = np.zeros(0x110000, np.int32)
    for code in _LOOKED_UP:
        result = _result(chr(code), lowercase, keep_accents)
        rule[code] = numbers.setdefault(result, len(numbers))
    blocks, block = np.unique(rule.reshape(-1, _BLOCK), axis=0, return_inverse=True)
    count = np.array([len(result) for result in numbers], np.int32)
    entries = [entry for result in numbers for entry in result]
    return _Rules(
        block.reshape(-1).astype(np.int32),
        blocks.reshape(-1),
        np.cumsum(count, dtype=np.int32) - count,
        count,
        np.array([letter for letter, _ in entries], np.int32),
        np.array([alone for _, alone in entries], bool),
    )


def _result(char: str, lowercase: bool, keep_accents: bool) -> tuple[tuple[int, bool], ...]:
    """The letters that a character becomes, each with whether it is a word of its own."""
    if char in NEWER_THAN_UNICODE_14:
        return ((_ITSELF, False),)
    if char in "\0\ufffd":
        return ()
    if char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf"):
        return ()
    if char.isspace():
        return ((_SPACE, False),)
    letters = char.lower() if lowercase else char
    if not keep_accents:
        decomposed = unicodedata.normalize("NFD", letters)
        letters = [c for c in decomposed if unicodedata.category(c) != "Mn"]
    ideograph = any(first <= char <= last for first, last in _IDEOGRAPHS)
    return tuple(
        (
            _ITSELF if letter == char else ord(letter),
            ideograph
            or letter in _ASCII_PUNCTUATION
            or unicodedata.category(letter).startswith("P"),
        )
        for letter in letters
    )
