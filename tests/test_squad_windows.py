"""Windows over contexts: every row as a naive loop makes it, and answers by their characters."""

import json
import random
from collections import Counter

import numpy as np
import pytest
from small_tokenizer import small_tokenizer

from albert_keras.tasks.squad.contexts import encode_contexts
from albert_keras.tasks.squad.reading import Answer, Question, read_squad
from albert_keras.tasks.squad.windows import encode_windows
from albert_keras.text.tokenizer import Tokenizer

pytestmark = pytest.mark.both_kerases

PARAGRAPH = (
    "The lighthouse keeper wrote down the weather every morning. In 1999, 2000, and 13, the 1,1 "
    "boats came. Café, ½ of it, ﬁrst oﬃce: समुद्र के किनारे; 灯台の光は夜の海を照らす。 Zürich! "
)

SEVEN_PIECES = "the boats or is to be again"


def rows_of(windows, array):
    return np.split(array, windows.row_splits[1:-1])


def naive_rows(question, tokenizer, max_length, doc_stride, max_query_length):
    """The original's loops: per row ids, start of segment 1, gold positions, best positions."""
    query = tokenizer.encode(question.question)[:max_query_length]
    ids, spans = tokenizer.encode_with_offsets(question.context)
    room = max_length - len(query) - 3
    parts, start = [], 0
    while True:
        length = min(len(ids) - start, room)
        parts.append((start, length))
        if start + length == len(ids):
            break
        start += min(length, doc_stride)
    gold = None
    for answer in question.answers:
        if answer.start is not None and gold is None:
            end = answer.start + len(answer.text)
            inside = [n for n, (a, b) in enumerate(spans) if a < end and b > answer.start and a < b]
            gold = (inside[0], inside[-1]) if inside else None
    for number, (start, length) in enumerate(parts):
        row = [tokenizer.cls_id, *query, tokenizer.sep_id, *ids[start : start + length]]
        shift = len(query) + 2 - start
        target = (-1, -1)
        if question.is_impossible or gold:
            target = (0, 0)
        if gold and gold[0] >= start and gold[1] < start + length:
            target = (gold[0] + shift, gold[1] + shift)
        best = []
        for piece in range(start, start + length):
            scores = [
                min(piece - a, a + n - 1 - piece) + 0.01 * n if a <= piece < a + n else -1
                for a, n in parts
            ]
            if scores.index(max(scores)) == number:
                best.append(piece + shift)
        characters = spans[start : start + length]
        yield [*row, tokenizer.sep_id], len(query) + 2, target, best, characters


def check_against_the_naive_loop(questions, tokenizer, *lengths):
    windows = encode_windows(questions, tokenizer, *lengths)
    token_ids, max_context = (
        rows_of(windows, array) for array in (windows.token_ids, windows.max_context)
    )
    expected = [
        (number, *row)
        for number, question in enumerate(questions)
        for row in naive_rows(question, tokenizer, *lengths)
    ]
    assert len(windows.questions) == len(expected)
    for r, (number, row, second_start, target, best, characters) in enumerate(expected):
        assert windows.questions[r] == number
        assert token_ids[r].tolist() == row
        assert windows.lengths[r] == len(row) <= lengths[0]
        assert windows.second_starts[r] == second_start
        assert (windows.start_positions[r], windows.end_positions[r]) == target
        assert windows.impossible[r] == (target == (0, 0))
        assert np.flatnonzero(max_context[r]).tolist() == best
        some = slice(windows.first_pieces[r], windows.first_pieces[r] + len(characters))
        starts, ends = windows.piece_starts[some], windows.piece_ends[some]
        assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == characters
    return windows


def random_questions(generator, count):
    questions = []
    for number in range(count):
        begin = generator.randrange(len(PARAGRAPH))
        context = (PARAGRAPH[begin:] + PARAGRAPH * 4)[: generator.randrange(500)]
        answers = ()
        if number % 3 and context:
            start = generator.randrange(len(context))
            text = context[start : start + generator.randrange(1, 30)]
            answers = (Answer("nowhere", None), Answer(text, start))
        question = PARAGRAPH[: generator.randrange(60)]
        questions += [Question(f"q{number}", question, context, answers, number % 6 == 0)]
    return questions


