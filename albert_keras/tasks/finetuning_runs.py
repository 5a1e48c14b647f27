"""several_runs: a fine-tuning with several seeds, its median and spread, and its best model.

seed-0/ ... seed-4/   the runs, each a folder as of `run_folder`
summary.json          the scores of each, their median and spread, and which had to be repeated
model/, test/         those of the run with the highest score
"""

import math
import shutil
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from albert_keras.json_file import read_json, write_json
from albert_keras.new_folder import new_folder
from albert_keras.run_folder import METRICS, MODEL, SCORES, TEST
from albert_keras.training.line_log import LineLog
from albert_keras.training.saved_state import TrainingDiverged

SUMMARY = "summary.json"
# How many more runs than asked for there are at most, a share of those.
_RESTARTS = 1.0
# A run has learned nothing whose loss, over its last quarter, is at least this share of what the
# same answer to all examples would have.
_COLLAPSED = 0.98
_DIVERGED = "diverged.json"


def several_runs(
    one_run: Callable[[int, Path], bool],
    folder: str | Path,
    *,
    runs: int,
    first_seed: int,
    unlearned_loss: float,
) -> dict[str, Any] | None:
    """Runs with the seeds `first_seed`, `first_seed` + 1 and so on, and sums them up.

    A run that diverges or collapses is reported, left out of the median, and another seed takes its
    place, up to as many as `runs`. The same call goes on after an interruption: a run that has its
    model returns at once, if its settings are the same, and one that diverged is not tried again.

    Args:
        one_run: begins the run with a seed in a folder, or goes on with it; False where the user
            stopped it.
        folder: of all of them; made when missing.
        runs: int > 0.
        first_seed: int >= 0.
        unlearned_loss: of `FinetuningTask.unlearned_loss`.

    Returns:
        What summary.json has; None where the user stopped.

    Raises:
        RuntimeError: every run has collapsed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept, collapsed, seed = [], [], first_seed
    while len(kept) < runs and len(collapsed) <= _RESTARTS * runs:
        run = folder / f"seed-{seed}"
        why = _why_diverged(one_run, seed, run)
        if why is False:
            return None
        if why is not None:
            collapsed.append({"seed": seed, "why": why})
        else:
            found = {"seed": seed, "scores": read_json(run / SCORES)}
            loss = _last_loss(run)
            if loss < _COLLAPSED * unlearned_loss:
                kept.append(found)
            else:
                why = (
                    f"its training loss ended at {loss:.3f}, and {unlearned_loss:.3f} is reached "
                    "without learning"
                )
                collapsed.append({**found, "why": why})
        seed += 1
    summary = {"runs": kept, "collapsed": collapsed}
    if not kept:
        write_json(folder / SUMMARY, summary)
        raise RuntimeError(
            f"A run must learn something. Received: {len(collapsed)} that collapsed, the last one "
            f"because: {collapsed[-1]['why']}. Try a lower learning rate, a longer warm-up or more "
            f"steps. The runs are in {folder}."
        )
    best = max(kept, key=lambda run: _score(run))
    for part in (TEST, MODEL):
        source = folder / f"seed-{best['seed']}" / part
        if source.exists():
            with new_folder(folder / part, replace=(folder / part).exists()) as partial:
                shutil.copytree(source, partial, dirs_exist_ok=True)
    summary |= {
        "best_seed": best["seed"],
        **_summed_up([numbers_in(run["scores"]) for run in kept]),
    }
    write_json(folder / SUMMARY, summary)
    return summary


def _why_diverged(one_run, seed, run):
    """None for a run that ended well, False for one that the user stopped, else why it diverged,
    which its folder keeps."""
    if (run / _DIVERGED).exists():
        return read_json(run / _DIVERGED, ["why"])["why"]
    try:
        return None if one_run(seed, run) else False
    except TrainingDiverged as error:
        write_json(run / _DIVERGED, {"why": str(error)})
        return str(error)


def _score(run):
    scores = run["scores"]
    return scores.get("score", next((s["score"] for s in _parts(scores)), -1.0))


def _parts(scores):
    return [one for one in scores.values() if isinstance(one, dict) and "score" in one]


def numbers_in(scores: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers among the scores by name, those of a part as "part/name".

    Without the step and the number of examples, and without the score by which the best model is
    chosen, which has another name as well.

    >>> numbers_in({"score": 0.5, "accuracy": 0.5, "high": {"accuracy": 0.25}, "labels": ["a"]})
    {'accuracy': 0.5, 'high/accuracy': 0.25}
    """
    numbers = {}
    for name, value in scores.items():
        if isinstance(value, dict):
            numbers |= numbers_in(value, f"{prefix}{name}/")
        elif name in ("step", "score", "examples"):
            continue
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[prefix + name] = value
    return numbers


def _summed_up(runs):
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {
        what: {name: function([run[name] for run in runs]) for name in names}
        for what, function in (("median", statistics.median), ("lowest", min), ("highest", max))
    }


def _last_loss(run):
    """The mean training loss of the last quarter of the steps."""
    lines = [line for line in LineLog(run / METRICS).read() if "loss" in line]
    losses = [line["loss"] for line in lines if line["step"] > 0.75 * lines[-1]["step"]]
    return sum(losses) / len(losses) if losses else math.inf  # every step was skipped
