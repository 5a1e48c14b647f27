"""From scores to answers: every span against a naive search, ensembles, thresholds and files."""

import json
import random

import numpy as np
import pytest
from small_tokenizer import small_tokenizer

from albert_keras.tasks.squad.answers import (
    Candidate,
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
from albert_keras.tasks.squad.reading import Question, read_squad
from albert_keras.tasks.squad.scoring import score_v1
from albert_keras.tasks.squad.windows import encode_windows
from albert_keras.text.tokenizer import Tokenizer

pytestmark = pytest.mark.both_kerases

CONTEXT = "the boats or is to be again twice him 1995 1,5, on explain " + " ".join(
    f"{a}{b}" for a in "xyz" for b in "klmnop"
)
LENGTHS = (32, 9, 6)


def some_windows(*contexts):
    questions = [Question(f"q{n}", "Who is it?", context) for n, context in enumerate(contexts)]
    return questions, encode_windows(questions, small_tokenizer(), *LENGTHS)


def positions_of_context(windows, r):
    return range(windows.second_starts[r], windows.lengths[r] - 1)


def characters(windows, r, first, last):
    shift = windows.first_pieces[r] - windows.second_starts[r]
    return int(windows.piece_starts[first + shift]), int(windows.piece_ends[last + shift])


def naive_spans(windows, max_answer_length):
    """(row, first, last) of every span that may be an answer."""
    for r in range(len(windows.questions)):
        flags = windows.max_context[windows.row_splits[r] : windows.row_splits[r + 1]]
        for first in positions_of_context(windows, r):
            for last in positions_of_context(windows, r):
                if flags[first] and first <= last < first + max_answer_length:
                    if all(a < b for a, b in (characters(windows, r, p, p) for p in (first, last))):
                        yield r, first, last


def as_tuples(spans):
    return sorted(zip(*(array.tolist() for array in spans), strict=True))


# ---- the head of 1.1 ----


@pytest.mark.parametrize("max_answer_length", [1, 4, 30, 1000])
@pytest.mark.parametrize("n_best", [1, 20, 5000])
def test_the_best_spans_are_those_of_a_naive_search(max_answer_length, n_best):
    questions, windows = some_windows(CONTEXT, CONTEXT[::-1], CONTEXT[:30], "")
    generator = np.random.default_rng(n_best)
    rows = np.arange(len(windows.questions))
    # Wider than the rows, as padding makes them; what is no context scores best.
    start, end = generator.normal(size=(2, len(rows), 40)).astype(np.float32)
    for r in rows:
        outside = [p for p in range(40) if p not in positions_of_context(windows, r)]
        start[r, outside] = end[r, outside] = 100
    parts = [
        spans_of_logits(windows, some, start[some], end[some], max_answer_length, n_best)
        for some in np.array_split(rows, 3)
    ]
    found = best_candidates(questions, join_spans(parts), n_best)
    of_row = {r: [] for r in rows}
    for r, first, last in naive_spans(windows, max_answer_length):
        context = questions[windows.questions[r]].context
        text = context[slice(*characters(windows, r, first, last))].strip()
        scores = float(start[r, first]), float(end[r, last])
        of_row[r].append((sum(scores), text, *scores))
    for number, question in enumerate(questions):
        wanted = {}
        of_question = [
            span
            for r in np.flatnonzero(windows.questions == number)
            for span in sorted(of_row[r], reverse=True)[:n_best]
        ]
        for score, text, *scores in sorted(of_question, reverse=True):
            wanted.setdefault(text, (score, *scores))  # a text counts once, by its best span
        wanted = list(wanted.items())[:n_best] or [("", (0.0, 0.0, 0.0))]
        candidates = found[question.id]
        assert [
            (c.text, (c.start_score + c.end_score, c.start_score, c.end_score)) for c in candidates
        ] == wanted
        weights = np.exp([scores[0] for _, scores in wanted])
        assert [c.probability for c in candidates] == pytest.approx(weights / weights.sum())


def test_a_span_starts_only_where_its_piece_has_most_context():
    _, windows = some_windows(CONTEXT)
    rows = np.arange(len(windows.questions))
    assert len(rows) > 2
    spans = spans_of_logits(windows, rows, *np.zeros([2, len(rows), 32]), 1, 100)
    # Answers of one piece: each piece of the context once, but for the word markers alone.
    pieces = zip(windows.piece_starts.tolist(), windows.piece_ends.tolist(), strict=True)
    expected = sorted(piece for piece in pieces if piece[0] < piece[1])
    assert len(expected) < len(windows.piece_starts)
    assert sorted(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)) == expected


# ---- the head of 2.0 ----


