"""Several runs of a fine-tuning: what is left out, the median, and going on."""

import json

import numpy as np
import pytest

from albert_keras.tasks.finetuning_runs import several_runs
from albert_keras.training.saved_state import TrainingDiverged


def maker(losses, scores, begun):
    """A run that ends with the losses and the score of its seed; a seed without has diverged."""

    def one_run(seed, folder):
        if (folder / "model").exists():
            return True  # as `finetune`, which checks the settings first
        begun.append(seed)
        folder.mkdir(exist_ok=True)
        if seed not in losses:
            raise TrainingDiverged("the loss is NaN")
        lines = [{"step": 10 * (n + 1), "loss": loss} for n, loss in enumerate(losses[seed])]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "evaluation.json").write_text(
            json.dumps({"step": 10, "score": scores[seed], "accuracy": scores[seed], "labels": []})
        )
        (folder / "test").mkdir()
        (folder / "test" / "RTE.tsv").write_text(f"of seed {seed}")
        (folder / "model").mkdir()
        (folder / "model" / "weights").write_text(str(seed))
        return True

    return one_run


def test_median_spread_and_the_best_model(tmp_path):
    scores = {3: 0.5, 4: 0.9, 5: 0.7, 6: 0.6, 7: 0.65}
    one_run = maker({seed: [0.7, 0.2] for seed in scores}, scores, [])
    summary = several_runs(one_run, tmp_path / "runs", runs=5, first_seed=3, unlearned_loss=0.693)
    assert summary["median"]["accuracy"] == np.median(list(scores.values()))
    assert summary["lowest"]["accuracy"] == 0.5 and summary["highest"]["accuracy"] == 0.9
    assert summary["best_seed"] == 4 and summary["collapsed"] == []
    assert (tmp_path / "runs" / "model" / "weights").read_text() == "4"
    assert (tmp_path / "runs" / "test" / "RTE.tsv").read_text() == "of seed 4"
    assert json.loads((tmp_path / "runs" / "summary.json").read_text()) == summary


def test_runs_that_learned_nothing_are_named_and_replaced(tmp_path):
    # Seed 0 stays where it began, seed 1 diverges; of seed 2 only the beginning is there.
    losses = {0: [0.7, 0.69, 0.695, 0.69], 2: [0.9, 0.7, 0.6, 0.4], 3: [0.6] * 4}
    scores = {0: 0.95, 2: 0.8, 3: 0.7}
    summary = several_runs(
        maker(losses, scores, []), tmp_path / "runs", runs=2, first_seed=0, unlearned_loss=0.693
    )
    assert [run["seed"] for run in summary["runs"]] == [2, 3]
    first, second = summary["collapsed"]
    assert first["seed"] == 0 and "ended at 0.690, and 0.693 is reached without" in first["why"]
    assert first["scores"]["accuracy"] == 0.95  # shown, though it is not counted
    assert second["seed"] == 1 and "NaN" in second["why"]
    assert summary["best_seed"] == 2 and summary["median"]["accuracy"] == pytest.approx(0.75)


def test_when_all_collapse_the_user_is_told(tmp_path):
    begun = []
    with pytest.raises(RuntimeError, match="must learn something. Received: 4 that collapsed"):
        several_runs(
            maker({}, {}, begun), tmp_path / "runs", runs=3, first_seed=0, unlearned_loss=1.0
        )
    assert begun == [0, 1, 2, 3]
    summary = json.loads((tmp_path / "runs" / "summary.json").read_text())
    assert summary["runs"] == [] and len(summary["collapsed"]) == 4
    # What has diverged is not tried again.
    with pytest.raises(RuntimeError, match="must learn something"):
        several_runs(
            maker({}, {}, begun), tmp_path / "runs", runs=3, first_seed=0, unlearned_loss=1.0
        )
    assert begun == [0, 1, 2, 3]


def test_what_has_ended_is_not_repeated(tmp_path):
    scores = {seed: 0.5 for seed in range(3)}
    begun = []
    make = maker({seed: [0.1] for seed in scores}, scores, begun)

    def stopped_at_1(seed, folder):
        return seed != 1 and make(seed, folder)

    arguments = {"runs": 3, "first_seed": 0, "unlearned_loss": 1.0}
    assert several_runs(stopped_at_1, tmp_path / "runs", **arguments) is None
    assert not (tmp_path / "runs" / "summary.json").exists()
    assert several_runs(make, tmp_path / "runs", **arguments)["median"]["accuracy"] == 0.5
    assert begun == [0, 1, 2]
