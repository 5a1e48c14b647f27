import numpy as np
import pytest
import tensorflow as tf

from albert_keras.config import PRESETS, AlbertConfig, SharingPattern
from albert_keras.layers import NgramMaskedLM
from albert_keras.model import build_albert, build_pretrainer, config_of, encoder_of
from albert_keras.task_models import (
    build_classifier,
    build_multiple_choice,
    build_span_predictor,
)
from tests import numpy_albert
from tests.layer_contract import fill_weights, path_of

pytestmark = [
    pytest.mark.both_kerases,
    # Keras 3 on NumPy 2 says so whenever it saves a variable.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
]

IDS = np.array([[2, 17, 45, 3, 99, 3], [2, 8, 3, 0, 0, 0]])
INPUTS = {
    "token_ids": tf.constant(IDS, tf.int32),
    "segment_ids": tf.constant([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]),
    "padding_mask": tf.constant((IDS > 0).astype("int32")),
}


def number_of_parameters(preset, **overrides):
    """Parameters with pooler, without pooler, and with both heads, from the layers' own weights.

    The models are built inside a graph that is never run, so no weight is ever allocated.
    """
    with tf.Graph().as_default():
        encoder = build_albert(preset, **overrides)
        pretrainer = build_pretrainer(encoder)
        parts = encoder, encoder.get_layer("pooler"), pretrainer.get_layer("masked_lm"), pretrainer
        encoder, pooler, masked_lm, whole = (
            sum(int(np.prod(weight.shape)) for weight in part.weights) for part in parts
        )
    return encoder - pooler, encoder, encoder + masked_lm, whole


# Derived by hand from the paper's architecture: encoder without pooler, with it, with the
# masked-LM head, with both heads. Rounded to a million the shared rows of the paper's tables 1, 3
# and 4 are the second column, its unshared rows the first.
BASE = {
    (64, "all"): (9_090_816, 9_681_408, 9_760_752, 9_762_290),
    (64, "attention"): (61_054_464, 61_645_056, 61_724_400, 61_725_938),
    (64, "ffn"): (35_093_760, 35_684_352, 35_763_696, 35_765_234),
    (64, "none"): (87_057_408, 87_648_000, 87_727_344, 87_728_882),
    (128, "all"): (11_092_992, 11_683_584, 11_812_272, 11_813_810),
    (128, "attention"): (63_056_640, 63_647_232, 63_775_920, 63_777_458),
    (128, "ffn"): (37_095_936, 37_686_528, 37_815_216, 37_816_754),
    (128, "none"): (89_059_584, 89_650_176, 89_778_864, 89_780_402),
    (256, "all"): (15_097_344, 15_687_936, 15_915_312, 15_916_850),
    (256, "attention"): (67_060_992, 67_651_584, 67_878_960, 67_880_498),
    (256, "ffn"): (41_100_288, 41_690_880, 41_918_256, 41_919_794),
    (256, "none"): (93_063_936, 93_654_528, 93_881_904, 93_883_442),
    (768, "all"): (30_524_160, 31_114_752, 31_736_880, 31_738_418),
    (768, "attention"): (82_487_808, 83_078_400, 83_700_528, 83_702_066),
    (768, "ffn"): (56_527_104, 57_117_696, 57_739_824, 57_741_362),
    (768, "none"): (108_490_752, 109_081_344, 109_703_472, 109_705_010),
}


@pytest.mark.parametrize("embedding_size,sharing", BASE)
def test_base_has_the_exact_number_of_parameters(embedding_size, sharing):
    counted = number_of_parameters("base", embedding_size=embedding_size, sharing=sharing)
    assert counted == BASE[embedding_size, sharing]


