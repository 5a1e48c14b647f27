"""What a configuration costs, by its numbers alone, beside what the models themselves say."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import build_albert, build_pretrainer, save_albert
from albert_keras.analysis import Setting, bert_of, costs_of, parameters_of
from albert_keras.analysis.comparing import PAPER_SPEEDUPS, equal_steps, speedups_by_flops
from albert_keras.analysis.flops import forward_flops, training_flops
from albert_keras.analysis.parameters import HEADS
from albert_keras.config import PRESETS, SharingPattern, config_from

UNEVEN = SharingPattern((0, 1, 2), (0, 1, 1))


def counted(config):
    """Keras's counts of a pretrainer and of its encoder; inside a graph nothing is allocated."""
    with tf.Graph().as_default():
        encoder = build_albert(config)
        return build_pretrainer(encoder).count_params(), encoder.count_params()


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("as_bert", [False, True])
def test_the_parameters_are_those_that_keras_counts(preset, as_bert):
    config = bert_of(PRESETS[preset]) if as_bert else PRESETS[preset]
    found = costs_of(config, Setting(length=8))
    assert (sum(found.parameters.values()), found.encoder_parameters) == counted(config)


@pytest.mark.parametrize(
    "fields",
    [
        *({"sharing": sharing} for sharing in ("attention", "ffn", "none", UNEVEN)),
        {"embedding_size": 24},
        {"embedding_size": 24, "always_project": True},
        {"num_hidden_layers": 6, "sharing": 2, "intermediate_size": 50, "type_vocab_size": 3},
    ],
)
def test_so_they_are_with_any_sharing_and_width(fields):
    config = config_from("tiny", fields)
    parts = parameters_of(config)
    encoder = sum(count for part, count in parts.items() if part not in HEADS)
    assert (sum(parts.values()), encoder) == counted(config)


def test_the_parts_are_the_models_parts():
    config = config_from("tiny", {"sharing": "ffn"})
    encoder = build_albert(config)
    pretrainer = build_pretrainer(encoder)
    parts = parameters_of(config)
    stack = encoder.get_layer("encoder")
    attention, ffn = (
        sum(block.count_params() for block in blocks)
        for blocks in (stack.attention_blocks, stack.ffn_blocks)
    )
    assert (parts["attention"], parts["feed-forward"]) == (attention, ffn)
    assert parts["pooler"] == encoder.get_layer("pooler").count_params()
    assert parts["masked-word head"] == pretrainer.get_layer("masked_lm").count_params()
    assert parts["pair head"] == pretrainer.get_layer("sop").count_params()
    table = encoder.get_layer("embeddings").word_embeddings
    assert parts["token table"] == int(np.prod(table.shape))


def test_the_bert_of_a_size_is_its_preset():
    for albert, bert in (("base", "bert-base"), ("large", "bert-large")):
        same = dataclasses.replace(PRESETS[bert], hidden_act="gelu_tanh")
        assert bert_of(PRESETS[albert]) == same
    assert bert_of(PRESETS["bert-base"]) == PRESETS["bert-base"]


def test_flops_are_twice_the_multiplications_of_the_products():
    # ALBERT-base, as measured peers counted: facts of the products, worked out by hand.
    layers, hidden, inner, embedding, vocabulary = 12, 768, 3072, 128, 30_000
    length, masked = 512, 77
    products = layers * (4 * hidden**2 + 2 * hidden * inner + 2 * length * hidden) * length
    products += embedding * hidden * length
    products += masked * (hidden * embedding + embedding * vocabulary)
    products += hidden**2 + 2 * hidden
    assert sum(forward_flops(PRESETS["base"], length, masked).values()) == 2 * products
    step = training_flops(PRESETS["base"], length, masked)
    again = 2 * layers * length * length * hidden
    assert sum(step.values()) == 6 * products + again


def test_sharing_saves_parameters_and_bytes_to_exchange_but_no_flops():
    shared, unshared = (config_from("base", {"sharing": sharing}) for sharing in ("all", "none"))
    shared, unshared = costs_of(shared), costs_of(unshared)
    assert shared.training_flops == unshared.training_flops
    assert shared.all_reduced_bytes * 7 < unshared.all_reduced_bytes
    assert shared.all_reduced_bytes == 4 * 11_813_810


def test_recomputation_costs_the_layers_once_more():
    kept, again = (
        costs_of(PRESETS["base"], Setting(recompute=recompute)) for recompute in (False, True)
    )
    more = again.training_row_flops - kept.training_row_flops
    layers = ("attention projections", "attention", "feed-forward")
    assert more == sum(kept.inference_flops[part] for part in layers)
    assert again.inference_memory == kept.inference_memory


@pytest.mark.parametrize(
    "fields",
    [
        *({"sharing": sharing} for sharing in ("all", "attention", "none", UNEVEN)),
        {"embedding_size": 24},
        {"num_hidden_layers": 4, "sharing": SharingPattern((0, 1, 0, 1), (0, 1, 0, 1))},
    ],
)
def test_the_checkpoint_is_as_large_as_the_file(tmp_path, fields):
    # More pieces, so that names and shapes in the file's head do not count.
    config = config_from("tiny", {"vocab_size": 20_000, **fields})
    save_albert(build_pretrainer(build_albert(config)), tmp_path / "saved")
    size = (tmp_path / "saved" / "model.safetensors").stat().st_size
    assert costs_of(config, Setting(length=8)).checkpoint_bytes == pytest.approx(size, rel=0.02)


def test_the_speeds_by_flops_are_relative_to_bert_large():
    speeds = speedups_by_flops()
    assert speeds.keys() == PAPER_SPEEDUPS.keys() and speeds["bert-large"] == 1
    # Width and depth decide, sharing does not.
    assert speeds["base"] == pytest.approx(speeds["bert-base"], rel=0.1)
    assert sorted(speeds, key=speeds.get) == sorted(PAPER_SPEEDUPS, key=lambda n: speeds[n])
    assert speeds["xxlarge"] < speeds["xlarge"] < speeds["large"] < speeds["base"]


def test_equal_steps_cost_the_same():
    steps = equal_steps(1000, 7.0, 3.0)
    assert steps * 3.0 == pytest.approx(7000, rel=1e-3)


@pytest.mark.parametrize(
    "setting,fields,words",
    [
        ({"length": 65}, {}, "at most the model's 64 positions. Received: 65"),
        (
            {"length": 8, "recompute": True},
            {"hidden_dropout_prob": 0.1},
            "`recompute` needs a model without dropout. Received: hidden_dropout_prob 0.1",
        ),
        ({"batch": 0}, {}, "`batch` must be an int of at least 1. Received: 0"),
        ({"length": 1.5}, {}, "`length` must be an int of at least 1. Received: 1.5"),
        ({"policy": "float64"}, {}, "`policy` must be one of float32, mixed_bfloat16. Received"),
    ],
)
def test_what_cannot_be_is_refused(setting, fields, words):
    with pytest.raises(ValueError, match=words):
        costs_of(config_from("tiny", fields), Setting(**setting))


def test_costs_need_no_tensorflow():
    code = (
        "import sys; from albert_keras.analysis import costs_of;"
        "from albert_keras.config import PRESETS; costs_of(PRESETS['base']);"
        "print({'tensorflow', 'keras', 'tf_keras'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stdout == "set()\n", process.stderr
