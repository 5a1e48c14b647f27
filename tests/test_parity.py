"""The report names the part of a model that differs from the reference."""

from pathlib import Path

import numpy as np
import pytest

from albert_keras.checkpoints import load_albert
from albert_keras.checkpoints.parity import compare, read_reference
from albert_keras.model import build_albert, build_pretrainer, encoder_of
from albert_keras.task_models import build_multiple_choice, build_span_predictor

pytestmark = pytest.mark.both_kerases

GOLDEN = Path(__file__).parent / "goldens" / "huggingface_tiny"


@pytest.fixture
def model():
    return load_albert(GOLDEN)[0]


@pytest.fixture
def reference():
    """What transformers computed, with the SOP columns in our order."""
    arrays = dict(np.load(GOLDEN / "expected.npz"))
    arrays["sop_logits"] = arrays["sop_logits"][:, ::-1]
    return arrays


def test_every_output_of_the_golden_model_is_equal(model, reference):
    found = compare(model, reference)
    assert [one.output for one in found] == [
        "sequence_output",
        "pooled_output",
        "mlm_logits",
        "sop_logits",
    ]
    assert all(one.largest < 1e-5 * max(one.scale, 1) for one in found)


def test_the_first_large_difference_is_where_the_models_part(reference):
    """Three layers of their own; the feed-forward of the second is changed."""
    inputs = {name: reference[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    every_layer = build_albert("tiny", sharing="none", output_all_layers=True)
    outputs = every_layer({name: array % 60 for name, array in inputs.items()})
    every = np.stack([layer.numpy() for layer in outputs["layer_outputs"]])
    changed = every_layer.get_layer("encoder").ffn_blocks[1].output_dense.kernel
    changed.assign(30 * changed.numpy())
    found = compare(every_layer, {**inputs, "layer_outputs": every})
    assert [one.output for one in found] == ["embeddings", "layer 1", "layer 2", "layer 3"]
    assert found[0].largest < 1e-6 and found[1].largest < 1e-6 and found[2].largest > 1e-2


def test_what_stands_at_padding_is_not_compared(model, reference):
    padding = reference["padding_mask"] == 0
    assert padding.any()
    reference["sequence_output"][padding] = 99
    reference["mlm_logits"][padding] = 99
    assert all(one.largest < 1e-4 for one in compare(model, reference))


@pytest.mark.parametrize("kind", ["multiple_choice", "span_predictor"])
def test_the_encoder_of_a_task_model_is_compared_as_far_as_it_has_one(model, reference, kind):
    encoder = encoder_of(model)
    build = {"multiple_choice": build_multiple_choice, "span_predictor": build_span_predictor}
    rows = ("token_ids", "segment_ids", "padding_mask", "sequence_output", "pooled_output")
    arrays = {name: reference[name] for name in rows}
    if kind == "span_predictor":
        with pytest.raises(ValueError, match="Received: pooled_output as well"):
            compare(build[kind](encoder), arrays)
        del arrays["pooled_output"]
    found = compare(build[kind](encoder), arrays)
    assert len(found) == len(arrays) - 3
    assert all(one.largest < 1e-5 * max(one.scale, 1) for one in found)


def test_a_pretrainer_of_few_masked_positions_is_compared_at_all(reference):
    theirs = load_albert(GOLDEN)[0]
    small = build_pretrainer(encoder_of(load_albert(GOLDEN)[0]), max_predictions=2)
    small.set_weights(theirs.get_weights())
    found = compare(small, reference)
    assert found[2].output == "mlm_logits" and all(one.largest < 1e-4 for one in found)


def test_a_pooled_output_as_wide_as_the_rows_are_long_is_compared_whole():
    """H = S: its columns are no positions, and padding hides none."""
    model = build_albert("tiny")
    ids = np.tile(np.arange(24, dtype=np.int32), (2, 1))
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": (ids < 5).astype("int32")}
    pooled = model(inputs)["pooled_output"].numpy()
    pooled[:, 10] += 5
    (found,) = compare(model, {**inputs, "pooled_output": pooled})
    assert found.largest > 4


def test_masked_positions_may_be_given(model, reference):
    positions = np.array([[1, 3], [2, 0], [0, 0]], np.int32)
    rows = np.arange(3)[:, np.newaxis]
    arrays = {
        **{name: reference[name] for name in ("token_ids", "segment_ids", "padding_mask")},
        "masked_positions": positions,
        "mlm_logits": reference["mlm_logits"][rows, positions],
    }
    (found,) = compare(model, arrays)
    assert found.largest < 1e-5 * max(found.scale, 1)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"token_ids": None}, "it must hold token_ids, segment_ids"),
        ({"logits": np.zeros(3)}, "it must hold"),
        (
            dict.fromkeys(("sequence_output", "pooled_output", "mlm_logits", "sop_logits")),
            "some of",
        ),
    ],
)
def test_a_reference_without_inputs_or_outputs_is_refused(tmp_path, reference, change, message):
    arrays = {**reference, **change}
    np.savez(tmp_path / "x.npz", **{n: a for n, a in arrays.items() if a is not None})
    with pytest.raises(ValueError, match=message):
        read_reference(tmp_path / "x.npz")


def test_a_file_that_is_no_reference_is_named(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="x.npz"):
        read_reference(tmp_path / "x.npz")
    with pytest.raises(ValueError, match="absent.npz"):
        read_reference(tmp_path / "absent.npz")
    whole = (GOLDEN / "expected.npz").read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole[:-30], whole[:300] + whole[310:]):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(ValueError, match="A reference is an .npz file. Received: .*x.npz"):
            read_reference(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(ValueError, match="A reference is an .npz file"):
        read_reference(tmp_path / "x.npy")
    arrays = dict(np.load(GOLDEN / "expected.npz"))
    np.savez(tmp_path / "y.npz", **{**arrays, "segment_ids": arrays["segment_ids"][:, :3]})
    with pytest.raises(ValueError, match="integers of one shape"):
        read_reference(tmp_path / "y.npz")


def test_outputs_that_the_model_has_not_and_other_shapes_are_refused(model, reference):
    with pytest.raises(ValueError, match="mlm_logits as well"):
        compare(load_albert_encoder(), reference)
    reference["pooled_output"] = reference["pooled_output"][:, :5]
    with pytest.raises(ValueError, match=r"pooled_output must have the model's shape \(3, 12\)"):
        compare(model, reference)


def load_albert_encoder():
    with pytest.warns(UserWarning, match="Left out: "):
        return load_albert(GOLDEN, allow_unused=["predictions.*", "sop_classifier.*"])[0]
