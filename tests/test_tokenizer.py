"""The tokenizer against the original's steps, the recorded cases, and hand-worked texts."""

import json
import pickle
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.text.model_proto import ModelProto
from albert_keras.text.sentencepiece_tokenizer import SentencepieceTokenizer
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.vocabulary import bake, train_vocabulary
from tests.original_preprocessing import OriginalTokenizer
from tests.tokenizer_views import views

TINY = Path(__file__).parent / "vocabularies" / "tiny.model"  # made by make_tiny.py beside it
MODES = {"lower": (True, False), "cased": (False, False), "keep_accents": (True, True)}

# Kept small and varied: white space, accents, case, ligatures, widths, scripts, digits and commas,
# names of special pieces, emoji, controls.
CASES = [
    "The lighthouse keeper wrote down the weather every morning.",
    "  leading,\ttabs \n and   runs\u3000of\xa0white\x1fspace  ",
    "",
    " ",
    "\x01\x02",
    "Café, ÉTÉ, A\u030angstro\u0308m; naïve façade",
    "cafe\u0301 E\u0301te\u0301 a\u0327\u0302\u0303b",
    "İstanbul IĞDIR ẞß ſt ﬁrst oﬃce ĳ",
    "ＦＵＬＬ　ｗｉｄｔｈ　１，２",
    "½ 1¼ ① ⑩, x² ™ Ⅳ ㎏ … ‥",
    "Ο φάρος έφεγγε όλη τη νύχτα, ΆΛΦΑ",
    "Маяк светил всю ночь: ЁЛКА й",
    "灯台の光は夜の海を照らす。ガ ｶﾞ",
    "समुद्र के किनारे एक पुराना घर था।",
    "ภาษาไทย ที่นี่ ກຳ",
    "한국어 \u1112\u1161\u11ab ㄱㅏ",
    "السَّلام ﷺ عليكم",
    "9,9 and 19, then 1,000, 20,000,000; 5,, ,5 5 , 1, 2,3",
    "In 1999, 2000, and 13, the 1,1, 1,2,3 boats 21,029 ９，",
    "[MASK] [CLS] [SEP] <pad> <unk> [MASK]",
    "▁ ▁the a▁b ▁▁",
    "👩\u200d👩\u200d👧 😀 ☃ e\ufe0f \U0001f1e9\U0001f1ea",
    "zero\u200bwidth\ufeff soft\xadhyphen \u202ertl\u202c",
    "“quotes” ‘and’ ``these'' — – - £5 €9 (x) \"y\" .",
    "a" * 300,
    "tab\tand\0nul \x7f\x85",
    "noncharacters \ufffe \uffff \U0010ffff \ufffd",
]


def modes(function):
    return pytest.mark.parametrize("mode", list(MODES))(function)


@pytest.fixture(scope="module")
def tiny():
    return {mode: Tokenizer.load(TINY, *settings) for mode, settings in MODES.items()}


@pytest.fixture(scope="module")
def released(data_folder):
    """Google's English vocabulary in each mode."""
    path = data_folder / "vocabulary" / "30k-clean.model"
    return {mode: Tokenizer.load(path, *settings) for mode, settings in MODES.items()}


@pytest.fixture(scope="module")
def letters():
    """A vocabulary of single letters, so that the pieces of a text are known by hand."""
    single = "abcdefghijklmnopqrstuvwxyz0123456789,\u2044灯台の光"
    return SentencepieceTokenizer(bake(model_of(dict.fromkeys([*single, "\u2581"], -3))))


# ---- ids ----


@modes
def test_every_view_gives_the_ids_of_the_original_steps(tiny, mode):
    expected = OriginalTokenizer(TINY.read_bytes(), *MODES[mode]).encode(CASES)
    for ids in views(tiny[mode], CASES):
        assert ids == expected


@modes
def test_recorded_cases_give_the_recorded_ids_in_every_view(released, data_folder, mode):
    folder = data_folder / "cases" / "tokenizer"
    texts = [case["text"] for case in json.loads((folder / "strings.json").read_text())]
    recorded = np.load(folder / "expected.npz")
    values, splits = recorded[f"{mode}_values"], recorded[f"{mode}_row_splits"]
    expected = [values[a:b].tolist() for a, b in zip(splits[:-1], splits[1:], strict=True)]
    assert len(expected) == len(texts) == 400
    for ids in views(released[mode], texts):
        assert ids == expected


