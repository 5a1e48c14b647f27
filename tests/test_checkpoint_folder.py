"""Where in a folder a checkpoint and a vocabulary are, told without TensorFlow."""

import json

import pytest

from albert_keras.checkpoint_folder import find_checkpoint, find_tokenizer, positions_in


@pytest.fixture
def run(tmp_path):
    """A run that has ended: its model with its vocabulary in it."""
    run = tmp_path / "run"
    (run / "model").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "model" / "config.json").write_text(json.dumps({"max_position_embeddings": 64}))
    (run / "model" / "spiece.model").write_bytes(b"")
    return run


def test_a_run_stands_for_its_model(run):
    assert find_checkpoint(run) == find_checkpoint(run / "model") == run / "model"
    assert find_tokenizer(run) == find_tokenizer(run / "model") == run / "model"


def test_a_run_that_has_not_ended_says_how_it_would(run):
    (run / "model" / "config.json").unlink()
    with pytest.raises(ValueError, match="when it has ended. Received: .*run, .*--resume"):
        find_checkpoint(run)
    (run / "run.json").unlink()
    with pytest.raises(ValueError, match="A checkpoint folder holds config.json"):
        find_checkpoint(run)


def test_a_vocabulary_stays_what_it_is_and_one_of_its_own_comes_first(run, tmp_path):
    assert find_tokenizer(run / "model" / "spiece.model") == run / "model" / "spiece.model"
    assert find_tokenizer(tmp_path) == tmp_path  # which then is refused by name
    (run / "vocab.txt").write_text("")
    assert find_tokenizer(run) == run


def test_the_positions_are_those_of_the_config(run):
    assert positions_in(run / "model") == 64
    (run / "model" / "config.json").write_text('{"max_position_embeddings": "64"}')
    with pytest.raises(ValueError, match="config.json: `max_position_embeddings` must be a whole"):
        positions_in(run / "model")