@pytest.mark.parametrize(
    "lengths",
    [(40, 7, 20), (40, 1000, 20), (24, 1, 20), (64, 16, 8), (384, 128, 64), (150, 9, 30)],
    ids=str,
)
def test_every_row_is_that_of_the_original_loop(lengths):
    questions = random_questions(random.Random(0), 30)
    check_against_the_naive_loop(questions, small_tokenizer(), *lengths)


def test_windows_whose_lengths_differ_by_a_hundred_tie_as_in_the_original():
    # Only there can the 0.01 a piece make up for a neighbour less, and rounding then decides.
    questions = [Question(f"q{n}", "", "the " * (n + 127), (), True) for n in (120, 240, 1200)]
    windows = check_against_the_naive_loop(questions, small_tokenizer(), 230, 120, 1)
    assert sorted(set(windows.lengths)) == [127 + 3, 227 + 3]


def test_the_rows_of_the_docstring():
    tokenizer = small_tokenizer()
    a, b, c, d, e, f, g = tokenizer.encode(SEVEN_PIECES)
    (q,) = tokenizer.encode("on")
    windows = encode_windows([Question("1", "on", SEVEN_PIECES)], tokenizer, 8, 2, 2)
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    assert [row.tolist() for row in rows_of(windows, windows.token_ids)] == [
        [cls, q, sep, a, b, c, d, sep],
        [cls, q, sep, c, d, e, f, sep],
        [cls, q, sep, e, f, g, sep],
    ]
    assert [row.tolist() for row in rows_of(windows, windows.max_context)] == [
        [False] * 3 + [True, True, True, False] + [False],
        [False] * 3 + [False, True, True, False] + [False],
        [False] * 3 + [False, True, True] + [False],
    ]
    assert windows.second_starts.tolist() == [3, 3, 3]


@pytest.mark.parametrize("lengths", [(30, 5, 20), (30, 29, 3), (384, 128, 64)], ids=str)
def test_every_piece_of_a_context_is_in_a_row_and_starts_an_answer_in_just_one(lengths):
    questions = random_questions(random.Random(1), 40)
    windows = encode_windows(questions, small_tokenizer(), *lengths)
    seen, starts = (Counter() for _ in range(2))
    for r, flags in enumerate(rows_of(windows, windows.max_context)):
        second = windows.second_starts[r]
        for position in range(second, windows.lengths[r] - 1):
            piece = (windows.questions[r], windows.first_pieces[r] + position - second)
            seen[piece] += 1
            starts[piece] += int(flags[position])
    pieces = sum(len(small_tokenizer().encode(question.context)) for question in questions)
    assert len(seen) == pieces and set(starts.values()) == {1}


def test_a_context_is_encoded_once_for_questions_that_follow_each_other():
    tokenizer = small_tokenizer()
    one, other = "The keeper wrote.", "Café, 1,1 boats."
    questions = [Question(str(n), "Who?", one if n % 5 else other) for n in range(10)]
    windows = encode_windows(questions, tokenizer)
    pieces = [len(tokenizer.encode(context)) for context in (other, one, other, one)]
    assert len(windows.piece_starts) == sum(pieces)
    firsts = np.cumsum([0, *pieces])
    expected = [firsts[0], *[firsts[1]] * 4, firsts[2], *[firsts[3]] * 4]
    assert windows.first_pieces.tolist() == expected


def test_more_questions_than_are_encoded_at_once():
    tokenizer = small_tokenizer()
    answer = (Answer("keeper", 4),)
    questions = [
        Question(str(n), "Who? " * (n % 3), "The keeper." + " It rains." * (n % 2), answer)
        for n in range(9000)
    ]
    windows = encode_windows(questions, tokenizer)
    assert windows.questions.tolist() == list(range(9000))
    rows = rows_of(windows, windows.token_ids)
    for r in (0, 4095, 4096, 8999):
        _, second, target, _, _ = next(naive_rows(questions[r], tokenizer, 384, 128, 64))
        assert windows.second_starts[r] == second
        assert (windows.start_positions[r], windows.end_positions[r]) == target
        assert rows[r][second:-1].tolist() == tokenizer.encode(questions[r].context)


