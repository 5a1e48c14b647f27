"""Files of rows -> their columns, as a stream: tab-separated, CSV and JSON lines."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from albert_keras.data.lines import PACKED, name_of, read_lines
from albert_keras.json_file import refuse_lone_surrogate


class Row(NamedTuple):
    """The wanted columns of one row.

    Args:
        number: int >= 0, its place in the file. Rows that cannot be read are counted as well.
        line: int > 0, the line it begins on.
        values: of the columns, in the order asked for: strings, or what JSON holds.
    """

    number: int
    line: int
    values: tuple[Any, ...]


def read_rows(
    file: Path | str,
    columns: Sequence[str | int],
    *,
    header: bool = True,
    on_broken: Callable[[ValueError], None] | None = None,
) -> Iterator[Row]:
    """Yields the wanted columns of a file's rows; it is never in memory as a whole.

    What a row is, is told by the file's name, without a `.gz` at the end:

        *.jsonl  one JSON object a line. Blank lines are none.
        *.csv    fields between commas. One in double quotes may hold commas, line ends and, written
                 twice, quotes; it may have 131,072 characters.
        others   a line, whose fields are whatever stands between two tabs: quotes are text.

    Blank lines of a table with two columns or more are skipped. Text is UTF-8 as `read_lines`
    understands it: a byte order mark, CRLF and a last line without an end are no matter.

    Args:
        file: a path.
        columns: names, of the first line or of the keys in JSON; or places in the line, from 0.
        header: whether the first line names the columns; of no matter to JSON lines. Default True.
        on_broken: called with the error of a row that cannot be read, which is then left out.
            Default None: the error is raised.

    Raises:
        ValueError: a column that is not there; an unreadable file; text that is not UTF-8; and,
            without `on_broken`, a line with more or fewer fields than the first one, quotes that do
            not end, no JSON object, or one without a wanted key. With file and line.

    Example:

    >>> _ = Path("pets.tsv").write_text('name\\tkind\\n"Rex\\tdog\\n')
    >>> list(read_rows("pets.tsv", ["kind", "name"]))
    [Row(number=0, line=2, values=('dog', '"Rex'))]
    """
    ending = Path(str(file).removesuffix(PACKED)).suffix
    if ending == ".jsonl":
        rows, values_of = _json_rows(file, columns)
    else:
        fields_of = _comma_separated if ending == ".csv" else _tab_separated
        rows, values_of = _field_rows(file, fields_of(file), columns, header)
    for number, (line, row) in enumerate(rows):
        try:
            values = values_of(row, line)
        except ValueError as error:
            if on_broken is None:
                raise
            on_broken(error)
            continue
        yield Row(number, line, values)


def _json_rows(file, columns):
    places = [column for column in columns if not isinstance(column, str)]
    if places:
        raise ValueError(
            f"The columns of JSON lines are names of keys. Received: {places[0]} for {file}."
        )

    def values_of(text, line):
        where = f"{name_of(file)}, line {line}"
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where}: no JSON. Received: {text[:60]!r} ({error}).") from None
        if not isinstance(row, dict):
            raise ValueError(f"{where}: must be a JSON object. Received: {text[:60]!r}.")
        missing = [column for column in columns if column not in row]
        if missing:
            raise ValueError(
                f"{where}: must have the keys {', '.join(columns)}. Received: the keys "
                f"{', '.join(row) or '(none)'}, without {', '.join(missing)}."
            )
        for column in columns:
            refuse_lone_surrogate(row[column], f"{where}: `{column}`")
        return tuple(row[column] for column in columns)

    lines = enumerate(read_lines(file, whole=True), 1)
    return ((line, text) for line, text in lines if text and not text.isspace()), values_of


def _field_rows(file, rows, columns, header):
    first_line, first = next(rows, (1, []))
    _refuse_broken_quotes(file, first_line, first)
    places = [_place(file, column, first, header) for column in columns]

    def values_of(fields, line):
        _refuse_broken_quotes(file, line, fields)
        if len(fields) != len(first):
            raise ValueError(
                f"{name_of(file)}, line {line}: every line must have the {len(first)} fields of "
                f"the first. Received: {len(fields)}."
            )
        return tuple(fields[place] for place in places)

    if not header:
        rows = chain([(first_line, first)], rows)
    # A line of a single column may be an empty text.
    return ((line, row) for line, row in rows if row != [""] or len(first) == 1), values_of


def _place(file, column, first, header):
    if not isinstance(column, str):
        if 0 <= column < len(first):
            return column
        raise ValueError(
            f"A column's place must be from 0 to {len(first) - 1} in {name_of(file)}, whose first "
            f"line has {len(first)} fields. Received: {column}."
        )
    if not header:
        raise ValueError(
            "A file without a line that names its columns has places, from 0. Received: the name "
            f"{column!r} for {name_of(file)}."
        )
    if first.count(column) != 1:
        raise ValueError(
            f"The first line must name the columns, {column!r} once among them. Received: "
            f"{name_of(file)} with {first[:20]}. Fields are separated by tabs, and by commas in a "
            "file named *.csv; JSON lines are read from *.jsonl."
        )
    return first.index(column)


def _tab_separated(file):
    for line, text in enumerate(read_lines(file, whole=True), 1):
        yield line, text.split("\t")


def _comma_separated(file):
    """Lines and their fields, or the error in their place: what is raised in here ends it all."""
    lines = (text + "\n" for text in read_lines(file, whole=True))
    rows = csv.reader(lines, strict=True)  # strict: else open quotes take in the rest of the file
    while True:
        line = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            if rows.line_num > line:
                error = csv.Error(f"{error}; the lines {line} to {rows.line_num} are one row")
            row = error
        if row != []:  # a blank line
            yield line, row


def _refuse_broken_quotes(file, line, row):
    if isinstance(row, csv.Error) and "field limit" in str(row):
        raise ValueError(
            f"{name_of(file)}, line {line}: a field of a CSV may have {csv.field_size_limit():,} "
            f"characters. Received: more ({row}). Longer texts go into JSON lines; if none is that "
            "long, a quote is not closed."
        )
    if isinstance(row, csv.Error):
        raise ValueError(
            f"{name_of(file)}, line {line}: quotes must be closed and those inside be written "
            f"twice. Received: {row}. Long texts are better kept in JSON lines."
        )
