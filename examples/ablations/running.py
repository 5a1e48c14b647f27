"""Trains and scores the cells of an experiment, several side by side."""

import contextlib
import shlex
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from albert_keras.json_file import write_json
from albert_keras.lock import lock
from examples.ablations.cells import Cell
from examples.ablations.experiment import CLI, Experiment, environment
from examples.ablations.measures import RESULT, measured


class Run(NamedTuple):
    """A cell with one of its seeds."""

    cell: Cell
    seed: int

    @property
    def needs(self) -> "Run | None":
        """The run whose weights this one starts from."""
        return Run(self.cell.grown_from, self.seed) if self.cell.grown_from else None


class Worker:
    """Does what is left of a run, a command after the other, as `advance` is called."""

    def __init__(self, experiment: Experiment, run: Run, threads: int):
        self.experiment, self.run, self._threads = experiment, run, threads
        self.folder = experiment.begin_cell(*run)
        self._log = (self.folder / "log.txt").open("ab")
        self.process, self.started = None, time.monotonic()

    def advance(self) -> bool | None:
        """None while it is at work, then True, or False where a command has failed."""
        if self.process is not None:
            if self.process.poll() is None:
                return None
            if self.process.returncode:
                return False
        commands = self.experiment.commands(*self.run)
        if not commands:
            write_json(self.folder / RESULT, measured(self.experiment, *self.run))
            return True
        self._log.write(f"\n$ albert-keras {shlex.join(commands[0])}\n".encode())
        self._log.flush()
        self.process = subprocess.Popen(
            [*CLI, *commands[0]],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environment(self._threads),
        )
        return None

    def close(self) -> None:
        """Stops what still runs; a run of pretraining saves its state first."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self._log.close()


def run_cells(
    experiment: Experiment, cells: Sequence[Cell], seeds: Sequence[int], jobs: int, threads: int
) -> list[Run]:
    """Runs what is not finished: all cells of a seed, then of the next.

    Args:
        experiment: whose `data` is there.
        cells: each after the one that it grows from.
        seeds: int >= 0.
        jobs: int > 0, processes side by side.
        threads: int > 0, of each.

    Returns:
        The runs that failed, and those that would have grown from them.

    Raises:
        ValueError: a cell was begun with other settings, or another process is at work here;
            before any is run.
    """
    with lock(experiment.folder) as ours:
        if ours is False:
            raise ValueError(
                "One process runs the cells of a folder. Received: "
                f"{experiment.folder}, where another does. Wait for it, or use --jobs there."
            )
        return _run_cells(experiment, cells, seeds, jobs, threads)


def _run_cells(experiment, cells, seeds, jobs, threads):
    todo = [Run(cell, seed) for seed in seeds for cell in cells]
    for run in todo:
        experiment.begin_cell(*run)
    finished = {run for run in todo if (experiment.cell_folder(*run) / RESULT).exists()}
    todo = [run for run in todo if run not in finished]
    total, failed, workers = len(todo), [], []
    print(f"{len(finished)} runs finished before, {total} to do", flush=True)
    with contextlib.ExitStack() as stack:
        while todo or workers:
            for worker in list(workers):
                good = worker.advance()
                if good is None:
                    continue
                workers.remove(worker)
                worker.close()
                if good:
                    finished.add(worker.run)
                else:
                    failed.append(worker.run)
                done = total - len(todo) - len(workers)
                print(
                    f"{done}/{total} {'' if good else 'FAILED '}{worker.run.cell.name} seed "
                    f"{worker.run.seed}: {(time.monotonic() - worker.started) / 60:.1f} minutes"
                    + ("" if good else f"; see {worker.folder / 'log.txt'}"),
                    flush=True,
                )
            lost = [run for run in todo if run.needs in failed]
            failed += lost
            todo = [run for run in todo if run not in lost]
            ready = [run for run in todo if run.needs is None or run.needs in finished]
            for run in ready[: jobs - len(workers)]:
                todo.remove(run)
                workers.append(Worker(experiment, run, threads))
                stack.callback(workers[-1].close)
            time.sleep(0.2)
    return failed
