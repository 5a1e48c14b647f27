"""How far each layer moves its input, against NumPy and against layers that do what is known."""

import csv
import json

import numpy as np
import pytest

from albert_keras import (
    build_albert,
    build_pretrainer,
    build_span_predictor,
    save_albert,
)
from albert_keras.analysis.layer_trajectories import (
    MEASURES,
    layer_trajectory,
    write_trajectories,
)
from albert_keras.config import SharingPattern
from albert_keras.model import config_of
from tests.layer_contract import fill_weights, path_of
from tests.small_tokenizer import VOCAB_SIZE, small_tokenizer
from tests.test_model import numpy_encoder

pytestmark = pytest.mark.both_kerases

TEXTS = ["The letter was posted.", "It rained all day long, and nobody went out.", "Why?", "No!"]


def albert(**overrides):
    return build_albert("tiny", vocab_size=VOCAB_SIZE, **overrides)


def trajectory(model, texts=TEXTS, max_length=16, batch_size=3):
    return layer_trajectory(
        model, small_tokenizer(), texts, max_length=max_length, batch_size=batch_size
    )


def column(found, name):
    return [layer[name] for layer in found["layers"]]


@pytest.mark.parametrize("sharing", ["all", "none", SharingPattern((0, 1, 1), (1, 1, 0))])
def test_the_measures_are_those_of_numpy_on_each_text_alone(sharing):
    model = albert(sharing=sharing)
    fill_weights(model)
    weights = {path_of(w): np.asarray(w.numpy(), np.float64) for w in model.weights}
    tokenizer = small_tokenizer()
    per_layer = [[] for _ in range(3)]
    lengths = []
    for text in TEXTS:  # so there is no padding
        ids = [tokenizer.cls_id, *tokenizer.encode(text)[:14], tokenizer.sep_id]
        lengths.append(len(ids))
        row = np.array([ids])
        inputs = {"token_ids": row, "segment_ids": 0 * row, "padding_mask": 0 * row + 1}
        layers, _ = numpy_encoder(weights, config_of(model).sharing_pattern, inputs)
        for values, before, after in zip(per_layer, layers[:-1], layers[1:], strict=True):
            for one, other in zip(before[0], after[0], strict=True):
                distance = np.sqrt(((one - other) ** 2).sum())
                cosine = one @ other / np.sqrt((one @ one) * (other @ other))
                values.append((distance, cosine, np.degrees(np.arccos(cosine))))
    found = trajectory(model)
    assert found["pieces"] == sum(lengths) and len(set(lengths)) > 2
    assert found["texts"] == 4 and found["cut_texts"] == lengths.count(16) == 1
    for layer, values in zip(found["layers"], per_layer, strict=True):
        # In float32 the layers themselves are within 1e-4 of NumPy's; degrees are 57 times that.
        for name, mean, spread in zip(
            MEASURES, np.mean(values, axis=0), np.std(values, axis=0), strict=True
        ):
            assert layer[name] == pytest.approx(mean, abs=5e-3 if name == "angle" else 1e-4)
            assert layer[f"{name}_std"] == pytest.approx(
                spread, abs=5e-3 if name == "angle" else 1e-4
            )
            assert spread > 1e-3


def layers_that_give(factor):
    """A BERT whose layers multiply by 1 or -1: nothing is added to the residual, and the input has
    been normalised already."""
    model = albert(embedding_size=24, sharing="none")
    for weight in model.weights:
        path = path_of(weight)
        if "/dense/" in path or "output_dense/" in path:
            weight.assign(np.zeros(weight.shape))
        if path.startswith("encoder/ffn") and path.endswith("gamma"):
            weight.assign(np.full(weight.shape, factor))
    return model


def test_layers_that_change_nothing_are_at_distance_0_and_cosine_1():
    found = trajectory(layers_that_give(1.0))
    assert np.allclose(column(found, "l2_distance"), 0, atol=1e-5)
    assert np.allclose(column(found, "cosine_similarity"), 1, atol=1e-6)
    assert np.allclose(column(found, "angle"), 0, atol=1e-4)  # an arc cosine gives 0.02 here


