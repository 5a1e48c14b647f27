"""Text classification: files of labelled texts, batches, recipe and score."""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.model import config_of
from albert_keras.new_file import write_file
from albert_keras.optimizers import optimizer_named
from albert_keras.tasks.interval import wilson_interval
from albert_keras.tasks.text_examples import read_text_examples
from albert_keras.text.packing import pack_texts
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.training.timing import steps_in


class Examples(NamedTuple):
    """Texts and their labels, in the order of the file."""

    texts: list[str]
    labels: list[str]


@dataclasses.dataclass(frozen=True)
class ClassificationRecipe:
    """What a fine-tuning run does.

    Args:
        max_length: int, the longest row in pieces; longer texts are cut.
        batch_size: int, B.
        total_steps: int > 0.
        optimizer: "lamb" or "adamw".
        learning_rate: float > 0, the schedule's peak.
        warmup_steps: int >= 0.
        seed: int, of the head's initial weights and of the order.
    """

    max_length: int = 128
    batch_size: int = 32
    total_steps: int = 1000
    optimizer: str = "adamw"
    learning_rate: float = 3e-5
    warmup_steps: int = 100
    seed: int = 0


def read_examples(path: str | Path) -> Examples:
    """Reads labelled texts, with the columns `text` and `label`; see `read_text_examples`.

    Raises:
        ValueError: what that function refuses, with file and line.

    Example:

    >>> _ = Path("train.tsv").write_text("text\tlabel\nGood.\tpositive\n")
    >>> read_examples("train.tsv")
    Examples(texts=['Good.'], labels=['positive'])
    """
    examples = list(read_text_examples(path))
    return Examples([one.text for one in examples], [one.label for one in examples])


def fingerprint(examples: Examples) -> str:
    """A hash that other texts or labels would not have."""
    return hashlib.sha256(json.dumps(examples).encode()).hexdigest()


def label_names(examples: Examples) -> list[str]:
    """The labels that occur, sorted.

    Raises:
        ValueError: fewer than two.
    """
    names = sorted(set(examples.labels))
    if len(names) < 2:
        raise ValueError(f"A classifier needs two labels or more. Received: {names}.")
    return names


def label_indices(examples: Examples, names: Sequence[str], path: str | Path) -> np.ndarray:
    """int32 [n], each example's place in `names`.

    Raises:
        ValueError: a label that is not in `names`, with the file and how often it occurs.
    """
    unknown = Counter(label for label in examples.labels if label not in set(names))
    if unknown:
        found = ", ".join(f"{label!r} ({times}x)" for label, times in unknown.most_common(5))
        raise ValueError(
            f"{path} has labels that the model was not trained on. Received: {found}; known are "
            f"{', '.join(names)}."
        )
    places = {name: place for place, name in enumerate(names)}
    return np.array([places[label] for label in examples.labels], np.int32)


def training_batches(
    texts: Sequence[str], labels: np.ndarray, tokenizer: Tokenizer, recipe: ClassificationRecipe
) -> Callable[[int], tf.data.Dataset]:
    """A function that gives the batches `(inputs, labels [B])` from any step on.

    Every epoch is a permutation drawn from (seed, epoch); batches run over the ends of epochs.
    """
    texts, labels = tf.constant(texts), tf.constant(labels)
    size = len(labels)

    def order(epoch):
        seed = tf.stack([tf.constant(recipe.seed, tf.int64), epoch])
        draws = tf.random.stateless_uniform(
            [size], seed, minval=None, maxval=None, dtype=tf.int64, alg="philox"
        )
        return tf.data.Dataset.from_tensor_slices(tf.argsort(draws, stable=True))

    def batch_of(rows):
        inputs = pack_texts(tf.gather(texts, rows), tokenizer, recipe.max_length)
        return inputs, tf.gather(labels, rows)

    def batches_from(step):
        first_epoch, seen = divmod(step * recipe.batch_size, size)
        rows = tf.data.Dataset.counter(first_epoch).flat_map(order).skip(seen)
        batches = rows.batch(recipe.batch_size, drop_remainder=True)
        return batches.map(batch_of, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)

    return batches_from


def compile_classifier(model: tf.keras.Model, recipe: ClassificationRecipe) -> None:
    """Gives the classifier its loss, accuracy and the recipe's optimizer.

    Raises:
        ValueError: the recipe's rows are longer than the model's positions.
    """
    positions = config_of(model).max_position_embeddings
    if not 3 <= recipe.max_length <= positions:
        raise ValueError(
            f"`max_length` must be from 3 to the model's {positions} positions. Received: "
            f"{recipe.max_length}."
        )
    model.compile(
        optimizer_named(
            recipe.optimizer, recipe.learning_rate, recipe.warmup_steps, recipe.total_steps
        ),
        loss={"logits": tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        metrics={"logits": [tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")]},
    )


def steps_in_minutes(
    minutes: float,
    new_classifier: Callable[[], tf.keras.Model],
    texts: Sequence[str],
    labels: np.ndarray,
    tokenizer: Tokenizer,
    recipe: ClassificationRecipe,
) -> int:
    """How many steps of this recipe fit into so many minutes on this machine."""
    model = new_classifier()
    compile_classifier(model, recipe)
    return steps_in(minutes, model, training_batches(texts, labels, tokenizer, recipe)(0))


def predict(
    model: tf.keras.Model,
    texts: Sequence[str],
    tokenizer: Tokenizer,
    max_length: int,
    batch_size: int = 64,
) -> np.ndarray:
    """float32 `(n, C)`, the probabilities of each text's labels."""
    batches = tf.data.Dataset.from_tensor_slices(tf.constant(texts, tf.string)).batch(batch_size)
    probabilities = tf.function(
        lambda batch: tf.nn.softmax(
            model(pack_texts(batch, tokenizer, max_length), training=False)["logits"]
        ),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    return np.concatenate([probabilities(batch).numpy() for batch in batches])


def score(probabilities: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """accuracy with its 95 % interval, examples, the share of the most frequent label, the
    confusion matrix (a row for each true label), and the names."""
    predicted = probabilities.argmax(axis=1)
    confusion = np.zeros((len(names), len(names)), int)
    np.add.at(confusion, (labels, predicted), 1)
    right, total = int((predicted == labels).sum()), len(labels)
    return {
        "accuracy": right / total,
        "accuracy_interval": wilson_interval(right, total),
        "examples": total,
        "majority": int(np.bincount(labels).max()) / total,
        "labels": list(names),
        "confusion": confusion.tolist(),
    }


def write_predictions(
    path: Path, examples: Examples, probabilities: np.ndarray, names: Sequence[str]
) -> None:
    """Writes text, label, predicted label and its probability, tab-separated under a header."""
    lines = ["text\tlabel\tpredicted\tscore\n"]
    for text, label, row in zip(*examples, probabilities, strict=True):
        text = " ".join(text.split())
        lines.append(f"{text}\t{label}\t{names[row.argmax()]}\t{row.max():.4f}\n")
    write_file(path, "".join(lines))