def test_a_comma_after_a_digit_is_a_piece_of_its_own():
    """Worked by hand on pieces and scores chosen so that plain SentencePiece would not do it."""
    tokenizer = SentencepieceTokenizer(
        bake(
            model_of(
                {"\u2581": -4, "1": -4, "9": -4, ",": -4, "\u25811": -4, "\u25819,": -3, "9,": -3}
            )
        )
    )
    assert pieces(tokenizer, "19,1") == ["\u25811", "9", ",", "1"]
    assert pieces(tokenizer, "9,") == ["\u2581", "9", ","]
    assert tokenizer.encode_with_offsets("19,1 9,")[1][:4] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert tokenizer.encode_with_offsets("19,1 9,")[1][4:] == [(5, 5), (5, 6), (6, 7)]


def test_digits_and_commas_are_cut_as_by_the_original_with_the_marker_cut(data_folder):
    """Google's code leaves a marker before digits inside a word; we do as it means to."""
    folder = data_folder / "cases" / "tokenizer" / "digit_comma_variant"
    model = ModelProto.FromString((folder / "tflite_support_en_4000.model").read_bytes())
    for piece in ("<pad>", "[CLS]", "[SEP]", "[MASK]"):  # this vocabulary is not ALBERT's
        model.pieces.add(piece=piece, type=3)
    tokenizer = SentencepieceTokenizer(bake(model.SerializeToString()))
    rows = json.loads((folder / "expected.json").read_text())
    assert len(rows) == 42 and any(row["differ"] for row in rows)
    for row in rows:
        assert tokenizer.encode(row["text"]) == row["ids_marker_cut"], row["text"]


@pytest.mark.parametrize("name", ["30k-clean.model", "albert_german_30k-clean.model"])
def test_made_up_numbers_are_cut_as_by_the_original(data_folder, name):
    path = data_folder / "vocabulary" / name
    generator = random.Random(0)
    texts = ["21,029", "5,666,982", "31,036,060", "11/12, 07/09,"]
    for _ in range(5000):
        texts.append("".join(generator.choices("0123456789,,. /a", k=generator.randrange(1, 15))))
    expected = OriginalTokenizer(path.read_bytes()).encode(texts)
    assert Tokenizer.load(path)(texts).to_list() == expected


@modes
def test_novels_and_wikipedia_give_the_ids_of_the_original_steps(released, data_folder, mode):
    texts = []
    for path in sorted((data_folder / "corpus").glob("*/*.txt")):
        texts += [line for line in path.read_text("utf-8").splitlines() if line][::400]
    raw = (data_folder / "vocabulary" / "30k-clean.model").read_bytes()
    assert released[mode](texts).to_list() == OriginalTokenizer(raw, *MODES[mode]).encode(texts)


def test_the_german_vocabulary_is_imported(data_folder):
    tokenizer = Tokenizer.load(data_folder / "vocabulary" / "albert_german_30k-clean.model")
    assert tokenizer.vocab_size == 30000
    # 18 pieces of it end in a digit and a comma, some of them inside a word.
    assert pieces(tokenizer, "Die größten Städte 11/12,") == pieces(
        tokenizer, "die GROSSTEN".replace("SS", "ß") + " stadte\t11/12,"
    )
    assert "\u2581die" in pieces(tokenizer, "Die größten Städte")


def test_capital_sigma_at_the_end_of_a_word_is_the_one_known_difference(tiny):
    original = OriginalTokenizer(TINY.read_bytes())
    assert original.encode(["ΦΑΡΟΣ"]) == original.encode(["φαρος"])
    assert tiny["lower"].encode("ΦΑΡΟΣ") == tiny["lower"].encode("φαροσ")


# ---- special pieces ----


def test_special_ids_are_those_of_the_pieces(tiny):
    tokenizer = tiny["lower"]
    ids = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id]
    assert [*ids, tokenizer.mask_id] == [0, 1, 2, 3, 4]
    assert [tokenizer.piece(i) for i in range(5)] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.vocab_size == 400


@modes
def test_text_never_makes_a_special_piece(tiny, mode):
    names = ["[MASK]", "[CLS]", "[SEP]", "<pad>", "a[MASK]b", "[mask] [MASK][MASK]", "\u2581[MASK]"]
    for text in names:
        assert not {0, 2, 3, 4} & set(tiny[mode].encode(text)), text


