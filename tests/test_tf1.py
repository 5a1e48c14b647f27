"""Google's TF1 checkpoints: the golden weights give the golden numbers, and go back bit by bit."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints.tf1 import CHECKPOINT, config_from_google, read_tf1, write_tf1
from albert_keras.layers import SOP_IN_ORDER
from albert_keras.model import build_albert, build_pretrainer, config_of
from albert_keras.rebuilding import weights_in
from albert_keras.task_models import (
    build_answerable_span_predictor,
    build_classifier,
    build_multiple_choice,
    build_span_predictor,
)
from tests.test_checkpoints import filled
from tests.test_goldens import TOLERANCE, original_weights

pytestmark = pytest.mark.both_kerases


def model_in(source, **allowed):
    return read_tf1(source, **allowed)[0]


def save(prefix, tensors):
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[np.ascontiguousarray(array) for array in tensors.values()],
    )


def tensors_in(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="module")
def golden(data_folder, tmp_path_factory):
    """A folder as Google's, with optimizer slots, and the values that the original computed."""
    folder = tmp_path_factory.mktemp("google")
    weights = original_weights(data_folder / "golden")
    slots = {f"{name}/{slot}": array for name, array in weights.items() for slot in ("adam_m",)}
    save(folder / CHECKPOINT, {**weights, **slots, "global_step": np.int64(125_000)})
    shutil.copy(data_folder / "golden" / "albert_config.json", folder)
    arrays = np.load(data_folder / "golden" / "golden_albert_base_zh_graph.npz")
    return folder, weights, arrays


def test_the_golden_checkpoint_gives_the_golden_numbers(golden):
    folder, _, arrays = golden
    model = model_in(folder)
    outputs = model(
        {
            "token_ids": tf.constant(arrays["input_ids"]),
            "segment_ids": tf.constant(arrays["segment_ids"]),
            "padding_mask": tf.constant(arrays["input_mask"]),
            "masked_positions": tf.constant(arrays["mlm_positions"]),
        }
    )
    mlm = outputs["mlm_logits"].numpy()
    # The tolerance of the model itself: reading adds nothing to it.
    np.testing.assert_allclose(
        mlm[..., :64], arrays["mlm_logits_first64"].reshape(3, 4, 64), **TOLERANCE
    )
    # Theirs has column 0 for pairs in order.
    order = [SOP_IN_ORDER, 1 - SOP_IN_ORDER]
    np.testing.assert_allclose(
        outputs["sop_logits"].numpy()[:, order], arrays["sop_logits"], **TOLERANCE
    )


def test_a_round_trip_is_bit_exact(golden, tmp_path):
    folder, weights, _ = golden
    model, fit = read_tf1(folder)
    assert (fit.missing, fit.unused, fit.state) == ({}, {}, len(weights) + 1)
    write_tf1(model, tmp_path / "out")
    written = tensors_in(tmp_path / "out" / CHECKPOINT)
    assert written.keys() == weights.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(written[name], array)
    ours = json.loads((tmp_path / "out" / "albert_config.json").read_text())
    theirs = json.loads((folder / "albert_config.json").read_text())
    assert ours.items() <= {**theirs, "inner_group_num": 1}.items()


BUILDERS = {
    "encoder": lambda encoder: encoder,
    "pretrainer": build_pretrainer,
    "classifier": lambda encoder: build_classifier(encoder, 3),
    "regression": lambda encoder: build_classifier(encoder, 1),
    "span_predictor": build_span_predictor,
    "answerable_span_predictor": build_answerable_span_predictor,
    "multiple_choice": build_multiple_choice,
}
# Where the file cannot say.
HEAD = {"regression": "classifier", "multiple_choice": "multiple_choice"}


def tiny(kind):
    return filled(BUILDERS[kind](build_albert("tiny", num_hidden_layers=4, sharing=2)))


@pytest.mark.parametrize("kind", BUILDERS)
def test_every_head_and_group_comes_back(tmp_path, kind):
    model = tiny(kind)
    write_tf1(model, tmp_path / "x")
    again = model_in(tmp_path / "x", head=HEAD.get(kind))
    assert again.name == model.name and config_of(again) == config_of(model)
    for ours, theirs in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


