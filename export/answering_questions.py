"""What the self-check asks of question answering, with the answers of what scores SQuAD."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.answerable_span_head import BEAM
from albert_keras.served_folder import SIGNATURE
from albert_keras.tasks.squad.answers import (
    best_candidates,
    null_odds_of,
    spans_of_beam,
    spans_of_logits,
)
from albert_keras.tasks.squad.reading import Question as SquadQuestion
from albert_keras.tasks.squad.windows import encode_windows
from albert_keras.text.utf8 import repair

from .self_check import Question
from .serving import CLEAR, LONG, ODD, SENTENCES, SHORT, batch_of, eagerly, row_inputs, stacked


class AnswerSettings(NamedTuple):
    """How a context is cut into rows and an answer found in them.

    Attributes:
        max_length: int > 0, pieces of a row.
        query_length: int > 0, pieces of a question that are read.
        doc_stride: int > 0, pieces between the beginnings of two windows.
        max_answer_length: int > 0, pieces.
        row_best: int > 0, spans of a row that are looked at.
        n_best: int > 0, answers that are given.
        null_threshold: float, of the logit of "no answer".
    """

    max_length: int
    query_length: int
    doc_stride: int
    max_answer_length: int
    row_best: int
    n_best: int
    null_threshold: float


def answering_questions(
    model: tf.keras.Model, tokenizer, settings: AnswerSettings
) -> list[Question]:
    """Each question and context alone, all together, and none, with what evaluation answers."""
    pairs = [
        (SHORT, SHORT),
        (b"", b""),
        (SHORT, b"  "),
        (ODD, ODD),
        (LONG, SHORT),
        (b"What?", LONG[: 3 * 5 * settings.max_length]),
        *((text, b" ".join(SENTENCES)) for text in SENTENCES),
    ]
    answers, decided = {}, {}
    for pair in pairs:
        texts = [repair(tf.constant([text])).numpy()[0].decode() for text in pair]
        question = SquadQuestion("0", texts[0], texts[1], (), False)
        answers[pair], decided[pair] = _evaluated(model, tokenizer, question, settings)
    questions = []
    for batch in ([], *([one] for one in pairs), pairs):
        inputs = batch_of(question=[q for q, _ in batch], context=[c for _, c in batch])
        outputs = stacked([answers[one] for one in batch], answers[pairs[0]])
        clear = stacked([decided[one] for one in batch], decided[pairs[0]])
        questions.append(Question(SIGNATURE, inputs, outputs, clear))
    text = SHORT.decode()
    windows = _windows_of(SquadQuestion("0", text, text), tokenizer, settings)
    rows = [_window(windows, number, settings.max_length) for number in range(len(windows.lengths))]
    padded = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    width = min(-(-int(windows.lengths.max()) // 16) * 16, settings.max_length)
    inputs = batch_of(question=[SHORT], context=[SHORT])
    tokenized = {name: value[:, :width] for name, value in padded.items()}
    outputs = stacked([eagerly(model, row) for row in rows], {})
    questions.append(Question("tokenize", inputs, tokenized, {}))
    questions.append(Question("ids", padded, outputs, {}))
    return questions


def _windows_of(question, tokenizer, settings):
    return encode_windows(
        [question], tokenizer, settings.max_length, settings.doc_stride, settings.query_length
    )


def _window(windows, number, width):
    ids = windows.token_ids[windows.row_splits[number] : windows.row_splits[number + 1]]
    return row_inputs(ids, windows.second_starts[number], width)


def _evaluated(model, tokenizer, question, settings):
    """What the code that scores SQuAD answers, as outputs of the signature, and what of it is
    clear."""
    windows = _windows_of(question, tokenizer, settings)
    outputs = []
    for number, length in enumerate(windows.lengths):
        # The beam needs five positions.
        outputs.append(eagerly(model, _window(windows, number, max(length, BEAM))))
    rows = np.arange(len(outputs))
    null = 0.0
    if "unanswerable_logits" in model.output:
        names = ("start_positions", "start_log_probs", "end_positions", "end_log_probs")
        beams = (np.stack([one[name] for one in outputs]) for name in names)
        spans = spans_of_beam(windows, rows, *beams, settings.max_answer_length)
        null = null_odds_of(windows, [one["unanswerable_logits"] for one in outputs])[0]
    else:
        width = max(len(one["start_logits"]) for one in outputs)
        logits = (
            np.stack([np.pad(one[name], (0, width - len(one[name]))) for one in outputs])
            for name in ("start_logits", "end_logits")
        )
        spans = spans_of_logits(
            windows, rows, *logits, settings.max_answer_length, settings.row_best
        )
    order = np.lexsort((spans.ends, spans.starts, -(spans.start_scores + spans.end_scores)))
    return _as_outputs(
        question,
        best_candidates([question], spans, settings.n_best + 1)["0"],
        [(spans.starts[place], spans.ends[place]) for place in order],
        null if "unanswerable_logits" in model.output else None,
        settings,
    )


def _as_outputs(question, candidates, places, null, settings):
    n_best, null_threshold = settings.n_best, settings.null_threshold
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
