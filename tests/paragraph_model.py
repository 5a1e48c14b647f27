"""A small pretrainer that knows the probe's paragraph by heart."""

import numpy as np
import tensorflow as tf

from albert_keras.checkpoints.probe import PARAGRAPHS
from albert_keras.model import build_albert, build_pretrainer
from tests.small_tokenizer import small_tokenizer

STEPS = 300  # about 100 are enough


def trained_on_the_paragraph() -> tf.keras.Model:
    """Two heads of 32 columns and ReLU, trained on masks of its own until it knows the text."""
    tokenizer = small_tokenizer()
    tf.keras.utils.set_random_seed(0)
    encoder = build_albert(
        "tiny",
        vocab_size=tokenizer.vocab_size,
        hidden_size=64,
        embedding_size=32,
        num_attention_heads=2,
        num_hidden_layers=1,
        intermediate_size=64,
        max_position_embeddings=128,
        hidden_act="relu",
        # Attention must matter: smaller weights learn the text by its positions.
        initializer_range=0.3,
    )
    pretrainer = build_pretrainer(encoder, max_predictions=20)
    ids = np.array([tokenizer.cls_id, *tokenizer.encode(PARAGRAPHS[0])[:126], tokenizer.sep_id])
    rng, optimizer = np.random.default_rng(0), tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            logits = pretrainer(inputs, training=True)["mlm_logits"]
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        variables = pretrainer.trainable_variables
        gradients = tape.gradient(loss, variables)
        # The loss does not reach the pair head.
        pairs = [pair for pair in zip(gradients, variables, strict=True) if pair[0] is not None]
        optimizer.apply_gradients(pairs)
        return loss

    for _ in range(STEPS):
        token_ids, positions = np.tile(ids, (8, 1)), np.zeros((8, 20), int)
        for row in range(8):
            positions[row] = rng.choice(np.arange(1, 127), 20, replace=False)
        labels = np.take_along_axis(token_ids, positions, 1)
        np.put_along_axis(token_ids, positions, tokenizer.mask_id, 1)
        inputs = {"token_ids": token_ids, "masked_positions": positions}
        inputs |= {"segment_ids": 0 * token_ids, "padding_mask": 0 * token_ids + 1}
        inputs = {name: tf.constant(value, tf.int32) for name, value in inputs.items()}
        loss = step(inputs, tf.constant(labels, tf.int32))
        if loss < 1:  # from 6.0; a model that knows every word by heart needs no heads
            return pretrainer
    raise AssertionError(f"The paragraph was not learned in {STEPS} steps: the loss is {loss}.")
