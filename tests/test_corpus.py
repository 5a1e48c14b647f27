"""Text files to documents and sentences, and the bad files that are refused by name."""

import io
import os
import sys

import pytest

from albert_keras.data import corpus, lines, storage
from albert_keras.data.corpus import read_documents
from albert_keras.data.sentences import split_sentences


@pytest.fixture
def file_of(tmp_path):
    def write(content, name="text.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def documents(path, sentences="line"):
    return list(read_documents([path], sentences))


def test_a_blank_line_or_the_end_of_a_file_ends_a_document(file_of):
    one = file_of("a1\na2\n\n \t\n\nb1\n", "1.txt")
    two = file_of("c1\nc2", "2.txt")
    assert list(read_documents([one, two])) == [["a1", "a2"], ["b1"], ["c1", "c2"]]


def test_split_cuts_each_line_into_sentences_and_line_keeps_it(file_of):
    path = file_of("One. Two.\nThree.\n\nFour.\n")
    assert documents(path) == [["One. Two.", "Three."], ["Four."]]
    assert documents(path, "split") == [["One.", "Two.", "Three."], ["Four."]]


@pytest.mark.parametrize(
    "content",
    [
        b"a1\na2\n\nb1\n",
        b"a1\r\na2\r\n\r\nb1\r\n",
        b"a1\ra2\r\rb1\r",
        b"\xef\xbb\xbfa1\na2\n\nb1\n",
        b"a1\na2\n\nb1",
        b"\n\n  a1  \na2\t\n\n\n\nb1\n\n",
    ],
    ids=["LF", "CRLF", "CR", "byte order mark", "no final newline", "spaces around"],
)
@pytest.mark.parametrize("block", [1, 3, 1 << 22])
def test_line_ends_marks_and_blocks_make_no_difference(file_of, content, block, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    if block < 3 and content.startswith(b"\xef"):
        return  # a mark is looked for in the first block
    assert documents(file_of(content)) == [["a1", "a2"], ["b1"]]


def test_characters_of_several_bytes_may_lie_across_blocks(file_of, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 2)
    assert documents(file_of("日本語\n𝔘nicode\n")) == [["日本語", "𝔘nicode"]]


def test_a_folder_stands_for_its_text_files_sorted(file_of, tmp_path):
    file_of("second", "b/2.txt")
    file_of("first", "a/1.txt")
    file_of("not text", "b/readme.md")
    assert documents(tmp_path) == [["first"], ["second"]]


def test_standard_input_is_a_dash(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("ä1\nä2\n".encode())))
    assert documents("-") == [["ä1", "ä2"]]


def test_a_very_long_document_goes_on_as_a_new_one(file_of, monkeypatch):
    monkeypatch.setattr(corpus, "_MAX_DOCUMENT_CHARACTERS", 10)
    assert documents(file_of("12345\n67890\n1\n2\n")) == [["12345", "67890", "1"], ["2"]]


def test_a_very_long_line_is_cut_at_a_space_and_nothing_is_lost(file_of, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 8)
    monkeypatch.setattr(lines, "_MAX_LINE_BYTES", 12)
    words = " ".join(f"word{number}" for number in range(20))
    (document,) = documents(file_of(words + "\nnext\n"))
    assert len(document) > 5 and document[-1] == "next"
    assert " ".join(document[:-1]) == words


def test_a_very_long_sentence_is_cut_at_a_space_and_nothing_is_lost(file_of, monkeypatch):
    monkeypatch.setattr(corpus, "_MAX_SENTENCE_CHARACTERS", 10)
    assert documents(file_of("one two three four\n" + "x" * 25 + "\n")) == [
        ["one two", "three four", "x" * 10, "x" * 10, "x" * 5]
    ]


@pytest.mark.parametrize(
    "paragraph,expected",
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Pi is 3.14. It is not e.g. this.", ["Pi is 3.14.", "It is not e.g. this."]),
        ("J. R. Smith came. He left.", ["J. R. Smith came.", "He left."]),
        (
            '"Why?" he asked. (No.) Then…  So it is.',
            ['"Why?" he asked.', "(No.)", "Then…", "So it is."],
        ),
        ("Really?! Yes...", ["Really?!", "Yes..."]),
        ("你好。你是谁？我！", ["你好。", "你是谁？", "我！"]),
        (
            "「はい。」と言った。「では。」「うん。」",
            ["「はい。」と言った。", "「では。」", "「うん。」"],
        ),
        ("नमस्ते। आप कैसे हैं? ठीक।", ["नमस्ते।", "आप कैसे हैं?", "ठीक।"]),
        ("هل هذا؟ نعم.", ["هل هذا؟", "نعم."]),
        ("...", ["..."]),
        ("Dr. Smith is cut.", ["Dr.", "Smith is cut."]),  # a documented limit
    ],
)
def test_sentences_end_where_the_rule_says(paragraph, expected):
    assert split_sentences(paragraph) == expected


def test_splitting_loses_no_character():
    paragraph = 'A b. C d? "E!" F。G。 「H。」 i J. K! l... M'
    assert "".join(split_sentences(paragraph)).replace(" ", "") == paragraph.replace(" ", "")


@pytest.mark.parametrize(
    "content,message",
    [
        (b"good\nbad \xff\xfe here\n", r"text.txt, line 2: not valid UTF-8 at byte 9 .*: ff"),
        (b"a\r\nb\r\nc \xc3\x28\n", r"line 3: not valid UTF-8 at byte 8 .*: c3"),
        (b"cut off \xe6\x97", r"line 1: not valid UTF-8 at byte 8 .*: e6 97"),
        (b"\xef\xbb\xbfok\n\xa0\n", r"line 2: not valid UTF-8 at byte 6"),
        ("text\n".encode("utf-16"), r"text.txt is UTF-16 .*iconv -f UTF-16"),
        ("text\n".encode("utf-32"), r"text.txt is UTF-32"),
        (b"\xfe\xff" + "text\n".encode("utf-16-be"), r"is UTF-16"),
        ("text without mark\n".encode("utf-16-le"), r"line 1: a NUL byte .* UTF-16 without"),
        (b"one\ntwo\nab\x00\x00\x00cd and so on and on\n", r"line 3: a NUL byte .*binary"),
    ],
)
def test_a_file_that_is_not_utf8_is_refused_with_its_line(file_of, content, message):
    with pytest.raises(ValueError, match=message):
        documents(file_of(content))


def test_the_line_of_a_broken_byte_is_counted_over_blocks(file_of, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 7)
    path = file_of(b"12345\n" * 50 + b"\xff\n")
    with pytest.raises(ValueError, match="line 51: not valid UTF-8 at byte 300 "):
        documents(path)


def test_inputs_are_checked_before_the_first_document(file_of, tmp_path):
    good = file_of("text")
    with pytest.raises(ValueError, match="No such file or folder. Received: .*missing.txt"):
        read_documents([good, tmp_path / "missing.txt"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"must hold files named \*.txt or .*Received: .*empty"):
        read_documents([tmp_path / "empty"])
    with pytest.raises(ValueError, match="No input was named"):
        read_documents([])
    with pytest.raises(ValueError, match="must be one of .*Received: 'words'"):
        read_documents([good], "words")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(file_of):
    path = file_of("text")
    path.chmod(0)
    with pytest.raises(ValueError, match="Cannot read .*text.txt: Permission denied"):
        documents(path)


def test_a_file_that_cannot_be_opened_is_named(file_of, monkeypatch):
    path = file_of("text")

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(storage, "open", refuse, raising=False)
    with pytest.raises(ValueError, match="Cannot read .*text.txt: Permission denied"):
        documents(path)
