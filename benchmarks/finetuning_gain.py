"""What pretraining gives to fine-tuning: the same model with its weights and with random ones.

    python -m benchmarks.finetuning_gain --model pretrained --out gain          # all data sets
    python -m benchmarks.finetuning_gain --model pretrained --out gain --sets med qnli --runs 5

The data sets of ALBERT_KERAS_DATA, each cut in two by the script, with seed 0:

    med      premise and hypothesis, entailment or neutral; the training part has no premise of the
             other one
    qnli     question and sentence, whether it has the answer
    conj     premise and hypothesis about "and", "or" and "not", three labels; 623 pairs
    squad1   answers in a text; 16 articles to train on, 4 to score
    squad2   the same questions twice: with their text, and with another one of the same article,
             in which they have no answer

Both starts have the same seeds, order and steps. `albert-keras finetune` does the work: what is
printed is its summary.json, one JSON line a data set and start.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from pathlib import Path

import tensorflow as tf

SETS = ("med", "qnli", "conj", "squad1", "squad2")
PAIRS = {
    # file, columns of both texts and of the label, the group that is not divided
    "med": ("nli/MED.tsv", "sentence1", "sentence2", "gold_label", "sentence1"),
    "qnli": ("glue/QNLI-dev-2000.tsv", "question", "sentence", "label", "sentence"),
    "conj": ("nli/conj_dev.tsv", "Premise", "Hypothesis", "Label", "Premise"),
}
EPOCHS = {"med": 4, "qnli": 6, "conj": 12, "squad1": 2, "squad2": 2}


def write_pairs(name, data, folder):
    """train.tsv and dev.tsv; a fifth of the groups is held out."""
    file, *columns, group = PAIRS[name]
    lines = (data / file).read_text(encoding="utf-8-sig").splitlines()
    header, *rows = (line.split("\t") for line in lines)
    places = [header.index(column) for column in (*columns, group)]
    rows = [[row[place] for place in places] for row in rows if len(row) == len(header)]
    groups = sorted({row[3] for row in rows})
    random.Random(0).shuffle(groups)
    held_out = set(groups[: len(groups) // 5])
    for part, wanted in (("train", False), ("dev", True)):
        text = "first\tsecond\tlabel\n" + "".join(
            "\t".join(row[:3]) + "\n" for row in rows if (row[3] in held_out) == wanted
        )
        (folder / f"{part}.tsv").write_text(text, encoding="utf-8")
    columns = ["--text-column", "first", "--pair-column", "second"]
    return ["--train", folder / "train.tsv", "--dev", folder / "dev.tsv", *columns]


def write_squad(name, data, folder):
    """The official files' names, with 16 articles and 4."""
    articles = json.loads((data / "squad" / "squad11_20articles.json").read_text())["data"]
    random.Random(0).shuffle(articles)
    version = {"squad1": "v1.1", "squad2": "v2.0"}[name]
    for part, some in (("train", articles[:16]), ("dev", articles[16:])):
        if name == "squad2":
            some = [with_unanswerable(article, random.Random(0)) for article in some]
        content = json.dumps({"version": version, "data": some})
        (folder / f"{part}-{version}.json").write_text(content)
    return ["--task", name, "--data", folder]


def with_unanswerable(article, draws):
    """Each question twice: with its paragraph, and, without an answer, with another one.

    With one of the two alone, a model that knows its questions by heart would need no paragraph.
    """
    paragraphs = [{"context": one["context"], "qas": []} for one in article["paragraphs"]]
    for place, paragraph in enumerate(article["paragraphs"]):
        for question in paragraph["qas"]:
            texts = [answer["text"].lower() for answer in question["answers"]]
            others = [
                other
                for other in range(len(paragraphs))
                if other != place
                and not any(text in paragraphs[other]["context"].lower() for text in texts)
            ]
            if not others:
                continue
            paragraphs[place]["qas"].append({**question, "is_impossible": False})
            none = {"id": f"{question['id']}-none", "answers": [], "is_impossible": True}
            paragraphs[draws.choice(others)]["qas"].append({**question, **none})
    return {"title": article["title"], "paragraphs": paragraphs}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="pretrained run or checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs; kept")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args(argv)
    if not os.environ.get("ALBERT_KERAS_DATA"):
        parser.error("set ALBERT_KERAS_DATA to the folder of the data sets")
    data = Path(os.environ["ALBERT_KERAS_DATA"])
    for name in arguments.sets:
        folder = arguments.out / name / "data"
        folder.mkdir(parents=True, exist_ok=True)
        write = write_squad if name.startswith("squad") else write_pairs
        files = write(name, data, folder)
        for start, flags in (("pretrained", []), ("random", ["--from-scratch"])):
            out = arguments.out / name / start
            resume = ["--resume"] if out.exists() else []
            command = [
                *(sys.executable, "-m", "albert_keras.cli", "finetune"),
                *("--model", arguments.model, *files, "--out", out, "--runs", arguments.runs),
                *("--epochs", EPOCHS[name], "--batch", arguments.batch),
                *("--learning-rate", arguments.learning_rate, *flags, *resume),
            ]
            began = time.monotonic()
            # It fails where no run has learned anything, which is a result.
            subprocess.run(list(map(str, command)), check=False, stdout=sys.stderr)
            summary = json.loads((out / "summary.json").read_text())
            print(
                json.dumps(
                    {
                        "benchmark": "finetuning_gain",
                        "set": name,
                        "start": start,
                        **{
                            key: {score: round(value, 4) for score, value in summary[key].items()}
                            for key in ("median", "lowest", "highest")
                            if key in summary
                        },
                        "runs": len(summary["runs"]),
                        "collapsed": len(summary["collapsed"]),
                        "minutes": round((time.monotonic() - began) / 60, 1),
                        "machine": platform.machine(),
                        "tensorflow": tf.__version__,
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
