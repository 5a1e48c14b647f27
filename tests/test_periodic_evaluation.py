"""PeriodicEvaluation: scores on the way, and the best model, whatever stops the run."""

import math

import numpy as np
import pytest

from albert_keras.training.periodic_evaluation import PeriodicEvaluation
from tests.regression_run import STEPS, assert_same_weights, batches_from, lines, regression, run

pytestmark = pytest.mark.both_kerases

HELD_OUT = np.random.default_rng(99).normal(size=(32, 4)).astype(np.float32)


class Evaluated:
    """Scores a model as it is; keeps (step, score, kernel) of the best ones."""

    def __init__(self, model, every=3, scores=None):
        self.model, self.calls, self.kept = model, 0, []
        self._given = scores
        self.evaluation = PeriodicEvaluation(self.scores, every, "loss", self.keep)

    def scores(self):
        self.calls += 1
        if self._given:
            return {"loss": self._given[self.calls - 1]}
        answers = self.model(HELD_OUT, training=False).numpy()
        return {"loss": float(np.mean((answers - HELD_OUT.sum(axis=1, keepdims=True)) ** 2))}

    def keep(self, step, scores):
        self.kept.append((step, scores["loss"], self.model.weights[0].numpy()))


def test_a_run_is_scored_every_so_many_steps_and_at_the_end_and_trains_as_without(
    tmp_path, uninterrupted
):
    model = regression()
    evaluated = Evaluated(model, every=5)
    _, weights = run(tmp_path / "run", model=model, evaluation=evaluated.evaluation)
    assert_same_weights(weights, uninterrupted[1])
    assert [(line["step"], line["loss"]) for line in lines(tmp_path / "run")] == [
        (line["step"], line["loss"]) for line in uninterrupted[0]
    ]
    scored = lines(tmp_path / "run", "evaluations.jsonl")
    assert [line["step"] for line in scored] == [5, 10, STEPS]
    kernel, bias = weights
    by_hand = np.mean((HELD_OUT @ kernel + bias - HELD_OUT.sum(axis=1, keepdims=True)) ** 2)
    assert scored[-1]["loss"] == pytest.approx(by_hand, rel=1e-5)


def test_the_lowest_score_so_far_is_kept(tmp_path):
    model = regression()
    evaluated = Evaluated(model, scores=[5.0, math.nan, 6.0, 4.0])
    run(tmp_path / "run", model=model, evaluation=evaluated.evaluation)
    assert [(step, score) for step, score, _ in evaluated.kept] == [(3, 5.0), (12, 4.0)]
    assert [line["best"] for line in lines(tmp_path / "run", "evaluations.jsonl")] == [
        *(True, False, False, True)
    ]


@pytest.mark.parametrize("killed_at", [2, 4, 7, 10])
def test_the_best_so_far_survives_a_kill(tmp_path, killed_at):
    class Killed(Exception):
        pass

    def evaluated(folder, killed_at=None, resume=False):
        model = regression()
        evaluated = Evaluated(model, every=2)
        given = {2: 5.0, 4: 3.0, 6: 4.0, 8: 2.5, 10: 3.5, 12: 2.0}

        def scores():
            step = int(model.optimizer.iterations.numpy())
            if step == killed_at:
                raise Killed
            return {"loss": given[step]}

        evaluation = evaluated.evaluation._replace(scores=scores)
        run(folder, model=model, evaluation=evaluation, save_every=3, resume=resume)
        return evaluated.kept

    def die(step):
        if step == killed_at:
            raise RuntimeError("killed")

    whole = evaluated(tmp_path / "whole")
    if killed_at % 2 == 0:
        with pytest.raises(Killed):
            evaluated(tmp_path / "run", killed_at)
    else:
        with pytest.raises(Exception, match="(?i)ran out|end of sequence|insufficient|killed"):
            model = regression()
            kept = Evaluated(model, every=2, scores=[5.0, 3.0, 4.0])
            run(tmp_path / "run", lambda start: batches_from(start, die), model=model,
                evaluation=kept.evaluation, save_every=3)  # fmt: skip
    resumed = evaluated(tmp_path / "run", resume=True)
    assert lines(tmp_path / "run", "evaluations.jsonl") == lines(
        tmp_path / "whole", "evaluations.jsonl"
    )
    # The last ones kept are the same model.
    for ours, theirs in zip(resumed[::-1], whole[::-1], strict=False):
        assert ours[:2] == theirs[:2]
        np.testing.assert_array_equal(ours[2], theirs[2])


def test_a_best_model_that_cannot_be_kept_is_not_the_best(tmp_path):
    model = regression()
    evaluated = Evaluated(model, scores=[5.0, 3.0, 4.0, 6.0])

    def full_at_six(step, scores):
        if step == 6:
            raise OSError("No space left on device")
        evaluated.keep(step, scores)

    run(
        tmp_path / "run",
        model=model,
        evaluation=evaluated.evaluation._replace(on_best=full_at_six),
    )
    assert [(step, score) for step, score, _ in evaluated.kept] == [(3, 5.0), (9, 4.0)]
    [event] = lines(tmp_path / "run", "events.jsonl")
    assert (event["step"], event["kind"]) == (6, "best_not_kept")


def test_a_best_model_of_a_step_that_is_made_again_is_still_the_best(tmp_path):
    """After a kill: the model is there, and the log has forgotten it."""
    model = regression()
    evaluated = Evaluated(model, scores=[5.0, 4.0, 3.0, 1.0])
    evaluation = evaluated.evaluation._replace(kept={"step": 12, "loss": 3.5})
    run(tmp_path / "run", model=model, evaluation=evaluation)
    assert [(step, score) for step, score, _ in evaluated.kept] == [(9, 3.0), (12, 1.0)]


def test_the_score_to_judge_by_must_be_there(tmp_path):
    evaluation = PeriodicEvaluation(lambda: {"accuracy": 1.0}, 3, "loss", lambda step, scores: None)
    with pytest.raises(ValueError, match="must be one of the scores accuracy. Received: 'loss'"):
        run(tmp_path / "run", evaluation=evaluation)


def test_it_is_called_every_step_or_more(tmp_path):
    evaluation = PeriodicEvaluation(dict, 0, "loss", lambda step, scores: None)
    with pytest.raises(ValueError, match="`every` must be at least 1. Received: 0"):
        run(tmp_path / "run", evaluation=evaluation)
