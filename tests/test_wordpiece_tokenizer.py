"""WordPiece vocabularies against the original's algorithm, and hand-worked texts."""

import json
import pickle
import random
import subprocess
import sys

import pytest
import tensorflow as tf

from albert_keras.text.sentencepiece_tokenizer import SentencepieceTokenizer
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.wordpiece_tokenizer import WordpieceTokenizer
from tests.original_wordpiece import (
    SPECIAL,
    OriginalWordpiece,
    file_of,
    vocabulary_of,
    words_of,
)
from tests.small_tokenizer import small_tokenizer
from tests.test_tokenizer import CASES
from tests.tokenizer_views import views

MODES = {"lower": (True, False), "cased": (False, True), "lower_accents": (True, True)}

CHINESE = [
    "灯塔看守人每天早上写下天气，从不间断。",
    "2019年，ALBERT在十二项任务中取得了最好的成绩！",
    "「你好」，他说：“今天是星期三”。",
    "\u8c48\uf900 ①②　Ａｌｂｅｒｔ（轻量级）BERT模型1.5亿参数",
    "日本語のテキスト、カタカナも。한국어도",
]
TEXTS = [*CASES, *CHINESE]


def modes(function):
    return pytest.mark.parametrize("mode", list(MODES))(function)


@pytest.fixture(scope="module")
def pieces():
    """A vocabulary of the texts here, lower-cased and not, without their rarer characters."""
    found = dict.fromkeys(vocabulary_of(TEXTS, 300))
    found |= dict.fromkeys(vocabulary_of(TEXTS, 300, lowercase=False, keep_accents=True))
    return list(found)


@pytest.fixture(scope="module")
def tokenizers(pieces):
    return {mode: WordpieceTokenizer(file_of(pieces), *MODES[mode]) for mode in MODES}


@pytest.fixture(scope="module")
def small():
    """Of a few pieces, for texts worked by hand."""
    words = (
        "un ##aff ##able a ##a ##b able 日 本 ##日 , . : [ ] mask cafe caf ##e 9 The ##, が ##か"
    )
    return WordpieceTokenizer(file_of([*SPECIAL, *words.split()]))


def shown(tokenizer, text):
    return " ".join(tokenizer.piece(i) for i in tokenizer.encode(text))


# ---- ids ----


@pytest.mark.parametrize(
    "text,expected",
    [
        ("Unaffable", "un ##aff ##able"),
        ("unaffx able", "[UNK] able"),  # all of a word is unknown, or none
        ("日本, 日本.", "日 本 , 日 本 ."),
        ("Café: 9,9", "cafe : 9 , 9"),
        ("cafe\u0301e", "cafe ##e"),
        ("the The", "[UNK] [UNK]"),
        ("aabab", "a ##a ##b ##a ##b"),
        ("[MASK] [mask][SEP]", "[ mask ] [ mask ] [ [UNK] ]"),
        ("a" * 200, "a" + " ##a" * 199),
        ("a" * 201, "[UNK]"),
        ("か" * 200 + " が" * 2, "[UNK] [UNK] [UNK]"),
        ("a" + "か" * 199, "a" + " ##か" * 199),  # 598 bytes
        ("a" + "か" * 200, "[UNK]"),
        ("x" * 801 + " a", "[UNK] a"),
        ("", ""),
    ],
)
def test_pieces_by_hand(small, text, expected):
    assert shown(small, text) == expected


@modes
def test_every_view_gives_the_ids_of_the_original(tokenizers, pieces, mode):
    texts = [text for text in TEXTS if "Σ" not in text]
    expected = OriginalWordpiece(pieces, *MODES[mode]).encode(texts)
    ids = [index for row in expected for index in row]
    assert 0.02 < ids.count(1) / len(ids) < 0.3  # some unknown, most not
    for found in views(tokenizers[mode], texts):
        assert found == expected


@modes
def test_random_text_gives_the_ids_of_the_original(tokenizers, pieces, mode):
    generator = random.Random(1)
    letters = sorted({char for text in TEXTS for char in text if char != "Σ"})
    texts = ["".join(generator.choices(letters, k=30)) for _ in range(500)]
    texts += [" ".join(generator.choices(pieces, k=9)) for _ in range(500)]
    texts += ["".join(generator.choices(pieces, k=9)).replace("##", "") for _ in range(500)]
    texts = [text for text in texts if "Σ" not in text]
    expected = OriginalWordpiece(pieces, *MODES[mode]).encode(texts)
    assert tokenizers[mode](texts).to_list() == expected