def test_layers_that_turn_the_vectors_round_are_at_180_degrees():
    found = trajectory(layers_that_give(-1.0))
    # A normalised vector of H numbers has the norm sqrt(H).
    assert np.allclose(column(found, "l2_distance"), 2 * np.sqrt(24), rtol=1e-4)
    assert np.allclose(column(found, "cosine_similarity"), -1, atol=1e-6)
    assert np.allclose(column(found, "angle"), 180, atol=1e-3)
    assert np.allclose(column(found, "angle_std"), 0, atol=1e-3)


def test_texts_beside_a_text_and_a_head_on_the_encoder_change_nothing():
    encoder = albert()
    found = trajectory(encoder)
    for model, batch_size in (
        (encoder, 1),
        (build_pretrainer(encoder), 4),
        (build_span_predictor(encoder), 2),
    ):
        other = trajectory(model, batch_size=batch_size)
        for name in MEASURES:
            np.testing.assert_allclose(column(other, name), column(found, name), rtol=1e-4)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match="There must be a text .* Received: none"):
        trajectory(albert(), [])
    with pytest.raises(ValueError, match="at most the 64 positions of the model. Received: 65"):
        trajectory(albert(), max_length=65)
    with pytest.raises(ValueError, match="a model of 100 pieces and a vocabulary of 400"):
        trajectory(build_albert("tiny"))


def test_the_files_hold_what_was_measured(tmp_path):
    pytest.importorskip("matplotlib")
    found = {"shared": trajectory(albert()), "unshared": trajectory(albert(sharing="none"))}
    write_trajectories(found, tmp_path)
    assert json.loads((tmp_path / "trajectories.json").read_text()) == found
    rows = list(csv.DictReader((tmp_path / "trajectories.csv").read_text().splitlines()))
    assert [(row["model"], row["layer"]) for row in rows] == [
        (name, str(layer)) for name in found for layer in (1, 2, 3)
    ]
    assert [float(row["l2_distance"]) for row in rows[3:]] == column(
        found["unshared"], "l2_distance"
    )
    assert (tmp_path / "trajectories.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_measures_models_of_any_kind_on_the_same_rows(tmp_path, albert_keras):
    pytest.importorskip("matplotlib")
    tokenizer = small_tokenizer()
    save_albert(build_pretrainer(albert()), tmp_path / "a", tokenizer=tokenizer, max_length=12)
    save_albert(albert(sharing="none"), tmp_path / "b", tokenizer=tokenizer)
    (tmp_path / "text.txt").write_text("\n\n".join(TEXTS))
    models = tmp_path / "a", tmp_path / "b"
    command = ["trajectories", *models, "--text", tmp_path / "text.txt"]
    code, out, err = albert_keras(*command, "--out", tmp_path / "new")
    assert code == 0, err
    found = json.loads((tmp_path / "new" / "trajectories.json").read_text())
    assert list(found) == list(map(str, models))
    assert {one["pieces"] for one in found.values()} == {found[str(models[0])]["pieces"]}
    cut = sum(len(tokenizer.encode(text)) > 10 for text in TEXTS)
    assert all(one["texts"] == 4 and one["cut_texts"] == cut > 0 for one in found.values())
    assert f"{models[1]}: 3 layers, sharing none" in out and "cut at 12 pieces" in out


def test_mistakes_of_the_command_leave_nothing(tmp_path, albert_keras):
    pytest.importorskip("matplotlib")
    save_albert(albert(), tmp_path / "bare")
    (tmp_path / "text.txt").write_bytes(b"Caf\xe9.\n")
    before = sorted(tmp_path.rglob("*"))
    options = "--text", tmp_path / "text.txt", "--out", tmp_path / "new"
    for arguments, reason in (
        ((tmp_path / "none",), "MODEL must be there"),
        ((tmp_path / "bare", tmp_path / "bare"), "MODEL must name different ones"),
        ((tmp_path / "bare", "--length", 65), "--length must be at most the 64 positions"),
        ((tmp_path / "bare",), "MODEL must have its vocabulary"),
    ):
        code, out, err = albert_keras("trajectories", *arguments, *options)
        assert code == 2 and reason in err, err
    save_albert(albert(), tmp_path / "whole", tokenizer=small_tokenizer())
    code, out, err = albert_keras("trajectories", tmp_path / "whole", *options)
    assert code == 2 and "text.txt, line 1: not valid UTF-8" in err
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob(".new*"))
    assert set(before) <= set(tmp_path.rglob("*"))
