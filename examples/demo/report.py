"""The demo's closing table, plots and results.json, made from the files that the steps left.

    python -m examples.demo.report demo

may be run again at any time. Every number is from source files that were held out of training.
Those of fine-tuning are means over seeds, with intervals for new seeds and new paragraphs.
"""

import argparse
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from albert_keras.json_file import read_json, write_json
from albert_keras.report.machine import processor_name
from examples.demo.library_task import read_rows
from examples.demo.plots import plot_confusion, plot_finetuning, plot_pretraining

ENOUGH_STEPS = 4000  # of pretraining, to expect a gain by it


def mean_over_seeds(scores):
    """The mean of scores and its 95 % interval, over all seeds and all paragraphs of this kind.

    Half its width is the root of the sum of two squares: half the interval of the seeds' means, by
    Student's t with R - 1 degrees of freedom (4.3 standard errors for three seeds), and half that
    of the paragraphs' means, 1.96 standard errors. Whatever the two variances are, it covers the
    truth in at least 95 % of cases, and in up to 99 % where the seeds differ little. A bootstrap of
    three seeds covers it in 80 % where they differ much, and Satterthwaite's degrees of freedom in
    92 %: three seeds can lie close together by chance.

    It takes the paragraphs as independent of each other, and knows nothing of another pretraining.

    Args:
      scores: [R, N], one row a seed, one column a paragraph: 0 or 1 for a wrong or right answer, or
        the difference of two models' (-1, 0 or 1), which makes the interval a paired one.

    Returns:
      {"mean": float, "interval": [low, high], "of_seeds": [R] floats}.

    Reference:
      Banerjee 1960, Approximate confidence interval for linear functions of means of k populations
      when the population variances are not equal, Sankhya 22.
    """
    from scipy import stats

    scores = np.asarray(scores, float)
    seeds, paragraphs = scores.mean(axis=1), scores.mean(axis=0)
    half = np.hypot(
        stats.t.ppf(0.975, len(seeds) - 1) * stats.sem(seeds),
        stats.norm.ppf(0.975) * stats.sem(paragraphs),
    ).item()
    mean = scores.mean().item()
    return {"mean": mean, "interval": [mean - half, mean + half], "of_seeds": seeds.tolist()}


def seeds_of(run, start):
    """The folders of the runs that differ in their seed alone, `finetuned_0` and on, in order."""
    return sorted(run.glob(f"{start}_*"))


def read_metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def collect(run):
    """Gathers the results of a demo's folder.

    Returns:
      A dict of plain numbers, the content of results.json.
    """
    pretraining = read_json(run / "pretrained" / "evaluation.json")
    recipe = read_json(run / "pretrained" / "run.json")["settings"]["recipe"]
    finetuned, scratch = (
        np.array([_right(folder / "predictions.tsv") for folder in seeds_of(run, start)], float)
        for start in ("finetuned", "from_scratch")
    )
    words = np.array(_right(run / "baselines" / "library.tsv"), float)
    return {
        "machine": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "processor": f"{os.cpu_count()} x {processor_name()}",
            **{name: version(name) for name in ("tensorflow", "tf-keras", "albert-keras")},
        },
        "corpus": read_json(run / "corpus" / "summary.json"),
        "pretraining": pretraining
        | {"steps": recipe["total_steps"], "mask_rate": recipe["mask_rate"]},
        "order_bag_of_words": read_json(run / "baselines" / "order.json"),
        "finetuned": mean_over_seeds(finetuned),
        "from_scratch": mean_over_seeds(scratch),
        "library_bag_of_words": read_json(run / "baselines" / "library.json"),
        "gain_over_from_scratch": mean_over_seeds(finetuned - scratch),
        "gain_over_bag_of_words": mean_over_seeds(finetuned - words),
    }


def _right(file):
    rows = read_rows(file)
    return [row["label"] == row["predicted"] for row in rows]