# ---- offsets ----


@pytest.mark.parametrize(
    "text,expected",
    [
        ("net", "n|e|t"),
        ("  a \u3000 Net ", "a|N|e|t"),
        ("Él", "É|l"),
        ("E\u0301\u0323l", "E\u0301\u0323|l"),
        ("\u0301x", "\u0301|x"),  # the lone marker takes what is dropped behind it
        ("oﬁ", "o|ﬁ|ﬁ"),
        ("ﬃx", "ﬃ|ﬃ|ﬃ|x"),
        ("x½, ⑩", "x|½|½|½|,|⑩|⑩"),
        ("Ａｂ　Ｃ", "Ａ|ｂ|Ｃ"),
        ("灯台の光", "灯|台|の|光"),
        ("a😀b", "a|😀|b"),
        ("👩\u200d👩 x", "👩\u200d👩|x"),
        ("１，２, 3", "１|，|２|,|3"),
        ("a\nb", "a|b"),
        (" \u0301", ""),
        ("", ""),
    ],
)
def test_offsets_are_characters_of_the_very_string(letters, text, expected):
    """By hand, with pieces of one letter; characters without a piece join to one unknown."""
    _, spans = letters.encode_with_offsets(text)
    found = [text[start:end] for start, end in spans if start < end]
    assert found == [part for part in expected.split("|") if part]


def test_a_shared_character_belongs_to_every_piece_that_has_nothing_else():
    tokenizer = SentencepieceTokenizer(
        bake(model_of({"\u2581": -3, "f": -3, "i": -3, "\u2581of": -3}))
    )
    ids, spans = tokenizer.encode_with_offsets("oﬁ ﬁ")
    assert [tokenizer.piece(i) for i in ids] == ["\u2581of", "i", "\u2581", "f", "i"]
    # The first piece has an "o" of its own; the ligature goes to the last piece that it reaches.
    assert spans == [(0, 1), (1, 2), (3, 3), (3, 4), (3, 4)]


@modes
def test_spans_are_in_order_and_cover_the_visible_text(tiny, released, data_folder, mode):
    file = data_folder / "cases" / "tokenizer" / "strings.json"
    recorded = [case["text"] for case in json.loads(file.read_text())]
    for tokenizer, texts in ((tiny[mode], CASES), (released[mode], recorded)):
        for text in texts:
            check_spans(tokenizer, text)


def check_spans(tokenizer, text):
    ids, spans = tokenizer.encode_with_offsets(text)
    covered, previous = set(), 0
    for piece_id, (start, end) in zip(ids, spans, strict=True):
        assert previous <= start <= end <= len(text)
        assert start < end or tokenizer.piece(piece_id) == "\u2581"
        assert not text[start:end][:1].isspace()
        previous = start
        covered.update(range(start, end))
    visible = set(range(len(text))) - covered
    # What is covered by none is white space to the tokenizer, such as a zero-width space.
    assert not tokenizer.encode(" ".join(text[index] for index in visible)), (text, visible)


def test_offsets_of_many_lines_are_those_of_each(tiny):
    ids, starts, ends, splits = tiny["lower"].encode_lines_with_offsets(CASES)
    for index, text in enumerate(CASES):
        own = slice(splits[index], splits[index + 1])
        spans = list(zip(starts[own].tolist(), ends[own].tolist(), strict=True))
        assert (ids[own].tolist(), spans) == tiny["lower"].encode_with_offsets(text)
    assert [part.tolist() for part in tiny["lower"].encode_lines_with_offsets([])] == [
        [],
        [],
        [],
        [0],
    ]


def test_a_long_text_takes_memory_for_its_pieces_not_for_their_square(letters):
    text = "ab c" * 100_000  # of which a copy for each piece would be 120 GB
    _, spans = letters.encode_with_offsets(text)
    found = [span for span in spans if span[0] < span[1]]
    assert found[-3:] == [(399_996, 399_997), (399_997, 399_998), (399_999, 400_000)]


def test_graph_offsets_are_the_same_in_bytes(tiny):
    ids, starts, ends = tiny["lower"].tokenize_with_offsets(tf.constant(CASES))
    for text, row, first, last in zip(
        CASES, ids.to_list(), starts.to_list(), ends.to_list(), strict=True
    ):
        expected_ids, spans = tiny["lower"].encode_with_offsets(text)
        assert row == expected_ids
        data = text.encode()
        assert [data[a:b].decode() for a, b in zip(first, last, strict=True)] == [
            text[a:b] for a, b in spans
        ]


