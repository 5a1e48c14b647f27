"""TextTask: classes of texts or of pairs of texts, and numbers for them; GLUE among them."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, tee
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.data.lines import PACKED
from albert_keras.new_file import new_file
from albert_keras.task_models import build_classifier
from albert_keras.tasks import metrics
from albert_keras.tasks.encoded_rows import EncodedRows, encoded_blocks
from albert_keras.tasks.finetuning_task import Answered, Encoded, FinetuningTask
from albert_keras.tasks.glue import GlueTask, glue_file, write_submission
from albert_keras.tasks.interval import wilson_interval
from albert_keras.tasks.task_names import NUMBER
from albert_keras.tasks.text_examples import TextColumns, TextExample, read_text_examples
from albert_keras.text.tokenizer import Tokenizer

PREDICTIONS = "predictions.tsv"


class TextSource(NamedTuple):
    """A file of examples.

    Args:
        file: its path.
        columns: where it has what.
        split: of a task of GLUE, for the name of its submission. Default None.
    """

    file: str
    columns: TextColumns
    split: str | None = None


class TextTask(FinetuningTask):
    """Tells the label of a text or of a pair, or a number for it.

    Its metrics are those of the task of GLUE, else accuracy, or of a regression Pearson's and
    Spearman's correlation. Their mean is the score by which the best model is chosen, as the
    leaderboard takes the mean of MRPC's, QQP's and STS-B's two; the original code chose by accuracy
    and Pearson alone.

    Args:
        labels: the names of the classes; none for a regression.
        glue: the task of GLUE whose labels these are. Default None: the user's own.
        on_broken: see `read_text_examples`.

    Raises:
        ValueError: a single label.
        ImportError: a metric needs a package that is missing.

    Example:

    >>> task = TextTask(labels=("no", "yes"))
    >>> task.build(build_albert("tiny"), dropout=0.1).output["logits"].shape[-1]
    2
    """

    def __init__(
        self,
        labels: Sequence[str] = (),
        *,
        glue: GlueTask | None = None,
        on_broken: Callable[[ValueError], None] | None = None,
    ):
        if len(labels) == 1:
            raise ValueError(f"A classifier needs two labels or more. Received: {labels[0]!r}.")
        self.is_regression = not labels
        self.labels = list(labels) or [NUMBER]
        own = ("accuracy",) if labels else ("pearson", "spearman")
        self._metrics = own if glue is None else glue.metrics
        self._glue, self._on_broken = glue, on_broken
        self._places = {name: place for place, name in enumerate(self.labels)}
        metrics.scores(self._metrics, [0, 1], [0, 1])  # a missing package is found now

    def files(self, source: TextSource) -> list[str]:
        return [source.file]

    def settings(self, source: TextSource) -> dict[str, Any]:
        return {
            "labels": self.labels,
            "columns": dataclasses.asdict(source.columns),
            "form": Path(source.file.removesuffix(PACKED)).suffix,
        }

    def check(self, source: TextSource) -> None:
        for _ in self._examples(source):
            pass

    def is_labelled(self, source: TextSource) -> bool:
        self.check(source)
        return source.columns.label is not None

    def encode(
        self, source: TextSource, tokenizer: Tokenizer, max_length: int
    ) -> Iterator[Encoded]:
        examples, again = tee(self._examples(source))
        pairs = source.columns.text_pair is not None
        texts = (
            ((one.text, one.text_pair) if pairs else (one.text,), self._target(one))
            for one in examples
        )
        for rows in encoded_blocks(texts, tokenizer, max_length):
            yield Encoded(list(islice(again, len(rows))), rows)

    def training_rows(self, block: Encoded) -> EncodedRows:
        return block.rows

    def build(self, encoder: tf.keras.Model, dropout: float) -> tf.keras.Model:
        return build_classifier(encoder, len(self.labels), dropout)

    def compile_arguments(self, trainer: tf.keras.Model) -> dict[str, Any]:
        if self.is_regression:
            return {"loss": {"logits": _square_of_difference}}
        return {
            "loss": {"logits": tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
            "metrics": {"logits": [tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")]},
        }

    def distillation_loss(
        self, targets: dict, teacher: dict, student: dict, temperature: float
    ) -> tf.Tensor:
        """Of a regression the square of the difference, to which the temperature is nothing."""
        if self.is_regression:
            return _square_of_difference(teacher["logits"], student["logits"])
        return super().distillation_loss(targets, teacher, student, temperature)

    def unlearned_loss(self, rows: EncodedRows) -> float:
        """The entropy of the labels in nats; of a regression the variance."""
        targets = rows.targets["logits"]
        if self.is_regression:
            return float(np.var(targets, dtype=np.float64))
        shares = np.bincount(targets)[np.unique(targets)] / len(targets)
        return float(-(shares * np.log(shares)).sum())

    def answers(self, block: Encoded, outputs: Iterator[Mapping[str, Any]]) -> np.ndarray:
        """float32 `(n, C)`, the probabilities of the labels; of a regression `(n, 1)`, numbers."""
        logits = np.stack([output["logits"] for output in outputs])
        return logits if self.is_regression else tf.nn.softmax(logits).numpy()

    def average(self, members: Sequence[np.ndarray]) -> np.ndarray:
        return np.mean(members, axis=0)

    def finish(
        self, source: TextSource, answered: Iterable[Answered], folder: Path | None
    ) -> dict[str, Any]:
        """Scores, predictions.tsv and, of a test set of GLUE, the file for the leaderboard.

        predictions.tsv has a line for each example in the order of the file: id, label (empty where
        it is not known), predicted, score, the probability of what was predicted (none of a
        regression), and the text or the two.
        """
        is_known = source.columns.label is not None
        to_submit = self._glue is not None and source.split in self._glue.splits_of("test")
        labels, predicted, ids = [], [], []

        def seen():
            for examples, outputs in answered:
                values = outputs[:, 0] if self.is_regression else outputs.argmax(axis=1)
                if is_known:
                    labels.append([self._target(example)["logits"] for example in examples])
                if is_known or to_submit:
                    predicted.append(values)
                if to_submit and folder is not None:
                    ids.extend(example.id for example in examples)
                yield examples, outputs

        if folder is None:
            for _ in seen():
                pass
        else:
            with new_file(folder / PREDICTIONS) as file:
                for line in self._lines(seen(), source.columns):
                    file.write(line.encode())
            if to_submit:
                numbers = np.concatenate(predicted).tolist()
                write_submission(folder, self._glue.name, source.split, ids, numbers)
        if not is_known:
            return {}
        return self._scores(np.concatenate(labels), np.concatenate(predicted))

    def _examples(self, source):
        return read_text_examples(
            source.file,
            source.columns,
            labels=None if self.is_regression else self.labels,
            regression=self.is_regression,
            on_broken=self._on_broken,
        )

    def _target(self, example: TextExample):
        if example.label is None:
            return {}
        if self.is_regression:
            return {"logits": float(example.label)}
        return {"logits": self._places[example.label]}

    def _lines(self, blocks, columns):
        texts = ["text"] if columns.text_pair is None else ["text", "text_pair"]
        yield "\t".join(["id", "label", "predicted", "score", *texts]) + "\n"
        for examples, outputs in blocks:
            for example, output in zip(examples, outputs, strict=True):
                if self.is_regression:
                    predicted, score = f"{output[0]:.9g}", ""  # all of single precision
                else:
                    best = int(output.argmax())
                    predicted, score = self.labels[best], f"{output[best]:.4f}"
                label = "" if example.label is None else str(example.label)
                shown = (" ".join(getattr(example, name).split()) for name in texts)
                yield "\t".join([example.id, label, predicted, score, *shown]) + "\n"

    def _scores(self, labels, predicted):
        found = metrics.scores(self._metrics, labels, predicted)
        # JSON has no NaN, which a correlation is where all predictions are the same.
        defined = {name: None if math.isnan(value) else value for name, value in found.items()}
        scores = {
            **defined,
            # The lowest of all for what has none.
            "score": -1.0 if None in defined.values() else sum(defined.values()) / len(defined),
            "examples": len(labels),
        }
        if self.is_regression:
            return scores
        right, size = int((labels == predicted).sum()), len(self.labels)
        confusion = np.zeros((size, size), int)
        np.add.at(confusion, (labels, predicted), 1)
        return {
            **scores,
            "accuracy": right / len(labels),
            "accuracy_interval": wilson_interval(right, len(labels)),
            "majority": int(np.bincount(labels).max()) / len(labels),
            "labels": self.labels,
            "confusion": confusion.tolist(),  # a row for each true label
        }


def labels_in(
    source: TextSource, on_broken: Callable[[ValueError], None] | None = None
) -> list[str]:
    """The labels that occur in a file, sorted.

    Args:
        on_broken: see `read_text_examples`.

    Raises:
        ValueError: fewer than two, or what `read_text_examples` refuses.
    """
    examples = read_text_examples(source.file, source.columns, on_broken=on_broken)
    found = sorted({example.label for example in examples})
    if len(found) < 2:
        raise ValueError(
            f"A classifier needs two labels or more. Received: {source.file} with "
            f"{', '.join(found) or 'none'}."
        )
    return found


def glue_source(task: GlueTask, split: str, folder: str | Path) -> TextSource:
    """The official file of a split in a task's folder. Raises ValueError where it is missing."""
    file, columns = glue_file(task, split, folder)
    return TextSource(file, columns, split)


def _square_of_difference(numbers, logits):
    # Keras makes (B, 1) of the numbers as well, and of (B, 1) and (B,) a difference has (B, B).
    numbers, logits = (tf.reshape(tf.cast(one, tf.float32), [-1]) for one in (numbers, logits))
    return tf.square(numbers - logits)
