"""ALBERT's preprocessing as SentencePiece rules, against unicodedata and worked cases."""

import hashlib
import unicodedata

import pytest

from albert_keras.text.normalization import (
    BAKED_NAMES,
    albert_rules,
    apply_rules,
    compile_rules,
    normalizer_name,
    read_charsmap,
    rules_table,
    sentencepiece_rules,
)


@pytest.fixture(scope="module")
def rules():
    """(lowercase, keep_accents): the rules, over SentencePiece's default normaliser."""
    own = sentencepiece_rules()
    return {settings: albert_rules(own, *settings) for settings in BAKED_NAMES.values()}


def test_rules_are_applied_from_the_left_and_the_longest_wins():
    rules = {"a": "1", "ab": "2", "abc": "3", "x": ""}
    assert apply_rules(rules, "aababcxabx") == "12" + "3" + "2"


@pytest.mark.parametrize(
    "char,lower,cased,lower_accents",
    [
        ("É", "e", "E", "é"),
        ("é", "e", "e", None),
        ("\u0301", "", "", None),
        ("ﬁ", "fi", "fi", "fi"),
        ("Ａ", "a", "A", "a"),
        ("①", "1", "1", "1"),
        ("\u3000", " ", " ", " "),
        ("\x1f", " ", " ", " "),
        ("\u0130", "i", "I", "i\u0307"),
        ("ß", None, None, None),
        ("ẞ", "ß", None, "ß"),
        # Of combining class 0, so kept, though a mark: a Devanagari and a Thai vowel.
        ("\u0941", None, None, None),
        ("\u0e34", None, None, None),
        # Dropped: the virama.
        ("\u094d", "", "", None),
        ("가", None, None, None),
        ("Σ", "σ", None, "σ"),
        ("\ufffd", " ", " ", " "),
        ("a", None, None, None),
    ],
)
def test_the_rule_of_a_character(rules, char, lower, cased, lower_accents):
    assert rules[True, False].get(char) == lower
    assert rules[False, False].get(char) == cased
    assert rules[True, True].get(char) == lower_accents


def test_sequences_that_compose_are_rules_where_the_accents_stay(rules):
    assert rules[True, True]["E\u0301"] == "é"
    assert rules[False, True]["E\u0301"] == "É"
    assert "E\u0301" not in rules[True, False]
    # Hangul letters, and a two-part vowel of Bengali, compose in every mode.
    for settings in BAKED_NAMES.values():
        assert rules[settings]["\u1112\u1161\u11ab"] == "한"
        assert rules[settings]["\u09c7\u09be"] == "\u09cb"


def test_a_normaliser_without_rules_leaves_exactly_the_python_steps():
    rules = albert_rules({}, lowercase=True, keep_accents=False)
    for char in map(chr, [*range(1, 0x3000), *range(0xF900, 0x10000), *range(0x1D400, 0x1D800)]):
        decomposed = unicodedata.normalize("NFKD", char)
        expected = "".join(c for c in decomposed if not unicodedata.combining(c)).lower()
        if char.isspace():
            expected = " "
        assert rules.get(char, char) == expected, hex(ord(char))


def test_reading_a_compiled_table_gives_the_rules_back(rules):
    few = {"a": "b", "ab": "", "é": "e", "日本": "x y", "\U0001f600": ":)"}
    assert read_charsmap(compile_rules(few)) == few
    assert read_charsmap(compile_rules(rules[True, True])) == rules[True, True]
    assert read_charsmap(b"") == {}


@pytest.mark.parametrize("kept", [3, 4, 100, -1])
def test_a_table_that_is_cut_short_is_refused(kept):
    charsmap = compile_rules({chr(code): "x" for code in range(0x400, 0x1400)})
    with pytest.raises(ValueError, match="damaged"):
        read_charsmap(charsmap[:kept])


def test_a_table_with_a_cycle_is_refused():
    # Every unit claims to be the child, by the letter of its own index, of the same node.
    units = b"".join((index & 0xFF).to_bytes(4, "little") for index in range(256))
    charsmap = len(units).to_bytes(4, "little") + units + b"\0"
    with pytest.raises(ValueError, match="damaged"):
        read_charsmap(charsmap)


def test_names_of_normalisers_say_what_they_do():
    assert [normalizer_name(*settings) for settings in BAKED_NAMES.values()] == list(BAKED_NAMES)


def test_the_rules_do_not_depend_on_the_unicode_version_of_python():
    """The hash is from Python 3.11 (Unicode 14); with the tables of 15.1 it was the same."""
    digest = hashlib.sha256()
    for settings in BAKED_NAMES.values():
        digest.update(rules_table(albert_rules({}, *settings)).encode())
    assert digest.hexdigest() == "f470b0524e0bb6a01443d7134d073ef2bfb696483ddc5ae5da1da2cca1a12309"
