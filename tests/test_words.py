"""Words against the original's steps, for every character there is and for hand-worked texts."""

import hashlib
import random
import unicodedata

import pytest
import tensorflow as tf
from original_wordpiece import words_of

from albert_keras.text.unicode_version import NEWER_THAN_UNICODE_14
from albert_keras.text.words import WordSplitter, _rules

SETTINGS = [(True, False), (False, True), (True, True), (False, False)]


def settings(function):
    ids = [f"lowercase={a},keep_accents={b}" for a, b in SETTINGS]
    return pytest.mark.parametrize("lowercase,keep_accents", SETTINGS, ids=ids)(function)


def split(texts, lowercase=True, keep_accents=False):
    words = WordSplitter(lowercase, keep_accents)(tf.constant(texts))
    return [[word.decode() for word in row] for row in words.words.to_list()]


@pytest.mark.parametrize(
    "text,expected",
    [
        ("The  cat\tsat.\n", "the cat sat ."),
        ("Café, ÉTÉ; e\u0301té", "cafe , ete ; ete"),
        ("can't re-do $9,9^2 ~x", "can ' t re - do $ 9 , 9 ^ 2 ~ x"),
        ("日本語のテキスト", "日 本 語 のテキスト"),
        ("你好，世界。Ａ①", "你 好 ， 世 界 。 ａ①"),
        ("한국 İI", "\u1112\u1161\u11ab\u1100\u116e\u11a8 ii"),
        (
            "soft\u00adhyphen zero\u200bwidth \ufeffbom nul\0 x\x07y",
            "softhyphen zerowidth bom nul xy",
        ),
        ("a\u3000b\xa0c\u2028d\u2029e", "a b c d e"),
        ("a\x0bb\x0cc\x85d\x1ce", "abcde"),  # to Python white space, to the original controls
        ("x\ufffdy", "xy"),
        ("\u1fefa \u037eb \u212ak", "` a ; b kk"),  # become punctuation or a letter only in NFD
        ("\uf900\u0301日", "\u8c48 日"),
        ("", ""),
        ("\u0301\u200b ", ""),
    ],
)
def test_lower_cased_words_by_hand(text, expected):
    assert [" ".join(row) for row in split([text, "x"])] == [expected, "x"]


def test_cased_words_keep_case_and_accents():
    assert split(["Café ÉTÉ 日本 e\u0301"], False, True) == [["Café", "ÉTÉ", "日", "本", "e\u0301"]]
    assert split(["Café ÉTÉ"], True, True) == [["café", "été"]]
    assert split(["Café ÉTÉ"], False, False) == [["Cafe", "ETE"]]


@settings
def test_every_character_is_treated_as_by_the_original(lowercase, keep_accents):
    """Planes 0 to 2, what is in plane 14, and some of the planes that hold nothing yet."""
    codes = [*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE0200)]
    codes += range(0x30000, 0x110000, 0x1001)
    chars = [char for char in map(chr, codes) if char != "Σ" and char not in NEWER_THAN_UNICODE_14]
    texts = [
        " ".join(f"a{char}b" for char in chars[i : i + 100]) for i in range(0, len(chars), 100)
    ]
    expected = [words_of(text, lowercase, keep_accents) for text in texts]
    found = split(texts, lowercase, keep_accents)
    for text, ours, theirs in zip(texts, found, expected, strict=True):
        assert ours == theirs, ascii(text[0])


@settings
def test_random_text_is_split_as_by_the_original(lowercase, keep_accents):
    generator = random.Random(0)
    blocks = [(0, 0x80), (0x80, 0x370), (0x370, 0x700), (0x900, 0x1200), (0x1E00, 0x3400)]
    blocks += [(0x4E00, 0x5000), (0xAC00, 0xAD00), (0xF900, 0x10000), (0x1D400, 0x1FB00)]
    texts = []
    for _ in range(2000):
        first, last = generator.choice(blocks)
        chars = [chr(generator.randrange(first, last)) for _ in range(20)]
        chars += generator.choices([" ", "e", "\u0301", "1,", "[MASK]", "日"], k=8)
        generator.shuffle(chars)
        texts.append("".join(char for char in chars if char != "Σ"))
    expected = [words_of(text, lowercase, keep_accents) for text in texts]
    found = split(texts, lowercase, keep_accents)
    wrong = [t for t, a, b in zip(texts, found, expected, strict=True) if a != b]
    assert all(_marks_out_of_order(text) for text in wrong) and len(wrong) < 20


def _marks_out_of_order(text):
    """Whether canonical order moves a mark that is kept: a listed difference."""
    one_by_one = "".join(unicodedata.normalize("NFD", char) for char in text)
    together = unicodedata.normalize("NFD", text)
    kept = [[c for c in s if unicodedata.category(c) != "Mn"] for s in (one_by_one, together)]
    return kept[0] != kept[1]


def test_what_differs_from_the_original_is_what_the_docstring_lists():
    assert split(["ΦΑΡΟΣ ΦΑΡΟΣ. ΟΣΑ"]) == [["φαροσ", "φαροσ", ".", "οσα"]]
    assert words_of("ΦΑΡΟΣ ΦΑΡΟΣ. ΟΣΑ") == ["φαρος", "φαρος", ".", "οσα"]
    marks = "a\u302e\u1b44"  # a Hangul tone mark, then a Balinese sign of a lower class
    assert split([marks]) == [[marks]] and words_of(marks) == ["a\u1b44\u302e"]
    assert split(["a\U00011b00b"]) == [["a\U00011b00b"]]  # punctuation since Unicode 15


def test_the_words_do_not_depend_on_the_unicode_version_of_python():
    """The hash is from Python 3.11 (Unicode 14); on 3.12 and 3.13 (15) it was the same."""
    digest = hashlib.sha256()
    for lowercase, keep_accents in SETTINGS:
        for table in _rules(lowercase, keep_accents):
            digest.update(table.tobytes())
    assert digest.hexdigest() == "bffc6c86bbec261051c77c739cad0cf78f082af9336c32338762016ecce7bbcb"


def test_no_texts_and_texts_without_words_are_fine():
    assert split(["", "\u0301", " "]) == [[], [], []]
    words = WordSplitter(True, False)(tf.constant([], tf.string))
    assert words.words.shape[0] == 0 and words.ends.shape == (0,)
