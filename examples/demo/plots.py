"""The demo's plots: how the losses fell, and which libraries are taken for which."""

import numpy as np

from albert_keras.report.axes import BLUE, GREY, ORANGE, new_axes


def plot_pretraining(metrics, evaluation, order_baseline, file):
    """Both pretraining objectives over the steps, each with the baseline that it has to beat.

    Args:
      metrics: rows of the run's metrics.jsonl.
      evaluation: the run's evaluation.json, on held-out source files.
      order_baseline: held-out accuracy of the bag of words that tells the order of two segments.
      file: where to save the image.
    """
    figure, (left, right) = new_axes(2, 11, 4)
    steps = [row["step"] for row in metrics]
    left.plot(
        steps,
        [row["mlm_loss"] for row in metrics],
        color=BLUE,
        label=f"training: {100 * evaluation['mask_rate']:.0f} % masked,\n"
        "of these 80 % hidden, 10 % replaced, 10 % kept",
    )
    left.plot(
        steps[-1:],
        [evaluation["mlm_loss"]],
        "o",
        color=ORANGE,
        label="held-out files: 15 % masked, all hidden",
    )
    left.axhline(
        evaluation["unigram_entropy"],
        color=GREY,
        linestyle="--",
        label="unigram entropy (held-out)",
    )
    left.set(title="Masked language model", xlabel="step", ylabel="loss, nats a masked piece")
    right.plot(steps, [row["sop_accuracy"] for row in metrics], color=BLUE, label="training")
    _with_interval(
        right, steps[-1], evaluation["sop_accuracy"], evaluation["sop_accuracy_interval"]
    )
    right.axhline(order_baseline, color=GREY, linestyle="--", label="bag of words (held-out)")
    right.axhline(0.5, color=GREY, linestyle=":", label="chance")
    right.set(title="Sentence order", xlabel="step", ylabel="accuracy")
    # Or the gap between the two would be read as overfitting.
    left.legend(frameon=False, title="two kinds of masking: the losses do not compare")
    right.legend(frameon=False)
    figure.savefig(file, dpi=130)


def plot_finetuning(runs, words, file):
    """Fine-tuning with and without pretraining: training loss, and accuracy on held-out files.

    Args:
      runs: `{name: (each seed's rows of metrics.jsonl, what `mean_over_seeds` gives)}`.
      words: the "accuracy" of the bag of words and the share of the "majority" class.
      file: where to save the image.
    """
    figure, (left, right) = new_axes(2, 11, 4)
    for (name, (seeds, result)), color in zip(runs.items(), (BLUE, ORANGE), strict=True):
        for i, metrics in enumerate(seeds):
            left.plot(
                [row["step"] for row in metrics],
                [row["loss"] for row in metrics],
                color=color,
                label=None if i else f"{name}, {len(seeds)} seeds",
            )
        mean, (low, high) = result["mean"], result["interval"]
        right.bar(name, mean, yerr=[[mean - low], [high - mean]], capsize=6, color=color)
        right.plot([name] * len(seeds), result["of_seeds"], "o", color="black", markersize=4)
    right.axhline(words["accuracy"], color=GREY, linestyle="--", label="bag of words")
    right.axhline(words["majority"], color=GREY, linestyle=":", label="majority class")
    left.set(title="Which library? Training", xlabel="step", ylabel="loss, nats")
    right.set(
        title="Which library? Held-out files",
        ylabel="accuracy: mean, 95 % interval, seeds",
        ylim=(0, 1),
    )
    left.legend(frameon=False)
    right.legend(frameon=False)
    figure.savefig(file, dpi=130)


def _with_interval(axis, x, value, interval):
    axis.errorbar(
        [x],
        [value],
        yerr=[[value - interval[0]], [interval[1] - value]],
        fmt="o",
        capsize=4,
        color=ORANGE,
        label="held-out files, 95 %",
    )


def confusion(labels, predicted, classes):
    """Counts [true, predicted] in the order of `classes`."""
    index = {name: i for i, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, ([index[name] for name in labels], [index[name] for name in predicted]), 1)
    return counts


def plot_confusion(labels, predicted, file):
    """A confusion matrix whose rows, the true libraries, each sum up to 100 %."""
    classes = sorted(set(labels) | set(predicted))
    counts = confusion(labels, predicted, classes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, (axis,) = new_axes(1, 8, 7)
    axis.grid(False)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    ticks = range(len(classes))
    axis.set_xticks(ticks, classes, rotation=45, ha="right")
    axis.set_yticks(
        ticks, [f"{name} ({n})" for name, n in zip(classes, counts.sum(1), strict=True)]
    )
    axis.set(
        xlabel="predicted",
        ylabel="true library (paragraphs)",
        title="Held-out files, first seed, % of a row",
    )
    for row, column in np.ndindex(shares.shape):
        if counts[row, column]:
            color = "white" if shares[row, column] > 0.5 else "black"
            axis.text(
                column,
                row,
                f"{100 * shares[row, column]:.0f}",
                ha="center",
                va="center",
                color=color,
            )
    figure.savefig(file, dpi=130)
