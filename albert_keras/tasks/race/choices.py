"""The choices of a question as rows, `[CLS] article [SEP] question and option [SEP]`, and what
trains a model to score them.

Reference:
    https://github.com/google-research/albert, race_utils.py
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import tensorflow as tf

from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.length_batches import NO_CHOICE
from albert_keras.tasks.race.reading import Question
from albert_keras.text.packing import BYTES_PER_PIECE, assemble_rows, first_pieces
from albert_keras.text.tokenizer import Tokenizer

# Pieces of question and option that are kept, the last ones, as in the original.
QUESTION_PIECES = 128

_NO_ANSWER = -1
_BLOCK_EXAMPLES = 512


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
    return -tf.reduce_sum(right * tf.nn.log_softmax(of_choices(marks, logits)), axis=-1)


def choice_accuracy(marks: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Whether the highest logit of an example's own choices is the right one, float32 `(B,)`.

    A metric for `compile`; arguments as of `choice_loss`.
    """
    best = tf.argmax(of_choices(marks, logits), axis=-1, output_type=tf.int32)
    return tf.cast(tf.equal(tf.gather(marks, best, batch_dims=1), 1), tf.float32)


def of_choices(marks: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The logits, float32 `(B, C)`, -1e9 for what is no choice."""
    # Not infinite: an infinite logit times the 0 of `right` would be NaN.
    return tf.where(tf.equal(marks, NO_CHOICE), -1e9, tf.cast(logits, tf.float32))


def _pieces(texts: Sequence[str], tokenizer) -> tf.RaggedTensor:
    values, splits = tokenizer.encode_lines(texts)
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)
