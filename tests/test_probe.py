"""Heads and activation told from weights: a model that learned the paragraph by heart."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints.probe import PARAGRAPHS, probe
from albert_keras.model import build_albert, build_pretrainer, config_of
from albert_keras.reshaping import with_settings
from tests.numpy_albert import softmax
from tests.small_tokenizer import small_tokenizer


def test_right_settings_are_not_contradicted(trained_on_the_paragraph):
    found = probe(trained_on_the_paragraph, small_tokenizer())
    assert [(one.setting, one.value) for one in found] == [
        ("num_attention_heads", 2),
        ("num_attention_heads", 1),
        ("hidden_act", "relu"),
        ("hidden_act", "gelu_tanh"),
        ("hidden_act", "gelu_erf"),
    ]
    assert not any(one.contradicts for one in found)
    assert found[0].gain == found[2].gain == 0 > found[1].gain


def test_a_wrong_head_count_is_found(trained_on_the_paragraph):
    found = probe(with_settings(trained_on_the_paragraph, num_attention_heads=1), small_tokenizer())
    assert [(one.setting, one.value) for one in found if one.contradicts] == [
        ("num_attention_heads", 2)
    ]


def test_a_loss_is_the_mean_over_every_piece_masked_once(trained_on_the_paragraph):
    """Each seventh piece of a row, as documented; the loss of every candidate, in NumPy."""
    tokenizer = small_tokenizer()
    ids = np.array([tokenizer.cls_id, *tokenizer.encode(PARAGRAPHS[0])[:126], tokenizer.sep_id])
    for candidate in probe(trained_on_the_paragraph, tokenizer):
        model = with_settings(trained_on_the_paragraph, **{candidate.setting: candidate.value})
        losses = []
        for first in range(1, 8):
            places = np.arange(first, 127, 7)
            token_ids = ids.copy()
            token_ids[places] = tokenizer.mask_id
            inputs = {
                "token_ids": token_ids[np.newaxis],
                "segment_ids": np.zeros((1, 128)),
                "padding_mask": np.ones((1, 128)),
                "masked_positions": np.pad(places, (0, 20 - len(places)))[np.newaxis],
            }
            inputs = {name: tf.constant(value, tf.int32) for name, value in inputs.items()}
            logits = model(inputs)["mlm_logits"].numpy()[0, : len(places)].astype("float64")
            log_p = np.log(softmax(logits))
            losses += list(-log_p[np.arange(len(places)), ids[places]])
        assert len(losses) == 126
        assert candidate.loss == pytest.approx(np.mean(losses), rel=1e-4)


def test_fewer_masked_positions_than_a_row_needs_make_more_rows(trained_on_the_paragraph):
    encoder = build_albert(config_of(trained_on_the_paragraph))
    small = build_pretrainer(encoder, max_predictions=3)
    small.set_weights(trained_on_the_paragraph.get_weights())
    assert probe(small, small_tokenizer())[0].loss > 0


def test_nothing_is_told_of_weights_that_know_nothing_of_the_text(trained_on_the_paragraph):
    """Random weights, and trained ones whose pieces have changed their ids."""
    untrained = build_pretrainer(build_albert(config_of(trained_on_the_paragraph)))
    assert probe(untrained, small_tokenizer()) == []
    embeddings = untrained.get_layer("embeddings")
    untrained.set_weights(trained_on_the_paragraph.get_weights())
    assert probe(untrained, small_tokenizer()) != []
    table = embeddings.word_embeddings.numpy()
    order = [*range(5), *np.random.default_rng(0).permutation(np.arange(5, len(table)))]
    embeddings.word_embeddings.assign(table[order])
    assert probe(untrained, small_tokenizer()) == []
