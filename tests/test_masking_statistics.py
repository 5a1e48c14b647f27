"""What n-gram masking draws, in numbers: span lengths, replacements, and real text's masked words.

Draws are seeded, so a test gives the same verdict every time. Tolerances are those of chance: a
chi-square with p above 1e-4, a difference of means below 4.5 standard deviations.
"""

from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import masking
from albert_keras.masking import ngram_mask, span_length_probabilities
from albert_keras.text.sentencepiece_tokenizer import SentencepieceTokenizer
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.vocabulary import train_vocabulary
from albert_keras.text.wordpiece_tokenizer import WordpieceTokenizer
from tests.masking_sampler import (
    INSIDE,
    SPECIAL,
    START,
    budget_of,
    kind_of,
    reference_sample,
    words_of,
)
from tests.original_wordpiece import file_of, vocabulary_of

PAD, CLS, SEP, MASK = 0, 2, 3, 4
LEAST_P = 1e-4
MOST_DEVIATIONS = 4.5


def p_value(observed, probabilities):
    """Of Pearson's chi-square."""
    observed = np.asarray(observed, float).ravel()
    expected = observed.sum() * np.asarray(probabilities, float).ravel()
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(tf.math.igammac((len(observed) - 1) / 2, statistic / 2))


def p_value_of_two(first, second):
    """That two histograms are of one distribution; cells of less than twenty are joined."""
    cells = np.stack([first, second]).astype(float)
    small = cells.sum(axis=0) < 20
    cells = np.concatenate([cells[:, ~small], cells[:, small].sum(axis=1, keepdims=True)], axis=1)
    cells = cells[:, cells.sum(axis=0) > 0]
    shares = cells.sum(axis=0) / cells.sum()
    expected = cells.sum(axis=1, keepdims=True) * shares
    statistic = ((cells - expected) ** 2 / expected).sum()
    freedom = cells.shape[1] - 1
    return float(tf.math.igammac(freedom / 2, statistic / 2)) if freedom else 1.0


@pytest.mark.parametrize(
    "ngram,expected",
    [
        (1, [Fraction(1)]),
        (2, [Fraction(2, 3), Fraction(1, 3)]),
        (3, [Fraction(6, 11), Fraction(3, 11), Fraction(2, 11)]),
        (4, [Fraction(12, 25), Fraction(6, 25), Fraction(4, 25), Fraction(3, 25)]),
    ],
)
def test_p_of_n_is_that_of_the_paper_and_the_original(ngram, expected):
    np.testing.assert_allclose(
        span_length_probabilities(ngram), np.array(expected, float), rtol=1e-15
    )
    # create_pretraining_data.py of google-research/albert.
    pvals = 1.0 / np.arange(1, ngram + 1)
    pvals /= pvals.sum(keepdims=True)
    np.testing.assert_array_equal(span_length_probabilities(ngram), pvals)


