"""FinetuningTask: what a task has to say for itself, so that one run can train and score them all.

    source -- encode --> Encoded -- Member, several of them --> Answered -- average --> finish

A source is what a task's files are to it. Examples go through in blocks of some thousand, so a
file of any size is predicted in the memory of a block.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, tee
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from albert_keras.distillation import soft_divergence
from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.length_batches import Predictor
from albert_keras.text.tokenizer import Tokenizer


class Encoded(NamedTuple):
    """A block of examples and their rows.

    Args:
        examples: what the task needs of them to make answers of a model's outputs.
        rows: the same as piece ids.
    """

    examples: Any
    rows: EncodedRows


class Answered(NamedTuple):
    """A block of examples and what models say about them.

    Args:
        examples: as of `Encoded`.
        answers: in the task's own form, which `average` and `finish` know.
    """

    examples: Any
    answers: Any


class FinetuningTask(abc.ABC):
    """A kind of data with its head, loss, answers and score.

    Attributes:
        labels: names of a classifier's logits, for `save_albert`; None for other heads.
    """

    labels: Sequence[str] | None = None

    @abc.abstractmethod
    def files(self, source: Any) -> list[str]:
        """The files that `encode` reads of a source, in its order."""

    @abc.abstractmethod
    def settings(self, source: Any) -> dict[str, Any]:
        """What else than the files' content shapes the rows of a source, as JSON can hold it."""

    @abc.abstractmethod
    def check(self, source: Any) -> None:
        """Reads a source to its end and tells of what in it cannot be used.

        Raises:
            ValueError: it cannot be read.
        """

    @abc.abstractmethod
    def is_labelled(self, source: Any) -> bool:
        """The same of one to predict: whether it says what is right for all its examples."""

    @abc.abstractmethod
    def encode(self, source: Any, tokenizer: Tokenizer, max_length: int) -> Iterator[Encoded]:
        """Reads a source and encodes it, block by block."""

    @abc.abstractmethod
    def training_rows(self, block: Encoded) -> EncodedRows:
        """The rows of a block that can be trained on, with their targets."""

    def count(self, source: Any, rows: EncodedRows) -> int:
        """The examples of a source of which `rows` are those to train on, for counting epochs."""
        return len(rows)

    @abc.abstractmethod
    def build(self, encoder: tf.keras.Model, dropout: float) -> tf.keras.Model:
        """The model that predicts: the task's head on an encoder."""

    def trainer_of(self, model: tf.keras.Model) -> tf.keras.Model:
        """The model that `fit` trains, of the same weights."""
        return model

    @abc.abstractmethod
    def compile_arguments(self, trainer: tf.keras.Model) -> dict[str, Any]:
        """The arguments of `compile` but for the optimizer."""

    def fit_batch(self, inputs: dict, targets: dict) -> tuple[dict, dict]:
        """A batch as `trainer_of` takes it, in graph."""
        return inputs, targets

    def distillation_loss(
        self, targets: dict, teacher: dict, student: dict, temperature: float
    ) -> tf.Tensor:
        """What a student's outputs differ by from a teacher's, float32 `(B,)`: the mean
        `soft_divergence` of all of them.

        Args:
            targets: of the batch.
            teacher, student: outputs of `trainer_of` for it.
            temperature: float > 0.
        """
        soft = [soft_divergence(teacher[name], student[name], temperature) for name in student]
        return tf.add_n(soft) / len(soft)

    @abc.abstractmethod
    def unlearned_loss(self, rows: EncodedRows) -> float:
        """The loss on these rows of the best answer that is the same for all examples."""

    @abc.abstractmethod
    def answers(self, block: Encoded, outputs: Iterator[Mapping[str, Any]]) -> Any:
        """What the outputs of a model for the rows of a block say about its examples."""

    @abc.abstractmethod
    def average(self, members: Sequence[Any]) -> Any:
        """The answers of an ensemble about a block, from those of each member."""

    @abc.abstractmethod
    def finish(
        self, source: Any, answered: Iterable[Answered], folder: Path | None
    ) -> dict[str, Any]:
        """Scores the answers where the truth is known, and writes them down.

        Args:
            source: of the examples.
            answered: their blocks.
            folder: to write predictions and submission to. None: they are scored alone.

        Returns:
            The scores, "score" among them, by which the best model is chosen: the higher the
            better. None at all where the source does not say what is right.
        """

    def tuned_by(self, scores: Mapping[str, Any]) -> "FinetuningTask":
        """The task for other data, with what the scores on held-out data have settled."""
        return self


class Member:
    """A model with its vocabulary, one of those that answer.

    Args:
        model: of the task's `build`.
        tokenizer: of the model.
        max_length: int, the longest row.
        batch_size: int > 0, rows that go through the model at once. Default 64.
        fixed_shapes: every batch has the longest row's width, as a TPU needs it. Default False.
    """

    def __init__(
        self,
        model: tf.keras.Model,
        tokenizer: Tokenizer,
        max_length: int,
        *,
        batch_size: int = 64,
        fixed_shapes: bool = False,
    ):
        self._tokenizer, self._max_length = tokenizer, max_length
        self._predictor = Predictor(
            model,
            batch_size=batch_size,
            max_length=max_length,
            **({"multiple": max_length} if fixed_shapes else {}),
        )

    def answered(self, task: FinetuningTask, source: Any) -> Iterator[Answered]:
        """The examples of a source, in their order, with this model's answers."""
        encoded, again = tee(task.encode(source, self._tokenizer, self._max_length))
        outputs = self._predictor(block.rows for block in encoded)
        for block in again:
            of_block = islice(outputs, len(block.rows))
            yield Answered(block.examples, task.answers(block, of_block))


def answered_by(members: Sequence[Member], task: FinetuningTask, source: Any) -> Iterator[Answered]:
    """The examples of a source, in their order, with the mean answers of the members."""
    streams = [member.answered(task, source) for member in members]
    for blocks in zip(*streams, strict=True):
        yield Answered(blocks[0].examples, task.average([block.answers for block in blocks]))
