"""A worker that is killed stops the others, and all of them go on from their last common save."""

import signal
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from examples.pretrain_multiworker import started
from tests.regression_run import STEPS, lines, regression, run


@contextmanager
def workers(folder, *arguments):
    processes = started([sys.executable, "-m", "tests.worker_run", str(folder), *arguments], 2)
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_worker_that_is_killed_stops_the_others_and_the_run_goes_on(tmp_path, capfd):
    run(tmp_path / "whole", model=regression(clip=None), log_every=1)
    folder = tmp_path / "run"
    with workers(folder, "begin", "1", "7") as (first, second):
        assert second.wait(timeout=120) == -signal.SIGKILL
        assert first.wait(timeout=120) == 1
    assert "RuntimeError: Another worker is gone" in capfd.readouterr().err
    assert [line["step"] for line in lines(folder)] == list(range(1, 8))

    with workers(folder, "resume") as processes:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    # The steps after the last save, of step 6, are there once.
    ours, whole = lines(folder), lines(tmp_path / "whole")
    assert [line["step"] for line in ours] == list(range(1, STEPS + 1))
    losses = [[line["loss"] for line in run] for run in (ours, whole)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.fixture(autouse=True)
def from_the_checkout(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)  # for `python -m tests...`
