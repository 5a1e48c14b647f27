"""Question answering: a question and a context of any length to the answer in it."""

import numpy as np
import tensorflow as tf

from albert_keras.answerable_span_head import BEAM
from albert_keras.tasks.squad.answers import (
    best_candidates,
    null_odds_of,
)
from albert_keras.tasks.squad.answers import spans_of_beam as beam_of_windows
from albert_keras.tasks.squad.answers import spans_of_logits as spans_of_windows
from albert_keras.tasks.squad.reading import Question as SquadQuestion
from albert_keras.tasks.squad.windows import encode_windows
from albert_keras.text.utf8 import repair

from .best_spans import SpanScores, best_answers, spans_of_logits
from .self_check import Question
from .served_model import SIGNATURE
from .serving import (
    CLEAR,
    LONG,
    ODD,
    SENTENCES,
    SHORT,
    Serving,
    batch_of,
    byte_limit,
    eagerly,
    ids_signature,
    stacked,
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
_ROW_BEST = 20


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
                *(MAX_ANSWER_LENGTH, _ROW_BEST),
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
        _questions(model, tokenizer, max_length, query_length, stride, n_best, null_threshold),
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


def _questions(model, tokenizer, max_length, query_length, stride, n_best, null_threshold):
    """Each question and context alone, all together, and none, with what evaluation answers."""
    pairs = [
        (SHORT, SHORT),
        (b"", b""),
        (SHORT, b"  "),
        (ODD, ODD),
        (LONG, SHORT),
        (b"What?", LONG[: 3 * 5 * max_length]),
        *((text, b" ".join(SENTENCES)) for text in SENTENCES),
    ]
    answers, decided = {}, {}
    for pair in pairs:
        texts = [repair(tf.constant([text])).numpy()[0].decode() for text in pair]
        question = SquadQuestion("0", texts[0], texts[1], (), False)
        found = _evaluated(
            *(model, tokenizer, question, max_length, query_length, stride, n_best, null_threshold)
        )
        answers[pair], decided[pair] = found
    questions = []
    for batch in ([], *([one] for one in pairs), pairs):
        inputs = batch_of(question=[q for q, _ in batch], context=[c for _, c in batch])
        outputs = stacked([answers[one] for one in batch], answers[pairs[0]])
        clear = stacked([decided[one] for one in batch], decided[pairs[0]])
        questions.append(Question(SIGNATURE, inputs, outputs, clear))
    text = SHORT.decode()
    windows = encode_windows(
        [SquadQuestion("0", text, text)], tokenizer, max_length, stride, query_length
    )
    rows = [_row(windows, number, max_length) for number in range(len(windows.lengths))]
    padded = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    width = min(-(-int(windows.lengths.max()) // 16) * 16, max_length)
    inputs = batch_of(question=[SHORT], context=[SHORT])
    tokenized = {name: value[:, :width] for name, value in padded.items()}
    outputs = stacked([eagerly(model, row) for row in rows], {})
    questions.append(Question("tokenize", inputs, tokenized, {}))
    questions.append(Question("ids", padded, outputs, {}))
    return questions


def _row(windows, number, width):
    """A window's inputs for the model, `(1, width)`."""
    ids = windows.token_ids[windows.row_splits[number] : windows.row_splits[number + 1]]
    segments = (np.arange(len(ids)) >= windows.second_starts[number]).astype(np.int32)
    row = {"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)}
    return {name: np.pad(x, (0, width - len(ids)))[np.newaxis] for name, x in row.items()}


def _evaluated(
    model, tokenizer, question, max_length, query_length, stride, n_best, null_threshold
):
    """What the code that scores SQuAD answers, as outputs of the signature, and what of it is
    clear."""
    windows = encode_windows([question], tokenizer, max_length, stride, query_length)
    outputs = []
    for number, length in enumerate(windows.lengths):
        # The beam needs five positions.
        outputs.append(eagerly(model, _row(windows, number, max(length, BEAM))))
    rows = np.arange(len(outputs))
    null = 0.0
    if "unanswerable_logits" in model.output:
        names = ("start_positions", "start_log_probs", "end_positions", "end_log_probs")
        beams = (np.stack([one[name] for one in outputs]) for name in names)
        spans = beam_of_windows(windows, rows, *beams, MAX_ANSWER_LENGTH)
        null = null_odds_of(windows, [one["unanswerable_logits"] for one in outputs])[0]
    else:
        width = max(len(one["start_logits"]) for one in outputs)
        logits = (
            np.stack([np.pad(one[name], (0, width - len(one[name]))) for one in outputs])
            for name in ("start_logits", "end_logits")
        )
        spans = spans_of_windows(windows, rows, *logits, MAX_ANSWER_LENGTH, _ROW_BEST)
    order = np.lexsort((spans.ends, spans.starts, -(spans.start_scores + spans.end_scores)))
    return _as_outputs(
        question,
        best_candidates([question], spans, n_best + 1)["0"],
        [(spans.starts[place], spans.ends[place]) for place in order],
        n_best,
        null if "unanswerable_logits" in model.output else None,
        null_threshold,
    )


def _as_outputs(question, candidates, places, n_best, null, null_threshold):
    answers, starts, ends = [], [], []
    for candidate in candidates[:n_best]:
        if not candidate.text:
            continue
        # The place of the best span with that text.
        start, end = next(
            place for place in places if question.context[slice(*place)].strip() == candidate.text
        )
        start += len(question.context[start:end]) - len(question.context[start:end].lstrip())
        answers.append(candidate.text.encode())
        starts.append(start)
        ends.append(start + len(candidate.text))
    missing = n_best - len(answers)
    scores = np.array([c.start_score + c.end_score for c in candidates if c.text])
    kept = scores[:n_best]
    shares = np.exp(kept - kept.max()) if len(kept) else kept
    gaps = np.concatenate([[np.inf], -np.diff(scores), [np.inf]])
    apart = np.minimum(gaps[:-1], gaps[1:])[: len(kept)] > CLEAR
    clear = np.concatenate([apart, np.ones(missing, bool)])
    is_answered = null is None or null <= null_threshold
    is_decided = bool(clear[0]) and (null is None or abs(null - null_threshold) > CLEAR)
    outputs = {
        "answers": np.array([*answers, *[b""] * missing], object),
        "starts": np.array([*starts, *[-1] * missing], np.int32),
        "ends": np.array([*ends, *[-1] * missing], np.int32),
        "scores": np.array([*shares / max(shares.sum(), 1e-30), *[0.0] * missing], np.float32),
    }
    outputs |= {
        "answer": outputs["answers"][0] if is_answered else b"",
        "start": outputs["starts"][0] if is_answered else np.int32(-1),
        "end": outputs["ends"][0] if is_answered else np.int32(-1),
        "score": outputs["scores"][0],
    }
    if null is not None:
        outputs["null_score"] = np.float32(null)
    decided = dict.fromkeys(("answer", "start", "end"), np.bool_(is_decided))
    decided |= dict.fromkeys(("answers", "starts", "ends"), clear)
    return outputs, decided
