"""Rows of files: what separates them, what is a broken one, and what is told of it."""

import csv
import doctest
import gzip
import json
import tracemalloc

import pytest

from albert_keras.data import lines
from albert_keras.tasks import tables
from albert_keras.tasks.tables import Row, read_rows

# What other readers take for a line end or for quotes.
ODD = 'one " two \u2028 three \x85 four \x0b five \x1c six, seven'


def read(path, content, *columns, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_rows(path, columns, **options))


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not doctest.testmod(tables).failed


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_a_field_of_tsv_is_what_stands_between_two_tabs(tmp_path, end, mark, last, packed):
    rows = ["id\tb\tquoted", f"1\t{ODD}\tx", '2\t"open\t', "3\t\t''"]
    content = (mark + end.join(rows) + end * last).encode()
    path = tmp_path / ("a.tsv.gz" if packed else "a.tsv")
    assert read(path, gzip.compress(content) if packed else content, "quoted", "b") == [
        Row(0, 2, ("x", ODD)),
        Row(1, 3, ("", '"open')),
        Row(2, 4, ("''", "")),
    ]


def test_a_file_without_a_header_has_places(tmp_path):
    rows = read(tmp_path / "a.txt", "gj04\t1\t\tA b.\nks08\t0\t*\tB a.\n", 3, 1, header=False)
    assert rows == [Row(0, 1, ("A b.", "1")), Row(1, 2, ("B a.", "0"))]
    # Places are good for a file with a header, too.
    assert read(tmp_path / "b.tsv", "x\ty\n1\t2\n", 1) == [Row(0, 2, ("2",))]


def test_what_csv_has_in_quotes_is_one_field(tmp_path):
    cells = [["text", "n"], ["a, b", "1"], ['say "x"\nand go', "2"], ["", "3"], [ODD, "4"]]
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(cells)
    rows = list(read_rows(path, ["n", "text"]))
    assert [(number, text) for _, _, (number, text) in rows] == [
        (number, text) for text, number in cells[1:]
    ]
    assert [row.line for row in rows] == [2, 3, 5, 6]
    assert [row.number for row in rows] == [0, 1, 2, 3]


def test_json_lines_keep_what_json_holds(tmp_path):
    objects = [{"a": ODD, "b": 1}, {"b": None, "a": "x\ty\n", "c": 0}, {"a": [1.5], "b": True}]
    content = "\n\n".join(json.dumps(row) for row in objects)
    rows = read(tmp_path / "a.jsonl", content, "b", "a")
    assert [row.values for row in rows] == [(row["b"], row["a"]) for row in objects]
    assert [(row.number, row.line) for row in rows] == [(0, 1), (1, 3), (2, 5)]


def test_blank_lines_are_no_rows_but_where_a_row_may_be_empty(tmp_path):
    assert read(tmp_path / "a.tsv", "a\tb\n\n1\t2\n\n\n", "a") == [Row(0, 3, ("1",))]
    assert read(tmp_path / "a.csv", "a,b\n\n1,2\n\n", "a") == [Row(0, 3, ("1",))]
    assert read(tmp_path / "b.tsv", "a\nx\n\ny\n", "a") == [
        Row(0, 2, ("x",)),
        Row(1, 3, ("",)),
        Row(2, 4, ("y",)),
    ]


BROKEN = [
    ("a.tsv", "a\tb\n1\t2\n3\n4\t5\n", r"line 3: .*the 2 fields of the first. Received: 1", 4),
    (
        "a.tsv",
        "a\tb\n1\t2\n3\t4\t5\n6\t7\n",
        r"line 3: .*the 2 fields of the first. Received: 3",
        4,
    ),
    ("a.csv", "a,b\n1,2\n3\n4,5\n", r"line 3: .*the 2 fields of the first. Received: 1", 4),
    ("a.csv", 'a,b\n1,2\n"x"y,2\n4,5\n', "line 3: quotes must be closed", 4),
    (
        "a.csv",
        f"a,b\n1,2\n{'x' * 131_073},2\n4,5\n",
        "line 3: a field of a CSV may have 131,072 characters",
        4,
    ),
    ("a.csv", 'a,b\n1,2\n"x,2\n4,"y"z,\n4,5\n', "line 3: quotes .* lines 3 to 4 are one row", 5),
    ("a.jsonl", '{"a": 1}\n{"a"\n{"a": 2}\n', 'line 2: no JSON. Received: .{"a"', 3),
    ("a.jsonl", '{"a": 1}\n[1]\n{"a": 2}\n', "line 2: must be a JSON object", 3),
    (
        "a.jsonl",
        '{"a": 1}\n{"b": 1}\n{"a": 2}\n',
        "line 2: must have the keys a. .* keys b, without a",
        3,
    ),
    ("a.jsonl", '{"a": 1}\n{"a": "\\ud800"}\n{"a": 2}\n', "line 2: `a` must be Unicode.*ud800", 3),
]