def test_the_beam_keeps_what_may_be_an_answer():
    _, windows = some_windows(CONTEXT, CONTEXT[:40], "")
    rows = np.arange(len(windows.questions))
    generator = np.random.default_rng(3)
    starts = generator.integers(0, 36, [len(rows), 5])
    ends = generator.integers(0, 36, [len(rows), 5, 5])
    start_scores = generator.normal(size=starts.shape)
    end_scores = generator.normal(size=ends.shape)
    naive = set(naive_spans(windows, 12))
    expected = []
    for r in rows:
        for i in range(5):
            for j in range(5):
                first, last = int(starts[r, i]), int(ends[r, i, j])
                if (r, first, last) in naive:
                    where = characters(windows, r, first, last)
                    scores = start_scores[r, i], end_scores[r, i, j]
                    expected.append((int(windows.questions[r]), *where, *scores))
    spans = spans_of_beam(windows, rows, starts, start_scores, ends, end_scores, 12)
    assert len(expected) > 5
    assert as_tuples(spans) == sorted(expected)


def test_a_beam_that_proposes_nothing_gives_the_empty_answer():
    questions, windows = some_windows("The boats.", "")
    places = np.zeros([2, 5], int), np.zeros([2, 5, 5], int)  # [CLS]
    spans = spans_of_beam(windows, np.arange(2), places[0], places[0], places[1], places[1])
    candidates = best_candidates(questions, spans)
    assert candidates == {"q0": [Candidate("", 1.0, 0.0, 0.0)], "q1": [Candidate("", 1.0, 0, 0)]}
    assert choose(candidates) == {"q0": "", "q1": ""}


def test_null_odds_are_the_least_of_a_question_s_rows():
    _, windows = some_windows(CONTEXT, "The boats.", CONTEXT)
    logits = np.random.default_rng(0).normal(size=len(windows.questions))
    expected = [
        min(x for x, q in zip(logits, windows.questions, strict=True) if q == n) for n in range(3)
    ]
    assert null_odds_of(windows, logits).tolist() == expected


# ---- candidates ----


def spans_of(*rows):
    columns = np.array(rows, float).reshape(-1, 5).T
    return Spans(*columns[:3].astype(np.int32), *columns[3:])


def test_texts_are_trimmed_and_count_once_by_their_best_span():
    question = Question("q", "", "Ada\u3000 or\nAda ")
    spans = spans_of([0, 0, 3, 1, 1], [0, 8, 12, 2, 2], [0, 3, 7, 0, 3], [0, 3, 5, 9, 9])
    (candidates,) = best_candidates([question], spans).values()
    assert [(c.text, c.start_score, c.end_score) for c in candidates] == [
        ("Ada", 2.0, 2.0),
        ("or", 0.0, 3.0),
    ]
    assert candidates[0].probability == pytest.approx(1 / (1 + np.exp(-1)))


def test_equal_scores_are_in_the_order_of_the_context():
    question = Question("q", "", "a b c")
    spans = spans_of([0, 2, 3, 1, 0], [0, 0, 3, 1, 0], [0, 0, 1, 0, 1])
    (candidates,) = best_candidates([question], spans).values()
    assert [c.text for c in candidates] == ["a", "a b", "b"]


def test_scores_of_any_size_have_probabilities():
    question = Question("q", "", "a b")
    spans = spans_of([0, 0, 1, 900, 900], [0, 2, 3, -1e30, -1e30])
    (candidates,) = best_candidates([question], spans).values()
    assert [c.probability for c in candidates] == [1.0, 0.0]


def test_answers_keep_the_order_and_the_very_characters_of_the_context():
    contexts = ["Café ½ ﬁn", "Zürich", "灯台の光"]
    questions, windows = some_windows(*contexts)
    rows = np.arange(3)
    random.Random(0).shuffle(rows)
    lengths = windows.lengths[rows]
    start, end = np.zeros([2, 3, int(lengths.max())])
    start[np.arange(3), windows.second_starts[rows]] = 9
    end[np.arange(3), lengths - 2] = 9
    spans = spans_of_logits(windows, rows, start, end, max_answer_length=40)
    answers = choose(best_candidates(questions, spans))
    assert list(answers.items()) == list(zip(["q0", "q1", "q2"], contexts, strict=True))


# ---- ensembles ----


def test_an_ensemble_averages_the_runs_that_propose_a_span():
    one = spans_of([0, 0, 3, 1, 2], [1, 4, 6, 5, 5], [0, 0, 3, 2, 3])  # its 0-3 twice: the better
    other = spans_of([1, 4, 7, 1, 1], [0, 0, 3, 4, 6])
    assert as_tuples(average_spans([one, other])) == [
        (0, 0, 3, 3.0, 4.5),
        (1, 4, 6, 5.0, 5.0),
        (1, 4, 7, 1.0, 1.0),
    ]