@pytest.mark.parametrize(
    "key,model", [("en30k", "vocabulary/30k-clean.model"), ("ml6k", None)], ids=["en30k", "ml6k"]
)
def test_recorded_answers_are_covered_by_the_recorded_text(data_folder, key, model):
    folder = data_folder / "cases" / "squad_offsets"
    tokenizer = Tokenizer.load(data_folder / model if model else folder / "multilingual_6k.model")
    recorded = np.load(folder / "expected.npz")
    for index, case in enumerate(json.loads((folder / "cases.json").read_text())):
        ids, spans = tokenizer.encode_with_offsets(case["context"])
        a, b = recorded[f"{key}_row_splits"][index : index + 2]
        assert ids == recorded[f"{key}_ids"][a:b].tolist()
        begin, end = case["answer_start"], case["answer_start"] + len(case["answer"])
        inside = [span for span in spans if span[0] < end and span[1] > begin]
        covered = case["context"][inside[0][0] : inside[-1][1]]
        assert covered == case[key]["covered_text"]


# ---- any input ----


def test_random_strings_give_the_same_ids_in_every_view_and_never_raise(tiny):
    generator = random.Random(0)
    blocks = [(0, 0x80), (0x80, 0x370), (0x370, 0x700), (0x900, 0x1200), (0x1E00, 0x3400)]
    blocks += [(0x4E00, 0x5000), (0xAC00, 0xAD00), (0xF900, 0x10000), (0x1D400, 0x1FB00)]
    texts = []
    for _ in range(300):
        chars = []
        for _ in range(generator.randrange(1, 4)):
            block = generator.choice(blocks)
            chars += [chr(generator.randrange(*block)) for _ in range(generator.randrange(1, 9))]
            chars += generator.choices([" ", "e", "\u0301", "1,", "[MASK]"])
        texts.append("".join(chars))
    for mode, settings in MODES.items():
        expected = OriginalTokenizer(TINY.read_bytes(), *settings).encode(texts)
        results = list(views(tiny[mode], texts))
        assert all(result == results[0] for result in results)
        different = [t for t, a, b in zip(texts, results[0], expected, strict=True) if a != b]
        assert all("Σ" in text for text in different)
        for text in texts:
            check_spans(tiny[mode], text)
            assert tiny[mode].mask_id not in tiny[mode].encode(text)


def test_naughty_strings_give_the_same_ids_in_every_view(released, data_folder):
    texts = json.loads((data_folder / "robustness" / "blns.json").read_text())
    results = list(views(released["lower"], texts))
    assert all(result == results[0] for result in results)


def test_broken_utf8_is_repaired_first(letters, data_folder):
    cases = (data_folder / "robustness" / "utf8_cases.bin").read_bytes().split(b"\n")
    broken = [b"boats " + case + b" and" for case in cases if _is_broken(case)]
    assert len(broken) > 100
    repaired = [
        text.numpy().decode()
        for text in tf.strings.unicode_transcode(broken, "UTF-8", "UTF-8", errors="replace")
    ]
    assert all("\ufffd" in text for text in repaired)
    expected = [letters.encode(text) for text in repaired]
    assert letters(broken).to_list() == expected
    values, splits = letters.encode_lines(broken)
    assert [values[a:b].tolist() for a, b in zip(splits[:-1], splits[1:], strict=True)] == expected
    ids, starts, ends = letters.tokenize_with_offsets(broken)
    assert ids.to_list() == expected
    for text, first, last in zip(repaired, starts.to_list(), ends.to_list(), strict=True):
        assert text.encode()[first[-3] : last[-1]] == b"and"