@modes
def test_text_of_the_data_folder_gives_the_ids_of_the_original(data_folder, mode):
    """Wikipedia in six languages, novels, and odd strings."""
    texts = []
    for path in sorted((data_folder / "corpus").glob("*/*.txt")):
        lines = [line for line in path.read_text("utf-8").splitlines() if line]
        texts += lines[:: 20 if path.parent.name == "wikipedia" else 1000]
    cases = data_folder / "cases" / "tokenizer" / "strings.json"
    texts += [case["text"] for case in json.loads(cases.read_text())]
    texts += json.loads((data_folder / "robustness" / "blns.json").read_text())
    texts = [text for text in texts if "Σ" not in text]
    settings = dict(zip(("lowercase", "keep_accents"), MODES[mode], strict=True))
    pieces = vocabulary_of(texts, 8000, **settings)
    tokenizer = WordpieceTokenizer(file_of(pieces), **settings)
    expected = OriginalWordpiece(pieces, **settings).encode(texts)
    assert tokenizer(texts).to_list() == expected
    for text in texts[::40]:
        check_spans(tokenizer, text)


def test_broken_utf8_is_left_out(small, data_folder):
    cases = (data_folder / "robustness" / "utf8_cases.bin").read_bytes().split(b"\n")
    texts = [b"able " + case + b" 9" for case in cases]
    # As the original does, which decodes with errors="ignore"; ours makes a U+FFFD and drops it.
    expected = small([text.decode(errors="ignore") for text in texts]).to_list()
    assert small(texts).to_list() == expected
    assert small.encode("ab\ud800le") == small.encode("able")


def test_tensorflow_texts_own_tokenizer_is_not_the_originals(small):
    """Why it is not used. If this fails, it may have become so: look at `WordSplitter` again."""
    import tensorflow_text as tf_text

    pieces = [*SPECIAL, "，", ",", "①", "1", "ab", "a", "b"]
    theirs = tf_text.FastBertTokenizer(pieces, lower_case_nfd_strip_accents=True)
    texts = ["，", "①", "a\u00adb"]
    assert OriginalWordpiece(pieces).encode(texts) == [[5], [7], [9]]
    assert WordpieceTokenizer(file_of(pieces))(texts).to_list() == [[5], [7], [9]]
    assert theirs.tokenize(texts).to_list() == [[6], [8], [9]]


# ---- special pieces, kinds ----


@modes
def test_text_never_makes_a_special_piece(tokenizers, mode):
    tokenizer = tokenizers[mode]
    special = {getattr(tokenizer, f"{name}_id") for name in ("pad", "cls", "sep", "mask")}
    assert special == {0, 2, 3, 4} and tokenizer.unk_id == 1
    for text in ["[MASK]", "[CLS] [SEP]", "a[PAD]b", "[mask][MASK][MASK]", "[UNK]"]:
        assert not {0, 2, 3, 4} & set(tokenizer.encode(text)), text


def test_special_pieces_can_be_anywhere_in_the_file():
    pieces = ["a", "[MASK]", "[PAD]", "[unused1]", "[SEP]", "[UNK]", "[CLS]"]
    tokenizer = WordpieceTokenizer(file_of(pieces))
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id) == (2, 5, 6)
    assert (tokenizer.sep_id, tokenizer.mask_id) == (4, 1)
    assert tokenizer.encode("a b") == [0, 5]


def test_the_kinds_of_pieces(small):
    expected = dict.fromkeys(SPECIAL, 0) | {"un": 2, "##aff": 1, "##able": 1, "a": 2, "##b": 1}
    expected |= {"日": 2, "##日": 0, ",": 2, "##,": 0, "The": 0, "が": 0, "##か": 1, "[": 2}
    for piece, kind in expected.items():
        index = [small.piece(i) for i in range(small.vocab_size)].index(piece)
        assert small.piece_kinds[index] == kind, piece
    assert small.piece_kinds.shape == (small.vocab_size,) and small.piece_kinds.dtype == "int8"
    pieces = [*SPECIAL, "##", " ", "The", "x\u0301", "[unused9]", "a.b"]
    cased = WordpieceTokenizer(file_of(pieces), lowercase=False, keep_accents=True)
    assert cased.piece_kinds.tolist() == [0] * 5 + [0, 0, 2, 2, 0, 0]


