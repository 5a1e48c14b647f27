"""What inspect says about a folder, finished or damaged."""

import json

import pytest

from albert_keras import build_albert, build_classifier, save_albert
from albert_keras.analysis.folders import describe
from albert_keras.json_file import write_json
from albert_keras.run_folder import begin_run

SETTINGS = {"recipe": {"total_steps": 40, "batch_size": 8}, "labels": ["no", "yes"]}
SCORES = {"accuracy": 0.75, "accuracy_interval": [0.6, 0.9], "labels": ["no", "yes"], "examples": 4}


@pytest.fixture
def run(tmp_path):
    begin_run(tmp_path / "run", SETTINGS)
    (tmp_path / "run" / "training").mkdir()
    for step in (9, 30):
        (tmp_path / "run" / "training" / f"step-{step}.index").write_bytes(b"")
    return tmp_path / "run"


@pytest.fixture
def export(tmp_path):
    for version in ("1", "9", "10", "1old"):
        folder = tmp_path / "served" / version
        (folder / "assets.extra").mkdir(parents=True)
        (folder / "saved_model.pb").write_bytes(b"")
        metadata = {"labels": ["no", "yes"], "max_length": 64, "vocabulary_sha256": "ab" * 32}
        write_json(folder / "assets.extra" / "metadata.json", metadata)
    return tmp_path / "served"


def test_a_run_that_has_not_ended_shows_how_far_it_is(run):
    found = describe(run)
    assert found["kind"] == "run that has not ended"
    assert found["steps done"] == "30 of 40" and found["saved steps"] == "9, 30"
    assert found["batch_size"] == 8 and found["labels"] == "2 labels (no, yes)"


def test_a_run_that_has_ended_shows_its_scores_and_its_model_too(run):
    (run / "training" / "step-40.index").write_bytes(b"")
    write_json(run / "evaluation.json", SCORES)
    classifier = build_classifier(build_albert("tiny"), 2)
    save_albert(classifier, run / "model", labels=["no", "yes"], max_length=17)
    found = describe(run)
    assert found["kind"] == "run that has ended" and found["steps done"] == "40 of 40"
    assert found["score: accuracy"] == 0.75 and found["score: examples"] == 4
    assert found["labels"] == "2 labels (no, yes)" and found["batch_size"] == 8
    assert found["model"] == "albert_classifier" and found["hidden_size"] == 24
    assert found["longest row of training"] == 17


def test_the_versions_of_an_export_are_shown_in_their_order(export):
    assert list(describe(export)) == ["kind", "version 1", "version 9", "version 10"]
    assert "2 labels (no, yes), at most 64 pieces" in describe(export)["version 10"]
    assert list(describe(export / "9")) == ["kind", "version 9"]


@pytest.mark.parametrize("name", ["run.json", "evaluation.json"])
def test_a_damaged_file_of_a_run_is_named(run, name):
    (run / name).write_text('{"settings": {"rec')
    with pytest.raises(ValueError, match=f"{name} is damaged or cut off"):
        describe(run)


def test_a_run_without_its_recipe_is_named(run):
    write_json(run / "run.json", {"keras": 2, "settings": {}})
    with pytest.raises(ValueError, match="run.json: `settings` must have the keys recipe"):
        describe(run)


def test_damaged_metadata_of_an_export_are_named(export):
    metadata = export / "9" / "assets.extra" / "metadata.json"
    fields = json.loads(metadata.read_text())
    metadata.write_text(metadata.read_text()[:30])
    with pytest.raises(ValueError, match="9/assets.extra/metadata.json is damaged or cut off"):
        describe(export)
    write_json(metadata, {**fields, "labels": 2})
    with pytest.raises(ValueError, match="9/assets.extra/metadata.json: `labels` must be a list"):
        describe(export)


def test_a_damaged_manifest_of_records_is_named(tmp_path):
    (tmp_path / "manifest.json").write_text('{"format": "albert_keras rec')
    with pytest.raises(ValueError, match="manifest.json is damaged or cut off"):
        describe(tmp_path)
