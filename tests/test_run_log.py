"""RunLog: what a run writes, and that a full disk ends no run and loses no line."""

import os
import resource

import pytest
import tensorflow as tf

from albert_keras.training.periodic_evaluation import PeriodicEvaluation
from albert_keras.training.progress import TrainingProgress
from albert_keras.training.run_log import RunLog
from tests.full_disk import full_disk
from tests.regression_run import STEPS, assert_same_weights, lines, run

pytestmark = pytest.mark.both_kerases


def in_tensorboard(folder):
    """Pairs of a name and its steps, in the order of the files."""
    found = {}
    for path in sorted((folder / "tensorboard").iterdir()):
        records = tf.data.TFRecordDataset(str(path)).ignore_errors()
        for record in records.as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                found.setdefault(value.tag, []).append(event.step)
    return found


class Disk:
    """Called after every step, by way of an evaluation: full at some, with space again at one."""

    def __init__(self, full_at, space_at):
        self.step, self._full_at, self._space_at = 0, full_at, space_at
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def __call__(self):
        self.step += 1
        if self.step == self._full_at:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20, self._limits[1]))
        if self.step == self._space_at:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        return {"score": -self.step}

    def evaluation(self):
        return PeriodicEvaluation(self, 1, "score", lambda step, scores: None)


@pytest.fixture(autouse=True)
def space_again():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_disk_that_is_full_for_a_while_costs_saves_and_nothing_else(
    tmp_path, uninterrupted, capfd
):
    folder = tmp_path / "run"
    evaluation = Disk(full_at=5, space_at=9).evaluation()
    options = {"save_every": 2, "log_every": 1, "evaluation": evaluation, "quiet": False}
    reached, weights = run(folder, **options)
    assert reached == STEPS
    assert_same_weights(weights, uninterrupted[1])
    everything = list(range(1, STEPS + 1))
    assert [line["step"] for line in lines(folder)] == everything
    assert [line["step"] for line in lines(folder, "evaluations.jsonl")] == everything
    assert sorted(set(in_tensorboard(folder)["loss"])) == everything
    assert sorted(set(in_tensorboard(folder)["dev_score"])) == everything
    events = lines(folder, "events.jsonl")
    assert [(event["step"], event["kind"]) for event in events] == [
        (6, "save_failed"),
        (8, "save_failed"),
    ]
    assert "failed saves so far: 1). The state saved at step 4 is from before" in events[0]["text"]
    assert "failed saves so far: 2)" in events[1]["text"]
    shown = capfd.readouterr().err
    assert shown.count("the log cannot be written") == 1 and shown.count("could not be saved") == 2
    assert {path.stem for path in (folder / "training").iterdir()} == {"step-10", "step-12"}


def test_a_disk_that_is_full_at_the_end_is_an_error_that_says_how_to_go_on(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    disk = Disk(full_at=7, space_at=100)
    options = {"save_every": 3, "evaluation": disk.evaluation()}
    with pytest.raises(
        OSError,
        match="state of step 12 could not be saved .*saved at step 6 is from before. Free some "
        "space and go on from there",
    ):
        run(folder, **options)
    assert {path.stem for path in (folder / "training").iterdir()} == {"step-3", "step-6"}
    disk.step = 90
    disk()
    resource.setrlimit(resource.RLIMIT_FSIZE, disk._limits)
    reached, weights = run(folder, resume=True)
    assert reached == STEPS
    assert_same_weights(weights, uninterrupted[1])
    # A save, here of step 3, ends an interval.
    assert [line["step"] for line in lines(folder)] == [2, 3, 4, 6, 8, 10, 12]


def test_a_log_file_of_the_progress_on_a_full_disk_is_no_end(tmp_path, monkeypatch):
    with (tmp_path / "stderr").open("w") as file:
        monkeypatch.setattr("sys.stderr", file)
        with TrainingProgress(10, 0, 8) as progress:
            file.write("x" * 100)
            file.flush()
            with full_disk(50):
                progress.say("a message")
                progress.advance(1, {"tokens_per_second": 1.0})
            progress.say("another")
    assert os.stat(tmp_path / "stderr").st_size > 100


def test_who_is_no_chief_writes_nothing(tmp_path):
    log = RunLog(None, TrainingProgress(10, 0, 8, quiet=True))
    log.metrics(1, {"loss": 1.0})
    log.evaluation(1, {"loss": 1.0})
    log.event(1, "kind", "text")
    log.forget_after(0)
    log.write()
    assert log.earlier_metrics() == log.earlier_evaluations() == []


def test_the_numbers_of_an_evaluation_are_in_tensorboard(tmp_path):
    log = RunLog(tmp_path, TrainingProgress(10, 0, 8, quiet=True))
    log.evaluation(3, {"mlm_loss": 4.5, "interval": (0.1, 0.2), "best": True})
    assert in_tensorboard(tmp_path) == {"dev_mlm_loss": [3]}
    assert lines(tmp_path, "evaluations.jsonl") == [
        {"step": 3, "mlm_loss": 4.5, "interval": [0.1, 0.2], "best": True}
    ]