@modes
def test_only_pieces_that_are_special_never_come_from_text(tokenizers, mode):
    tokenizer = tokenizers[mode]
    for index, kind in enumerate(tokenizer.piece_kinds):
        piece = tokenizer.piece(index)
        text = "a" + piece[2:] if piece.startswith("##") else piece
        alone = words_of(text, *MODES[mode]) == [text]
        assert (kind != 0) == alone and (kind == 1) == (alone and piece.startswith("##")), piece


# ---- offsets ----


@pytest.mark.parametrize(
    "text,expected",
    [
        ("Unaffable  日本", "Un|aff|able|日|本"),
        ("Cafe\u0301: caf\u00ade", "Cafe\u0301|:|caf\u00ade"),
        ("caf\u0301e a\u200b\u200b b", "caf\u0301e|a\u200b\u200b|b"),
        ("\u0301\u200ba\u200b", "a\u200b"),
        ("xyz\u0301 9", "xyz\u0301|9"),
        ("x" * 300 + ",é", "x" * 300 + "|,|é"),
        ("😀a\U00020000日", "😀a|\U00020000|日"),
        ("a\n\t日\u3000", "a|日"),
        ("\u200b", ""),
        ("", ""),
    ],
)
def test_offsets_are_characters_of_the_very_string(small, text, expected):
    _, spans = small.encode_with_offsets(text)
    assert [text[start:end] for start, end in spans] == [x for x in expected.split("|") if x]


def test_a_syllable_belongs_to_each_piece_that_a_letter_of_it_is_in():
    tokenizer = WordpieceTokenizer(file_of([*SPECIAL, "\u1112\u1161", "##\u11ab"]))
    assert tokenizer.encode_with_offsets("x 한")[1] == [(0, 1), (2, 3), (2, 3)]


@modes
def test_offsets_point_at_what_a_piece_came_from(tokenizers, mode):
    for text in TEXTS:
        check_spans(tokenizers[mode], text)


def check_spans(tokenizer, text):
    """Spans are in order, hold what their pieces say, and leave nothing out that has words."""
    settings = tokenizer.lowercase, tokenizer.keep_accents
    ids, spans = tokenizer.encode_with_offsets(text)
    covered = {index for span in spans for index in range(*span)}
    for index, (piece_id, (start, end)) in enumerate(zip(ids, spans, strict=True)):
        assert 0 <= start < end <= len(text) and (not index or spans[index - 1][0] <= start)
        if piece_id == tokenizer.unk_id:
            continue
        piece = tokenizer.piece(piece_id)
        piece = piece[2:] if piece.startswith("##") else piece
        said = "".join(words_of(text[start:end], *settings))
        shared = any(
            span[0] < end and span[1] > start for span in spans[:index] + spans[index + 1 :]
        )
        assert piece in said if shared else piece == said, (text, start, end)
    left_out = " ".join(char for index, char in enumerate(text) if index not in covered)
    assert not words_of(left_out, *settings), text


@modes
def test_graph_offsets_are_the_same_in_bytes(tokenizers, mode):
    found = tokenizers[mode].tokenize_with_offsets(tf.constant(TEXTS))
    rows = zip(TEXTS, *(ragged.to_list() for ragged in found), strict=True)
    for text, ids, firsts, lasts in rows:
        expected, spans = tokenizers[mode].encode_with_offsets(text)
        data = text.encode()
        assert ids == expected
        assert [data[a:b].decode() for a, b in zip(firsts, lasts, strict=True)] == [
            text[a:b] for a, b in spans
        ]


# ---- any input ----


def test_no_lines_and_empty_lines_are_fine(small):
    values, splits = small.encode_lines([])
    assert values.shape == (0,) and splits.tolist() == [0]
    assert small(tf.constant([], tf.string)).shape[0] == 0
    assert small.tokenize_with_offsets(tf.constant([], tf.string))[2].shape[0] == 0
    assert small.encode_lines(["", " \u0301"])[1].tolist() == [0, 0, 0]


def test_a_text_that_is_no_str_is_refused(small):
    with pytest.raises(ValueError, match="A text is a str. Received: bytes"):
        small.encode(b"boats")


# ---- back to text ----


