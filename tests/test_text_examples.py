"""Texts, pairs, labels and numbers of a user's own files."""

import doctest
import gzip
import json

import pytest

from albert_keras.tasks import text_examples
from albert_keras.tasks.text_examples import TextColumns, TextExample, read_text_examples


def read(path, content, *arguments, **options):
    path.write_text(content, encoding="utf-8", newline="")
    return list(read_text_examples(path, *arguments, **options))


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not doctest.testmod(text_examples).failed


def test_a_tsv_with_text_and_label_needs_no_more_said(tmp_path):
    content = '\ufeffid\tlabel\ttext\r\n1\tyes\tSay "it"\r\n2\tno\t\r\n'
    assert read(tmp_path / "a.tsv", content) == [
        TextExample("0", 'Say "it"', None, "yes", 2),
        TextExample("1", "", None, "no", 3),
    ]


ROWS = [("q-1", "Is it?", "It is, it is.", "yes"), ("q-2", "Was it?", 'It "was".', "no")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'key\tq\ts\ty\nq-1\tIs it?\tIt is, it is.\tyes\nq-2\tWas it?\tIt "was".\tno'),
        ("a.csv", 'key,q,s,y\nq-1,Is it?,"It is, it is.",yes\nq-2,Was it?,"It ""was"".",no\n'),
        (
            "a.jsonl",
            '{"q": "Is it?", "s": "It is, it is.", "y": "yes", "key": "q-1"}\n'
            '{"key": "q-2", "y": "no", "s": "It \\"was\\".", "q": "Was it?"}',
        ),
    ],
)
def test_the_three_forms_of_a_file_give_the_same_examples(tmp_path, name, content):
    columns = TextColumns("q", "s", "y", "key")
    first_line = 1 if name == "a.jsonl" else 2
    expected = [TextExample(*row, first_line + place) for place, row in enumerate(ROWS)]
    assert read(tmp_path / name, content, columns, labels=["no", "yes"]) == expected
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert list(read_text_examples(packed, columns)) == expected


def test_a_file_without_labels_has_none(tmp_path):
    columns = TextColumns("text", label=None)
    assert read(tmp_path / "a.tsv", "text\nA\n\nB\n", columns, labels=["x", "y"]) == [
        TextExample("0", "A", None, None, 2),
        TextExample("1", "", None, None, 3),
        TextExample("2", "B", None, None, 4),
    ]


def test_a_file_without_a_header_has_places(tmp_path):
    columns = TextColumns(2, 0, 1, header=False)
    assert read(tmp_path / "a.tsv", "A\t0\tB\nC\t1\tD\n", columns) == [
        TextExample("0", "B", "A", "0", 1),
        TextExample("1", "D", "C", "1", 2),
    ]


def test_whole_numbers_of_json_are_names_by_their_digits(tmp_path):
    content = '{"text": "A", "label": -2, "n": 7}\n{"text": "B", "label": "1", "n": "x"}'
    examples = read(tmp_path / "a.jsonl", content, TextColumns(id="n"), labels=["1", "-2"])
    assert [(example.id, example.label) for example in examples] == [("7", "-2"), ("x", "1")]


def test_the_labels_of_a_regression_are_numbers(tmp_path):
    content = "text\tlabel\nA\t3.800\nB\t-1e3\nC\t0\n"
    examples = read(tmp_path / "a.tsv", content, regression=True)
    assert [example.label for example in examples] == [3.8, -1000.0, 0.0]
    content = '{"text": "A", "label": 2.5}\n{"text": "B", "label": 4}\n{"text": "C", "label": "5"}'
    examples = read(tmp_path / "a.jsonl", content, regression=True)
    assert [example.label for example in examples] == [2.5, 4.0, 5.0]


def json_line(**fields):
    return json.dumps({"text": "A", "label": "x", "b": "B", "id": "i"} | fields)


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        (json_line(text=3), {}, "a text must be a string. Received: 3"),
        (json_line(b=None), {}, "a text must be a string. Received: None"),
        (json_line(label=""), {}, "every example needs a label"),
        (json_line(label=None), {}, "a label must be a string or a whole number. Received: None"),
        (json_line(label=3.0), {}, "a label must be a string or a whole number. Received: 3.0"),
        (json_line(label=True), {}, "a label must be a string or a whole number. Received: True"),
        (json_line(label="x\ty"), {}, "a label must be one line without tabs"),
        (json_line(label="x\u2028y"), {}, "a label must be one line without tabs"),
        (json_line(label="yes "), {}, "must not begin or end with white space. Received: 'yes '"),
        (json_line(id="i\n"), {}, "an id must be one line"),
        (json_line(label="z"), {"labels": ["x", "y"]}, "must be one of x, y. Received: 'z'"),
        (json_line(label="X"), {"labels": ["x", "y"]}, "must be one of x, y. Received: 'X'"),
        (json_line(label="x"), {"regression": True}, "must be a finite number. Received: 'x'"),
        (json_line(label="nan"), {"regression": True}, "must be a finite number. Received: 'nan'"),
        (json_line(label="1_000"), {"regression": True}, "finite number. Received: '1_000'"),
        (json_line(label="\u0663"), {"regression": True}, "finite number. Received: '\u0663'"),
        (json_line(label=True), {"regression": True}, "must be a finite number. Received: True"),
        (
            json_line(label=-1e39),
            {"regression": True},
            "Received: -1e[+]39, and the largest is 3.4e38",
        ),
        (json_line(label=[1]), {"regression": True}, r"must be a finite number. Received: \[1\]"),
        ('{"text": "A"', {}, "no JSON"),
    ],
)
def test_an_example_that_cannot_be_read_is_named_and_may_be_reported(
    tmp_path, line, options, message
):
    good = json_line(label=1) if "regression" in options else json_line()
    content = "\n".join([good, line, good])
    columns = TextColumns("text", "b", "label", "id")
    with pytest.raises(ValueError, match=f"a.jsonl, line 2: .*({message})"):
        read(tmp_path / "a.jsonl", content, columns, **options)
    errors = []
    examples = read(tmp_path / "a.jsonl", content, columns, on_broken=errors.append, **options)
    assert [example.line for example in examples] == [1, 3]
    assert len(errors) == 1 and "a.jsonl, line 2" in str(errors[0])


def test_ids_are_places_among_all_rows_the_broken_ones_too(tmp_path):
    errors = []
    content = "text\tlabel\nA\tx\nB\nC\t\nD\ty\n"
    examples = read(tmp_path / "a.tsv", content, on_broken=errors.append)
    assert [(example.id, example.line) for example in examples] == [("0", 2), ("3", 5)]
    assert len(errors) == 2


@pytest.mark.parametrize("content", ["text\tlabel\n", "text\tlabel\nA\n"])
def test_a_file_without_an_example_is_refused(tmp_path, content):
    with pytest.raises(ValueError, match="must have one. Received: .*a.tsv, without"):
        read(tmp_path / "a.tsv", content, on_broken=lambda error: None)
