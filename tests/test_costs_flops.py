"""FLOPs beside the count of TensorFlow's profiler, of the graph of a whole training step."""

import contextlib
import io

import pytest
import tensorflow as tf

from albert_keras import Lamb, build_albert, build_pretrainer, with_pretraining_loss
from albert_keras.analysis import Setting, bert_of, costs_of
from albert_keras.analysis.random_batch import random_batch
from albert_keras.config import PRESETS, SharingPattern, config_from

UNEVEN = SharingPattern((0, 1, 2), (0, 1, 1))
PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
# Wide enough that biases and norms, which are not products, are the small part that they are in
# the paper's sizes.
SMALL = {"hidden_size": 96, "intermediate_size": 384, "embedding_size": 32, "vocab_size": 500}


def profiled(function, *arguments):
    """FLOPs of the matrix products in the graph of a function, and of all its operations."""
    graph = tf.function(function).get_concrete_function(*arguments).graph
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation())
    with contextlib.redirect_stdout(io.StringIO()):
        found = profiler.profile(graph, cmd="op", options=options.with_empty_output().build())
    each, node = {}, found
    while node.children:  # one below the other
        (node,) = node.children
        each[node.name] = node.float_ops
    products = sum(count for name, count in each.items() if name in PRODUCTS)
    return products, found.total_float_ops


def step_and_answer(config, setting):
    """What the profiler counts of a training step, and of an encoder's answer."""
    encoder = build_albert(config, recompute=setting.recompute)
    model = with_pretraining_loss(build_pretrainer(encoder, max_predictions=setting.masked))
    model.compile(Lamb(1e-4))
    batch = random_batch(setting.batch, setting.length, setting.masked, config.vocab_size)
    batch = {
        name: tf.constant(values, tf.int32 if values.dtype.kind == "i" else tf.float32)
        for name, values in batch.items()
    }
    inputs = {name: batch[name] for name in encoder.input}
    return (
        profiled(model.train_step, batch),
        profiled(lambda inputs: encoder(inputs, training=False), inputs),
    )


def check(config, setting):
    costs = costs_of(config, setting)
    predicted = costs.training_row_flops, costs.inference_row_flops
    for one, (products, whole) in zip(predicted, step_and_answer(config, setting), strict=True):
        assert one * setting.batch == products
        assert one * setting.batch == pytest.approx(whole, rel=0.1)


@pytest.mark.parametrize(
    "fields,recompute",
    [
        *(({"sharing": sharing}, False) for sharing in ("all", "attention", "ffn", "none", UNEVEN)),
        ({"embedding_size": 96}, False),
        ({"attention_probs_dropout_prob": 0.1}, False),
        ({}, True),
        ({"sharing": UNEVEN}, True),
    ],
)
def test_a_small_model_has_the_flops_that_the_profiler_counts(fields, recompute):
    config = config_from("tiny", {**SMALL, **fields})
    check(config, Setting(batch=3, length=40, recompute=recompute))


@pytest.mark.parametrize("batch,length", [(16, 128), (4, 512)])
def test_base_has_the_flops_that_the_profiler_counts(batch, length):
    check(PRESETS["base"], Setting(batch, length))


def test_so_has_the_bert_of_a_size():
    check(bert_of(config_from("tiny", SMALL)), Setting(batch=2, length=24))