def test_decode_gives_words_without_special_pieces(small):
    ids = [small.cls_id, *small.encode("Unaffable 日本, xyz."), small.sep_id, small.pad_id]
    assert small.decode(ids) == "unaffable 日 本 , [UNK] ."
    assert small.decode(small.encode("unaffable")[1:]) == "affable"
    assert small.decode([]) == ""
    with pytest.raises(ValueError, match="below the vocabulary's size of 29. Received: .99"):
        small.decode([99])


# ---- files ----


@modes
def test_a_saved_tokenizer_comes_back_the_same(tokenizers, tmp_path, mode):
    tokenizer = tokenizers[mode]
    tokenizer.save(tmp_path / "new")
    loaded = Tokenizer.load(tmp_path / "new")
    assert type(loaded) is WordpieceTokenizer and isinstance(loaded, Tokenizer)
    assert loaded.model_bytes == tokenizer.model_bytes and loaded.sha256 == tokenizer.sha256
    assert (loaded.lowercase, loaded.keep_accents) == MODES[mode]
    assert loaded(TEXTS).to_list() == tokenizer(TEXTS).to_list()
    config = json.loads((tmp_path / "new" / "tokenizer_config.json").read_text())
    assert config == {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": MODES[mode][0],
        "strip_accents": not MODES[mode][1],
        "tokenize_chinese_chars": True,
        **{f"{name[1:-1].lower()}_token": name for name in SPECIAL},
    }
    assert (tmp_path / "new" / "vocab.txt").read_bytes() == tokenizer.model_bytes


def test_the_settings_are_part_of_the_fingerprint(tokenizers):
    assert len({tokenizer.sha256 for tokenizer in tokenizers.values()}) == len(MODES)