# As Google's published files have them.
SIZES = {"V": 100, "E": 8, "H": 24, "I": 96, "P": 64, "2": 2}
LAYER = "bert/encoder/transformer/group_0/inner_group_0"
PUBLISHED = {
    "bert/embeddings/word_embeddings": "VE",
    "bert/embeddings/token_type_embeddings": "2E",
    "bert/embeddings/position_embeddings": "PE",
    "bert/embeddings/LayerNorm/gamma": "E",
    "bert/embeddings/LayerNorm/beta": "E",
    "bert/encoder/embedding_hidden_mapping_in/kernel": "EH",
    "bert/encoder/embedding_hidden_mapping_in/bias": "H",
    f"{LAYER}/attention_1/self/query/kernel": "HH",
    f"{LAYER}/attention_1/self/query/bias": "H",
    f"{LAYER}/attention_1/self/key/kernel": "HH",
    f"{LAYER}/attention_1/self/key/bias": "H",
    f"{LAYER}/attention_1/self/value/kernel": "HH",
    f"{LAYER}/attention_1/self/value/bias": "H",
    f"{LAYER}/attention_1/output/dense/kernel": "HH",
    f"{LAYER}/attention_1/output/dense/bias": "H",
    f"{LAYER}/LayerNorm/gamma": "H",
    f"{LAYER}/LayerNorm/beta": "H",
    f"{LAYER}/ffn_1/intermediate/dense/kernel": "HI",
    f"{LAYER}/ffn_1/intermediate/dense/bias": "I",
    f"{LAYER}/ffn_1/intermediate/output/dense/kernel": "IH",
    f"{LAYER}/ffn_1/intermediate/output/dense/bias": "H",
    f"{LAYER}/LayerNorm_1/gamma": "H",
    f"{LAYER}/LayerNorm_1/beta": "H",
    "bert/pooler/dense/kernel": "HH",
    "bert/pooler/dense/bias": "H",
    "cls/predictions/transform/dense/kernel": "HE",
    "cls/predictions/transform/dense/bias": "E",
    "cls/predictions/transform/LayerNorm/gamma": "E",
    "cls/predictions/transform/LayerNorm/beta": "E",
    "cls/predictions/output_bias": "V",
    "cls/seq_relationship/output_weights": "2H",
    "cls/seq_relationship/output_bias": "2",
}


def test_a_pretrainer_has_the_published_names_and_shapes(tmp_path):
    encoder = build_albert(
        "tiny",
        vocab_size=SIZES["V"],
        embedding_size=SIZES["E"],
        hidden_size=SIZES["H"],
        intermediate_size=SIZES["I"],
        max_position_embeddings=SIZES["P"],
    )
    write_tf1(build_pretrainer(encoder), tmp_path / "x")
    written = tensors_in(tmp_path / "x" / CHECKPOINT)
    assert len(PUBLISHED) == 32
    assert {name: array.shape for name, array in written.items()} == {
        name: tuple(SIZES[axis] for axis in axes) for name, axes in PUBLISHED.items()
    }


def test_the_state_of_the_training_is_counted(tmp_path):
    def add(tensors):
        slots = {f"{name}/adam_{slot}": tensors[name] for name in [*tensors] for slot in "mv"}
        tensors.update(slots, global_step=np.int64(125_000))

    _, fit = read_tf1(edited(tmp_path, add))
    # 16 weights of each of the two layer groups, two of each for 9 and 7 others.
    assert not fit.missing and not fit.unused and fit.state == 2 * (32 + 16) + 1


def edited(tmp_path, change, kind="pretrainer"):
    write_tf1(tiny(kind), tmp_path / "x")
    tensors = tensors_in(tmp_path / "x" / CHECKPOINT)
    change(tensors)
    for file in (tmp_path / "x").glob("model.ckpt*"):
        file.unlink()
    save(tmp_path / "x" / CHECKPOINT, tensors)
    return tmp_path / "x"


