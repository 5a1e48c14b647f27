"""N-gram masking: the one implementation, a pure function of (token ids, seed)."""

import numpy as np
import tensorflow as tf

from albert_keras.recipes import prediction_slots

# The kinds of pieces in `piece_kinds`; `albert_keras.text` computes the vector of a vocabulary.
SPECIAL = 0  # never masked, never drawn as a random replacement, ends a word and a span
INSIDE = 1  # continues the word before it
START = 2  # starts a word

# A longer run without a word start (a URL, a script written without spaces) would fill a budget.
MAX_WORD_PIECES = 8


def span_length_probabilities(ngram: int) -> np.ndarray:
    """p(n) = (1/n) / sum(1/k) for n = 1..ngram: 6/11, 3/11, 2/11 for 3 (ALBERT, section 3.1)."""
    weights = 1 / np.arange(1, ngram + 1)
    return weights / weights.sum()


def prediction_budgets(length: int, max_predictions: int, rate: float) -> np.ndarray:
    """Predictions allowed in a row, indexed by its number of non-padding tokens, 0..length."""
    return np.array(
        [min(max_predictions, prediction_slots(tokens, rate)) for tokens in range(length + 1)],
        np.int32,
    )


def ngram_mask(
    token_ids,
    piece_kinds,
    seed,
    *,
    max_predictions: int,
    mask_id: int = 4,
    pad_id: int = 0,
    ngram: int = 3,
    rate: float = 0.15,
    mask_fraction: float = 0.8,
    random_fraction: float = 0.1,
) -> dict[str, tf.Tensor]:
    """Hides whole words of each row, in spans of 1..ngram words, for masked-LM training.

    The words of a row are cut into consecutive spans whose lengths are drawn from p(n); a span
    that meets a special piece ends there, and its rest is a span of its own. Every span gets a
    random key, and spans are taken in the order of their keys until the budget is full. The span
    that would go over the budget is shortened to its first words that fit, as the original
    retries a shorter n. The word that did not fit is passed over and the words after it fill the
    rest, up to the next that does not fit; the original goes on to the end of its list. Each taken
    token is then replaced by `[MASK]` (80 %), by a random ordinary piece (10 %) or not at all
    (10 %).

    A word is a START piece and the INSIDE pieces after it; an INSIDE piece after a special one
    starts a word too. A word of more than 8 pieces, or of more than the row's budget, is cut.

    There are no loops and no dynamic shapes, and the random draws are stateless integers of
    Philox, so eager, graph and XLA give equal results for equal seeds.

    Args:
        token_ids: int32 [B, S], S known; with `[CLS]`, `[SEP]` and padding in place.
        piece_kinds: int8 [V], one of SPECIAL, INSIDE, START for each piece; known values (a NumPy
            array or an eager tensor), since it is a constant of the vocabulary.
        seed: integers [2]; one pair of values gives one masking.
        max_predictions: M, the slots of a row, >= 1.
        mask_id: id of `[MASK]`, default 4.
        pad_id: id of padding, which does not count towards the budget, default 0.
        ngram: N, longest span in words, >= 1, default 3.
        rate: share of the non-padding tokens to predict, in (0, 1], default 0.15. The budget of a
            row is min(M, max(1, round(rate * tokens))).
        mask_fraction: share of the predicted tokens that become `[MASK]`, default 0.8.
        random_fraction: share of them that become a random piece, default 0.1.

    Returns:
        `token_ids` int32 [B, S] with the replacements; `masked_positions` int32 [B, M], ascending;
        `masked_ids` int32 [B, M], the ids before; `masked_weights` float32 [B, M]. Unused slots
        come last and have position 0, id 0 and weight 0.

    Raises:
        ValueError: an argument out of its range, or shapes that are not as above.

    Example:
        >>> kinds = np.array([0, 0, 0, 0, 0, 2, 1, 2, 2, 2], np.int8)
        >>> row = [[2, 5, 6, 7, 8, 9, 3, 0]]  # [CLS] three words of one piece, one of two [SEP]
        >>> ngram_mask(row, kinds, [1, 2], max_predictions=4, rate=0.5)["masked_positions"].shape
        TensorShape([1, 4])

    Reference: ALBERT, arXiv 1909.11942, section 3.1; SpanBERT, arXiv 1907.10529.
    """
    token_ids = tf.cast(tf.convert_to_tensor(token_ids), tf.int32)
    kinds_of_pieces = _known_kinds(piece_kinds)
    length = _checked_length(token_ids)
    _check(max_predictions, ngram, rate, mask_fraction, random_fraction)

    # One draw for everything: word 0 gives span lengths, 1 span keys, 2 what replaces a token.
    # Full-range integers, because float draws differ between graph and XLA.
    batch = tf.shape(token_ids)[0]
    length_draw, key_draw, action_draw = tf.unstack(
        tf.random.stateless_uniform(
            [3, batch, length], seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox"
        )
    )  # each [B, S]

    kinds = tf.gather(tf.constant(kinds_of_pieces), token_ids)  # [B, S]
    tokens = tf.reduce_sum(tf.cast(token_ids != pad_id, tf.int32), axis=1)  # [B]
    budget = tf.gather(prediction_budgets(length, max_predictions, rate), tokens)[:, None]

    ordinary = kinds != SPECIAL
    starts = _word_starts(kinds, ordinary, tf.minimum(budget, MAX_WORD_PIECES))
    span = _span_numbers(starts, ordinary, length_draw, ngram)
    keys = _token_keys(span, starts, ordinary, key_draw)  # [B, S]

    # Tokens in the order of their spans' keys, as many as a row can look at: what it predicts, a
    # word that is passed over, and the start of the next.
    looked_at = max_predictions + 1 + MAX_WORD_PIECES
    ranked = tf.math.top_k(keys, min(looked_at, length)).values
    ranked = tf.pad(ranked, [[0, 0], [0, looked_at - ranked.shape[1]]], constant_values=-1)
    taken = _taken(ranked, budget)

    # The position is kept reversed in the key, so falling order is that of the row.
    reverse_position = tf.bitwise.bitwise_and(ranked // 2, 2 ** _position_bits(length) - 1)
    reverse_position = tf.where(taken(ranked), reverse_position, -1)
    reverse_position = tf.math.top_k(reverse_position, max_predictions).values
    used = reverse_position >= 0
    positions = tf.where(used, length - 1 - reverse_position, 0)
    weights = tf.cast(used, tf.float32)

    replaced = _replace(
        token_ids, action_draw, kinds_of_pieces, mask_id, mask_fraction, random_fraction
    )
    return {
        "token_ids": tf.where(taken(keys), replaced, token_ids),
        "masked_positions": positions,
        "masked_ids": tf.gather(token_ids, positions, batch_dims=1) * tf.cast(used, tf.int32),
        "masked_weights": weights,
    }


def _word_starts(kinds, ordinary, longest):
    """Bool [B, S]: a word starts here. `longest` [B, 1] is the most pieces a word may have."""
    before = tf.pad(kinds[:, :-1], [[0, 0], [1, 0]])  # the row begins after a special piece
    starts = (kinds == START) | (ordinary & (before == SPECIAL))
    word = tf.cumsum(tf.cast(starts, tf.int32), axis=1)
    # Word numbers ascend, so a binary search for its own number finds a word's first piece.
    piece = tf.range(kinds.shape[1]) - tf.searchsorted(word, word, side="left")
    return ordinary & (piece % longest == 0)


def _span_numbers(starts, ordinary, draw, ngram):
    """Int32 [B, S]: the number of the span of each token; tokens of one span share it."""
    word = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1
    bounds = np.floor(np.cumsum(span_length_probabilities(ngram))[:-1] * 2**32).astype(np.uint32)
    drawn = 1 + tf.add_n(
        [tf.cast(draw >= bound, tf.int32) for bound in bounds] or [tf.zeros_like(word)]
    )
    span = tf.searchsorted(tf.cumsum(drawn, axis=1), word, side="right")
    # Both terms ascend along the row, so two tokens share a sum only where they share both.
    return span + tf.cumsum(tf.cast(~ordinary, tf.int32), axis=1, exclusive=True)


def _position_bits(length):
    return max(1, (length - 1).bit_length())


def _token_keys(span, starts, ordinary, draw):
    """Int32 [B, S] sort keys, falling: the span's random bits, the position reversed, "a word
    starts here". Special tokens get -1: they come last, and a list of whole words may end there.
    """
    length = span.shape[1]
    low_bits = _position_bits(length) + 1
    random = tf.cast(tf.bitwise.right_shift(draw, tf.constant(low_bits + 1, tf.uint32)), tf.int32)
    of_span = tf.gather(random, span, batch_dims=1)
    low = (length - 1 - tf.range(length)) * 2 + tf.cast(starts, tf.int32)
    return tf.where(ordinary, of_span * 2**low_bits + low, -1)


def _taken(ranked, budget):
    """Function of keys that says which tokens are taken.

    `ranked` [B, K] has falling keys, so where a word starts, the tokens before it are whole words.
    Taken are the words up to the last such place within the budget; the next word did not fit and
    is passed over; and the words behind it are taken as far as the budget goes.

    To pass over one word costs 5 % of the time of a batch, as each further one would, and in rows
    of 64 pieces fills the budget to 99.8 % instead of 97.8 (English, 4,000 pieces), or to 92
    instead of 82 where words have many pieces (a vocabulary of 100).
    """
    size = ranked.shape[1]
    rank = tf.range(size)
    word_start = tf.where(tf.bitwise.bitwise_and(ranked, 1) == 1, rank, size)  # else beyond

    within = word_start <= budget
    end = tf.reduce_max(tf.where(within, rank, 0), axis=1, keepdims=True)
    behind = tf.reduce_min(tf.where(within, size, word_start), axis=1, keepdims=True)
    within_more = word_start <= budget + (behind - end)
    # Keys of the tokens at those ranks.
    lowest = tf.int32.max
    passed_over = tf.reduce_min(tf.where(within, ranked, lowest), axis=1, keepdims=True)
    last = tf.reduce_min(tf.where(within_more, ranked, lowest), axis=1, keepdims=True)
    next_word = tf.reduce_min(tf.where(rank <= behind, ranked, lowest), axis=1, keepdims=True)
    return lambda keys: (keys > last) & ((keys > passed_over) | (keys <= next_word))


def _replace(token_ids, action, kinds, mask_id, mask_fraction, random_fraction):
    """Int32 [B, S]: what stands at a position if it is predicted, drawn for each token alone."""
    pieces = np.flatnonzero(kinds != SPECIAL).astype(np.int32)
    # The same draw: where it says "random" it lies in a range of 430 million, so its remainder is
    # even to one in ten thousand for 30,000 pieces.
    random = tf.gather(pieces, tf.cast(action % len(pieces), tf.int32))
    mask_below, random_below = (
        min(round(share * 2**32), 2**32 - 1)
        for share in (mask_fraction, mask_fraction + random_fraction)
    )
    kept_or_random = tf.where(action < random_below, random, token_ids)
    return tf.where(action < mask_below, mask_id, kept_or_random)


def _known_kinds(piece_kinds):
    if tf.is_tensor(piece_kinds) and not hasattr(piece_kinds, "numpy"):
        raise ValueError(
            "`piece_kinds` must have known values. Received a symbolic tensor: pass the NumPy "
            "vector of the vocabulary, not an argument of a traced function."
        )
    kinds = np.asarray(piece_kinds, np.int8)
    if kinds.ndim != 1 or not np.isin(kinds, (SPECIAL, INSIDE, START)).all():
        raise ValueError(
            "`piece_kinds` must be a vector of 0 (special), 1 (inside a word) and 2 (starts a "
            f"word). Received: shape {kinds.shape}, values {np.unique(kinds)[:10].tolist()}."
        )
    if not kinds.any():
        raise ValueError("`piece_kinds` has no ordinary piece, so nothing could ever be masked.")
    return kinds


def _checked_length(token_ids):
    if token_ids.shape.rank != 2 or not token_ids.shape[1]:
        raise ValueError(
            "`token_ids` must have shape [B, S] with S known and at least 1. "
            f"Received: {token_ids.shape}."
        )
    return token_ids.shape[1]


def _check(max_predictions, ngram, rate, mask_fraction, random_fraction):
    if max_predictions < 1 or ngram < 1:
        raise ValueError(
            "`max_predictions` and `ngram` must be at least 1. "
            f"Received: {max_predictions} and {ngram}."
        )
    if not 0 < rate <= 1:
        raise ValueError(f"`rate` must be in (0, 1]. Received: {rate}.")
    if min(mask_fraction, random_fraction) < 0 or mask_fraction + random_fraction > 1:
        raise ValueError(
            "`mask_fraction` and `random_fraction` must be shares that sum to at most 1. "
            f"Received: {mask_fraction} and {random_fraction}."
        )