def test_a_folder_is_used_as_its_config_says(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(file_of([*SPECIAL, "a"]))
    config = tmp_path / "tokenizer_config.json"

    def settings(**asked):
        tokenizer = Tokenizer.load(tmp_path, **asked)
        return tokenizer.lowercase, tokenizer.keep_accents

    assert settings() == (True, False)
    assert settings(lowercase=False) == (False, True)  # as Google's code
    assert settings(lowercase=False, keep_accents=False) == (False, False)
    for content, expected in (
        ("{}", (True, False)),
        ('{"do_lower_case": false}', (False, True)),
        ('{"do_lower_case": false, "strip_accents": null}', (False, True)),
        ('{"do_lower_case": true, "strip_accents": false}', (True, True)),
        ('{"tokenizer_class": "BertTokenizer", "strip_accents": true}', (True, False)),
    ):
        config.write_text(content)
        assert settings() == expected, content
    with pytest.raises(ValueError, match="keep_accents=True and tokenizer_config.json says"):
        settings(keep_accents=True)


@pytest.mark.parametrize(
    "content,message",
    [
        ('{"do_lower_case": 1}', "true or false. Received: .*config.json with lowercase=1"),
        ('{"strip_accents": "no"}', "with keep_accents='no'"),
        ('{"tokenize_chinese_chars": false}', "BERT's way to split words.*chars=False"),
        ('{"tokenizer_class": "BertJapaneseTokenizer"}', "class='BertJapaneseTokenizer'"),
        ("{", "tokenizer_config.json is damaged or cut off"),
    ],
)
def test_a_config_that_cannot_be_followed_is_refused(tmp_path, content, message):
    (tmp_path / "vocab.txt").write_bytes(file_of([*SPECIAL, "a"]))
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    "content,message",
    [
        (b"", r"vocab.txt: .*0 bytes without \[PAD\] \[UNK\] \[CLS\] \[SEP\] \[MASK\]"),
        (b"[PAD]\n[UNK]\n[CLS]\na\n", r"without \[SEP\] \[MASK\]"),
        (file_of([*SPECIAL, "a", "b", "b", "a"]), r"must occur once. Received: \['b', 'a'\]"),
        (file_of([*SPECIAL, "", " ", "a"]), r"must occur once. Received: \[' '\]"),
        (file_of([*SPECIAL, "a\t12"]), r"one piece and nothing else. Received: \['a\\t12'\]"),
        (file_of([*SPECIAL, "a"]) + b"caf\xe9\n", r"not UTF-8 \(line 7\)"),
        (file_of([*SPECIAL, "é" * 129]), "tensorflow-text must be able.*256"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content, message):
    (tmp_path / "vocab.txt").write_bytes(content)
    for path in (tmp_path, tmp_path / "vocab.txt"):
        with pytest.raises(ValueError, match=message):
            Tokenizer.load(path)


def test_lines_may_end_in_any_way_and_one_may_be_blank(tmp_path):
    """Google's Chinese vocabulary has a line of U+2028, and some copies end in an empty line."""
    pieces = [*SPECIAL, "\u2028", "a", "##b"]
    for name, data in (
        ("unix", file_of(pieces)),
        ("windows", file_of(pieces).replace(b"\n", b"\r\n")),
        ("without_a_last_end", file_of(pieces).removesuffix(b"\n")),
        ("with_an_empty_line", file_of(pieces) + b"\n"),
    ):
        path = tmp_path / f"{name}.txt"
        path.write_bytes(data)
        tokenizer = Tokenizer.load(path)
        assert tokenizer.vocab_size == 8 and tokenizer.encode("ab \u2028") == [6, 7]


def test_case_must_be_said_of_a_vocabulary_with_capitals(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(file_of([*SPECIAL, "The", "the", "Boats"]))
    with pytest.raises(ValueError, match="2 of 8 pieces with some, such as .'The', 'Boats'.*Pass"):
        Tokenizer.load(path)
    assert Tokenizer.load(path, lowercase=False).encode("The the") == [5, 6]
    assert Tokenizer.load(path, lowercase=True).encode("The the") == [6, 6]


def test_a_folder_with_both_kinds_is_refused(tmp_path):
    small_tokenizer().save(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(file_of(SPECIAL))
    with pytest.raises(ValueError, match="one vocabulary. Received: .*spiece.model and vocab.txt"):
        Tokenizer.load(tmp_path)
    assert type(Tokenizer.load(tmp_path / "spiece.model")) is SentencepieceTokenizer


def test_saving_over_another_vocabulary_is_refused(small, tokenizers, tmp_path):
    small.save(tmp_path)
    small.save(tmp_path)
    for other in (tokenizers["lower"], small_tokenizer()):
        with pytest.raises(ValueError, match="never written over another.*different vocab.txt"):
            other.save(tmp_path)


def test_a_tokenizer_can_be_pickled(tokenizers):
    copy = pickle.loads(pickle.dumps(tokenizers["cased"]))
    assert type(copy) is WordpieceTokenizer and copy.sha256 == tokenizers["cased"].sha256
    assert copy(TEXTS).to_list() == tokenizers["cased"](TEXTS).to_list()


# ---- in a SavedModel ----


class _Service(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def spans(self, texts):
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        return {
            "plain": self.tokenizer(texts).to_tensor(-1),
            "ids": ids.to_tensor(-1),
            "starts": starts.to_tensor(-1),
            "ends": ends.to_tensor(-1),
        }


@pytest.mark.both_kerases
def test_a_saved_model_gives_the_same_in_a_process_without_this_library(pieces, tmp_path):
    tokenizer = WordpieceTokenizer(file_of(pieces))
    before = tokenizer(TEXTS).to_list()
    tf.random.set_seed(7)  # clears TensorFlow's kernels, and what only they hold
    assert tokenizer(TEXTS).to_list() == before
    service = _Service(tokenizer)
    tf.saved_model.save(service, str(tmp_path / "saved"), signatures=service.spans)
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    code = (
        "import sys, json, tensorflow as tf, tensorflow_text;"
        f"m = tf.saved_model.load({str(tmp_path / 'saved')!r});"
        f"t = tf.constant(json.load(open({str(tmp_path / 'texts.json')!r})));"
        "s = m.signatures['serving_default'](t);"
        "assert 'albert_keras' not in sys.modules;"
        "print(json.dumps({k: v.numpy().tolist() for k, v in s.items()}))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    ids, starts, ends = (x.to_list() for x in tokenizer.tokenize_with_offsets(tf.constant(TEXTS)))
    for name, expected in (("plain", ids), ("ids", ids), ("starts", starts), ("ends", ends)):
        assert [[x for x in row if x >= 0] for row in answer[name]] == expected


def test_one_op_of_tensorflow_text_is_used(small):
    signature = [tf.TensorSpec([None], tf.string)]
    for function in (small.__call__, small.tokenize_with_offsets):
        graph = tf.function(function, input_signature=signature).get_concrete_function().graph
        ops = {operation.type for operation in graph.get_operations()}
        foreign = {name for name in ops if not hasattr(tf.raw_ops, name)}
        assert foreign == {"FastWordpieceTokenizeWithOffsets"}