def test_an_ensemble_of_one_run_is_that_run():
    questions, windows = some_windows(CONTEXT, "")
    rows = np.arange(len(windows.questions))
    logits = np.random.default_rng(0).normal(size=[2, len(rows), 32])
    spans = spans_of_logits(windows, rows, *logits)
    assert best_candidates(questions, average_spans([spans])) == best_candidates(questions, spans)


def test_an_ensemble_of_nothing_proposed_is_nothing():
    assert as_tuples(average_spans([spans_of(), spans_of()])) == []


# ---- predictions ----


def test_null_odds_above_the_threshold_answer_nothing():
    candidates = {name: [Candidate("Ada", 1.0, 0.0, 0.0)] for name in "abc"}
    odds = {"a": 0.5, "b": 0.7, "c": -3.0}
    assert choose(candidates, odds, 0.5) == {"a": "Ada", "b": "", "c": "Ada"}
    assert choose(candidates, odds) == {"a": "", "b": "", "c": "Ada"}
    assert choose(candidates) == dict.fromkeys("abc", "Ada")


def test_the_files_of_predictions(tmp_path):
    candidates = {"q1": [Candidate("東京", 0.75, -0.5, -1.0), Candidate("", 0.25, 0.0, 0.0)]}
    write_predictions(tmp_path, {"q1": "東京"}, candidates, {"q1": -2.5})
    read = {path.name: json.loads(path.read_text("utf-8")) for path in tmp_path.iterdir()}
    assert read == {
        "predictions.json": {"q1": "東京"},
        "null_odds.json": {"q1": -2.5},
        "nbest_predictions.json": {
            "q1": [
                {"text": t, "probability": p, "start_log_prob": s, "end_log_prob": e}
                for t, p, s, e in [("東京", 0.75, -0.5, -1.0), ("", 0.25, 0.0, 0.0)]
            ]
        },
    }


def test_without_null_odds_there_is_no_file_of_them(tmp_path):
    write_predictions(tmp_path, {}, {})
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "nbest_predictions.json",
        "predictions.json",
    ]


# ---- from a file to the score ----


@pytest.mark.parametrize(
    "name,right",
    [
        # Of 1,190 questions. "(2,70" of "(2,700,000" ends inside a piece.
        ("xquad.en", {30: 1189}),
        # In pieces of an English vocabulary, 17 German answers are longer than 30.
        ("xquad.de", {30: 1173, 100: 1190}),
    ],
)
def test_a_model_that_knows_the_answers_gets_them_right(data_folder, name, right):
    questions = read_squad(data_folder / "squad" / f"{name}.json").questions
    tokenizer = Tokenizer.load(data_folder / "vocabulary" / "30k-clean.model")
    windows = encode_windows(questions, tokenizer)
    for longest, expected in right.items():
        parts = []
        for rows in np.array_split(np.arange(len(windows.questions)), 40):
            start, end = np.zeros([2, len(rows), 384])
            start[np.arange(len(rows)), windows.start_positions[rows]] = 9
            end[np.arange(len(rows)), windows.end_positions[rows]] = 9
            parts.append(spans_of_logits(windows, rows, start, end, longest))
        predictions = choose(best_candidates(questions, join_spans(parts)))
        scores = score_v1(questions, predictions)
        assert scores["exact_match"] == pytest.approx(100 * expected / 1190)


# ---- what cannot be ----


def test_what_cannot_be_decoded_says_why():
    questions, windows = some_windows("The boats.")
    rows, zeros = np.arange(1), np.zeros([1, 32])
    broken = zeros.copy()
    broken[0, 9] = np.nan
    beam = np.zeros([1, 5]), np.zeros([1, 5, 5])
    for call, reason in [
        (lambda: spans_of_logits(windows, rows, zeros, broken), "NaN.*diverged"),
        (lambda: spans_of_logits(windows, rows, zeros, zeros, 0), "max_answer_length=0"),
        (lambda: spans_of_logits(windows, rows, zeros, zeros, 3, 0), "n_best=0"),
        (
            lambda: spans_of_beam(windows, rows, beam[0], beam[0] * np.nan, beam[1], beam[1]),
            "NaN.*diverged",
        ),
        (lambda: null_odds_of(windows, [0.0, 1.0]), r"1 numbers.*shape \(2,\)"),
        (lambda: null_odds_of(windows, [np.nan]), "1 of them NaN"),
        (lambda: best_candidates(questions * 2, spans_of()), "id of its own.*'q0'"),
        (lambda: best_candidates(questions, spans_of(), 0), "`n_best`.*0"),
    ]:
        with pytest.raises(ValueError, match=reason):
            call()
