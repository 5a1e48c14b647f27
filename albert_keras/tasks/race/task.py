"""RaceTask: questions about a text with options, of which one is right."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, tee
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.distillation import soft_divergence
from albert_keras.new_file import new_file
from albert_keras.task_models import build_multiple_choice
from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.finetuning_task import Answered, Encoded, FinetuningTask
from albert_keras.tasks.interval import wilson_interval
from albert_keras.tasks.race.choices import (
    choice_accuracy,
    choice_loss,
    of_choices,
    question_blocks,
)
from albert_keras.tasks.race.reading import (
    LETTERS,
    LEVELS,
    Question,
    question_files,
    read_questions,
)
from albert_keras.text.tokenizer import Tokenizer

PREDICTIONS = "predictions.tsv"


class RaceTask(FinetuningTask):
    """Chooses an option for each question. A source is what `read_questions` reads.

    Example:

    >>> model = RaceTask().build(build_albert("tiny"), dropout=0.1)
    >>> tuple(model.input["token_ids"].shape)  # batch, choices, length
    (None, None, None)
    """

    def files(self, source: str | Path) -> list[str]:
        return [str(file) for file in question_files(source)]

    def settings(self, source: str | Path) -> dict[str, Any]:
        return {}

    def check(self, source: str | Path) -> None:
        self.is_labelled(source)

    def is_labelled(self, source: str | Path) -> bool:
        questions = read_questions(source, needs_answers=False)
        return all([question.answer is not None for question in questions])  # to its end

    def encode(
        self, source: str | Path, tokenizer: Tokenizer, max_length: int
    ) -> Iterator[Encoded]:
        questions, again = tee(read_questions(source, needs_answers=False))
        for rows in question_blocks(questions, tokenizer, max_length):
            yield Encoded(list(islice(again, len(rows))), rows)

    def training_rows(self, block: Encoded) -> EncodedRows:
        for question in block.examples:
            if question.answer is None:
                raise ValueError(f"Training needs answers. Received: none for {question.id!r}.")
        return block.rows

    def build(self, encoder: tf.keras.Model, dropout: float) -> tf.keras.Model:
        return build_multiple_choice(encoder, dropout)

    def compile_arguments(self, trainer: tf.keras.Model) -> dict[str, Any]:
        accuracy = tf.keras.metrics.MeanMetricWrapper(choice_accuracy, name="accuracy")
        return {"loss": {"logits": choice_loss}, "metrics": {"logits": [accuracy]}}

    def distillation_loss(
        self, targets: dict, teacher: dict, student: dict, temperature: float
    ) -> tf.Tensor:
        """Over the choices that each example has."""
        marks = targets["logits"]
        logits = (of_choices(marks, outputs["logits"]) for outputs in (teacher, student))
        return soft_divergence(*logits, temperature)

    def unlearned_loss(self, rows: EncodedRows) -> float:
        """Of equally probable options."""
        return float(np.log(rows.choices).mean())

    def answers(self, block: Encoded, outputs: Iterator[Mapping[str, Any]]) -> list[np.ndarray]:
        """float32 `(C,)` of each question, the probabilities of its own options."""
        return [
            tf.nn.softmax(output["logits"][: len(question.options)]).numpy()
            for question, output in zip(block.examples, outputs, strict=True)
        ]

    def average(self, members: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
        return [np.mean(of_question, axis=0) for of_question in zip(*members, strict=True)]

    def finish(
        self, source: str | Path, answered: Iterable[Answered], folder: Path | None
    ) -> dict[str, Any]:
        """Scores, all levels together and each, and predictions.tsv: a line for each question in
        the order of the files, with id, the right option, the predicted one and its probability.
        Options are letters, those after Z places from 0."""
        scored = _Scored()
        if folder is None:
            for block in answered:
                scored.add(*block)
            return scored.scores()
        with new_file(folder / PREDICTIONS) as file:
            file.write(b"id\tlabel\tpredicted\tscore\n")
            for questions, probabilities in answered:
                scored.add(questions, probabilities)
                for question, one in zip(questions, probabilities, strict=True):
                    label = "" if question.answer is None else _name(question.answer)
                    best = int(one.argmax())
                    line = f"{question.id}\t{label}\t{_name(best)}\t{one[best]:.4f}\n"
                    file.write(line.encode())
        return scored.scores()


class _Scored:
    """Counts what is right, of each level and of all."""

    def __init__(self):
        self._right, self._total, self._unknown = Counter(), Counter(), 0

    def add(self, questions: Sequence[Question], probabilities: Sequence[np.ndarray]) -> None:
        for question, one in zip(questions, probabilities, strict=True):
            self._unknown += question.answer is None
            is_right = int(one.argmax()) == question.answer
            for level in {None, question.level}:
                self._right[level] += is_right
                self._total[level] += 1

    def scores(self) -> dict[str, Any]:
        """None where some answer is not known."""
        if self._unknown:
            return {}
        levels = {level: self._of(level) for level in LEVELS if self._total[level]}
        return {"score": self._right[None] / self._total[None], **self._of(None), **levels}

    def _of(self, level):
        right, total = self._right[level], self._total[level]
        return {
            "accuracy": right / total,
            "accuracy_interval": wilson_interval(right, total),
            "examples": total,
        }


def _name(place):
    return LETTERS[place] if place < len(LETTERS) else str(place)
