"""The unigram entropy of masked pieces, against distributions whose entropy is known."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.tasks.unigram import unigram_entropy


def batches_of(shares, seed=0, rows=1000, slots=20):
    """Endless batches of masked pieces drawn from `shares`; the last slot of a row is unused."""
    draws = np.random.default_rng(seed)

    def generate():
        while True:
            ids = draws.choice(len(shares), size=(rows, slots), p=shares).astype(np.int32)
            weights = np.ones((rows, slots), np.float32)
            ids[:, -1], weights[:, -1] = 0, 0
            yield {"masked_ids": ids, "masked_weights": weights}

    return tf.data.Dataset.from_generator(
        generate,
        output_signature={
            "masked_ids": tf.TensorSpec([rows, slots], tf.int32),
            "masked_weights": tf.TensorSpec([rows, slots]),
        },
    )


@pytest.mark.parametrize("pieces", [10, 1000, 30_000])
def test_it_is_that_of_the_distribution(pieces):
    shares = 1 / (np.arange(pieces) + 3.0)  # Zipf's, as of pieces in a text
    shares /= shares.sum()
    entropy = -(shares * np.log(shares)).sum()
    # What the correction leaves of the bias for 30,000 pieces, 0.016 on average.
    assert unigram_entropy(batches_of(shares)) == pytest.approx(entropy, abs=0.02)


def test_it_reads_no_more_than_it_needs_and_no_more_than_there_is():
    batch = {"masked_ids": [[5, 6, 6, 5]], "masked_weights": [[1.0, 1.0, 1.0, 0.0]]}
    few = tf.data.Dataset.from_tensors(batch)
    expected = -(1 / 3 * np.log(1 / 3) + 2 / 3 * np.log(2 / 3)) + 1 / 6
    assert unigram_entropy(few) == pytest.approx(expected)
    other = {"masked_ids": [[7, 8, 9, 9]], "masked_weights": [[1.0, 1.0, 1.0, 1.0]]}
    more = few.concatenate(tf.data.Dataset.from_tensors(other))
    assert unigram_entropy(more, tokens=3) == pytest.approx(expected)


def test_batches_without_masked_pieces_are_refused():
    batch = {"masked_ids": [[0]], "masked_weights": [[0.0]]}
    with pytest.raises(ValueError, match="have masked pieces. Received: none"):
        unigram_entropy(tf.data.Dataset.from_tensors(batch).repeat())
