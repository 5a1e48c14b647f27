"""The checkpoint folder: Hugging Face's layout both ways, and nothing lost or guessed."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from albert_keras.checkpoints import load_albert, load_head, save_albert
from albert_keras.checkpoints.huggingface_config import LayerGroups, groups_for
from albert_keras.config import SharingPattern
from albert_keras.layers import SOP_IN_ORDER, SOP_SWAPPED
from albert_keras.model import build_albert, build_pretrainer, config_of
from albert_keras.task_models import (
    build_answerable_span_predictor,
    build_classifier,
    build_multiple_choice,
    build_span_predictor,
)
from tests.full_disk import full_disk
from tests.small_tokenizer import VOCAB_SIZE, small_tokenizer

pytestmark = pytest.mark.both_kerases

GOLDEN = Path(__file__).parent / "goldens" / "huggingface_tiny"
LABELS = ["no", "maybe", "yes"]


def filled(model, seed=0):
    """The model with weights in which a swap or a transpose shows."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.3, tuple(weight.shape)).astype("float32"))
    return model


def tiny(kind="encoder", **overrides):
    encoder = build_albert("tiny", **overrides)
    if kind == "pretrainer":
        return filled(build_pretrainer(encoder, max_predictions=5, ngram=2, rate=0.2))
    if kind == "classifier":
        return filled(build_classifier(encoder, len(LABELS), dropout=0.25))
    if kind == "span_predictor":
        return filled(build_span_predictor(encoder, dropout=0.25))
    if kind == "answerable_span_predictor":
        return filled(build_answerable_span_predictor(encoder, dropout=0.25))
    if kind == "multiple_choice":
        return filled(build_multiple_choice(encoder, dropout=0.25))
    return filled(encoder)


def outputs(model, token_ids=None, segment_ids=None, padding_mask=None):
    rng = np.random.default_rng(1)
    shape = (2, 4, 11) if len(model.input["token_ids"].shape) == 3 else (3, 11)
    ids = rng.integers(5, 60, shape).astype("int32") if token_ids is None else token_ids
    inputs = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids) if segment_ids is None else segment_ids,
        "padding_mask": np.ones_like(ids) if padding_mask is None else padding_mask,
    }
    if "masked_positions" in model.input:
        every = np.arange(model.input["masked_positions"].shape[1] or ids.shape[1], dtype="int32")
        inputs["masked_positions"] = np.tile(every, (len(ids), 1))
    return {name: value.numpy() for name, value in model(inputs, training=False).items()}


def edit_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def edit_json(path, **changes):
    fields = json.loads(path.read_text())
    fields.update(changes)
    path.write_text(json.dumps(fields))


# ---- against Hugging Face's own file; goldens/make_huggingface_tiny.py made it ----

# Measured: 4e-6 at most; the largest logit is about 6.
HUGGINGFACE_TOLERANCE = 2e-5


def test_their_pretrainer_gives_their_numbers_with_the_sop_columns_swapped():
    expected = np.load(GOLDEN / "expected.npz")
    batch = [expected[name] for name in ("token_ids", "segment_ids", "padding_mask")]
    model, tokenizer = load_albert(GOLDEN)
    assert tokenizer is None and config_of(model).sharing == 2
    got = outputs(model, *batch)
    real = batch[2].astype(bool)
    np.testing.assert_allclose(
        got["mlm_logits"][real], expected["mlm_logits"][real], atol=HUGGINGFACE_TOLERANCE
    )
    theirs_in_order, theirs_swapped = expected["sop_logits"].T
    np.testing.assert_allclose(
        got["sop_logits"][:, SOP_IN_ORDER], theirs_in_order, atol=HUGGINGFACE_TOLERANCE
    )
    np.testing.assert_allclose(
        got["sop_logits"][:, SOP_SWAPPED], theirs_swapped, atol=HUGGINGFACE_TOLERANCE
    )


def test_their_pretrainer_saved_by_us_is_their_file_again(tmp_path):
    save_albert(load_albert(GOLDEN)[0], tmp_path / "ours")
    theirs = load_file(GOLDEN / "model.safetensors")
    ours = load_file(tmp_path / "ours" / "model.safetensors")
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    config = json.loads((GOLDEN / "config.json").read_text())
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert written.items() <= config.items()