@pytest.mark.parametrize(
    "groups,expected",
    [
        (1, 11_683_584),
        (2, 18_771_456),
        (3, 25_859_328),
        (4, 32_947_200),
        (6, 47_122_944),
        (12, 89_650_176),
    ],
)
def test_base_in_groups_has_the_exact_number_of_parameters(groups, expected):
    assert number_of_parameters("base", sharing=12 // groups)[1] == expected


# xxlarge: the paper's tables say 235M, its text 233M; no way of counting gives either.
PUBLISHED = {
    "base": (11_092_992, 11_683_584, 11_812_272, 11_813_810),
    "large": (16_634_368, 17_683_968, 17_845_424, 17_847_474),
    "xlarge": (54_528_512, 58_724_864, 59_017_392, 59_021_490),
    "xxlarge": (205_814_272, 222_595_584, 223_150_256, 223_158_450),
    "bert-base": (108_490_752, 109_081_344, 109_703_472, 109_705_010),
    "bert-large": (333_557_760, 334_607_360, 335_689_008, 335_691_058),
}


@pytest.mark.parametrize("preset", PUBLISHED)
def test_presets_have_the_published_number_of_parameters(preset):
    assert number_of_parameters(preset) == PUBLISHED[preset]


def test_every_preset_has_a_row_or_is_our_own():
    assert set(PRESETS) - set(PUBLISHED) == {"small", "tiny"}


@pytest.mark.parametrize("num_layers", [1, 48])
def test_depth_changes_no_count_when_all_is_shared(num_layers):
    assert number_of_parameters("large", num_hidden_layers=num_layers)[1] == 17_683_968


def test_a_count_is_the_size_of_what_is_allocated():
    model = build_pretrainer(build_albert("tiny", sharing="ffn"))
    assert number_of_parameters("tiny", sharing="ffn")[-1] == model.count_params()


def numpy_encoder(weights, sharing_pattern, inputs):
    """The outputs of every layer and the pooled output."""
    token_ids, segment_ids, mask = (np.asarray(v) for v in inputs.values())

    def part(prefix):
        return {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}

    e = part("embeddings/")
    x = e["word_embeddings"][token_ids] + e["token_type_embeddings"][segment_ids]
    x = x + e["position_embeddings"][: token_ids.shape[1]]
    x = numpy_albert.layer_norm(x, e["LayerNorm/gamma"], e["LayerNorm/beta"])
    x = x @ e["embedding_hidden_mapping_in/kernel"] + e["embedding_hidden_mapping_in/bias"]
    layers = [x]
    for attention, ffn in zip(*sharing_pattern, strict=True):
        x = numpy_albert.attention(x, mask, part(f"encoder/attention_{attention}/"), num_heads=2)
        x = numpy_albert.feed_forward(x, part(f"encoder/ffn_{ffn}/"))
        layers.append(x)
    pooler = part("pooler/dense/")
    return layers, np.tanh(x[:, 0] @ pooler["kernel"] + pooler["bias"])


@pytest.mark.parametrize(
    "sharing", ["all", "attention", "ffn", "none", 3, SharingPattern((0, 1, 1), (1, 1, 0))]
)
def test_the_encoder_computes_what_numpy_computes(sharing):
    model = build_albert("tiny", sharing=sharing, output_all_layers=True)
    fill_weights(model)
    weights = {path_of(w): np.asarray(w.numpy(), np.float64) for w in model.weights}
    outputs = model(INPUTS)
    layers, pooled = numpy_encoder(weights, config_of(model).sharing_pattern, INPUTS)
    assert len(outputs["layer_outputs"]) == 4
    for value, expected in zip(outputs["layer_outputs"], layers, strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-4)
    np.testing.assert_array_equal(outputs["sequence_output"], outputs["layer_outputs"][-1])
    np.testing.assert_allclose(outputs["pooled_output"], pooled, atol=1e-4)


def test_padding_changes_nothing_for_the_tokens():
    model = build_albert("tiny")
    whole = model(INPUTS)["sequence_output"][1, :3]
    cut = model({name: value[1:, :3] for name, value in INPUTS.items()})["sequence_output"][0]
    np.testing.assert_allclose(whole, cut, atol=1e-6)


def test_inputs_and_outputs_are_named():
    model = build_albert("tiny")
    assert set(model.input) == {"token_ids", "segment_ids", "padding_mask"}
    assert set(model.output) == {"sequence_output", "pooled_output"}
    assert [layer.name for layer in model.layers if layer.weights] == [
        "embeddings",
        "encoder",
        "pooler",
    ]
    pretrainer = build_pretrainer(model)
    assert set(pretrainer.input) == {*model.input, "masked_positions"}
    assert set(pretrainer.output) == {"mlm_logits", "sop_logits"}


def test_the_pretrainer_predicts_masked_positions_with_the_word_table():
    encoder = build_albert("tiny")
    pretrainer = build_pretrainer(encoder, max_predictions=2)
    fill_weights(pretrainer)
    positions = np.array([[4, 1], [2, 0]])
    outputs = pretrainer({**INPUTS, "masked_positions": tf.constant(positions)})
    encoded = encoder(INPUTS)
    table = encoder.get_layer("embeddings").word_embeddings.numpy()
    weights = {path_of(w): w.numpy() for w in pretrainer.get_layer("masked_lm").weights}
    x = np.stack([encoded["sequence_output"].numpy()[row][positions[row]] for row in range(2)])
    x = x @ weights["masked_lm/dense/kernel"] + weights["masked_lm/dense/bias"]
    x = numpy_albert.layer_norm(
        numpy_albert.gelu_tanh(x),
        weights["masked_lm/LayerNorm/gamma"],
        weights["masked_lm/LayerNorm/beta"],
    )
    expected = x @ table.T + weights["masked_lm/output_bias"]
    np.testing.assert_allclose(outputs["mlm_logits"], expected, atol=1e-4)
    sop = pretrainer.get_layer("sop").dense
    expected = encoded["pooled_output"] @ sop.kernel.numpy() + sop.bias.numpy()
    np.testing.assert_allclose(outputs["sop_logits"], expected, atol=1e-5)


def test_the_pretrainer_never_holds_logits_of_every_position():
    vocabulary, length, slots = 97, 13, 3
    pretrainer = build_pretrainer(build_albert("tiny", vocab_size=vocabulary))
    ids = tf.TensorSpec([2, length], tf.int32)
    inputs = {name: ids for name in INPUTS}
    inputs["masked_positions"] = tf.TensorSpec([2, slots], tf.int32)

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            outputs = pretrainer(inputs, training=True)
            loss = sum(tf.reduce_sum(value) for value in outputs.values())
        return tape.gradient(loss, pretrainer.trainable_weights)

    tensors = [
        t for o in step.get_concrete_function(inputs).graph.get_operations() for t in o.outputs
    ]
    wide = {tuple(t.shape) for t in tensors if t.shape.rank and t.shape[-1] == vocabulary}
    assert (2 * slots, vocabulary) in wide
    assert max(np.prod(shape) for shape in wide) == 2 * slots * vocabulary


def test_the_pretrainer_hands_the_masking_settings_to_its_layer():
    pretrainer = build_pretrainer(
        build_albert("tiny"),
        max_predictions=7,
        ngram=2,
        rate=0.2,
        mask_fraction=1.0,
        random_fraction=0.0,
    )
    layer = pretrainer.get_layer("masked_lm")
    assert isinstance(layer, NgramMaskedLM)
    assert (layer.max_predictions, layer.ngram, layer.rate) == (7, 2, 0.2)
    assert (layer.mask_fraction, layer.random_fraction) == (1.0, 0.0)
    assert pretrainer.output["mlm_logits"].shape[1] == 7


def models_around(encoder):
    """One of every kind, in an order that shows whether one spoils the encoder for the next."""
    return [
        build_multiple_choice(encoder),
        build_span_predictor(encoder),
        build_classifier(encoder, num_labels=2),
        build_pretrainer(encoder),
    ]


def test_heads_share_the_weights_of_the_encoder():
    encoder = build_albert("tiny")
    models = models_around(encoder)
    encoder.get_layer("embeddings").word_embeddings.assign(np.ones((100, 8)))
    for model in models:
        again = encoder_of(model)
        assert again.get_layer("embeddings").word_embeddings.numpy().all()
        assert len(model.trainable_weights) > len(again.trainable_weights)


@pytest.mark.parametrize(
    "config",
    [
        PRESETS["tiny"],
        AlbertConfig(
            vocab_size=31,
            embedding_size=16,
            hidden_size=16,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=20,
            hidden_act="relu",
            hidden_dropout_prob=0.1,
            attention_probs_dropout_prob=0.2,
            max_position_embeddings=9,
            type_vocab_size=3,
            initializer_range=0.03,
            layer_norm_eps=1e-5,
            sharing=SharingPattern((0, 0, 1, 1), (0, 1, 2, 2)),
        ),
    ],
)
def test_the_config_is_read_back_from_any_model_around_the_encoder(config):
    encoder = build_albert(config)
    assert config_of(encoder) == config
    for model in models_around(encoder):
        assert config_of(model) == config


@pytest.mark.parametrize("all_layers", [False, True])
def test_the_encoder_is_taken_back_out_of_a_model_built_around_it(all_layers):
    encoder = build_albert("tiny", output_all_layers=all_layers)
    for model in (*models_around(encoder), encoder):
        again = encoder_of(model)
        expected = encoder(INPUTS)
        if model.name == "albert_span_predictor":
            del expected["pooled_output"]
        assert set(again.output) == set(expected)
        values = tf.nest.flatten(again(INPUTS))
        for value, other in zip(values, tf.nest.flatten(expected), strict=True):
            np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_saved_pretrainer_reloads(tmp_path, policy):
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        model = build_pretrainer(build_albert("tiny", sharing="ffn", hidden_dropout_prob=0.1))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    fill_weights(model)
    model.save(tmp_path / "model.keras")
    reloaded = tf.keras.models.load_model(tmp_path / "model.keras")
    inputs = {**INPUTS, "masked_positions": tf.constant([[1, 2], [1, 0]])}
    for name, value in model(inputs).items():
        assert value.dtype == tf.float32
        np.testing.assert_array_equal(reloaded(inputs)[name], value)
    assert config_of(reloaded) == config_of(model)


def test_one_graph_serves_every_batch_and_length_also_in_xla():
    model = build_albert("tiny")

    @tf.function(jit_compile=True)
    def compiled(inputs):
        return model(inputs)["pooled_output"]

    for batch, length in [(1, 3), (2, 6)]:
        inputs = {name: value[:batch, :length] for name, value in INPUTS.items()}
        np.testing.assert_allclose(compiled(inputs), model(inputs)["pooled_output"], atol=1e-5)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: build_albert("basic"), "A preset is one of base, large, .* Received: 'basic'"),
        (lambda: build_albert(None), "Received: None"),
        (lambda: build_albert("tiny", hiden_size=8), "did you mean 'hidden_size'"),
        (lambda: build_albert("tiny", hidden_size=25), "multiple of `num_attention_heads`"),
        (lambda: build_albert("tiny", hidden_act="gelu"), 'or "gelu_erf"'),
        (lambda: build_albert("tiny", sharing=2), "must divide `num_hidden_layers`"),
        (lambda: build_pretrainer(build_albert("tiny"), rate=2.0), "`rate` must be above 0"),
        (
            lambda: encoder_of(tf.keras.Sequential([tf.keras.layers.Flatten(name="f")])),
            "Received: a model with the layers f",
        ),
        (
            lambda: config_of(tf.keras.Sequential([tf.keras.layers.Flatten(name="f")])),
            "Received: a model with the layers f",
        ),
    ],
)
def test_what_makes_no_model_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_batch_longer_than_the_positions_is_refused():
    model = build_albert("tiny", max_position_embeddings=4)
    with pytest.raises(ValueError, match="Received: length 6, max_positions 4"):
        model(INPUTS)