def _is_broken(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def test_a_lone_surrogate_is_one_replacement_character(letters):
    assert letters.encode("a\ud800b") == letters.encode("a\ufffdb")
    assert letters.encode_with_offsets("a \udfff net")[1][-3:] == [(4, 5), (5, 6), (6, 7)]
    values, _ = letters.encode_lines(["net", "a\ud800b"])
    assert values.tolist() == letters.encode("net") + letters.encode("a\ufffdb")


def test_no_lines_and_empty_lines_are_fine(tiny):
    tokenizer = tiny["lower"]
    values, splits = tokenizer.encode_lines([])
    assert values.shape == (0,) and splits.tolist() == [0]
    assert tokenizer(tf.constant([], tf.string)).shape[0] == 0
    assert tokenizer.tokenize_with_offsets(tf.constant([], tf.string))[2].shape[0] == 0
    assert tokenizer.encode_lines(["", " \u0301"])[1].tolist() == [0, 0, 0]


def test_a_text_that_is_no_str_is_refused(tiny):
    with pytest.raises(ValueError, match="A text is a str. Received: bytes"):
        tiny["lower"].encode(b"boats")


# ---- back to text ----


def test_decode_gives_the_normalised_text_without_special_pieces(tiny):
    tokenizer = tiny["lower"]
    ids = [tokenizer.cls_id, *tokenizer.encode("The  ﬁrst boats, 1,000."), tokenizer.sep_id, 0]
    assert tokenizer.decode(ids) == "the first boats, 1,000."
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("wrong", [-1, 400, 2**20])
def test_an_id_outside_the_vocabulary_is_refused(tiny, wrong):
    with pytest.raises(ValueError, match=f"below the vocabulary's size of 400. Received: .{wrong}"):
        tiny["lower"].decode([5, wrong])
    with pytest.raises(ValueError, match="below the vocabulary's size"):
        tiny["lower"].piece(wrong)


# ---- files ----


@modes
def test_a_saved_tokenizer_comes_back_the_same(tiny, tmp_path, mode):
    tiny[mode].save(tmp_path / "new" / "folder")
    for path in (tmp_path / "new" / "folder", tmp_path / "new" / "folder" / "spiece.model"):
        loaded = Tokenizer.load(path)
        assert loaded.model_bytes == tiny[mode].model_bytes
        assert loaded.sha256 == tiny[mode].sha256
        assert (loaded.lowercase, loaded.keep_accents) == MODES[mode]
    config = json.loads((tmp_path / "new" / "folder" / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "AlbertTokenizer"
    assert (config["do_lower_case"], config["keep_accents"]) == MODES[mode]
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == [
        "spiece.model",
        "tokenizer_config.json",
    ]


def test_a_folder_of_hugging_face_is_baked_as_its_config_says(tiny, tmp_path):
    (tmp_path / "spiece.model").write_bytes(TINY.read_bytes())
    assert Tokenizer.load(tmp_path).model_bytes == tiny["lower"].model_bytes
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"model_max_length": 512}')  # as albert-base-v2's
    assert Tokenizer.load(tmp_path).model_bytes == tiny["lower"].model_bytes
    config.write_text('{"do_lower_case": false, "extra_key": [1]}')
    assert Tokenizer.load(tmp_path).model_bytes == tiny["cased"].model_bytes
    with pytest.raises(ValueError, match="lowercase=True and tokenizer_config.json says"):
        Tokenizer.load(tmp_path, lowercase=True)


def test_settings_that_contradict_a_baked_model_are_refused(tiny, tmp_path):
    tiny["lower"].save(tmp_path)
    model = tmp_path / "spiece.model"
    with pytest.raises(ValueError, match="arguments say lowercase=False and the model is baked"):
        Tokenizer.load(model, lowercase=False)
    with pytest.raises(ValueError, match="arguments say keep_accents=True"):
        Tokenizer.load(tmp_path, keep_accents=True)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    with pytest.raises(
        ValueError, match="tokenizer_config.json says lowercase=False and the model"
    ):
        Tokenizer.load(tmp_path)
    with pytest.raises(ValueError, match="must be baked with lowercase=False"):
        SentencepieceTokenizer(tiny["lower"].model_bytes, lowercase=False)
    with pytest.raises(ValueError, match="must be baked.*Use Tokenizer.load"):
        SentencepieceTokenizer(TINY.read_bytes())


@pytest.mark.parametrize(
    "content,message",
    [
        ("{", "tokenizer_config.json is damaged or cut off"),
        ("[]", "tokenizer_config.json must be a JSON object"),
        ('{"do_lower_case": "yes"}', "true or false. Received: .*config.json with lowercase='yes'"),
    ],
)
def test_a_broken_tokenizer_config_is_refused_by_name(tmp_path, content, message):
    (tmp_path / "spiece.model").write_bytes(TINY.read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(tmp_path)


def test_a_path_without_a_vocabulary_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="missing.model, which cannot be read .No such file"):
        Tokenizer.load(tmp_path / "missing.model")
    with pytest.raises(ValueError, match="spiece.model, which cannot be read .No such file"):
        Tokenizer.load(tmp_path)
    (tmp_path / "notes").write_text("The lighthouse keeper wrote down the weather.")
    with pytest.raises(ValueError, match="notes, which is something else or damaged"):
        Tokenizer.load(tmp_path / "notes")


def test_saving_over_another_vocabulary_is_refused(tiny, tmp_path):
    tiny["lower"].save(tmp_path)
    tiny["lower"].save(tmp_path)
    with pytest.raises(ValueError, match="never written over another"):
        tiny["cased"].save(tmp_path)


def test_a_tokenizer_can_be_pickled(tiny):
    copy = pickle.loads(pickle.dumps(tiny["keep_accents"]))
    assert copy.keep_accents and copy.encode("Été") == tiny["keep_accents"].encode("Été")


# ---- in a SavedModel ----


class _Service(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def ids(self, texts):
        return {"ids": self.tokenizer(texts).to_tensor(-1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def spans(self, texts):
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        return {
            "ids": ids.to_tensor(-1),
            "starts": starts.to_tensor(-1),
            "ends": ends.to_tensor(-1),
        }


def test_a_saved_model_gives_the_same_ids_in_a_process_without_this_library(tiny, tmp_path):
    tokenizer = tiny["lower"]
    service = _Service(tokenizer)
    signatures = {"serving_default": service.ids, "spans": service.spans}
    tf.saved_model.save(service, str(tmp_path / "saved"), signatures=signatures)
    (tmp_path / "texts.json").write_text(json.dumps(CASES))
    code = (
        "import sys, json, tensorflow as tf, tensorflow_text;"
        f"m = tf.saved_model.load({str(tmp_path / 'saved')!r});"
        f"t = tf.constant(json.load(open({str(tmp_path / 'texts.json')!r})));"
        "s = m.signatures['spans'](t);"
        "assert 'albert_keras' not in sys.modules;"
        "print(json.dumps({'ids': m.signatures['serving_default'](t)['ids'].numpy().tolist(),"
        " **{'span_' + k: v.numpy().tolist() for k, v in s.items()}}))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    ids, starts, ends = (x.to_list() for x in tokenizer.tokenize_with_offsets(tf.constant(CASES)))
    for name, expected in (
        ("ids", ids),
        ("span_ids", ids),
        ("span_starts", starts),
        ("span_ends", ends),
    ):
        assert [[x for x in row if x >= 0] for row in answer[name]] == expected


def test_the_tokenisation_op_is_one_and_the_same_everywhere(tiny):
    signature = [tf.TensorSpec([None], tf.string)]
    for function, op in (
        (tiny["lower"].__call__, "SentencepieceTokenizeOp"),
        (tiny["lower"].tokenize_with_offsets, "SentencepieceTokenizeWithOffsetsOp"),
    ):
        graph = tf.function(function, input_signature=signature).get_concrete_function().graph
        ops = {operation.type for operation in graph.get_operations()}
        assert {name for name in ops if "entencepiece" in name} == {op}
        assert not {name for name in ops if name.startswith("TFText>") or "Normalize" in name}


# ---- helpers ----


def pieces(tokenizer, text):
    return [tokenizer.piece(i) for i in tokenizer.encode(text)]


def model_of(scores):
    """A model with ALBERT's special pieces and these: piece -> log-probability."""
    model = ModelProto()
    for piece, kind in (("<pad>", 3), ("<unk>", 2), ("[CLS]", 3), ("[SEP]", 3), ("[MASK]", 3)):
        model.pieces.add(piece=piece, type=kind, score=0)
    for piece, score in scores.items():
        model.pieces.add(piece=piece, type=1, score=score)
    model.trainer_spec.model_type = 1
    model.normalizer_spec.name = "identity"
    return model.SerializeToString()


def test_a_trained_vocabulary_is_ready_to_use():
    lines = (Path(__file__).parents[1] / "LICENSE").read_text("utf-8").splitlines()
    tokenizer = SentencepieceTokenizer(train_vocabulary(lines, 300))
    assert tokenizer.decode(tokenizer.encode("The LICENSE, in 2004,")) == "the license, in 2004,"