def test_their_encoder_is_read_from_names_without_a_prefix(tmp_path):
    edit_tensors_to = {
        name.removeprefix("albert."): tensor
        for name, tensor in load_file(GOLDEN / "model.safetensors").items()
        if name.startswith("albert.")
    }
    save_file(edit_tensors_to, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((GOLDEN / "config.json").read_text())
    expected = np.load(GOLDEN / "expected.npz")
    got = outputs(
        load_albert(tmp_path)[0],
        *(expected[name] for name in ("token_ids", "segment_ids", "padding_mask")),
    )
    assert got.keys() == {"sequence_output", "pooled_output"}
    np.testing.assert_allclose(
        got["pooled_output"], expected["pooled_output"], atol=HUGGINGFACE_TOLERANCE
    )


def test_a_classifier_of_theirs_has_their_labels_and_dropout(tmp_path):
    save_albert(tiny("classifier"), tmp_path / "x", labels=LABELS)
    (tmp_path / "x" / "albert_keras.json").unlink()
    model, _ = load_albert(tmp_path / "x")
    assert load_head(tmp_path / "x")["labels"] == LABELS
    assert model.get_layer("classifier_dropout").rate == 0.25


def test_tied_tensors_that_a_file_repeats_must_be_equal(tmp_path):
    save_albert(tiny("pretrainer"), tmp_path / "x")

    def repeat(tensors):
        tensors["predictions.decoder.bias"] = tensors["predictions.bias"].copy()

    edit_tensors(tmp_path / "x", repeat)
    load_albert(tmp_path / "x")
    edit_tensors(tmp_path / "x", lambda t: t["predictions.decoder.bias"].__setitem__(0, 9))
    with pytest.raises(ValueError, match="tied: predictions.decoder.bias, predictions.bias"):
        load_albert(tmp_path / "x")


# ---- sharing ----


@pytest.mark.parametrize(
    "layers,groups,inner,half",
    [
        (4, 1, 1, (0, 0, 0, 0)),
        (4, 2, 1, (0, 0, 1, 1)),
        (4, 4, 1, (0, 1, 2, 3)),
        (2, 1, 2, (0, 1, 0, 1)),
        (3, 2, 1, (0, 0, 1)),
    ],
)
def test_layer_groups_are_patterns_and_back(layers, groups, inner, half):
    pattern = SharingPattern(half, half)
    assert LayerGroups(layers, groups, inner).pattern() == pattern
    assert groups_for(pattern) == (layers, groups, inner)


SHARINGS = {
    "all": {},
    "attention": {"sharing": "attention"},
    "ffn": {"sharing": "ffn"},
    "none": {"sharing": "none"},
    "groups": {"sharing": 2, "num_hidden_layers": 4},
    "cycle": {"sharing": SharingPattern((0, 1, 0, 1), (0, 1, 0, 1)), "num_hidden_layers": 4},
    "pattern": {"sharing": SharingPattern((1, 0, 2, 2), (0, 0, 1, 0)), "num_hidden_layers": 4},
    "E == H": {"embedding_size": 24, "hidden_act": "gelu_erf"},
    "dropout": {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2},
}


@pytest.mark.parametrize("overrides", SHARINGS.values(), ids=SHARINGS)
def test_what_is_saved_is_loaded_to_the_bit(tmp_path, overrides):
    model = tiny(**overrides)
    save_albert(model, tmp_path / "x")
    loaded, tokenizer = load_albert(tmp_path / "x")
    assert tokenizer is None and "labels" not in load_head(tmp_path / "x")
    assert config_of(loaded) == config_of(model)
    assert loaded.count_params() == model.count_params()
    for before, after in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(before.numpy(), after.numpy())
    for name, value in outputs(model).items():
        np.testing.assert_array_equal(outputs(loaded)[name], value)


HEADS = [
    *("pretrainer", "classifier"),
    *("span_predictor", "answerable_span_predictor", "multiple_choice"),
]


@pytest.mark.parametrize("kind", HEADS)
def test_heads_are_saved_with_their_settings(tmp_path, kind):
    model = tiny(kind)
    labels = LABELS if kind == "classifier" else None
    save_albert(model, tmp_path / "x", labels=labels, max_length=17)
    loaded, _ = load_albert(tmp_path / "x")
    assert loaded.name == model.name and config_of(loaded) == config_of(model)
    for name, value in outputs(model).items():
        np.testing.assert_array_equal(outputs(loaded)[name], value)
    head = load_head(tmp_path / "x")
    assert head["kind"] == kind and head["max_length"] == 17
    if kind == "pretrainer":
        settings = loaded.get_layer("masked_lm")
        assert (settings.max_predictions, settings.ngram, settings.rate) == (5, 2, 0.2)
    elif kind == "answerable_span_predictor":
        assert loaded.get_layer(kind).dropout == head["dropout"] == 0.25
    else:
        assert loaded.get_layer(f"{kind}_dropout").rate == head["dropout"] == 0.25
        assert head.get("labels") == labels


def test_a_head_that_hugging_face_lacks_lies_beside_an_encoder_of_theirs(tmp_path):
    model = tiny("answerable_span_predictor")
    save_albert(model, tmp_path / "x")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    assert config["architectures"] == ["AlbertModel"]
    tensors = load_file(tmp_path / "x" / "model.safetensors")
    head = model.get_layer("answerable_span_predictor")
    np.testing.assert_array_equal(
        tensors["answerable_spans.end_dense.weight"], head.end_dense.kernel.numpy().T
    )
    theirs = {name for name in tensors if not name.startswith("answerable_spans.")}
    assert len(tensors) - len(theirs) == 11 and all(name.startswith("albert.") for name in theirs)
    # With the settings that are in no file of theirs, also where a tensor is left out.
    edit_tensors(
        tmp_path / "x", lambda t: t.update({"answerable_spans.old": np.zeros(2, np.float32)})
    )
    with pytest.warns(UserWarning, match="Left out: answerable_spans.old"):
        loaded, _ = load_albert(tmp_path / "x", allow_unused=["answerable_spans.old"])
    assert loaded.get_layer("answerable_span_predictor").dropout == 0.25
    # Without our own file it is still known by its names.
    (tmp_path / "x" / "albert_keras.json").unlink()
    with pytest.warns(UserWarning, match="Left out: answerable_spans.old"):
        loaded, _ = load_albert(tmp_path / "x", allow_unused=["answerable_spans.old"])
    assert loaded.name == "albert_answerable_span_predictor"


def test_an_encoder_keeps_the_longest_row_of_training_and_none_is_unknown(tmp_path):
    save_albert(tiny(), tmp_path / "x", max_length=17)
    assert load_head(tmp_path / "x") == {"kind": "encoder", "max_length": 17}
    save_albert(tiny(), tmp_path / "y")
    assert load_head(tmp_path / "y")["max_length"] is None


def test_the_longest_row_of_training_stays_where_the_head_is_left_out(tmp_path):
    save_albert(tiny("pretrainer"), tmp_path / "x", max_length=17)
    head = load_head(tmp_path / "x", allow_unused=["predictions.*", "sop_classifier.*"])
    assert head == {"kind": "encoder", "max_length": 17}


def test_sharing_that_their_config_cannot_say_is_written_as_copies(tmp_path):
    model = tiny(sharing="attention")
    save_albert(model, tmp_path / "x")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    assert (config["num_hidden_groups"], config["inner_group_num"]) == (3, 1)
    tensors = load_file(tmp_path / "x" / "model.safetensors")
    group = "encoder.albert_layer_groups.{}.albert_layers.0"
    for layer in range(3):
        np.testing.assert_array_equal(
            tensors[f"{group.format(layer)}.attention.query.weight"],
            model.get_layer("encoder").attention_blocks[0].query.kernel.numpy().T,
        )
        np.testing.assert_array_equal(
            tensors[f"{group.format(layer)}.ffn_output.weight"],
            model.get_layer("encoder").ffn_blocks[layer].output_dense.kernel.numpy().T,
        )


def test_copies_that_differ_are_refused_by_name(tmp_path):
    save_albert(tiny(sharing="attention"), tmp_path / "x")
    name = "encoder.albert_layer_groups.1.albert_layers.0.attention.key.bias"
    edit_tensors(tmp_path / "x", lambda tensors: tensors[name].__setitem__(0, 9))
    with pytest.raises(ValueError, match=rf"copies that differ.*groups.0.*key.bias, {name}"):
        load_albert(tmp_path / "x")


def test_without_a_projection_the_file_has_the_identity(tmp_path):
    save_albert(tiny(embedding_size=24), tmp_path / "x")
    name = "encoder.embedding_hidden_mapping_in.weight"
    np.testing.assert_array_equal(load_file(tmp_path / "x" / "model.safetensors")[name], np.eye(24))
    model, _ = load_albert(tmp_path / "x")
    assert model.get_layer("embeddings").embedding_hidden_mapping_in is None


def test_a_projection_that_does_something_is_read_even_where_the_widths_are_equal(tmp_path):
    """Hugging Face's models have one there. E == H, and W is a permutation of the columns."""
    model = tiny(embedding_size=24)
    save_albert(model, tmp_path / "x")
    name, order = "encoder.embedding_hidden_mapping_in.weight", np.arange(24)[::-1]
    edit_tensors(
        tmp_path / "x", lambda tensors: tensors.update({name: np.eye(24, dtype="f")[order]})
    )
    loaded, _ = load_albert(tmp_path / "x")
    ids = np.array([[2, 17, 30, 3]])
    plain, _ = model.get_layer("embeddings")(ids, 0 * ids)
    projected, _ = loaded.get_layer("embeddings")(ids, 0 * ids)
    np.testing.assert_array_equal(projected, plain.numpy()[..., order])
    save_albert(loaded, tmp_path / "again")
    read, written = (load_file(tmp_path / x / "model.safetensors") for x in ("x", "again"))
    assert read.keys() == written.keys()
    assert all(np.array_equal(read[name], written[name]) for name in read)


# ---- refusals ----


@pytest.fixture
def saved(tmp_path):
    save_albert(tiny("classifier"), tmp_path / "saved", labels=LABELS)
    return tmp_path / "saved"


def test_missing_unexpected_and_misshapen_tensors_are_listed_together(saved):
    def change(tensors):
        del tensors["albert.pooler.bias"]
        tensors["classifier.extra"] = np.zeros(7, np.float32)
        tensors["classifier.weight"] = np.zeros((4, 24), np.float32)

    edit_tensors(saved, change)
    with pytest.raises(ValueError, match="must be exactly those") as error:
        load_albert(saved)
    assert "missing: albert.pooler.bias (24,)" in str(error.value)
    assert "unexpected: classifier.extra (7,)" in str(error.value)
    assert "classifier.weight (4, 24), the model has (3, 24)" in str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(saved, value):
    edit_tensors(saved, lambda tensors: tensors["classifier.bias"].__setitem__(1, value))
    with pytest.raises(ValueError, match="NaN or infinite: classifier.bias"):
        load_albert(saved)


def test_a_broken_model_is_not_saved_and_leaves_nothing(tmp_path):
    model = tiny()
    model.get_layer("pooler").dense.bias.assign(np.full(24, np.nan))
    with pytest.raises(ValueError, match="NaN or infinity in pooler.bias"):
        save_albert(model, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 100, -1])
