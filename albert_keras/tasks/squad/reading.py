"""SQuAD's JSON files, 1.1 and 2.0, and others of their layout: XQuAD, JaQuAD, GermanQuAD."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from albert_keras.json_file import check_object, read_json


class Answer(NamedTuple):
    """A gold answer.

    Attributes:
        text: as the file has it.
        start: int, the character of the context at which it begins; None where it is not in the
            context, so that it counts for the score only.
    """

    text: str
    start: int | None


class Question(NamedTuple):
    """A question about a context.

    Attributes:
        id: as the file has it; a whole number is its digits.
        question: its text.
        context: the paragraph.
        answers: the gold answers, in the file's order; empty where there is none or none is known.
        is_impossible: whether the context has no answer.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False

    @property
    def is_labelled(self) -> bool:
        """Whether the answer, or that there is none, is known. It is not in a test file."""
        return bool(self.answers) or self.is_impossible


class SquadFile(NamedTuple):
    """What a file holds.

    Attributes:
        questions: in the file's order; those of a paragraph are next to each other.
        moved: ids of questions with an answer that was found at another place than the file says.
        unplaced: ids of questions with an answer that does not occur in the context.
        repeated: ids that more than one question has. One can train on them, but predictions and
            scores go by id, and refuse them.
    """

    questions: list[Question]
    moved: list[str]
    unplaced: list[str]
    repeated: list[str]


def read_squad(path: str | Path) -> SquadFile:
    """Reads a file of questions in SQuAD's layout, with or without answers.

        {"data": [{"paragraphs": [{"context": "Ada wrote notes.", "qas": [
            {"id": "q1", "question": "Who wrote?", "answers": [
                {"text": "Ada", "answer_start": 0}]}]}]}]}

    Other keys are ignored. A question of 2.0 has `is_impossible`; without that key, one with an
    empty list of answers is impossible, as for the official score. One without the key `answers`,
    or with none and `is_impossible` false, is of a test file.

    An answer that is not where `answer_start` says is looked for in the context: files count bytes,
    or UTF-16, or the characters of another version of the text. Of several places the one nearest
    to `answer_start` is taken, of two equally near the earlier. An answer that does not occur at
    all, or is nothing but white space, is kept for the score, and no place is made up for it.
    `moved` and `unplaced` name the questions.

    Raises:
        ValueError: a missing file, one that is no JSON or has no question, a missing key or a value
            of the wrong type, or answers to an impossible question; with the file and the
            question's id, or the place in the file where there is none.

    Example:

    >>> text = '{"data": [{"paragraphs": [{"context": "Ada wrote.", "qas": [{"id": "q1",'
    >>> text += '"question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}]}]}]}'
    >>> _ = Path("dev.json").write_text(text)
    >>> read_squad("dev.json").questions[0].answers
    (Answer(text='Ada', start=0),)

    Reference: https://rajpurkar.github.io/SQuAD-explorer
    """
    questions, moved, unplaced = [], [], []
    for where, context, row in _rows(path):
        question_id = _id(row, where)
        where = f"{path}, question {question_id!r}"
        check_object(row, where, ["question"])
        answers = [_answer(answer, where) for answer in _optional(row, "answers", list, where)]
        is_impossible = _optional(row, "is_impossible", bool, where)
        if is_impossible and answers:
            raise ValueError(
                "A question with `is_impossible` true must have no `answers`; what seems to be one "
                f"belongs to `plausible_answers`. Received: {where} with {answers[0].text!r}."
            )
        if "is_impossible" not in row:
            is_impossible = "answers" in row and not answers
        placed = tuple(Answer(text, _place(text, start, context)) for text, start in answers)
        if any(answer.start is None for answer in placed):
            unplaced.append(question_id)
        if any(
            new.start not in (None, old.start) for new, old in zip(placed, answers, strict=True)
        ):
            moved.append(question_id)
        text = _typed(row, "question", str, where)
        questions.append(Question(question_id, text, context, placed, is_impossible))
    if not questions:
        raise ValueError(f"A file of questions must have one. Received: {path}, without any.")
    return SquadFile(questions, moved, unplaced, _repeated_ids(questions))


def check_unique_ids(questions: Iterable[Question]) -> None:
    """Raises ValueError for ids that more than one question has, with the ids."""
    repeated = _repeated_ids(questions)
    if repeated:
        raise ValueError(
            "Predictions and scores need an id of its own for every question. Received: "
            f"{len(repeated)} ids of several, {', '.join(map(repr, repeated[:5]))}."
        )


def _repeated_ids(questions):
    counts = Counter(question.id for question in questions)
    return [question_id for question_id, count in counts.items() if count > 1]


def _rows(path) -> Iterator[tuple[str, str, Any]]:
    """Place in the file, context and JSON object of each question."""
    content = read_json(path, ["data"])
    for place, article in enumerate(_typed(content, "data", list, str(path))):
        where = f"{path}: data[{place}]"
        check_object(article, where, ["paragraphs"])
        for number, paragraph in enumerate(_typed(article, "paragraphs", list, where)):
            inside = f"{where}.paragraphs[{number}]"
            check_object(paragraph, inside, ["context", "qas"])
            context = _typed(paragraph, "context", str, inside)
            for index, row in enumerate(_typed(paragraph, "qas", list, inside)):
                yield f"{inside}.qas[{index}]", context, row


def _id(row, where):
    check_object(row, where, ["id"])
    if type(row["id"]) is int:  # not a bool, which is one of Python's whole numbers
        return str(row["id"])
    return _typed(row, "id", str, where)


def _answer(answer, where):
    check_object(answer, f"{where}, an answer", ["text", "answer_start"])
    start = answer["answer_start"]
    if type(start) is not int:
        raise ValueError(
            f"{where}: `answer_start` must be a whole number. Received: {start!r:.60}."
        )
    return Answer(_typed(answer, "text", str, where), start)


def _place(text, start, context):
    if not text.strip():
        return None
    if start >= 0 and context.startswith(text, start):
        return start
    before = context.rfind(text, 0, max(0, start) + len(text))
    behind = context.find(text, max(0, start))
    found = [place for place in (before, behind) if place >= 0]
    return min(found, key=lambda place: abs(place - start), default=None)


def _optional(row, key, kind, where):
    return _typed(row, key, kind, where) if key in row else kind()


def _typed(row, key, kind, where):
    names = {str: "a text", list: "a list", bool: "true or false"}
    if not isinstance(row[key], kind):
        raise ValueError(f"{where}: `{key}` must be {names[kind]}. Received: {row[key]!r:.60}.")
    return row[key]
