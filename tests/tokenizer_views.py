"""Ids of texts through every way into a tokenizer."""

import numpy as np
import tensorflow as tf


def views(tokenizer, texts):
    """The ids of each text for each view: Python, eager, graph, dataset, with offsets, lines."""
    data = [text.encode() for text in texts]
    graph = tf.function(tokenizer.__call__, input_signature=[tf.TensorSpec([None], tf.string)])
    batches = tf.data.Dataset.from_tensor_slices(data).batch(7).map(tokenizer)
    yield [tokenizer.encode(text) for text in texts]
    yield [tokenizer.encode_with_offsets(text)[0] for text in texts]
    yield tokenizer(tf.constant(data)).to_list()
    yield graph(tf.constant(data)).to_list()
    yield [row for batch in batches for row in batch.to_list()]
    yield tokenizer.tokenize_with_offsets(tf.constant(data))[0].to_list()
    for lines in (texts, data):
        values, splits = tokenizer.encode_lines(lines)
        assert values.dtype == np.int32 and splits.dtype == np.int64
        yield [values[a:b].tolist() for a, b in zip(splits[:-1], splits[1:], strict=True)]
