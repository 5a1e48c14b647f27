"""RACE and other multiple choice: reading, encoding, loss and score.

An example is a text, a question about it, and options of which one is right. Each option is a row,
`[CLS] article [SEP] question and option [SEP]`, and the model gives each a score.

Reference:
    Lai et al. 2017, https://arxiv.org/abs/1704.04683;
    https://github.com/google-research/albert, race_utils.py
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.data.lines import read_bytes, read_lines
from albert_keras.json_file import check_object, parse_json
from albert_keras.new_file import write_file
from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.interval import wilson_interval
from albert_keras.tasks.length_batches import NO_CHOICE
from albert_keras.text.packing import BYTES_PER_PIECE, assemble_rows, first_pieces
from albert_keras.text.tokenizer import Tokenizer

LEVELS = ("middle", "high")

# Pieces of question and option that are kept, the last ones, as in the original.
QUESTION_PIECES = 128

_ALL = "all.txt"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NO_ANSWER = -1
_BLOCK_EXAMPLES = 512


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


def with_option(question: str, option: str) -> str:
    """The second segment of an option's row: the option in the place of each "_", or behind.

    >>> with_option("He was _ .", "tired"), with_option("What is it?", "A bird")
    ('He was tired .', 'What is it? A bird')
    """
    question, option = (" ".join(text.split()) for text in (question, option))
    return question.replace("_", option) if "_" in question else f"{question} {option}"


def question_blocks(
    questions: Iterable[Question], tokenizer: Tokenizer, max_length: int
) -> Iterator[EncodedRows]:
    """Encodes a stream of questions, some hundred at a time, an article once for all its rows.

    Question and option keep their last 128 pieces, and the article its first ones that then find
    room. The target `logits` of an example is the place of the right option, -1 if not known.

    Args:
        questions: as of `read_questions`.
        tokenizer: gives the ids.
        max_length: int > 3, the longest row.

    Example:
        >>> blocks = question_blocks(read_questions("RACE/train"), tokenizer, max_length=512)
        >>> rows = EncodedRows.concatenated(blocks)
    """
    questions = iter(questions)
    kept = min(QUESTION_PIECES, max_length - 3)
    while block := list(islice(questions, _BLOCK_EXAMPLES)):
        choices = np.array([len(question.options) for question in block], np.int32)
        places = {}
        for question in block:
            places.setdefault(question.article, len(places))
        # What is cut off here would be cut off in pieces anyway, from the same end.
        articles = _pieces([text[: BYTES_PER_PIECE * max_length] for text in places], tokenizer)
        second = _pieces(
            [
                with_option(question.question, option)[-BYTES_PER_PIECE * kept :]
                for question in block
                for option in question.options
            ],
            tokenizer,
        )[:, -kept:]
        of_rows = np.repeat([places[question.article] for question in block], choices)
        first = tf.gather(articles, of_rows)
        room = max_length - 3 - second.row_lengths()
        first = first_pieces(first, tf.minimum(first.row_lengths(), room))
        rows = assemble_rows(first, second, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id)
        answers = [_NO_ANSWER if q.answer is None else q.answer for q in block]
        targets = {"logits": np.array(answers, np.int32)}
        yield EncodedRows.of(rows, tokenizer.vocab_size, targets, choices)


def choice_loss(marks: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Cross-entropy over the choices that an example has, float32 `(B,)`: a loss for `compile`.

    Args:
        marks: int32 `(B, C)`, 1 for the right choice, 0 for the others, NO_CHOICE for what is no
            choice; as `length_batches` gives them.
        logits: float32 `(B, C)`.

    >>> choice_loss(tf.constant([[0, 1, -1]]), tf.constant([[0.0, 0.0, 9.0]])).numpy().round(3)
    array([0.693], dtype=float32)
    """
    right = tf.cast(tf.equal(marks, 1), tf.float32)
    return -tf.reduce_sum(right * tf.nn.log_softmax(_masked(marks, logits)), axis=-1)


def choice_accuracy(marks: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Whether the highest logit of an example's own choices is the right one, float32 `(B,)`.

    A metric for `compile`; arguments as of `choice_loss`.
    """
    best = tf.argmax(_masked(marks, logits), axis=-1, output_type=tf.int32)
    return tf.cast(tf.equal(tf.gather(marks, best, batch_dims=1), 1), tf.float32)


def race_score(questions: Iterable[Question], logits: Iterable[np.ndarray]) -> dict[str, Any]:
    """accuracy with its 95 % interval, the number of examples, and the same of each level.

    Args:
        questions: with answers.
        logits: float `(C,)` of each; what is beyond its options is left out.

    Raises:
        ValueError: a question has no answer, or there are none.

    Example:
        >>> answers = predictions(model, blocks, batch_size=16, max_length=512)
        >>> race_score(read_questions("RACE/dev"), (answer["logits"] for answer in answers))
        {'accuracy': 0.66, 'accuracy_interval': (0.64, 0.67), 'examples': 4887, 'middle': {...}, ...
    """
    right, total = Counter(), Counter()
    for question, scores in zip(questions, logits, strict=True):
        if question.answer is None:
            raise ValueError(f"A score needs answers. Received: none for {question.id}.")
        is_right = int(_best(question, scores) == question.answer)
        for level in {None, question.level}:
            right[level] += is_right
            total[level] += 1
    if not total:
        raise ValueError("A score needs questions. Received: none.")

    def of(level):
        return {
            "accuracy": right[level] / total[level],
            "accuracy_interval": wilson_interval(right[level], total[level]),
            "examples": total[level],
        }

    return of(None) | {level: of(level) for level in LEVELS if total[level]}


def write_choices(
    path: str | Path, questions: Iterable[Question], logits: Iterable[np.ndarray]
) -> None:
    """Writes id, predicted option, its probability and the right option, tab-separated under a
    header, in the order of the questions. Options are letters, those after Z places from 0."""
    lines = ["id\tpredicted\tscore\tanswer\n"]
    for question, scores in zip(questions, logits, strict=True):
        best = _best(question, scores)
        own = np.asarray(scores[: len(question.options)], np.float64)
        score = 1 / np.exp(own - own[best]).sum()
        answer = "" if question.answer is None else _name(question.answer)
        lines.append(f"{question.id}\t{_name(best)}\t{score:.4f}\t{answer}\n")
    write_file(path, "".join(lines))


def _pieces(texts: Sequence[str], tokenizer) -> tf.RaggedTensor:
    values, splits = tokenizer.encode_lines(texts)
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def _masked(marks, logits):
    # Not infinite: an infinite logit times the 0 of `right` would be NaN.
    return tf.where(tf.equal(marks, NO_CHOICE), -1e9, tf.cast(logits, tf.float32))


def _best(question, scores):
    return int(np.argmax(scores[: len(question.options)]))


def _name(place):
    return _LETTERS[place] if place < len(_LETTERS) else str(place)


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
        letters = _LETTERS[: len(options)]
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
    letters = _LETTERS[: len(options)]
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
    return value


def _id(value, where):
    name = str(value) if type(value) is int else value
    if not isinstance(name, str) or name.splitlines() != [name] or "\t" in name:
        raise ValueError(
            f"{where}: id must be a line of text without tabs, or a whole number. Received: "
            f"{value!r:.60}."
        )
    return name
