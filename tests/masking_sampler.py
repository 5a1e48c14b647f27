"""N-gram masking in plain loops, written from its description: what `ngram_mask` is compared with.

Shares nothing with the library, neither its code nor its random numbers.
"""

import unicodedata

import numpy as np

SPECIAL, INSIDE, START = 0, 1, 2  # kinds of pieces
_SCRIPTS = "CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"
_SCRIPTS += "IDEOGRAPHIC ITERATION MARK", "IDEOGRAPHIC NUMBER ZERO"


def kind_of(piece: str, wordpiece: bool = False) -> int:
    """The kind of a piece that stands in a row, of a SentencePiece or a WordPiece vocabulary."""
    if piece in ("<pad>", "<unk>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"):
        return SPECIAL
    if wordpiece:
        return INSIDE if piece.startswith("##") else START
    if piece.startswith("▁") or all(unicodedata.category(char)[0] in "PS" for char in piece):
        return START
    # Written without spaces: each piece is a word.
    return START if unicodedata.name(piece[0], "").startswith(_SCRIPTS) else INSIDE


def budget_of(ids, max_predictions, rate=0.15, pad_id=0):
    """How many tokens of a row may be masked."""
    return min(max_predictions, max(1, round(rate * np.count_nonzero(np.asarray(ids) != pad_id))))


def words_of(ids, kinds, longest):
    """Lists of positions, one a word; a word of more than `longest` pieces is cut."""
    words = []
    for position, piece in enumerate(ids):
        if kinds[piece] == SPECIAL:
            continue
        continues = kinds[piece] == INSIDE and words and words[-1][-1] == position - 1
        if continues and len(words[-1]) < longest:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def reference_sample(rng, ids, kinds, max_predictions, ngram=3, rate=0.15):
    """Masked positions of one row: spans of words in a random order, until the budget is full."""
    budget = budget_of(ids, max_predictions, rate)
    words = words_of(ids, kinds, min(8, budget))
    lengths = np.arange(1, ngram + 1)
    weights = 1 / lengths
    drawn_lengths = iter(rng.choice(lengths, size=len(words), p=weights / weights.sum()))
    spans, at = [], 0
    while at < len(words):
        length = next(drawn_lengths)
        drawn, at = words[at : at + length], at + length
        span = [drawn[0]]
        for before, word in zip(drawn, drawn[1:], strict=False):
            if word[0] != before[-1] + 1:  # something special stands between the two
                spans.append(span)
                span = []
            span.append(word)
        spans.append(span)
    taken, passed_over = [], 0
    for index in rng.permutation(len(spans)):
        for word in spans[index]:
            if len(taken) + len(word) <= budget:
                taken += word
            elif passed_over:
                return sorted(taken)
            else:
                passed_over = 1
    return sorted(taken)
