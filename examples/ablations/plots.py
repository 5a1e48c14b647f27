"""A table's plot: where its cells end, and how they get there."""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.ablations.cells import TABLES
from examples.ablations.experiment import Experiment


def plot_table(
    experiment: Experiment,
    name: str,
    rows: Mapping[tuple[str, ...], Mapping[int, dict[str, Any]]],
    file: Path,
) -> None:
    """Held-out loss of each row, a dot a seed and a line for the median; and the training losses.

    Args:
        experiment: whose runs it reads.
        name: of the table.
        rows: the results of each seed under what stands in the table's columns.
        file: where to save the image.

    Raises:
        SystemExit: there is no matplotlib.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise SystemExit(
            "Plots need matplotlib: pip install 'albert-keras[plots]'. What has been trained is "
            "kept; then repeat the command."
        ) from error
    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    table = TABLES[name]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    labels = [", ".join(key) for key in rows]
    colors = pyplot.colormaps["viridis"].resampled(len(rows))(range(len(rows)))
    for place, (key, results) in enumerate(rows.items()):
        losses = [one["mlm_loss"] for one in results.values()]
        if not losses:
            continue
        left.plot(losses, [place] * len(losses), "o", color=colors[place], alpha=0.7)
        median = [statistics.median(losses)] * 2
        left.plot(median, [place - 0.3, place + 0.3], color="black")
        curves = [
            _training_losses(experiment.cell_folder(table.rows[key], seed)) for seed in results
        ]
        # Seeds of a matched time end at steps of their own.
        steps = [step for step in curves[0] if all(step in curve for curve in curves)]
        medians = [statistics.median(curve[step] for curve in curves) for step in steps]
        right.plot(steps, medians, color=colors[place], label=labels[place])
    entropy = [one["unigram_entropy"] for results in rows.values() for one in results.values()]
    right.axhline(entropy[0], color="grey", linestyle="--", label="unigram entropy (held out)")
    left.set_yticks(range(len(rows)), labels)
    left.invert_yaxis()
    left.set(title="Held out", xlabel="loss of masked words, nats", ylabel=", ".join(table.columns))
    right.set(title="Training, median of the seeds", xlabel="step", ylabel="loss, nats")
    right.set_ylim(top=entropy[0] + 0.5)
    right.legend(frameon=False, fontsize="small")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.suptitle(table.title)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def _training_losses(folder: Path, interval: int = 200) -> dict[int, float]:
    """The mean loss of masked words of each so many steps, by their last step."""
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    found: dict[int, list[float]] = {}
    for row in rows:
        if "mlm_loss" in row:  # an interval of skipped steps has none
            end = min(-(-row["step"] // interval) * interval, rows[-1]["step"])
            found.setdefault(end, []).append(row["mlm_loss"])
    return {step: statistics.fmean(losses) for step, losses in found.items()}
