"""Files of texts or pairs of texts, with labels or numbers -> TextExamples, as a stream."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from albert_keras.data.lines import name_of
from albert_keras.tasks.tables import read_rows

_NUMBER = re.compile(r"[-+0-9.eE]+")
_LARGEST = 3.4028234663852886e38  # of single precision, in which a model computes


class TextExample(NamedTuple):
    """A text or a pair of texts, to be classified or scored.

    Args:
        id: what the file calls it, else its place among the rows of the file, from 0.
        text: the text, or the first of the pair.
        text_pair: the second of the pair, or None.
        label: the name of the class, the number of a regression, or None where nothing is known.
        line: int > 0, where it begins in the file.
    """

    id: str
    text: str
    text_pair: str | None
    label: str | float | None
    line: int


@dataclasses.dataclass(frozen=True)
class TextColumns:
    """Where a file has what an example is made of.

    Args:
        text, text_pair, label, id: names of columns, or places in the line, from 0; None for what
            the file does not have.
        header: whether the first line names the columns.
    """

    text: str | int = "text"
    text_pair: str | int | None = None
    label: str | int | None = "label"
    id: str | int | None = None
    header: bool = True


def read_text_examples(
    file: Path | str,
    columns: TextColumns = TextColumns(),  # noqa: B008, it is frozen
    *,
    labels: Sequence[str] | None = None,
    regression: bool = False,
    on_broken: Callable[[ValueError], None] | None = None,
) -> Iterator[TextExample]:
    """Yields the examples of a file in their order: tab-separated, `.csv` or `.jsonl`, see
    `read_rows`.

    Texts are left as they are, and may be empty. In JSON a label or an id may be a whole number,
    whose digits are then its name.

    Args:
        file: a path.
        columns: where to find what. Default: the columns `text` and `label`.
        labels: the names that there are. Default None: any.
        regression: labels are numbers. Default False.
        on_broken: called with the error of an example that cannot be read, which is then left out.
            Default None: the error is raised.

    Raises:
        ValueError: what `read_rows` refuses; a file without an example; and, without `on_broken`,
            a text that is no string, a label that is empty, has white space at its ends, is not one
            of `labels` or no number, and a label or an id that is not one line without tabs. With
            file and line.

    Example:

    >>> _ = Path("pairs.csv").write_text('a,b,same\\n"Yes, I do",I do,1\\n')
    >>> list(read_text_examples("pairs.csv", TextColumns("a", "b", "same"), labels=["0", "1"]))
    [TextExample(id='0', text='Yes, I do', text_pair='I do', label='1', line=2)]
    """
    fields = ("text", "text_pair", "label", "id")
    wanted = [field for field in fields if getattr(columns, field) is not None]
    places = [getattr(columns, field) for field in wanted]
    labels = dict.fromkeys(labels or ())  # as a set, but in order
    empty = True
    for row in read_rows(file, places, header=columns.header, on_broken=on_broken):
        found = dict(zip(wanted, row.values, strict=True))
        try:
            example = TextExample(
                id=_name(found["id"], "an id") if "id" in found else str(row.number),
                text=_text(found["text"]),
                text_pair=_text(found["text_pair"]) if "text_pair" in found else None,
                label=_label(found["label"], labels, regression) if "label" in found else None,
                line=row.line,
            )
        except ValueError as error:
            error = ValueError(f"{name_of(file)}, line {row.line}: {error}")
            if on_broken is None:
                raise error from None
            on_broken(error)
            continue
        empty = False
        yield example
    if empty:
        raise ValueError(
            f"A file of examples must have one. Received: {name_of(file)}, without any."
        )


def _text(value):
    if not isinstance(value, str):
        raise ValueError(f"a text must be a string. Received: {value!r:.60}.")
    return value


def _label(value, labels, regression):
    if regression:
        return _number(value)
    name = _name(value, "a label")
    if name != name.strip():  # or "yes" and "yes " would be two classes
        raise ValueError(f"a label must not begin or end with white space. Received: {name!r}.")
    if labels and name not in labels:
        raise ValueError(f"a label must be one of {', '.join(labels)}. Received: {name!r}.")
    return name


def _name(value, what):
    if type(value) is int:  # not a bool, which is one of Python's whole numbers
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a string or a whole number. Received: {value!r}.")
    if not value:
        raise ValueError(f"every example needs {what}. Received: an empty one.")
    if "\t" in value or value.splitlines() != [value]:
        # Files of predictions have a line for each.
        raise ValueError(f"{what} must be one line without tabs. Received: {value!r}.")
    return value


def _number(value):
    # float() also reads digits of every script and underscores between them, most likely mistakes.
    odd = isinstance(value, bool) or isinstance(value, str) and not _NUMBER.fullmatch(value.strip())
    try:
        number = math.nan if odd else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= _LARGEST:
        largest = ", and the largest is 3.4e38" if math.isfinite(number) else ""
        raise ValueError(f"a label must be a finite number. Received: {value!r}{largest}.")
    return number
