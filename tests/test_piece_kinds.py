"""Which pieces start a word."""

import numpy as np
import pytest

from albert_keras.text.model_proto import ModelProto
from albert_keras.text.piece_kinds import PIECE_INSIDE, PIECE_SPECIAL, PIECE_START, piece_kinds
from albert_keras.text.tokenizer import Tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def kinds(*pieces, piece_type=NORMAL):
    model = ModelProto()
    for piece in pieces:
        model.pieces.add(piece=piece, type=piece_type)
    return piece_kinds(model.pieces).tolist()


@pytest.mark.parametrize(
    "pieces",
    [
        ["\u2581the", "\u2581", "\u25811", "\u2581é", "\u2581日本"],
        [".", ",", "...", "-", "–", "“", "¿", "。", "、", "$", "€", "£", "+", "😀", "^", "_"],
        ["日", "日本語", "の", "カタ", "ｶ", "〇", "々", "ไทย", "ລາວ", "ខ្មែរ", "မြန်မာ", "𠮷", "豈"],
    ],
)
def test_pieces_that_start_a_word(pieces):
    assert set(kinds(*pieces)) == {PIECE_START}


def test_pieces_that_continue_a_word():
    pieces = ["ing", "s", "é", "1", "000", "'s", "e-", "ή", "ов", "한", "क", "्", "\u0301", "ب"]
    assert set(kinds(*pieces)) == {PIECE_INSIDE}


@pytest.mark.parametrize("piece_type", [UNKNOWN, CONTROL, UNUSED])
def test_pieces_that_no_text_has_are_special(piece_type):
    assert kinds("\u2581the", "x", ".", piece_type=piece_type) == [PIECE_SPECIAL] * 3


def test_pieces_that_the_digit_comma_rule_replaces_are_special():
    assert kinds("\u25811999,", "9,", "1,0", ",") == [0, 0, PIECE_INSIDE, PIECE_START]


def test_user_defined_symbols_are_like_others_and_bytes_never_start_a_word():
    assert kinds("(", "€", piece_type=USER_DEFINED) == [PIECE_START] * 2
    assert kinds("<0x41>", "<0xE6>", piece_type=BYTE) == [PIECE_INSIDE] * 2


def test_the_kinds_of_googles_vocabulary(data_folder):
    tokenizer = Tokenizer.load(data_folder / "vocabulary" / "30k-clean.model")
    found = tokenizer.piece_kinds
    assert found.dtype == np.int8 and found.shape == (30000,)
    # <pad>, <unk>, [CLS], [SEP], [MASK], and 141 that end in a digit and a comma.
    assert (found == PIECE_SPECIAL).sum() == 5 + 141
    assert found[:5].tolist() == [PIECE_SPECIAL] * 5
    assert found[5:13].tolist() == [PIECE_START] * 8  # ( ) " - . – £ €
    text = "Unquestionably, it cost $1,000.50"
    words = []
    for piece_id in tokenizer.encode(text):
        if found[piece_id] == PIECE_START:
            words.append("")
        words[-1] += tokenizer.piece(piece_id).strip("\u2581")
    assert words == ["unquestionably", ",", "it", "cost", "$1,000", ".50"]