# ---- targets ----


def test_what_is_not_known_is_no_target():
    context = "The keeper wrote."
    keeper = Answer("keeper", 4)
    questions = [
        Question("test", "Who?", context),
        Question("impossible", "Who?", context, (), True),
        Question("unplaced", "Who?", context, (Answer("Bob", None),)),
        Question("second", "Who?", context, (Answer("Bob", None), keeper)),
        Question("blank", "Who?", context, (Answer(" ", 3),)),
    ]
    windows = encode_windows(questions, small_tokenizer())
    sign = np.sign(windows.start_positions)
    assert sign.tolist() == np.sign(windows.end_positions).tolist() == [-1, 0, -1, 1, -1]
    assert windows.impossible.tolist() == [False, True, False, False, False]


def test_a_row_with_only_a_part_of_the_answer_has_none():
    question = Question("1", "on", SEVEN_PIECES, (Answer("or is to", 10),))
    windows = encode_windows([question], small_tokenizer(), 8, 2, 2)
    assert windows.start_positions.tolist() == [0, 3, 0]
    assert windows.end_positions.tolist() == [0, 5, 0]
    assert windows.impossible.tolist() == [True, False, True]


# ---- odd texts ----


@pytest.mark.parametrize("context", ["", " ", "a", "。", "\u200b", "\x00", "a\x00", "\ud800b", "ﷺ"])
@pytest.mark.parametrize("question", ["", "a", "Who?" * 100])
def test_empty_and_tiny_texts_have_a_row(context, question):
    answers = (Answer(context, 0),) if context.strip() else ()
    questions = [Question("1", question, context, answers)] * 2
    windows = check_against_the_naive_loop(questions, small_tokenizer(), 384, 128, 64)
    assert len(windows.questions) == 2


def test_naughty_strings_as_contexts_and_questions(data_folder):
    texts = json.loads((data_folder / "robustness" / "blns.json").read_text())
    questions = [
        Question(str(n), question, context, (Answer(context[1:3], 1),) if context[1:3] else ())
        for n, (question, context) in enumerate(zip(texts, reversed(texts), strict=True))
    ]
    check_against_the_naive_loop(questions, small_tokenizer(), 64, 16, 20)


def test_offsets_of_many_contexts_are_those_of_each_alone():
    tokenizer = small_tokenizer()
    contexts = [PARAGRAPH[n:] + "😀" * (n % 4) for n in range(len(PARAGRAPH))]
    pieces = encode_contexts(contexts, tokenizer)
    for n, context in enumerate(contexts):
        some = slice(*pieces.splits[n : n + 2])
        ids, spans = tokenizer.encode_with_offsets(context)
        assert pieces.ids[some].tolist() == ids
        assert list(zip(pieces.starts[some], pieces.ends[some], strict=True)) == spans


# ---- gold answers of real files ----


def gold_text(windows, r, context):
    shift = windows.first_pieces[r] - windows.second_starts[r]
    first = windows.piece_starts[windows.start_positions[r] + shift]
    return context[first : windows.piece_ends[windows.end_positions[r] + shift]].strip()


def begins_or_ends_inside_a_piece(question, tokenizer):
    answer = question.answers[0]
    edges = answer.start, answer.start + len(answer.text)
    _, spans = tokenizer.encode_with_offsets(question.context)
    return any(start < edge < end for start, end in spans for edge in edges)


@pytest.fixture(scope="module")
def vocabularies(data_folder):
    paths = {
        "30k-clean": data_folder / "vocabulary" / "30k-clean.model",
        "multilingual": data_folder / "cases" / "squad_offsets" / "multilingual_6k.model",
    }
    return {name: Tokenizer.load(path) for name, path in paths.items()}