@pytest.mark.parametrize("ngram", [1, 2, 3, 10])
def test_a_million_drawn_span_lengths_follow_p_of_n(ngram):
    length = 4096
    complete = length // ngram  # so many spans end within the row whatever their lengths
    rows = -(-1_000_000 // complete)
    ordinary = tf.ones([rows, length], tf.bool)
    draw = tf.random.stateless_uniform(
        [rows, length], [11, ngram], minval=None, maxval=None, dtype=tf.uint32, alg="philox"
    )
    spans = masking._span_numbers(ordinary, ordinary, draw, ngram).numpy()
    # A span's first word is where the number changes; its length is the way to the next.
    firsts = np.diff(spans, axis=1, prepend=-1) > 0
    lengths = np.stack(
        [np.diff(np.flatnonzero(row), append=length)[: complete - 1] for row in firsts]
    )
    assert lengths.min() == 1 and lengths.max() == ngram
    assert lengths.size >= 1_000_000 - rows
    harmonic = sum(Fraction(1, n) for n in range(1, ngram + 1))
    expected = np.array([float(Fraction(1, n) / harmonic) for n in range(1, ngram + 1)])
    if ngram > 1:
        observed = np.bincount(lengths.ravel(), minlength=ngram + 1)[1:]
        assert p_value(observed, expected) > LEAST_P
        # A length says nothing about the next one.
        pairs = (lengths[:, 0:-1:2] - 1) * ngram + lengths[:, 1::2][:, : lengths.shape[1] // 2] - 1
        observed = np.bincount(pairs.ravel(), minlength=ngram * ngram)
        assert p_value(observed, np.outer(expected, expected)) > LEAST_P


def test_a_million_masked_tokens_are_replaced_80_10_10_each_alone():
    size = 30_000
    kinds = np.full(size, START, np.int8)
    kinds[:5] = kinds[1000:1141] = SPECIAL
    ordinary = np.flatnonzero(kinds)
    ids = np.random.default_rng(2).choice(ordinary, (4000, 512)).astype(np.int32)
    result = ngram_mask(ids, kinds, [21, 22], max_predictions=256, rate=0.5)
    assert result["masked_weights"].numpy().all()  # 1,024,000 of them
    positions, before = result["masked_positions"].numpy(), result["masked_ids"].numpy()
    after = np.take_along_axis(result["token_ids"].numpy(), positions, axis=1)
    fate = np.where(after == MASK, 0, np.where(after == before, 1, 2))
    the_same_by_chance = 0.1 / len(ordinary)
    shares = np.array([0.8, 0.1 + the_same_by_chance, 0.1 - the_same_by_chance])
    assert p_value(np.bincount(fate.ravel()), shares) > LEAST_P
    # Masked neighbours, which mostly are of one span, do not share their fate.
    neighbours = np.diff(positions, axis=1) == 1
    neighbours[:, 1::2] = False  # each token in one pair at most
    pairs = (fate[:, :-1] * 3 + fate[:, 1:])[neighbours]
    assert len(pairs) > 200_000
    assert p_value(np.bincount(pairs, minlength=9), np.outer(shares, shares)) > LEAST_P
    random = np.bincount(after[fate == 2], minlength=size)
    assert not random[kinds == SPECIAL].any()
    even = np.full(len(ordinary), 1 / len(ordinary))
    assert p_value(random[ordinary], even) > LEAST_P


def test_other_shares_of_replacements_are_kept_too():
    kinds = np.array([SPECIAL] * 5 + [START] * 20 + [INSIDE] * 20, np.int8)
    result = ngram_mask(
        np.full((800, 128), 7),
        kinds,
        [1, 5],
        max_predictions=19,
        mask_fraction=0.0,
        random_fraction=1.0,
    )
    ids, positions = result["token_ids"].numpy(), result["masked_positions"].numpy()
    drawn = np.bincount(np.take_along_axis(ids, positions, axis=1).ravel(), minlength=45)
    assert not drawn[:5].any()
    assert p_value(drawn[5:], np.full(40, 1 / 40)) > LEAST_P


def lines_of(path, characters):
    return [line for line in path.read_text("utf-8")[:characters].split("\n") if line.strip()]


def trained(lines, vocab_size, keep_accents=False, **options):
    model = train_vocabulary(lines, vocab_size, keep_accents=keep_accents, **options)
    return SentencepieceTokenizer(model, keep_accents=keep_accents)


def english(data):
    novels = data / "corpus" / "eltec-eng"
    lines = lines_of(novels / "ENG18652_Carroll.txt", 60_000)
    lines += lines_of(novels / "ENG18721_Eliot.txt", 60_000)
    return Tokenizer.load(data / "vocabulary" / "30k-clean.model"), lines


def german(data):
    lines = lines_of(data / "corpus" / "eltec-deu" / "DEU001.txt", 100_000)
    return trained(lines, 2000, keep_accents=True), lines


def chinese(data):
    lines = lines_of(data / "corpus" / "wikipedia" / "xquad_wikipedia_zh.txt", 60_000)
    return trained(lines, 3000, character_coverage=0.99), lines


def chinese_wordpiece(data):
    lines = lines_of(data / "corpus" / "wikipedia" / "xquad_wikipedia_zh.txt", 60_000)
    return WordpieceTokenizer(file_of(vocabulary_of(lines, 1200))), lines


def japanese(data):
    lines = lines_of(data / "corpus" / "wikipedia" / "jaquad_wikipedia_ja.txt", 60_000)
    return trained(lines, 3000, character_coverage=0.99), lines


def rows_of(tokenizer, lines, rows, length):
    """Segment pairs of a running text, a fifth of them shorter."""
    ids = iter(tokenizer.encode_lines(lines)[0].tolist())
    draws = np.random.default_rng(5)
    result = np.full((rows, length), PAD, np.int32)
    for number, row in enumerate(result):
        used = length if number % 5 else int(draws.integers(8, length))
        boundary = int(draws.integers(2, used - 2))
        row[:used] = [next(ids) for _ in range(used)]
        row[[0, boundary, used - 1]] = CLS, SEP, SEP
    return result


STATISTICS = (
    *("masked tokens", "masked words", "masked tokens in the first half"),
    *(f"runs of {n} masked words" for n in (1, 2, 3, 4, "5 or more")),
    *(f"masked words of {n} pieces" for n in (1, 2, "3 or more")),
)


def statistics_of(words, masked, length):
    """One number for each of STATISTICS; `masked`, S booleans, says which positions are."""
    runs, sizes = [0] * 5, [0] * 3
    run, before = 0, None
    for word in words:
        hidden = masked[word[0]]
        assert all(masked[position] == hidden for position in word), "whole words only"
        joined = before is not None and word[0] == before + 1
        if run and not (hidden and joined):
            runs[min(run, 5) - 1] += 1
            run = 0
        if hidden:
            run += 1
            sizes[min(len(word), 3) - 1] += 1
        before = word[-1]
    if run:
        runs[min(run, 5) - 1] += 1
    return [sum(masked), sum(sizes), sum(masked[: length // 2]), *runs, *sizes]


@pytest.mark.parametrize(
    "text,ngram,length,least_fill",
    [
        (english, 3, 128, 0.98),
        (english, 1, 128, 0.98),
        (english, 8, 128, 0.98),
        (english, 3, 512, 0.98),
        (german, 3, 128, 0.95),
        (chinese, 3, 128, 0.98),
        (chinese_wordpiece, 3, 128, 0.98),
        (japanese, 3, 128, 0.98),
    ],
)
def test_masked_words_of_real_text_are_those_of_an_independent_sampler(
    text, ngram, length, least_fill, data_folder
):
    tokenizer, lines = text(data_folder)
    compare_with_the_sampler(tokenizer, lines, ngram, length, least_fill)


def test_masked_words_of_thai_are_those_of_an_independent_sampler():
    words = (
        "ประเทศ ไทย ภาษา น้ำ คน มาก เป็น ที่ และ การ ความ ใน มี ไม่ ได้ ให้ วัน นี้ ปี บ้าน เมือง "
        "ใหญ่ เล็ก โรงเรียน หนังสือ ดี เรียน รู้ ทำงาน ฝน ตก แดด ออก ทะเล ภูเขา แม่น้ำ 2566 online"
    ).split()
    draws = np.random.default_rng(4)
    lines = [
        " ".join("".join(draws.choice(words, 12)) for _ in range(6)) for _ in range(400)
    ]  # a space ends a phrase, not a word
    tokenizer = trained(lines, 150, keep_accents=True)
    compare_with_the_sampler(tokenizer, lines, ngram=5, length=128, least_fill=0.98)


def compare_with_the_sampler(tokenizer, lines, ngram, length, least_fill):
    """Masks each of some rows many times by `ngram_mask` and many times by the sampler."""
    rows, draws = 5120 // length, 60
    slots = round(0.15 * length)
    ids = rows_of(tokenizer, lines, rows, length)
    kinds = tokenizer.piece_kinds
    own_kinds = np.zeros_like(kinds)
    for piece in np.unique(ids):
        own_kinds[piece] = kind_of(
            tokenizer.piece(piece), wordpiece=isinstance(tokenizer, WordpieceTokenizer)
        )
    np.testing.assert_array_equal(kinds[ids], own_kinds[ids])
    assert {SPECIAL, INSIDE, START} == set(own_kinds[ids].ravel().tolist())

    result = ngram_mask(
        np.repeat(ids, draws, axis=0), kinds, [31, 32], max_predictions=slots, ngram=ngram
    )
    positions = result["masked_positions"].numpy()
    used = result["masked_weights"].numpy() > 0
    masked = np.zeros((rows * draws, length + 1), bool)
    np.put_along_axis(masked, np.where(used, positions, length), True, axis=1)
    masked = masked[:, :length].reshape(rows, draws, length)

    rng = np.random.default_rng(6)
    ours, theirs = np.zeros((2, rows, draws, len(STATISTICS)))
    budgets = np.array([budget_of(row, slots) for row in ids])
    for row in range(rows):
        words = words_of(ids[row], own_kinds, min(8, budgets[row]))
        for draw in range(draws):
            drawn = [False] * length
            for position in reference_sample(rng, ids[row], own_kinds, slots, ngram):
                drawn[position] = True
            theirs[row, draw] = statistics_of(words, drawn, length)
            ours[row, draw] = statistics_of(words, masked[row, draw].tolist(), length)

    # Of the same rows, so that the spread between rows is no noise.
    difference = (ours - theirs).mean(axis=(0, 1))
    variance = (ours.var(axis=1, ddof=1) + theirs.var(axis=1, ddof=1)).mean(axis=0) / (rows * draws)
    for name, deviations in zip(
        STATISTICS, difference / np.sqrt(np.maximum(variance, 1e-12)), strict=True
    ):
        assert abs(deviations) < MOST_DEVIATIONS, name

    unfilled = [
        np.bincount((budgets[:, None] - sample[..., 0]).astype(int).ravel(), minlength=slots)
        for sample in (ours, theirs)
    ]
    assert p_value_of_two(*unfilled) > LEAST_P
    assert ours[..., 0].sum() / (budgets.sum() * draws) > least_fill