def test_a_missing_head_is_drawn_anew_only_when_asked_for(tmp_path):
    def drop(tensors):
        for name in [name for name in tensors if name.startswith("cls/seq_relationship")]:
            del tensors[name]

    folder = edited(tmp_path, drop)
    with pytest.raises(ValueError, match=r"missing: cls/seq_relationship/output_weights \(2, 24\)"):
        model_in(folder)
    model, fit = read_tf1(folder, allow_missing=["cls/seq_relationship/*"])
    assert model.name == "albert_pretrainer" and not fit.unused
    assert [*fit.missing] == [f"cls/seq_relationship/output_{name}" for name in ("weights", "bias")]
    model, fit = read_tf1(folder, allow_unused=["cls/*"])
    assert model.name == "albert" and len(fit.unused) == 5 and not fit.missing


def test_heads_have_the_names_and_shapes_of_their_scripts(tmp_path):
    # run_squad_v1.py and race_utils.py multiply by the transpose.
    for kind, names in (("span_predictor", "cls/squad/output"), ("multiple_choice", "output")):
        model = tiny(kind)
        write_tf1(model, tmp_path / kind)
        written = tensors_in(tmp_path / kind / CHECKPOINT)
        head = model.get_layer(kind)
        np.testing.assert_array_equal(written[f"{names}_weights"], head.kernel.numpy().T)
        np.testing.assert_array_equal(written[f"{names}_bias"], head.bias.numpy())


def test_a_head_of_one_logit_is_not_guessed(tmp_path):
    write_tf1(tiny("multiple_choice"), tmp_path / "x")
    with pytest.raises(ValueError, match="one row.*`head`: classifier or multiple_choice"):
        model_in(tmp_path / "x")
    with pytest.raises(ValueError, match="classifier or multiple_choice. Received: pretrainer"):
        model_in(tmp_path / "x", head="pretrainer")
    write_tf1(tiny("classifier"), tmp_path / "three")
    with pytest.raises(ValueError, match="`head` must be .* classifier. Received: multiple_choice"):
        model_in(tmp_path / "three", head="multiple_choice")


@pytest.mark.parametrize("kind", ["span_predictor", "answerable_span_predictor"])
def test_a_span_predictor_leaves_out_the_pooler_that_theirs_keeps_and_says_so(tmp_path, kind):
    def add(tensors):
        tensors["bert/pooler/dense/kernel"] = np.ones((24, 24), "f4")
        tensors["bert/pooler/dense/bias"] = np.ones(24, "f4")

    model, fit = read_tf1(edited(tmp_path, add, kind))
    assert model.name == f"albert_{kind}"
    assert set(fit.unused) == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}


# The variables that `create_v2_model` of their squad_utils.py makes, and `model`'s weights there.
SQUAD2 = {
    "start_logits/dense/kernel": ((24, 1), "start_score/kernel"),
    "start_logits/dense/bias": ((1,), "start_score/bias"),
    "end_logits/dense_0/kernel": ((48, 24), "end_dense/kernel"),
    "end_logits/dense_0/bias": ((24,), "end_dense/bias"),
    "end_logits/LayerNorm/gamma": ((24,), "LayerNorm/gamma"),
    "end_logits/LayerNorm/beta": ((24,), "LayerNorm/beta"),
    "end_logits/dense_1/kernel": ((24, 1), "end_score/kernel"),
    "end_logits/dense_1/bias": ((1,), "end_score/bias"),
    "answer_class/dense_0/kernel": ((48, 24), "answer_dense/kernel"),
    "answer_class/dense_0/bias": ((24,), "answer_dense/bias"),
    "answer_class/dense_1/kernel": ((24, 1), "answer_score/kernel"),
}


