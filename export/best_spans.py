"""From the scores of positions to the best answers of each question, in graph;
`albert_keras.tasks.squad.answers` for serving."""

from typing import NamedTuple

import tensorflow as tf

# What str.strip() takes away, in RE2's words.
SPACE = "[\\s\\x0b\\x1c-\\x1f\\x{85}\\pZ]+"


class SpanScores(NamedTuple):
    """Spans that may be answers, C of them.

    Attributes:
        questions: int32 `(C,)`.
        starts, ends: int64 `(C,)`, the bytes of the context.
        scores: float32 `(C,)`.
    """

    questions: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


def spans_of_logits(
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    may_start: tf.Tensor,
    may_end: tf.Tensor,
    max_answer_length: int,
    n_best: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The best spans of each row: starts and ends int32 `(R, K)`, scores float32 `(R, K)`, -inf
    where there is none.

    Args:
        start_logits, end_logits: float32 `(R, S)`.
        may_start, may_end: bool `(R, S)`.
        max_answer_length, n_best: int > 0.
    """
    none = tf.constant(float("-inf"))
    width = tf.shape(start_logits)[1]
    starts = tf.where(may_start, start_logits, none)
    ends = tf.where(may_end, end_logits, none)
    ends = tf.pad(ends, [[0, 0], [0, max_answer_length - 1]], constant_values=float("-inf"))
    places = tf.range(width)[:, tf.newaxis] + tf.range(max_answer_length)
    scores = starts[:, :, tf.newaxis] + tf.gather(ends, places, axis=1)
    scores = tf.reshape(scores, [-1, width * max_answer_length])
    best, index = tf.math.top_k(scores, tf.minimum(n_best, width * max_answer_length))
    start = index // max_answer_length
    # An end behind the last position has no score; the index must exist all the same.
    return start, tf.minimum(start + index % max_answer_length, width - 1), best


def best_answers(contexts: tf.Tensor, spans: SpanScores, n_best: int) -> dict[str, tf.Tensor]:
    """The answers of each question, the best first, as `best_candidates` gives them.

    Args:
        contexts: string `(B,)`, valid UTF-8.
        spans: of all questions, in any order.
        n_best: int > 0, N.

    Returns:
        answers string, starts and ends int32 (characters of the context), scores float32 (the
        share of a softmax over the row), all `(B, N)`: "", -1, -1 and 0 where there is none.
    """
    total = tf.size(contexts)
    joined = tf.strings.reduce_join(contexts)
    begins = tf.cumsum(tf.cast(tf.strings.length(contexts), tf.int64), exclusive=True)
    spans = _sorted(spans)
    surface = tf.strings.substr(
        joined, tf.gather(begins, spans.questions) + spans.starts, spans.ends - spans.starts
    )
    from_letter = tf.strings.regex_replace(surface, f"^{SPACE}", "")
    texts = tf.strings.regex_replace(from_letter, f"{SPACE}$", "")
    sizes = tf.cast(tf.strings.length(texts), tf.int64)
    starts = spans.starts + tf.cast(
        tf.strings.length(surface) - tf.strings.length(from_letter), tf.int64
    )

    # Of equal texts of a question the first counts.
    keys = tf.strings.join([tf.strings.as_string(spans.questions), texts], separator=" ")
    distinct, group = tf.unique(keys)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(keys)), group, tf.size(distinct))
    first = tf.boolean_mask(first, tf.gather(sizes, first) > 0)
    questions = tf.gather(spans.questions, first)
    rank = tf.range(tf.size(first)) - tf.gather(
        tf.searchsorted(questions, tf.range(total)), questions
    )
    kept = tf.boolean_mask(first, rank < n_best)
    questions = tf.gather(spans.questions, kept)

    begin = tf.gather(begins, questions)
    before = tf.strings.substr(joined, begin, tf.gather(starts, kept))
    start = tf.strings.length(before, unit="UTF8_CHAR")
    text = tf.gather(texts, kept)
    row_splits = tf.concat([tf.searchsorted(questions, tf.range(total)), [tf.size(kept)]], axis=0)

    def dense(values, default):
        ragged = tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
        return ragged.to_tensor(default, shape=[None, n_best])

    scores = dense(tf.gather(spans.scores, kept), float("-inf"))
    # Where there is none at all, the softmax of nothing.
    shares = tf.nn.softmax(tf.maximum(scores, -1e30)) * tf.cast(scores > -1e30, tf.float32)
    return {
        "answers": dense(text, ""),
        "starts": dense(start, -1),
        "ends": dense(start + tf.strings.length(text, unit="UTF8_CHAR"), -1),
        "scores": shares,
    }


def _sorted(spans):
    """By question, the highest score first, equal ones in the order of the context."""
    order = tf.range(tf.size(spans.scores))
    for key in (spans.ends, spans.starts, -spans.scores, spans.questions):
        order = tf.gather(order, tf.argsort(tf.gather(key, order), stable=True))
    return SpanScores(*(tf.gather(array, order) for array in spans))
