"""A pretraining batch of random pieces, for measurements."""

import numpy as np


def random_batch(
    rows: int, length: int, masked: int, vocab_size: int = 30_000
) -> dict[str, np.ndarray]:
    """Full rows, but for the last one, an eighth of which is padding, so that the mask matters.

    Args:
        rows: B.
        length: S.
        masked: M, masked positions of a row.
        vocab_size: V. Default 30,000.
    """
    draws = np.random.default_rng(0)
    padding_mask = np.ones((rows, length), np.int32)
    padding_mask[-1, length - length // 8 :] = 0
    return {
        "token_ids": draws.integers(5, vocab_size, (rows, length)).astype(np.int32),
        "segment_ids": np.repeat([[0] * (length // 2) + [1] * (length - length // 2)], rows, 0),
        "padding_mask": padding_mask,
        "masked_positions": draws.integers(1, length, (rows, masked)).astype(np.int32),
        "masked_ids": draws.integers(5, vocab_size, (rows, masked)).astype(np.int32),
        "masked_weights": np.ones((rows, masked), np.float32),
        "sop_labels": draws.integers(0, 2, rows).astype(np.int32),
        "sop_weights": np.ones(rows, np.float32),
    }
