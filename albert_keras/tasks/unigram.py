"""The unigram entropy of masked pieces: what guessing by frequency alone costs."""

import numpy as np
import tensorflow as tf

_MOST_BATCHES = 10_000


def unigram_entropy(batches: tf.data.Dataset, tokens: int = 500_000) -> float:
    """The entropy of the frequencies of the masked pieces, in nats.

    It is the lowest masked-language-model loss of a model that does not look at its input. Read
    from the first batches that hold `tokens` masked pieces, and corrected for the rare ones among
    so few (Miller and Madow: plus (pieces seen - 1) / (2 tokens)).

    Args:
        batches: of `pretraining_batches`; may be endless.
        tokens: int > 0, masked pieces to count. Default 500,000, for an error below 0.02 nats with
            30,000 pieces.

    Raises:
        ValueError: no piece is masked.

    Example:

    >>> batch = {"masked_ids": [[5, 6, 7, 0]], "masked_weights": [[1.0, 1.0, 1.0, 0.0]]}
    >>> batches = tf.data.Dataset.from_tensors(batch).repeat()
    >>> f"{unigram_entropy(batches, 3000):.4f} = log(3) + (3 - 1) / 6000"
    '1.0989 = log(3) + (3 - 1) / 6000'

    Reference:
        Paninski 2003, section 4, https://doi.org/10.1162/089976603321780272
    """
    counts = np.zeros(1)
    for batch in batches.take(_MOST_BATCHES):
        ids, weights = (batch[name].numpy().ravel() for name in ("masked_ids", "masked_weights"))
        more = np.bincount(ids, weights, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
        if counts.sum() >= tokens:
            break
    seen = counts[counts > 0]
    if not len(seen):
        raise ValueError(
            "Batches to pretrain on have masked pieces. Received: none in the first "
            f"{_MOST_BATCHES:,} batches. Use longer texts or a higher mask rate."
        )
    total = seen.sum()
    shares = seen / total
    return float(-(shares * np.log(shares)).sum() + (len(seen) - 1) / (2 * total))