@pytest.mark.parametrize(("name", "content", "message", "next_line"), BROKEN)
def test_a_broken_row_is_named_by_file_and_line_and_may_be_reported(
    tmp_path, name, content, message, next_line
):
    with pytest.raises(ValueError, match=f"{name}, {message}"):
        read(tmp_path / name, content, "a")
    errors = []
    rows = read(tmp_path / name, content, "a", on_broken=errors.append)
    with pytest.raises(ValueError, match=message):
        raise errors.pop()
    assert not errors
    # All others are there, and the broken one is counted.
    assert [row.number for row in rows] == [0, 2]
    assert rows[-1].line == next_line


def test_quotes_that_never_end_are_an_error_and_not_a_text(tmp_path):
    content = "a,b\n" + '"x,1\n' + "y,2\n" * 10
    with pytest.raises(ValueError, match="a.csv, line 2: quotes .* lines 2 to 12 are one row"):
        read(tmp_path / "a.csv", content, "a")
    # Nor do they take a large file into memory.
    content = "a,b\n" + '"x,1\n' + "y,2\n" * 100_000
    errors = []
    rows = read(tmp_path / "a.csv", content, "a", on_broken=errors.append)
    last = int(str(errors[0]).partition("are one row")[0].split()[-1])
    assert len(errors) == 1 and "lines 2 to" in str(errors[0])
    assert len(rows) == 100_002 - last and rows[0].line == last + 1


@pytest.mark.parametrize(
    ("name", "content", "column", "options", "message"),
    [
        ("a.tsv", "", "a", {}, "first line must name the columns, 'a' once.*a.tsv with"),
        ("a.tsv", "b\tc\n1\t2\n", "a", {}, r"first line must name.*'a' once.*\['b', 'c'\]"),
        ("a.tsv", "a\ta\n1\t2\n", "a", {}, "'a' once"),
        ("a.txt", "a,b\n1,2\n", "a", {}, "separated by tabs, and by commas in a file named"),
        ("a.tsv", "1\t2\n", "a", {"header": False}, "has places, from 0. Received: the name 'a'"),
        ("a.tsv", "1\t2\n", 2, {"header": False}, "from 0 to 1 in .*a.tsv.* Received: 2"),
        ("a.tsv", "1\t2\n", -1, {"header": False}, "Received: -1"),
        ("a.jsonl", '{"a": 1}\n', 0, {}, "names of keys. Received: 0"),
        ("a.csv", '"a\n', "a", {}, "a.csv, line 1: quotes must be closed"),
    ],
)
def test_a_column_that_is_not_there_is_refused_whatever_is_broken(
    tmp_path, name, content, column, options, message
):
    for on_broken in (None, lambda error: None):
        with pytest.raises(ValueError, match=message):
            read(tmp_path / name, content, column, on_broken=on_broken, **options)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\nCaf\xe9\tx\n", "a.tsv, line 2: not valid UTF-8"),
        ("a\tb\n".encode("utf-16"), "a.tsv is UTF-16"),
        (b"a\tb\n1\0\t2\n", "a.tsv, line 2: a NUL byte"),
    ],
)
def test_text_that_is_not_utf8_is_refused_by_file_and_line(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.tsv", content, "a")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Cannot read .*none.tsv"):
        list(read_rows(tmp_path / "none.tsv", ["a"]))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_a_file_is_never_in_memory_as_a_whole(tmp_path, monkeypatch, name):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 1 << 16)
    text = "word " * 200
    row = json.dumps({"a": text, "b": 1}) if name == "a.jsonl" else f"{text},1"
    row = row.replace(",", "\t") if name == "a.tsv" else row
    first = {"a.tsv": "a\tb\n", "a.csv": "a,b\n", "a.jsonl": ""}[name]
    path = tmp_path / name
    path.write_text(first + f"{row}\n" * 5_000)
    assert path.stat().st_size > 5_000_000
    tracemalloc.start()
    count = sum(1 for _ in read_rows(path, ["a"]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 5_000 and peak < 1_000_000
