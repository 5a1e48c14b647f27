"""Questions of multiple choice, from the files of RACE or from JSON lines.

Reference:
    Lai et al. 2017, https://arxiv.org/abs/1704.04683
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from albert_keras.data.lines import read_bytes, read_lines
from albert_keras.json_file import check_object, parse_json, refuse_lone_surrogate

LEVELS = ("middle", "high")

_ALL = "all.txt"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Question(NamedTuple):
    """One example of multiple choice.

    Attributes:
        id: of the example, one line.
        article: the text that the question is about.
        question: with a "_" where the option belongs, or a question of its own.
        options: two or more.
        answer: the place of the right option, from 0; None when it is not known.
        level: "middle" or "high" in RACE, else None.
    """

    id: str
    article: str
    question: str
    options: tuple[str, ...]
    answer: int | None
    level: str | None


def question_files(path: str | Path) -> list[Path]:
    """The files of one split, in the order in which `read_questions` reads them.

    Args:
        path: a file, or a folder such as RACE/train: middle/ and high/ in it, or itself one of
            them, with an all.txt, which then stands for its folder, or else a *.txt a passage.

    Raises:
        ValueError: there is none.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    folders = [path / level for level in LEVELS if (path / level).is_dir()] or [path]
    files = []
    for folder in folders:
        whole = folder / _ALL
        files += [whole] if whole.is_file() else sorted(folder.glob("*.txt"))
    if not files:
        raise ValueError(
            "Questions must be in a file of JSON lines, or in a folder of RACE such as RACE/train, "
            f"with *.txt in middle/ and high/. Received: {path}, where there are none."
        )
    return files


def read_questions(path: str | Path, needs_answers: bool = True) -> Iterator[Question]:
    """Streams the questions of a file, or of a folder of RACE.

        RACE/train/high/1.txt    {"article": "...", "id": "high1.txt", "answers": ["B", ...],
                                 "questions": ["...", ...], "options": [["...", ...], ...]}
        RACE/train/high/all.txt  the same, one passage a line
        others, JSON lines       {"context": "...", "question": "...", "options": ["...", ...],
                                 "answer": "B"}

    In the last form `answer` is a capital letter, a place from 0, or the text of an option; `id` is
    optional (default: the number of the line), and any number of options from two on is fine. The
    ids of RACE's questions are those of the passage with the question's place: "high1.txt-0".

    Args:
        path: see `question_files`.
        needs_answers: refuse questions without an answer. Default True; in the last form only an
            answer can be left out.

    Raises:
        ValueError: a missing file or key, JSON that is damaged or not of this form, or an answer
            that is none of the options, with file, line and key.

    Example:
        >>> for question in read_questions("RACE/dev"):
        ...     print(question.id, question.options[question.answer])
    """
    for file in question_files(path):
        for line, row in _objects(file):
            where = f"{file}, line {line}" if line else str(file)
            if "questions" in row:
                level = file.parent.name if file.parent.name in LEVELS else None
                yield from _passage(row, where, level)
            else:
                yield _own(row, where, line or 1, needs_answers)


def _objects(file):
    """The JSON objects of a file with their lines, which are None in a file of one object."""
    if file.suffix == ".txt" and file.name != _ALL:
        yield None, parse_json(read_bytes(file), file)
        return
    for line, text in enumerate(read_lines(file, whole=True), 1):
        if text and not text.isspace():
            row = parse_json(text.encode(), f"{file}, line {line}")
            yield line, row


def _passage(row, where, level):
    check_object(row, where, ["article", "questions", "options", "answers", "id"])
    article, name = _text(row["article"], where, "article"), _id(row["id"], where)
    columns = {key: row[key] for key in ("questions", "options", "answers")}
    if not all(isinstance(column, list) for column in columns.values()) or (
        len({len(column) for column in columns.values()}) > 1
    ):
        found = {
            key: len(column) if isinstance(column, list) else column
            for key, column in columns.items()
        }
        raise ValueError(
            f"{where}: questions, options and answers must be lists of one length. Received: "
            f"{found}."
        )
    for place, (question, options, answer) in enumerate(zip(*columns.values(), strict=True)):
        question = _text(question, where, f"questions[{place}]")
        options = _options(options, where, f"options[{place}]")
        letters = LETTERS[: len(options)]
        if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
            raise ValueError(
                f"{where}: answers[{place}] must be one of {', '.join(letters)}. Received: "
                f"{answer!r:.60}."
            )
        yield Question(f"{name}-{place}", article, question, options, letters.index(answer), level)


def _own(row, where, line, needs_answers):
    check_object(row, where, ["context", "question", "options"])
    options = _options(row["options"], where, "options")
    answer = row.get("answer")
    if answer is not None or needs_answers:
        answer = _answer(answer, options, where)
    return Question(
        _id(row.get("id", line), where),
        _text(row["context"], where, "context"),
        _text(row["question"], where, "question"),
        options,
        answer,
        None,
    )


def _answer(answer, options, where):
    """The place that is meant by a letter, a place or the text of an option."""
    letters = LETTERS[: len(options)]
    places = set()
    if type(answer) is int and 0 <= answer < len(options):  # not a bool
        places = {answer}
    elif isinstance(answer, str):
        places = {place for place, option in enumerate(options) if option == answer}
        if len(answer) == 1 and answer in letters:
            places.add(letters.index(answer))
    if len(places) != 1:
        meant = f", which could be any of the places {sorted(places)}" if places else ""
        raise ValueError(
            f"{where}: answer must be one of the letters {letters[0]} to {letters[-1]}, a place "
            f"from 0 to {len(options) - 1}, or the text of an option. Received: "
            f"{answer!r:.60}{meant}."
        )
    return places.pop()


def _options(options, where, key):
    if not isinstance(options, list) or len(options) < 2:
        raise ValueError(
            f"{where}: {key} must be a list of two or more. Received: {options!r:.60}."
        )
    return tuple(_text(option, where, f"{key}[{place}]") for place, option in enumerate(options))


def _text(value, where, key):
    if not isinstance(value, str):
        raise ValueError(f"{where}: {key} must be a text. Received: {value!r:.60}.")
    refuse_lone_surrogate(value, f"{where}: {key}")
    return value


def _id(value, where):
    name = str(value) if type(value) is int else value
    if not isinstance(name, str) or name.splitlines() != [name] or "\t" in name:
        raise ValueError(
            f"{where}: id must be a line of text without tabs, or a whole number. Received: "
            f"{value!r:.60}."
        )
    refuse_lone_surrogate(name, f"{where}: id")
    return name
