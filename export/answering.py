"""Question answering: a question and a context of any length to the answer in it."""

import tensorflow as tf

from albert_keras.served_folder import SIGNATURE
from albert_keras.text.utf8 import repair

from .answering_questions import AnswerSettings, answering_questions
from .best_spans import SpanScores, best_answers, spans_of_logits
from .self_check import Question
from .serving import (
    SHORT,
    Serving,
    batch_of,
    byte_limit,
    ids_signature,
    strings,
    texts_of_lengths,
    tokenize_signature,
)
from .slices import compute_rows
from .windows import context_places, cut_windows, first_of, has_max_context

MAX_QUERY_LENGTH = 64
MAX_ANSWER_LENGTH = 30
DOC_STRIDE = 128
# Rows that a context may take; what is behind them is not read.
MAX_WINDOWS = 64
# Spans of a row that are looked at, as in evaluation.
ROW_BEST = 20


def answering(
    model, tokenizer, max_length: int, n_best: int = 5, null_threshold: float = 0.0
) -> Serving:
    """Signatures of a model of `build_span_predictor` or `build_answerable_span_predictor`.

        serving_default   question, context string (B,) -> answer string (B,), cut out of the
                          context; start, end int32 (B,), its characters; score float32 (B,), its
                          share among the candidates; answers, starts, ends, scores (B, N), the
                          candidates, the best first, "", -1, -1 and 0 behind the last.
                          With the head of SQuAD 2.0 also null_score float32 (B,), the logit of
                          "no answer": above the threshold `answer` is "", start and end are -1
        tokenize          the same strings -> the rows of all windows, (R, S), and questions (R,)
        ids               see `serving`

    A context is cut into windows, as in training; what is read of it are the pieces of
    `MAX_WINDOWS` of them.

    Args:
        n_best: int > 0, N.
        null_threshold: float, of `null_score`.
    """
    answerable = "unanswerable_logits" in model.output
    query_length = min(MAX_QUERY_LENGTH, max_length - 4)
    stride = min(DOC_STRIDE, max_length - 3)
    limit = MAX_WINDOWS * stride
    settings = AnswerSettings(
        max_length=max_length,
        query_length=query_length,
        doc_stride=stride,
        max_answer_length=MAX_ANSWER_LENGTH,
        row_best=ROW_BEST,
        n_best=n_best,
        null_threshold=null_threshold,
    )

    def windows_of(question, context):
        question = tf.strings.substr(question, 0, byte_limit(query_length))
        context = repair(tf.strings.substr(context, 0, byte_limit(limit)))
        ids, starts, ends = (
            first_of(ragged, limit) for ragged in tokenizer.tokenize_with_offsets(context)
        )
        windows = cut_windows(
            first_of(tokenizer(question), query_length),
            ids,
            max_length=max_length,
            doc_stride=stride,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
        )
        # One more, for positions outside: a batch may have no piece at all.
        bounds = (tf.concat([array.values, [0]], axis=0) for array in (starts, ends))
        return context, windows, *bounds

    def answer(question, context):
        context, windows, starts, ends = windows_of(question, context)
        outputs = compute_rows(
            lambda inputs: dict(model(inputs, training=False)),
            windows.rows,
            max_length,
            by_position=() if answerable else ("start_logits", "end_logits"),
        )
        some = "start_logits" if not answerable else "start_positions"
        width = max_length if answerable else tf.shape(outputs[some])[1]
        inside, pieces = context_places(windows, width)
        may_end = inside & (tf.gather(starts, pieces) < tf.gather(ends, pieces))
        may_start = may_end & has_max_context(windows, pieces, max_length, stride)
        if answerable:
            found = _of_beam(outputs, may_start, may_end)
        else:
            found = spans_of_logits(
                *(outputs["start_logits"], outputs["end_logits"], may_start, may_end),
                *(MAX_ANSWER_LENGTH, ROW_BEST),
            )
        spans = _spans(windows, pieces, starts, ends, *found)
        best = best_answers(context, spans, n_best)
        result = dict(best)
        if answerable:
            null = tf.math.segment_min(outputs["unanswerable_logits"], windows.questions)
            result["null_score"] = null
            has_answer = null <= null_threshold
        else:
            has_answer = tf.ones_like(best["starts"][:, 0], tf.bool)
        return {
            "answer": tf.where(has_answer, best["answers"][:, 0], ""),
            "start": tf.where(has_answer, best["starts"][:, 0], -1),
            "end": tf.where(has_answer, best["ends"][:, 0], -1),
            "score": best["scores"][:, 0],
            **result,
        }

    return Serving(
        "answer",
        {
            SIGNATURE: (answer, strings("question", "context")),
            "tokenize": tokenize_signature(
                lambda question, context: windows_of(question, context)[1].rows,
                max_length,
                *("question", "context"),
            ),
            "ids": ids_signature(model, max_length),
        },
        answering_questions(model, tokenizer, settings),
        [
            Question(SIGNATURE, batch_of(question=[SHORT], context=[text]), {}, {})
            for text in texts_of_lengths(max_length)
        ],
        {
            "n_best": n_best,
            "max_answer_length": MAX_ANSWER_LENGTH,
            "doc_stride": stride,
            "max_query_length": query_length,
            "context_pieces": limit,
            **({"null_threshold": null_threshold} if answerable else {}),
        },
    )


def _of_beam(outputs, may_start, may_end):
    """As `spans_of_logits`, of the spans that the head of SQuAD 2.0 proposes."""
    starts = tf.broadcast_to(
        outputs["start_positions"][:, :, tf.newaxis], tf.shape(outputs["end_positions"])
    )
    ends = outputs["end_positions"]
    scores = outputs["start_log_probs"][:, :, tf.newaxis] + outputs["end_log_probs"]
    possible = (starts <= ends) & (ends - starts < MAX_ANSWER_LENGTH)
    possible &= tf.gather(may_start, starts, batch_dims=1) & tf.gather(may_end, ends, batch_dims=1)
    scores = tf.where(possible, scores, float("-inf"))
    flat = [tf.shape(starts)[0], starts.shape[1] * starts.shape[2]]
    return (tf.reshape(array, flat) for array in (starts, ends, scores))


def _spans(windows, pieces, starts, ends, first, last, scores):
    """The possible ones of the spans `(R, K)` of positions, as bytes of their contexts."""
    possible = scores > float("-inf")
    questions = tf.broadcast_to(windows.questions[:, tf.newaxis], tf.shape(scores))
    return SpanScores(
        tf.boolean_mask(questions, possible),
        tf.boolean_mask(tf.gather(starts, tf.gather(pieces, first, batch_dims=1)), possible),
        tf.boolean_mask(tf.gather(ends, tf.gather(pieces, last, batch_dims=1)), possible),
        tf.boolean_mask(scores, possible),
    )
