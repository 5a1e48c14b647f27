"""Predicted memory beside what a process takes, of a model that is small enough for a test."""

import dataclasses

import pytest

from albert_keras.analysis import Setting, bert_of, costs_of
from albert_keras.analysis.measuring import measured
from albert_keras.analysis.memory import PEAK
from albert_keras.config import PRESETS, config_from

SETTING = Setting(batch=16, length=128)


# In a small model it matters which of its operations run side by side: 69 to 83 MB were measured.
@pytest.mark.parametrize(
    "preset,setting,training,within",
    [("small", SETTING, True, 0.25), ("base", Setting(batch=4, length=128), False, 0.1)],
)
def test_the_peak_is_near_the_measured(preset, setting, training, within):
    found = measured(PRESETS[preset], setting, training=training)
    costs = costs_of(PRESETS[preset], setting)
    memory = costs.training_memory if training else costs.inference_memory
    assert memory[PEAK] == pytest.approx(found.peak_bytes, rel=within)
    # The process has TensorFlow in it as well.
    assert found.process_bytes > found.peak_bytes and found.seconds > 0
    assert found.flops_per_second > 1e8


def test_a_measurement_that_fails_says_why():
    config = config_from("tiny", {"hidden_dropout_prob": 0.1})
    setting = Setting(batch=2, length=8, recompute=True)
    with pytest.raises(RuntimeError, match="did not end: ValueError: A layer that is computed"):
        measured(config, setting, training=True)


def test_a_float32_layer_keeps_what_its_code_says():
    # Nine of width H, two of width I, and one number a query and head; and the output of the
    # embeddings, of whose own gradient three of width E.
    config, setting = PRESETS["base"], Setting(batch=4, length=512)
    a_piece = 12 * (9 * 768 + 2 * 3072 + 12) + 768 + 3 * 128
    assert costs_of(config, setting).training_memory["activations"] == 4 * 2048 * a_piece


def test_memory_grows_as_its_causes_say():
    def memory(config=PRESETS["base"], **changed):
        return costs_of(config, dataclasses.replace(SETTING, **changed)).training_memory

    base, twice = memory(), memory(batch=32)
    assert twice["activations"] == 2 * base["activations"]
    assert twice["weights"] == base["weights"] == base["moments"] / 2
    halved = memory(policy="mixed_bfloat16")
    assert halved["weights"] == base["weights"] and halved["peak"] < 0.65 * base["peak"]
    assert memory(recompute=True)["activations"] < 0.1 * base["activations"]
    # What its layers do not share, a BERT has in weights, moments and gradients.
    bert = memory(bert_of(PRESETS["base"]))
    assert bert["update"] > 7 * base["update"]
    assert bert["activations"] == pytest.approx(base["activations"], rel=0.05)
