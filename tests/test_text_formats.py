"""JSON lines, SQuAD's and RACE's layouts and gzip: their documents, and what they may not hold."""

import gzip
import io
import json
import sys
from collections import Counter

import pytest

from albert_keras.data import lines
from albert_keras.data.corpus import are_packed, read_documents, text_files, total_bytes


@pytest.fixture
def file_of(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(inputs, sentences="line", field=None):
    """The documents, and what was dropped."""
    dropped = Counter()
    return list(read_documents(inputs, sentences, field=field, dropped=dropped)), dict(dropped)


def test_a_json_line_is_a_document_whose_blank_lines_end_nothing(file_of):
    path = file_of(
        "a.jsonl",
        '{"text": "a1\\na2\\r\\n\\n \\na3\\n", "id": 1}\n\n{"text": "b1. B2.", "date": null}\r\n'
        '{"text": ""}\n{"text": " \\n\\t"}\n{"text": "caf\\u00e9 \\ud83d\\ude00"}',
    )
    expected = [["a1", "a2", "a3"], ["b1. B2."], ["café 😀"]]
    assert read([path], field="text") == (expected, {"empty_texts": 2})
    documents, _ = read([path], "split", "text")
    assert documents[1] == ["b1.", "B2."]


def test_a_named_field_makes_json_lines_of_standard_input_and_other_files(file_of, monkeypatch):
    data = b'{"article": "One.\\nTwo."}\n'  # as RACE has it, a file a passage or all in all.txt
    file_of("race/dev/high/1.txt", data)
    file_of("race/dev/middle/all.txt", data * 2)
    path = file_of("passage.json", b'{\n  "article": "One.\\nTwo.",\n  "questions": []\n}\n')
    passage = ["One.", "Two."]
    assert read([path.parent / "race", path], field="article") == ([passage] * 4, {})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read(["-"], field="article") == ([passage], {})


def test_a_long_json_line_stays_whole(file_of, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 8)
    monkeypatch.setattr(lines, "_MAX_LINE_BYTES", 12)
    words = " ".join(f"word{number}" for number in range(20))
    path = file_of("a.jsonl", json.dumps({"text": words}) + "\n")
    assert read([path], field="text") == ([[words]], {})


def test_an_article_of_squad_is_a_document_of_contexts(file_of):
    def paragraph(context):
        return {"context": context, "qas": [{"question": "Q?", "answers": [{"text": "x"}]}]}

    articles = [
        {"title": "A", "paragraphs": [paragraph("a1. A2."), paragraph("a3\n\na4")]},
        {"title": "B", "paragraphs": [paragraph("b1"), paragraph("a1. A2."), paragraph("b1")]},
        {"title": "C", "paragraphs": [paragraph("")]},
    ]
    path = file_of("dev-v2.0.json", json.dumps({"version": "v2.0", "data": articles}))
    documents, dropped = read([path])
    assert documents == [["a1. A2.", "a3", "a4"], ["b1"]]
    assert dropped == {"repeated_contexts": 2, "empty_texts": 1}
    assert read([path], "split")[0][0] == ["a1.", "A2.", "a3", "a4"]


def test_the_contexts_of_squad_files_are_all_there(data_folder):
    for name, articles in (("squad11_20articles", 20), ("squad2_sample", 1), ("xquad.zh", 48)):
        path = data_folder / "squad" / f"{name}.json"
        documents, dropped = read([path])
        data = json.loads(path.read_text())["data"]
        contexts = [part["context"] for article in data for part in article["paragraphs"]]
        assert len(documents) == articles and not dropped
        lines_of = [line.strip() for context in contexts for line in context.split("\n")]
        assert [line for document in documents for line in document] == lines_of


def test_what_is_packed_is_unpacked(file_of, monkeypatch):
    plain = b"a1\na2\n\nb1\n"
    file_of("t/1.txt.gz", gzip.compress(plain[:4]) + gzip.compress(plain[4:]))  # of two members
    file_of("t/2.jsonl.gz", gzip.compress(b'{"text": "c1"}'))
    squad = {"data": [{"paragraphs": [{"context": "d1"}]}]}
    path = file_of("3.json.gz", gzip.compress(json.dumps(squad).encode()))
    packed = path.parent / "t" / "1.txt.gz"
    assert read([packed, path])[0] == [["a1", "a2"], ["b1"], ["d1"]]
    assert read([path.parent / "t" / "2.jsonl.gz"], field="text")[0] == [["c1"]]
    assert are_packed(text_files([packed])) and not are_packed(["-"])
    assert total_bytes([packed, path]) == packed.stat().st_size + path.stat().st_size


def test_a_folder_is_searched_for_text_and_json_lines(file_of, tmp_path):
    names = ["a.txt", "b/c.txt.gz", "b/d.jsonl", "e.jsonl.gz"]
    for name in [*names, "f.json", "g.md", "h.gz"]:
        file_of(name, "")
    assert text_files([tmp_path]) == [tmp_path / name for name in sorted(names)]


SQUAD = '{"data": [{"paragraphs": [{"context": "c"}]}, %s]}'


@pytest.mark.parametrize(
    "name,content,field,message",
    [
        ("a.jsonl", '{"text": "x"}\n{"text"\n', "text", "a.jsonl, line 2: must be a JSON object"),
        ("a.jsonl", '\n{"text": "x"}\n[1]\n', "text", r"line 3: must be .* 'text'. .*\[1\]"),
        ("a.txt", '{"title": "x", "id": 1}', "text", "line 1: .* 'text'. Received: the keys title"),
        ("a.jsonl", '{"text": null}', "text", "line 1: `text` must be a text. Received: None"),
        (
            "a.jsonl",
            '{"text": "x\\ud83d"}',
            "text",
            r"line 1: .*Received: '\\ud83d' at character 1",
        ),
        ("a.jsonl", '{"text": "x"}', None, "`field` must name the key .* Received: .*a.jsonl"),
        ("a.jsonl", b'{"text": "x"}\n\xff', "text", "a.jsonl, line 2: not valid UTF-8"),
        ("a.json", '{"text": "x"}', None, "a.json must have SQuAD's .*keys text.* as `field`"),
        ("a.json", '{"text": "x"}', "body", "a.json: must be .* 'body'. Received: the keys text"),
        ("a.json", '{"data": [', None, "a.json is damaged or cut off"),
        ("a.json", SQUAD % '{"title": "t"}', None, r"a.json: data\[1\] must have the keys parag"),
        (
            "a.json",
            SQUAD % '{"paragraphs": 3}',
            None,
            r"a.json: data\[1\].paragraphs must be a list",
        ),
        ("a.json", SQUAD % '{"paragraphs": [{}]}', None, r"data\[1\].paragraphs\[0\]: .*'context'"),
        ("a.txt.gz", b"plain text", None, "a.txt.gz is damaged .*Not a gzipped file"),
        # Without a time: the bytes are in the test's name, which all processes must agree on.
        (
            "a.txt.gz",
            gzip.compress(b"text" * 99, mtime=0)[:-9],
            None,
            "a.txt.gz is damaged or cut off",
        ),
        (
            "a.txt.gz",
            gzip.compress(b"a\n\xff", mtime=0),
            None,
            "a.txt.gz, line 2: not valid UTF-8 at byte 2",
        ),
    ],
)
def test_what_a_file_may_not_hold_is_refused_with_file_and_line(
    file_of, name, content, field, message
):
    path = file_of(name, content)
    with pytest.raises(ValueError, match=message):
        read([path], field=field)