def test_a_file_that_is_cut_off_is_refused(saved, size):
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match="model.safetensors is damaged or cut off"):
        load_albert(saved)


def test_another_type_than_float32_is_refused_but_float16_is_widened(saved):
    def halve(tensors):
        tensors["classifier.bias"] = tensors["classifier.bias"].astype(np.float16)

    edit_tensors(saved, halve)
    load_albert(saved)
    edit_tensors(
        saved, lambda t: t.update({"classifier.bias": t["classifier.bias"].astype(np.float64)})
    )
    with pytest.raises(ValueError, match="F32 or F16.*classifier.bias is F64"):
        load_albert(saved)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(saved, name):
    (saved / name).unlink()
    with pytest.raises(ValueError, match=f"must hold {name}"):
        load_albert(saved)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="A checkpoint is a folder. Received: .*nowhere"):
        load_albert(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "file,changes,message",
    [
        ("config.json", {"hidden_sise": 3}, r"Unknown keys: \['hidden_sise'\]"),
        ("config.json", {"hidden_act": "silu"}, "`hidden_act` must be one of gelu_new, gelu, relu"),
        ("config.json", {"model_type": "bert"}, "`model_type` must be 'albert'"),
        ("config.json", {"num_hidden_groups": 9}, "layer groups make no model"),
        ("config.json", {"id2label": {"0": "a", "1": "b", "2": "c"}}, "name the same labels"),
        ("config.json", {"id2label": {"1": "a", "2": "b", "3": "c"}}, "number the labels from 0"),
        ("config.json", {"id2label": ["a", "b", "c"]}, "config.json: .*number the labels from 0"),
        ("config.json", {"id2label": {"x": "a"}}, "config.json: .*number the labels from 0"),
        ("config.json", {"hidden_act": ["gelu"]}, "config.json: `hidden_act` must be one of"),
        ("config.json", {"hidden_size": "24"}, "config.json: `hidden_size` must be a whole number"),
        ("config.json", {"layer_norm_eps": None}, "config.json: `layer_norm_eps` must be a finite"),
        ("config.json", {"layer_norm_eps": float("inf")}, "must be a finite number. Received: inf"),
        ("config.json", {"num_hidden_layers": 2.5}, "config.json: these layer groups"),
        ("albert_keras.json", {"head": {}}, "albert_keras.json: `head` must have a kind.*{}"),
        ("albert_keras.json", {"head": None}, "albert_keras.json: `head` must have a kind.*None"),
        ("albert_keras.json", {"head": {"kind": ["x"]}}, "albert_keras.json: `head` must have"),
        (
            "albert_keras.json",
            {"head": {"kind": "classifier", "labels": 3, "dropout": 0.1, "max_length": 9}},
            "albert_keras.json: `labels` must be a list of names. Received: 3",
        ),
        (
            "albert_keras.json",
            {"head": {"kind": "classifier", "labels": LABELS, "dropout": "0.1", "max_length": 9}},
            "albert_keras.json: `dropout` must be a number",
        ),
        ("albert_keras.json", {"sharing": None}, "albert_keras.json: `sharing` must be one of"),
        ("albert_keras.json", {"format": 99}, "must have format 1"),
        ("albert_keras.json", {"shiny": 1}, "must have format 1 and the keys"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(saved, file, changes, message):
    edit_json(saved / file, **changes)
    with pytest.raises(ValueError, match=message):
        load_albert(saved)


def test_a_missing_config_key_is_named(saved):
    fields = json.loads((saved / "config.json").read_text())
    del fields["layer_norm_eps"]
    (saved / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=r"Missing keys: \['layer_norm_eps'\]"):
        load_albert(saved)


@pytest.mark.parametrize("name", ["config.json", "albert_keras.json"])
def test_a_json_file_that_is_cut_off_is_named(saved, name):
    (saved / name).write_text((saved / name).read_text()[:40])
    with pytest.raises(ValueError, match=f"{name} is damaged or cut off"):
        load_albert(saved)


def test_labels_must_fit_the_logits(tmp_path):
    for labels in (None, ["no"], ["no", "no", "yes"]):
        with pytest.raises(ValueError, match="3 logits needs `labels`, 3 different names"):
            save_albert(tiny("classifier"), tmp_path / "x", labels=labels)
    with pytest.raises(ValueError, match="`labels` belong to a classifier"):
        save_albert(tiny(), tmp_path / "x", labels=LABELS)


def test_an_existing_folder_is_only_replaced_on_request_and_only_a_checkpoint(tmp_path):
    model = tiny()
    save_albert(model, tmp_path / "x")
    with pytest.raises(ValueError, match="must not exist yet. Received: .*x"):
        save_albert(model, tmp_path / "x")
    model.get_layer("pooler").dense.bias.assign(np.arange(24.0))
    save_albert(model, tmp_path / "x", replace=True)
    loaded, _ = load_albert(tmp_path / "x")
    np.testing.assert_array_equal(loaded.get_layer("pooler").dense.bias.numpy(), np.arange(24))
    (tmp_path / "thesis").mkdir()
    with pytest.raises(ValueError, match="must not exist yet. Received: .*thesis"):
        save_albert(model, tmp_path / "thesis", replace=True)


def test_the_weights_can_be_read_by_whoever_can_read_the_config(saved):
    assert (saved / "model.safetensors").stat().st_mode == (saved / "config.json").stat().st_mode


def test_weights_without_a_name_are_not_dropped_quietly(tmp_path):
    import tensorflow as tf

    encoder = tiny()
    extra = tf.keras.layers.Dense(2, name="mine")(encoder.output["pooled_output"])
    with pytest.raises(ValueError, match="further weights, .*kernel"):
        save_albert(tf.keras.Model(encoder.input, {"mine": extra}), tmp_path / "x")


# ---- the tokenizer in the folder ----


@pytest.fixture
def with_tokenizer(tmp_path):
    save_albert(tiny(vocab_size=VOCAB_SIZE), tmp_path / "saved", tokenizer=small_tokenizer())
    return tmp_path / "saved"


def test_the_tokenizer_comes_back_with_the_model(with_tokenizer):
    _, tokenizer = load_albert(with_tokenizer)
    assert tokenizer.model_bytes == small_tokenizer().model_bytes
    assert tokenizer.lowercase and not tokenizer.keep_accents
    config = json.loads((with_tokenizer / "config.json").read_text())
    assert [config[f"{name}_token_id"] for name in ("pad", "bos", "eos")] == [0, 2, 3]


def test_another_vocabulary_than_the_model_was_saved_with_is_refused(with_tokenizer):
    other = small_tokenizer().model_bytes.replace(b"twice", b"twise")
    (with_tokenizer / "spiece.model").write_bytes(other)
    with pytest.raises(ValueError, match="must be the vocabulary that the model was saved with"):
        load_albert(with_tokenizer)
    (with_tokenizer / "spiece.model").unlink()
    with pytest.raises(ValueError, match="must be the vocabulary.*sha256 None"):
        load_albert(with_tokenizer)


def test_a_changed_tokenizer_config_is_refused(with_tokenizer):
    edit_json(with_tokenizer / "tokenizer_config.json", do_lower_case=False)
    with pytest.raises(ValueError, match="lowercase=False"):
        load_albert(with_tokenizer)


def test_a_tokenizer_with_more_pieces_than_the_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="400 pieces, vocab_size 100"):
        save_albert(tiny(), tmp_path / "x", tokenizer=small_tokenizer())


def test_a_pretrainer_masks_with_its_tokenizers_mask(tmp_path):
    pretrainer = build_pretrainer(build_albert("tiny", vocab_size=VOCAB_SIZE), mask_id=7)
    with pytest.raises(ValueError, match=r"`mask_id` 7, and a tokenizer whose \[MASK\] is 4"):
        save_albert(pretrainer, tmp_path / "x", small_tokenizer())
    assert not (tmp_path / "x").exists()


def test_keys_that_older_transformers_wrote_into_every_config_are_known(saved):
    """As of a fine-tuned ALBERT from transformers 2.x and 3.x."""
    harmless = {
        "attention_probs_dropout_prob": 0,
        "bad_words_ids": None,
        "do_sample": False,
        "finetuning_task": "mnli",
        "gradient_checkpointing": False,
        "is_decoder": False,
        "length_penalty": 1.0,
        "max_length": 20,
        "num_return_sequences": 1,
        "output_attentions": False,
        "output_past": True,
        "pruned_heads": {},
        "sep_token_id": None,
        "task_specific_params": None,
        "tokenizer_class": "BertTokenizer",
        "use_bfloat16": False,
        "xla_device": True,
    }
    edit_json(saved / "config.json", **harmless)
    load_albert(saved)
    for key, value in (("pruned_heads", {"0": [1]}), ("is_decoder", True)):
        edit_json(saved / "config.json", **{**harmless, key: value})
        with pytest.raises(ValueError, match=f"`{key}` must be"):
            load_albert(saved)


def test_several_files_of_tensors_are_named(saved):
    (saved / "model.safetensors").rename(saved / "model-00001-of-00002.safetensors")
    (saved / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match="sharded.*max_shard_size"):
        load_albert(saved)


def test_a_full_disk_is_an_error_of_the_operating_system(tmp_path):
    """Which who trains looks for, to go on; the library of the file has one of its own."""
    model = tiny()
    with full_disk(10_000), pytest.raises(OSError, match="model.safetensors cannot be written"):
        save_albert(model, tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []
