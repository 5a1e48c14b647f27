"""SquadTask: questions whose answer is a part of a text, and those that have none."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.distillation import soft_divergence
from albert_keras.span_training import span_losses, with_gold_starts
from albert_keras.task_models import build_answerable_span_predictor, build_span_predictor
from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.finetuning_task import Answered, Encoded, FinetuningTask
from albert_keras.tasks.interval import wilson_interval
from albert_keras.tasks.squad.answers import (
    Spans,
    average_spans,
    best_candidates,
    choose,
    join_spans,
    null_odds_of,
    spans_of_beam,
    spans_of_logits,
    write_predictions,
)
from albert_keras.tasks.squad.reading import Question, check_unique_ids, read_squad
from albert_keras.tasks.squad.scoring import reachable_optimum, score_v1, score_v2
from albert_keras.tasks.squad.windows import Windows, encode_windows
from albert_keras.text.tokenizer import Tokenizer

_BLOCK_QUESTIONS = 1024
# Rows whose spans are looked at together: a score for each start and length of an answer.
_ROWS_AT_ONCE = 64


class _Block(NamedTuple):
    questions: Sequence[Question]
    windows: Windows


class _Answers(NamedTuple):
    spans: Spans
    null_odds: np.ndarray | None  # float64 (Q,), of the head that says whether there is an answer


class SquadTask(FinetuningTask):
    """Answers questions with a part of a text. A source is a file in SQuAD's layout.

    Args:
        answerable: whether all questions have an answer, as in SQuAD 1.1, and the head is two
            logits a position; else the head of SQuAD 2.0 says as well whether there is one.
        doc_stride, max_query_length: see `encode_windows`.
        max_answer_length: int > 0, in pieces. Default 30.
        n_best: int > 0, candidates that are written. Default 20.
        null_threshold: float, the null odds above which a question is answered with nothing.
            Default None: searched for where the truth is known, else 0. For a test set it is that
            of the development set, see `tuned_by`.
        on_note: is told what of a file cannot be used as it stands, in a sentence. Default None.

    Example:

    >>> task = SquadTask(answerable=True)
    >>> list(task.build(build_albert("tiny"), dropout=0.0).output)
    ['start_logits', 'end_logits']
    """

    def __init__(
        self,
        answerable: bool,
        *,
        doc_stride: int = 128,
        max_query_length: int = 64,
        max_answer_length: int = 30,
        n_best: int = 20,
        null_threshold: float | None = None,
        on_note: Callable[[str], None] | None = None,
    ):
        self._answerable = answerable
        self._doc_stride, self._max_query_length = doc_stride, max_query_length
        self._max_answer_length, self._n_best = max_answer_length, n_best
        self._null_threshold = null_threshold
        self._on_note, self._noted = on_note, set()

    def files(self, source: str | Path) -> list[str]:
        return [str(source)]

    def settings(self, source: str | Path) -> dict[str, Any]:
        return {
            "answerable": self._answerable,
            "doc_stride": self._doc_stride,
            "max_query_length": self._max_query_length,
        }

    def check(self, source: str | Path) -> None:
        self._read(source)

    def is_labelled(self, source: str | Path) -> bool:
        questions = self._read(source)
        check_unique_ids(questions)
        return all(question.is_labelled for question in questions)

    def encode(
        self, source: str | Path, tokenizer: Tokenizer, max_length: int
    ) -> Iterator[Encoded]:
        all_questions = self._read(source)
        for start in range(0, len(all_questions), _BLOCK_QUESTIONS):
            questions = all_questions[start : start + _BLOCK_QUESTIONS]
            windows = encode_windows(
                questions, tokenizer, max_length, self._doc_stride, self._max_query_length
            )
            yield Encoded(_Block(questions, windows), self._rows(windows, tokenizer))

    def training_rows(self, block: Encoded) -> EncodedRows:
        impossible = [one.id for one in block.examples.questions if one.is_impossible]
        if self._answerable and impossible:
            raise ValueError(
                "SQuAD 1.1 has answers to all questions. Received: some without, such as "
                f"{impossible[0]!r}. Train the head of 2.0 on them (--task squad2)."
            )
        return block.rows.take(np.flatnonzero(block.examples.windows.start_positions >= 0))

    def count(self, source: str | Path, rows: EncodedRows) -> int:
        """Questions, not their windows, as the original counts."""
        return len(read_squad(source).questions)

    def build(self, encoder: tf.keras.Model, dropout: float) -> tf.keras.Model:
        if self._answerable:
            return build_span_predictor(encoder, dropout)
        return build_answerable_span_predictor(encoder, dropout)

    def trainer_of(self, model: tf.keras.Model) -> tf.keras.Model:
        return model if self._answerable else with_gold_starts(model)

    def compile_arguments(self, trainer: tf.keras.Model) -> dict[str, Any]:
        return span_losses(trainer)

    def fit_batch(self, inputs: dict, targets: dict) -> tuple[dict, dict]:
        if self._answerable:
            return inputs, targets
        return {**inputs, "start_positions": targets["start_logits"]}, targets

    def distillation_loss(
        self, targets: dict, teacher: dict, student: dict, temperature: float
    ) -> tf.Tensor:
        """The mean over first and last pieces, with half of that of "no answer", as the labels'
        loss is. Teacher and student are told the same starts, so both score the same ends."""
        names = ["start_logits", "end_logits"]
        spans = [soft_divergence(teacher[name], student[name], temperature) for name in names]
        if not self._answerable:
            # Of two classes: an answer, at 0, and none.
            pairs = (
                tf.stack([tf.zeros_like(logits), logits], axis=-1)
                for logits in (teacher["unanswerable_logits"], student["unanswerable_logits"])
            )
            spans.append(soft_divergence(*pairs, temperature))
        return 0.5 * tf.add_n(spans)

    def unlearned_loss(self, rows: EncodedRows) -> float:
        """Of a head that knows how many rows have no answer, and that an answer is somewhere in the
        context."""
        has_none = rows.targets["end_logits"] == 0
        context = (rows.lengths - rows.second_starts - 1)[~has_none]
        loss = _entropy(has_none.mean()) + float(np.log(context).sum()) / len(rows)
        if self._answerable:
            return loss
        return loss + 0.5 * _entropy(rows.targets["unanswerable_logits"].mean())

    def answers(self, block: Encoded, outputs: Iterator[Mapping[str, Any]]) -> _Answers:
        windows, rows = block.examples.windows, np.arange(len(block.rows))
        spans, odds = [], []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            found = [next(outputs) for _ in some]
            if self._answerable:
                logits = (_padded(found, name) for name in ("start_logits", "end_logits"))
                spans.append(
                    spans_of_logits(windows, some, *logits, self._max_answer_length, self._n_best)
                )
                continue
            names = ("start_positions", "start_log_probs", "end_positions", "end_log_probs")
            beams = (np.stack([one[name] for one in found]) for name in names)
            spans.append(spans_of_beam(windows, some, *beams, self._max_answer_length))
            odds += [one["unanswerable_logits"] for one in found]
        null_odds = None if self._answerable else null_odds_of(windows, np.array(odds))
        return _Answers(join_spans(spans), null_odds)

    def average(self, members: Sequence[_Answers]) -> _Answers:
        if len(members) == 1:
            return members[0]
        odds = [member.null_odds for member in members]
        return _Answers(
            average_spans([member.spans for member in members]),
            None if self._answerable else np.mean(odds, axis=0),
        )

    def finish(
        self, source: str | Path, answered: Iterable[Answered], folder: Path | None
    ) -> dict[str, Any]:
        """The official scores in percent, `squad_` before their names, and the official files:
        predictions.json, nbest_predictions.json and null_odds.json.

        Of SQuAD 2.0 also how often the head says rightly whether there is an answer, at odds of 0,
        which nobody has searched for, and how often the more frequent of the two would be right.
        """
        questions, candidates = [], {}
        null_odds = None if self._answerable else {}
        for block, answers in answered:
            questions += block.questions
            candidates |= best_candidates(block.questions, answers.spans, self._n_best)
            if null_odds is not None:
                ids = (question.id for question in block.questions)
                null_odds |= zip(ids, answers.null_odds.tolist(), strict=True)
        check_unique_ids(questions)
        is_known = all(question.is_labelled for question in questions)
        threshold = self._threshold(questions if is_known else None, candidates, null_odds)
        predictions = choose(candidates, null_odds, threshold)
        if folder is not None:
            write_predictions(folder, predictions, candidates, null_odds)
        if not is_known:
            return {}
        if null_odds is None and not any(question.is_impossible for question in questions):
            scores = score_v1(questions, predictions)
        else:
            scores = score_v2(questions, predictions)
            if null_odds is not None:
                found = score_v2(questions, choose(candidates), null_odds)
                scores |= {key: value for key, value in found.items() if key.startswith("best_")}
                scores["null_threshold"] = threshold
        named = {f"squad_{key}": value for key, value in scores.items()}
        told = {} if null_odds is None else _answerability(questions, null_odds)
        return {"score": scores["f1"], **named, **told, "examples": len(questions)}

    def tuned_by(self, scores: Mapping[str, Any]) -> "SquadTask":
        """With the threshold that was searched for on a development set."""
        tuned = copy.copy(self)
        tuned._null_threshold = scores.get("squad_null_threshold", self._null_threshold)
        return tuned

    def _threshold(self, questions, candidates, null_odds):
        if self._null_threshold is not None:
            return self._null_threshold
        if questions is None or null_odds is None:
            return 0.0
        return reachable_optimum(questions, choose(candidates), null_odds).threshold

    def _rows(self, windows, tokenizer):
        targets = {
            "start_logits": windows.start_positions,
            "end_logits": windows.end_positions,
        }
        if not self._answerable:
            targets["unanswerable_logits"] = windows.impossible.astype(np.int32)
        return EncodedRows(
            windows.token_ids.astype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32),
            windows.lengths.astype(np.int32),
            windows.second_starts,
            targets,
        )

    def _read(self, source):
        file = read_squad(source)
        if self._on_note is not None and source not in self._noted:
            self._noted.add(source)
            self._note(source, file)
        return file.questions

    def _note(self, source, file):
        for ids, what in (
            (
                file.moved,
                "questions whose answer was found at another place than the file says",
            ),
            (
                file.unplaced,
                "questions with an answer that does not occur in the text, which count for the "
                "score and are not trained on",
            ),
            (file.repeated, "ids of more than one question"),
        ):
            if ids:
                self._on_note(f"{source}: {what}: {len(ids)}, the first is {ids[0]!r}.")


def _entropy(share):
    """Of yes and no, in nats."""
    return -sum(float(one * np.log(one)) for one in (share, 1 - share) if one > 0)


def _answerability(questions, null_odds):
    said = np.array([null_odds[question.id] > 0 for question in questions])
    is_impossible = np.array([not question.answers for question in questions])
    right = int((said == is_impossible).sum())
    return {
        "answerability": right / len(questions),
        "answerability_interval": wilson_interval(right, len(questions)),
        "answerability_majority": float(max(is_impossible.mean(), 1 - is_impossible.mean())),
    }


def _padded(outputs, name):
    """`(n, S)` of rows of several widths; what is behind a row is never looked at."""
    width = max(len(output[name]) for output in outputs)
    return np.stack([np.pad(output[name], (0, width - len(output[name]))) for output in outputs])