def test_their_head_for_squad_2_is_read_and_written_variable_by_variable(tmp_path):
    rng = np.random.default_rng(3)
    theirs = {name: rng.normal(size=shape).astype("f4") for name, (shape, _) in SQUAD2.items()}
    # With the moments of a run, as their folders after fine-tuning have them.
    slots = {f"{name}/adam_m": array for name, array in theirs.items()}
    folder = edited(tmp_path, lambda t: t.update(theirs, **slots), "encoder")
    encoder_weights = tensors_in(folder / CHECKPOINT)
    model, fit = read_tf1(folder)
    assert model.name == "albert_answerable_span_predictor" and not fit.missing
    assert fit.state == len(SQUAD2) and all("pooler" in name for name in fit.unused)
    head = model.get_layer("answerable_span_predictor")
    assert head.dropout == 0.1  # of their script
    weights = weights_in(head)
    assert weights.keys() == {ours for _, ours in SQUAD2.values()}
    for name, (_, ours) in SQUAD2.items():
        np.testing.assert_array_equal(weights[ours].numpy(), theirs[name], err_msg=name)
    write_tf1(model, tmp_path / "again")
    written = tensors_in(tmp_path / "again" / CHECKPOINT)
    expected = {n for n in encoder_weights if "pooler" not in n and not n.endswith("adam_m")}
    assert written.keys() == expected
    for name in expected:
        np.testing.assert_array_equal(written[name], encoder_weights[name], err_msg=name)


def test_a_part_of_their_head_for_squad_2_is_no_head(tmp_path):
    def drop(tensors):
        del tensors["end_logits/dense_1/bias"]

    folder = edited(tmp_path, drop, "answerable_span_predictor")
    with pytest.raises(ValueError, match=r"missing: end_logits/dense_1/bias \(1,\)"):
        model_in(folder)


MISFITS = {
    "another shape": (lambda t: t.update({"bert/pooler/dense/bias": np.zeros(3, "f4")}), "shape"),
    "a NaN": (lambda t: t["bert/pooler/dense/bias"].fill(np.nan), "NaN or infinite: bert/pooler"),
    "a misspelt name": (
        lambda t: t.update({"bert/pooler/dense/bais": t.pop("bert/pooler/dense/bias")}),
        r"missing: bert/pooler/dense/bias \(24,\) \(the nearest is bert/pooler/dense/bais\)",
    ),
    "brightmart's": (
        lambda t: t.update({"bert/embeddings/word_embeddings_2": np.zeros((8, 24), "f4")}),
        "brightmart",
    ),
    "a BERT": (
        lambda t: t.update({"bert/encoder/layer_0/attention/self/query/kernel": np.zeros(1, "f4")}),
        "of a BERT",
    ),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_is_refused_by_name(tmp_path, misfit):
    change, reason = MISFITS[misfit]
    with pytest.raises(ValueError, match=reason):
        model_in(edited(tmp_path, change))


def test_a_damaged_file_is_refused(tmp_path):
    write_tf1(tiny("encoder"), tmp_path / "x")
    [data] = (tmp_path / "x").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ValueError, match="damaged or cut off"):
        model_in(tmp_path / "x")


def test_theirs_gelu_is_the_tanh_form_and_dead_keys_are_ignored(tmp_path):
    write_tf1(tiny("encoder"), tmp_path / "x")
    fields = json.loads((tmp_path / "x" / "albert_config.json").read_text())
    assert fields["hidden_act"] == "gelu"
    dead = {"net_structure_type": 0, "gap_size": 0, "num_memory_blocks": 0, "down_scale_factor": 1}
    config, _ = config_from_google({**fields, **dead}, "x")
    assert config.hidden_act == "gelu_tanh" and config.layer_norm_eps == 1e-12
    with pytest.raises(ValueError, match="`hidden_act` must be one of gelu, relu"):
        config_from_google({**fields, "hidden_act": "gelu_new"}, "x")


def test_a_prefix_names_one_of_several(tmp_path):
    model = tiny("encoder")
    write_tf1(model, tmp_path / "x")
    save(tmp_path / "x" / "other.ckpt", {"global_step": np.int64(1)})
    with pytest.raises(ValueError, match="must hold one TensorFlow checkpoint"):
        model_in(tmp_path / "x")
    for name in (CHECKPOINT, f"{CHECKPOINT}.index"):
        assert config_of(model_in(tmp_path / "x" / name)) == config_of(model)
    with pytest.raises(ValueError, match="nowhere.index"):
        model_in(tmp_path / "x" / "nowhere")
