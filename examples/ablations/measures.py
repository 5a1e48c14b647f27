"""What is measured of a cell, and the median and spread over its seeds."""

import json
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from albert_keras.analysis.parameters import HEADS, parameters_of
from albert_keras.config import AlbertConfig
from albert_keras.json_file import read_json
from examples.ablations.cells import Cell
from examples.ablations.experiment import Experiment

RESULT = "result.json"
SCORES = (
    *("mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy", "nsp_loss", "nsp_accuracy"),
    "unigram_entropy",
)


def encoder_parameters(config: AlbertConfig) -> int:
    """Weights of the encoder with its pooler, without the heads of pretraining."""
    parts = parameters_of(config)
    return sum(number for part, number in parts.items() if part not in HEADS)


def measured(experiment: Experiment, cell: Cell, seed: int) -> dict[str, Any]:
    """The measures of a run whose commands have ended.

    Seconds are those of training alone, at the median of the speeds that the run has logged, so
    that a break changes nothing. What ends in `_in_all` counts the runs that it grew from as well.
    """
    folder = experiment.cell_folder(cell, seed)
    run = read_json(folder / "run" / "run.json")
    steps = run["settings"]["recipe"]["total_steps"]
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    # The first interval compiles.
    speeds = [json.loads(line)["tokens_per_second"] for line in lines]
    speed = statistics.median(speeds[1:] or speeds)
    tokens, flops = steps * experiment.batch * experiment.length, experiment.flops(cell)
    (scores,) = read_json(folder / "scores.json").values()
    result = {
        "steps": steps,
        "parameters": encoder_parameters(cell.config(experiment.vocab_size, experiment.length)),
        "step_flops": flops,
        "seconds": tokens / speed,
        "tokens_per_second": speed,
        **{name: scores[name] for name in SCORES if name in scores},
    }
    if experiment.task:
        result["task_accuracy"] = read_json(folder / "task" / "evaluation.json")["accuracy"]
    before = {"steps_in_all": 0, "flops_in_all": 0, "seconds_in_all": 0}
    if cell.grown_from:
        before = read_json(experiment.cell_folder(cell.grown_from, seed) / RESULT)
    return result | {
        "steps_in_all": before["steps_in_all"] + steps,
        "flops_in_all": before["flops_in_all"] + steps * flops,
        "seconds_in_all": before["seconds_in_all"] + tokens / speed,
    }


def results_of(experiment: Experiment, cell: Cell, seeds: Sequence[int]) -> dict[int, dict]:
    """The measures of each seed that has finished.

    Raises:
        ValueError: a cell was begun with other settings.
    """
    files = {seed: experiment.cell_folder(cell, seed) / RESULT for seed in seeds}
    finished = {seed: file for seed, file in files.items() if file.exists()}
    for seed in finished:
        experiment.refuse_other_settings(cell, seed)
    return {seed: read_json(file) for seed, file in finished.items()}


def median_and_spread(values: Iterable[float]) -> tuple[float, float, float]:
    """The median, the lowest and the highest.

    >>> median_and_spread([3.0, 1.0, 2.0])
    (2.0, 1.0, 3.0)
    """
    values = list(values)
    return statistics.median(values), min(values), max(values)