def results_table(results):
    """The closing table: each result with its 95 % interval, beside its baselines."""
    table = Table(
        title="What it learned, measured on held-out source files",
        title_style="bold",
        caption="Which library: means over seeds; their intervals cover the choice of seeds and of "
        "texts, after this one pretraining.",
    )
    for column, justify in (
        ("task", "left"),
        ("", "left"),
        ("result", "right"),
        ("95 % interval", "right"),
        ("of", "right"),
    ):
        table.add_column(column, justify=justify)

    trained = results["pretraining"]
    pieces = f"{trained['masked_tokens']:,} pieces"
    table.add_row(
        "Masked language model",
        "[bold]ALBERT[/], nats a piece",
        f"[bold]{trained['mlm_loss']:.2f}[/]",
        "",
        pieces,
    )
    table.add_row("", "unigram entropy", f"{trained['unigram_entropy']:.2f}", "", "the same")
    gain = trained["unigram_entropy"] - trained["mlm_loss"]
    table.add_row("", "below it by", f"{gain:.2f}", "", "", end_section=True)

    order = results["order_bag_of_words"]
    pairs = f"{trained['sop_examples']:,} pairs"
    table.add_row("Sentence order", *_accuracy("[bold]ALBERT[/]", trained, pairs, "sop_"))
    table.add_row("", *_accuracy("bag of words", order, f"{order['examples']:,} pairs"))
    table.add_row("", "chance", "50.0 %", "", "", end_section=True)

    words = results["library_bag_of_words"]
    texts = f"{words['examples']:,} texts"
    task = f"Which of {len(results['corpus']['train_examples'])} libraries?"
    share, points = "{:.1f}", "{:+.1f}"
    _add_seeds(table, task, "[bold]ALBERT[/], mean", results["finetuned"], share, " %", texts)
    scratch = results["from_scratch"]
    _add_seeds(table, "", "without pretraining", scratch, share, " %", "the same")
    table.add_row("", *_accuracy("bag of words", words, "the same"))
    table.add_row("", "majority class", f"{100 * words['majority']:.1f} %", "", "the same")
    for name, text in (
        ("from_scratch", "gain by pretraining"),
        ("bag_of_words", "gain over bag of words"),
    ):
        gain = results[f"gain_over_{name}"]
        _add_seeds(table, "", text, gain, points, "", "points, paired")
    return table


def _add_seeds(table, task, name, result, form, unit, examples):
    """A row for the mean over seeds, and one for what each of them came to."""
    of_seeds = [form.format(100 * value) for value in result["of_seeds"]]
    mean, interval = 100 * result["mean"], [100 * end for end in result["interval"]]
    table.add_row(task, name, form.format(mean) + unit, _range(interval, form), examples)
    table.add_row("", "  each seed", "", " ".join(of_seeds), "")


def _accuracy(name, result, examples, prefix=""):
    interval = _range([100 * end for end in result[prefix + "accuracy_interval"]], "{:.1f}")
    return name, f"{100 * result[prefix + 'accuracy']:.1f} %", interval, examples


def few_steps(steps):
    """What a pretraining of so few steps can be expected to show."""
    return (
        f"Pretraining made {steps:,} steps. Below about {ENOUGH_STEPS:,} it may not help yet, or "
        "harm, at telling libraries: a run of 2,740 steps gained -0.1 points with one seed of "
        "fine-tuning and +3.6 with another. Give it longer: make demo MINUTES=20."
    )


def _range(interval, form):
    return " to ".join(form.format(end) for end in interval) if interval else ""


def make_plots(run, results, folder):
    order, words = results["order_bag_of_words"], results["library_bag_of_words"]
    plot_pretraining(
        read_metrics(run / "pretrained"),
        results["pretraining"],
        order["accuracy"],
        folder / "pretraining.png",
    )
    runs = {
        name: ([read_metrics(seed) for seed in seeds_of(run, start)], results[start])
        for name, start in (("pretrained", "finetuned"), ("from scratch", "from_scratch"))
    }
    plot_finetuning(runs, words, folder / "finetuning.png")
    rows = read_rows(seeds_of(run, "finetuned")[0] / "predictions.tsv")
    labels, predicted = ([row[name] for row in rows] for name in ("label", "predicted"))
    plot_confusion(labels, predicted, folder / "confusion.png")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the demo's folder")
    run = parser.parse_args(argv).run
    folder = run / "report"
    folder.mkdir(exist_ok=True)
    results = collect(run)
    write_json(folder / "results.json", results)
    make_plots(run, results, folder)
    Console().print(results_table(results))
    if results["pretraining"]["steps"] < ENOUGH_STEPS:
        print(few_steps(results["pretraining"]["steps"]))
    print(f"Plots and results.json are in {folder}.")


if __name__ == "__main__":
    main()
