"""The demo's closing table, plots and results.json, made from the files that the steps left.

    python -m examples.demo.report demo

may be run again at any time. Every number is from source files that were held out of training.
"""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from albert_keras.json_file import read_json, write_json
from examples.demo.library_task import read_rows
from examples.demo.plots import plot_confusion, plot_finetuning, plot_pretraining


def paired_difference(first, second, z=1.96):
    """By how much the share of correct answers of `first` exceeds `second`'s, on the same examples.

    Args:
      first, second: sequences of booleans, one an example, in the same order.

    Returns:
      (difference, half the width of its 95 % interval): the examples on which both are right or
      both are wrong do not widen it.
    """
    gaps = np.asarray(first, float) - np.asarray(second, float)
    return float(gaps.mean()), float(z * gaps.std() / np.sqrt(len(gaps)))


def read_metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def collect(run):
    """Gathers the results of a demo's folder.

    Returns:
      A dict of plain numbers, the content of results.json.
    """
    pretraining = read_json(run / "pretrained" / "evaluation.json")
    finetuned = read_json(run / "finetuned" / "evaluation.json")
    scratch = read_json(run / "from_scratch" / "evaluation.json")
    right = {
        "finetuned": _right(run / "finetuned" / "predictions.tsv"),
        "from_scratch": _right(run / "from_scratch" / "predictions.tsv"),
        "bag_of_words": _right(run / "baselines" / "library.tsv"),
    }
    return {
        "machine": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "processor": _processor(),
            **{name: version(name) for name in ("tensorflow", "tf-keras", "albert-keras")},
        },
        "corpus": read_json(run / "corpus" / "summary.json"),
        "pretraining": pretraining | {"steps": read_metrics(run / "pretrained")[-1]["step"]},
        "order_bag_of_words": read_json(run / "baselines" / "order.json"),
        "finetuned": finetuned,
        "from_scratch": scratch,
        "library_bag_of_words": read_json(run / "baselines" / "library.json"),
        "gain_over_from_scratch": paired_difference(right["finetuned"], right["from_scratch"]),
        "gain_over_bag_of_words": paired_difference(right["finetuned"], right["bag_of_words"]),
    }


def _right(file):
    rows = read_rows(file)
    return [row["label"] == row["predicted"] for row in rows]


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def results_table(results):
    """The closing table: each result with its 95 % interval, beside its baselines."""
    table = Table(title="What it learned, measured on held-out source files", title_style="bold")
    for column, justify in (
        ("task", "left"),
        ("", "left"),
        ("result", "right"),
        ("95 % interval", "right"),
        ("of", "right"),
    ):
        table.add_column(column, justify=justify)

    trained = results["pretraining"]
    tokens = f"{trained['masked_tokens']:,} masked tokens"
    table.add_row(
        "Masked language model",
        "[bold]ALBERT[/], nats a token",
        f"[bold]{trained['mlm_loss']:.2f}[/]",
        _range(trained.get("mlm_loss_interval"), "{:.2f}"),
        tokens,
    )
    table.add_row("", "unigram entropy", f"{trained['unigram_entropy']:.2f}", "", "the same")
    gain = trained["unigram_entropy"] - trained["mlm_loss"]
    table.add_row("", "below it by", f"{gain:.2f}", "", "", end_section=True)

    order = results["order_bag_of_words"]
    pairs = f"{trained['sop_examples']:,} pairs"
    table.add_row("Sentence order", *_accuracy("[bold]ALBERT[/]", trained, pairs, "sop_"))
    table.add_row("", *_accuracy("bag of words", order, f"{order['examples']:,} pairs"))
    table.add_row("", "chance", "50.0 %", "", "", end_section=True)

    tuned = results["finetuned"]
    texts = f"{tuned['examples']:,} paragraphs"
    classes = len(results["corpus"]["train_examples"])
    table.add_row(f"Which of {classes} libraries?", *_accuracy("[bold]ALBERT[/]", tuned, texts))
    scratch, words = results["from_scratch"], results["library_bag_of_words"]
    table.add_row("", *_accuracy("the same, without pretraining", scratch, "the same"))
    table.add_row("", *_accuracy("bag of words", words, "the same"))
    table.add_row("", "majority class", f"{100 * words['majority']:.1f} %", "", "the same")
    for name, text in (
        ("from_scratch", "gain by pretraining, points"),
        ("bag_of_words", "gain over bag of words, points"),
    ):
        gain, half = (100 * value for value in results[f"gain_over_{name}"])
        interval = f"{gain - half:+.1f} to {gain + half:+.1f}"
        table.add_row("", text, f"{gain:+.1f}", interval, "paired")
    return table


def _accuracy(name, result, examples, prefix=""):
    interval = _range([100 * end for end in result[prefix + "accuracy_interval"]], "{:.1f}")
    return name, f"{100 * result[prefix + 'accuracy']:.1f} %", interval, examples


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
        "pretrained": (read_metrics(run / "finetuned"), results["finetuned"]),
        "from scratch": (read_metrics(run / "from_scratch"), results["from_scratch"]),
    }
    plot_finetuning(runs, words["accuracy"], folder / "finetuning.png")
    rows = read_rows(run / "finetuned" / "predictions.tsv")
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
    print(f"Plots and results.json are in {folder}.")


if __name__ == "__main__":
    main()