# How many questions have an answer that begins or ends inside a piece, of how many; and some of
# those answers. To 30k-clean a run of Chinese characters is one unknown piece.
INSIDE = {
    ("30k-clean", "squad11_20articles"): (24, 4639, {"15", "fourteen", "four", "5", "9", "8"}),
    ("30k-clean", "squad2_sample"): (1, 5, {"Father Julius Nieuwl"}),
    ("30k-clean", "xquad.en"): (1, 1190, {"7,000,000 square kilometres (2,70"}),
    ("30k-clean", "xquad.de"): (0, 1190, set()),
    ("30k-clean", "xquad.zh"): (252, 1190, {"136 次", "四次"}),
    ("multilingual", "squad11_20articles"): (12, 4639, {"15", "5", "9", "8"}),
    ("multilingual", "squad2_sample"): (1, 5, {"Father Julius Nieuwl"}),
    ("multilingual", "xquad.en"): (0, 1190, set()),
    ("multilingual", "xquad.de"): (0, 1190, set()),
    ("multilingual", "xquad.zh"): (1, 1190, {"1946 年"}),
}


@pytest.mark.parametrize("vocabulary,name", INSIDE)
def test_gold_spans_of_real_files_give_the_gold_text(data_folder, vocabularies, vocabulary, name):
    tokenizer = vocabularies[vocabulary]
    questions = read_squad(data_folder / "squad" / f"{name}.json").questions
    windows = encode_windows(questions, tokenizer)
    found, other = set(), {}
    for r in np.flatnonzero(windows.start_positions > 0):
        number = windows.questions[r]
        found.add(number)
        question = questions[number]
        if gold_text(windows, r, question.context) != question.answers[0].text.strip():
            other[number] = question
    assert found == {n for n, question in enumerate(questions) if not question.is_impossible}
    count, total, some = INSIDE[vocabulary, name]
    listed = [question.answers[0].text for question in other.values()]
    assert (len(listed), len(found)) == (count, total), listed
    assert some <= set(listed)
    assert all(begins_or_ends_inside_a_piece(question, tokenizer) for question in other.values())


@pytest.mark.parametrize(
    "vocabulary,key,exact", [("30k-clean", "en30k", 117), ("multilingual", "ml6k", 119)]
)
def test_the_recorded_cases(data_folder, vocabularies, vocabulary, key, exact):
    cases = json.loads((data_folder / "cases" / "squad_offsets" / "cases.json").read_text())
    questions = [
        Question(
            f"{n}",
            case["question"],
            case["context"],
            (Answer(case["answer"], case["answer_start"]),),
        )
        for n, case in enumerate(cases)
    ]
    windows = encode_windows(questions, vocabularies[vocabulary])
    rows = np.flatnonzero(windows.start_positions > 0)
    texts = {
        int(windows.questions[r]): gold_text(windows, r, cases[windows.questions[r]]["context"])
        for r in rows
    }
    assert texts == {n: case[key]["covered_text"] for n, case in enumerate(cases)}
    assert sum(texts[n] == case["answer"] for n, case in enumerate(cases)) == exact
    for r in rows:  # the very pieces, not only their text
        case = cases[windows.questions[r]][key]
        first = windows.first_pieces[r] - windows.second_starts[r]
        start_of_context = windows.first_pieces[
            np.searchsorted(windows.questions, windows.questions[r])
        ]
        assert windows.start_positions[r] + first - start_of_context == case["token_start"]
        assert windows.end_positions[r] + first - start_of_context == case["token_end"]
    # By its README 11 contexts have more than 380 pieces; a row of 384 holds fewer.
    assert sum(np.bincount(windows.questions) > 1) >= 11


@pytest.mark.parametrize(
    "lengths", [(67, 128, 64), (384, 0, 64), (384, 128, 0), (384, -1, 64)], ids=str
)
def test_lengths_without_room_are_refused(lengths):
    with pytest.raises(ValueError, match="`max_length` at least.*max_length="):
        encode_windows([Question("1", "", "")], small_tokenizer(), *lengths)


def test_no_question_is_refused():
    with pytest.raises(ValueError, match="must be a question"):
        encode_windows([], small_tokenizer())
