"""Training a vocabulary with ALBERT's layout, and importing one."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from albert_keras.text.model_proto import ModelProto
from albert_keras.text.sentencepiece_tokenizer import SentencepieceTokenizer
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.vocabulary import bake, parse_vocabulary, train_vocabulary
from tests.vocabularies.make_tiny import sentences

TINY = Path(__file__).parent / "vocabularies" / "tiny.model"  # made by make_tiny.py beside it
CONTROL, UNUSED = 3, 5


@pytest.fixture(scope="module")
def trained():
    return train_vocabulary(sentences(), 350)


# ---- training ----


def test_the_layout_is_alberts(trained):
    model = ModelProto.FromString(trained)
    pieces = [(piece.piece, piece.type) for piece in model.pieces]
    assert len(pieces) == 350
    assert pieces[:5] == [("<pad>", 3), ("<unk>", 2), ("[CLS]", 3), ("[SEP]", 3), ("[MASK]", 3)]
    assert [piece for piece, kind in pieces[5:13] if kind == 4] == list('()"-.–£€')
    assert {kind for _, kind in pieces[13:]} <= {1, UNUSED}
    assert model.trainer_spec.model_type == 1


def test_pieces_that_end_in_a_digit_and_a_comma_are_unused(trained):
    model = ModelProto.FromString(trained)
    concerned = {
        p.piece: p.type for p in model.pieces if p.piece[-2:-1].isdigit() and "," in p.piece[-1:]
    }
    assert concerned and set(concerned.values()) == {UNUSED}
    tokenizer = SentencepieceTokenizer(trained)
    for text in ("In 1999, 13,", "9,9,9 1,000,000, 5,"):
        cut = [tokenizer.piece(i) for i in tokenizer.encode(text)]
        assert not concerned.keys() & set(cut)


def test_text_is_normalised_for_training_as_for_use(trained):
    pieces = [piece.piece for piece in ModelProto.FromString(trained).pieces]
    assert not any(
        char.isupper() or char in "éöß\u0301" and char != "ß" for p in pieces[13:] for char in p
    )
    cased = ModelProto.FromString(train_vocabulary(sentences(), 350, lowercase=False))
    assert any(piece.piece[:2] == "\u2581T" for piece in cased.pieces)
    accents = ModelProto.FromString(train_vocabulary(sentences(), 350, keep_accents=True))
    assert any("é" in piece.piece for piece in accents.pieces)
    assert SentencepieceTokenizer(accents.SerializeToString(), keep_accents=True).encode(
        "été e\u0301te\u0301"
    )


def test_the_same_text_gives_the_same_bytes_in_another_process(trained):
    code = (
        "import hashlib; from albert_keras.text.vocabulary import train_vocabulary;"
        "from tests.vocabularies.make_tiny import sentences;"
        "print(hashlib.sha256(train_vocabulary(sentences(), 350)).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[1]
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == hashlib.sha256(trained).hexdigest()


def test_training_says_nothing_and_leaves_no_path_in_the_model(capfd):
    model = train_vocabulary(sentences(), 350)
    assert b"/tmp" not in model and b".tsv" not in model
    assert tuple(capfd.readouterr()) == ("", "")


def test_sentences_are_streamed_and_an_error_in_them_is_the_callers():
    def broken():
        yield "The lighthouse keeper"
        raise KeyError("the reader's own")

    with pytest.raises(KeyError, match="the reader's own"):
        train_vocabulary(broken(), 350)


def test_a_sample_is_drawn_evenly_and_depends_on_the_seed_alone():
    # Words of one letter each, in order: a head or a tail alone would have few of them.
    lines = [chr(ord("a") + 26 * index // 5000) * 3 for index in range(5000)]

    def draw(seed):
        return train_vocabulary(iter(lines), 42, max_sentences=400, seed=seed)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    pieces = {piece.piece.strip("\u2581") for piece in ModelProto.FromString(draw(1)).pieces}
    assert set("abcdefghijklmnopqrstuvwxyz") <= pieces


def test_no_sentence_is_left_out_for_its_length_or_its_characters():
    """SentencePiece by itself skips lines over 4,192 bytes, and those with U+2585 or NUL."""
    common = ["plain words only here"] * 20
    odd = ["xylophone " * 600, "zebra\u2585zebra", "quagga\0quagga", "jaguar\udc80jaguar"]
    pieces = [p.piece for p in ModelProto.FromString(train_vocabulary(common + odd, 38)).pieces]
    assert set("xzqj") <= set("".join(pieces[13:]))


@pytest.mark.parametrize(
    "lines,size,message",
    [
        ([], 100, "learned from text. Received: no sentence with a letter or a digit"),
        (["", "  \u3000"], 100, "no sentence with a letter"),
        (["\x01", "\u0301 ¨ ..."], 100, "no sentence with a letter"),
        (
            ["the sea the sea"],
            1000,
            r"at most \d+ pieces. Received: vocab_size=1000. Ask for fewer",
        ),
        (["abcdefghijklmnopqrstuvwxyz"], 20, "at least 40. Received: vocab_size=20. Ask for more"),
        (["the sea"], 13, "`vocab_size` must be over 13"),
        (["the sea"], -5, "`vocab_size` must be over 13"),
    ],
)
def test_text_that_cannot_give_the_vocabulary_is_refused(lines, size, message):
    with pytest.raises(ValueError, match=message):
        train_vocabulary(lines, size)


# ---- baking ----


def test_baking_changes_the_normaliser_and_nothing_else():
    before, after = (
        ModelProto.FromString(TINY.read_bytes()),
        ModelProto.FromString(bake(TINY.read_bytes(), lowercase=False)),
    )
    assert after.pieces == before.pieces
    assert after.trainer_spec.SerializeToString() == before.trainer_spec.SerializeToString()
    assert after.normalizer_spec.name == "albert_keras_cased"
    assert not after.normalizer_spec.HasField("normalization_rule_tsv")


def test_baking_is_repeatable_and_differs_by_mode():
    modes = [(True, False), (False, False), (True, True), (False, True)]
    assert bake(TINY.read_bytes()) == bake(TINY.read_bytes())
    assert len({bake(TINY.read_bytes(), *mode) for mode in modes}) == 4


def test_a_baked_model_is_not_baked_again():
    with pytest.raises(ValueError, match="Received: x.model, baked as albert_keras_lower"):
        bake(bake(TINY.read_bytes()), source="x.model")


def test_a_vocabulary_whose_mask_is_user_defined_is_refused(data_folder):
    path = data_folder / "vocabulary" / "kerashub_albert_test_vocab.spm"
    message = r"\[MASK\] is a control piece. Received: .*kerashub.*it is a user-defined piece"
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(path)


def test_a_vocabulary_of_another_model_is_refused(data_folder):
    folder = data_folder / "cases" / "tokenizer" / "digit_comma_variant"
    with pytest.raises(ValueError, match="<pad> is a control piece.*in which it is missing"):
        Tokenizer.load(folder / "tflite_support_en_4000.model")


@pytest.mark.parametrize("special", ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])
def test_a_vocabulary_without_a_special_piece_is_refused(special):
    model = ModelProto.FromString(TINY.read_bytes())
    next(piece for piece in model.pieces if piece.piece == special).piece = "a piece"
    with pytest.raises(ValueError, match="Received: x.model, in which it is missing") as error:
        bake(model.SerializeToString(), source="x.model")
    assert f"In an ALBERT vocabulary {special} is" in str(error.value)


def changed(change):
    model = ModelProto.FromString(TINY.read_bytes())
    change(model)
    return model.SerializeToString()


@pytest.mark.parametrize(
    "content,message",
    [
        (b"", "which is empty"),
        (b"The lighthouse keeper wrote down the weather.", "something else or damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "something else or damaged"),
        (TINY.read_bytes()[:-1], "something else or damaged"),
        (changed(lambda m: m.ClearField("normalizer_spec")), "cut short"),
        (changed(lambda m: m.ClearField("pieces")), "holds 0 pieces"),
        (changed(lambda m: m.pieces.add(piece="")), "1 to 1,000 characters"),
        (changed(lambda m: m.pieces.add(piece="x" * 100_000)), "1 to 1,000 characters"),
        (changed(lambda m: m.pieces.add(piece="\u2581the")), "\u2581the.* repeated"),
        (changed(lambda m: setattr(m.trainer_spec, "model_type", 2)), "another kind"),
        (
            changed(lambda m: setattr(m.trainer_spec, "treat_whitespace_as_suffix", 1)),
            "another kind",
        ),
        (
            changed(
                lambda m: setattr(m.normalizer_spec, "precompiled_charsmap", b"\x08\0\0\0junk")
            ),
            "normaliser cannot be read",
        ),
    ],
)
def test_a_file_that_is_no_whole_vocabulary_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "broken.model"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        Tokenizer.load(path)
    assert f"Received: {path}" in str(error.value)


def test_a_file_cut_at_any_place_is_refused_by_name():
    whole = TINY.read_bytes()
    for kept in range(0, len(whole), 97):
        with pytest.raises(ValueError, match="Received: x.model"):
            bake(whole[:kept], source="x.model")


def test_scores_keep_every_bit():
    before = [p.score for p in ModelProto.FromString(TINY.read_bytes()).pieces]
    after = [p.score for p in parse_vocabulary(bake(TINY.read_bytes())).pieces]
    assert np.array_equal(before, after)
