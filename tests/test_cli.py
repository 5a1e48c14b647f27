"""The command line: the whole path at toy size, and what a user's mistakes look like."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert_keras import (
    PRESETS,
    Tokenizer,
    __version__,
    build_albert,
    build_span_predictor,
    cli,
    load_albert,
    save_albert,
)
from albert_keras.checkpoints import load_head
from albert_keras.data.chunks import MAX_LENGTH, MIN_LENGTH
from albert_keras.layers.sop_head import PAIR_OBJECTIVES
from albert_keras.optimizers import OPTIMIZERS
from albert_keras.run_folder import only_process_in
from albert_keras.schedule import DECAYS
from albert_keras.text.vocabulary import train_vocabulary
from albert_keras.training.strategy import STRATEGIES

ROOT = Path(__file__).parents[1]
SIZES = ["--preset", "tiny", "--length", "32", "--batch", "4"]
TINY = [*SIZES, "--optimizer", "adamw", "--learning-rate", "1e-3"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a text, labelled examples, a vocabulary, records and a pretrained model."""
    work = tmp_path_factory.mktemp("work")
    paragraphs = (ROOT / "LICENSE").read_text().split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    (work / "text.txt").write_text(text)
    rows = [
        f"{sentence.strip()}\t{'grant' if 'grant' in paragraph else 'other'}"
        for paragraph in text.split("\n\n")
        for sentence in paragraph.split(". ")
    ]
    (work / "train.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    for arguments in (
        ["vocab", "text.txt", "--out", "vocab", "--size", 250, "--sentences", "split"],
        ["records", "text.txt", "--vocab", "vocab", "--out", "records", "--length", 32,
         "--sentences", "split"],
        ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "pretrained", *TINY,
         "--steps", 6, "--log-every", 2, "--dev", "records"],
        ["finetune", "--model", "pretrained", "--train", "train.tsv", "--dev", "train.tsv",
         "--out", "finetuned", "--length", 32, "--batch", 4, "--steps", 4, "--log-every", 2],
    ):  # fmt: skip
        subprocess.run(
            [sys.executable, "-m", "albert_keras.cli", *map(str, arguments)],
            cwd=work,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        )
    return work


def test_pretraining_leaves_a_model_its_scores_and_its_log(work):
    run = work / "pretrained"
    assert (run / "model" / "model.safetensors").is_file()
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == [2, 4, 6]
    scores = json.loads((run / "evaluation.json").read_text())
    assert scores["masked_tokens"] > 0 and scores["sop_examples"] > 0
    low, high = scores["sop_accuracy_interval"]
    assert low <= scores["sop_accuracy"] <= high
    assert list((run / "tensorboard").glob("*tfevents*"))


def test_fine_tuning_leaves_predictions_of_every_example(work):
    lines = (work / "finetuned" / "predictions.tsv").read_text().splitlines()
    examples = (work / "train.tsv").read_text().splitlines()
    assert len(lines) == len(examples)
    scores = json.loads((work / "finetuned" / "evaluation.json").read_text())
    right = sum(line.split("\t")[1] == line.split("\t")[2] for line in lines[1:])
    assert scores["accuracy"] == pytest.approx(right / (len(lines) - 1))
    assert sum(map(sum, scores["confusion"])) == len(lines) - 1


def test_an_export_answers_strings_and_is_described(work, albert_keras):
    code, out, err = albert_keras(
        "export", "--model", work / "finetuned", "--out", work / "served" / "licence"
    )
    assert (code, err) == (0, "") and "self-check passed" in out
    code, out, _ = albert_keras(
        "predict", "--export", work / "served" / "licence", "A grant of rights.", ""
    )
    answers = [line.split("\t") for line in out.splitlines()]
    assert code == 0 and [answer[2] for answer in answers] == ["A grant of rights.", ""]
    assert all(answer[0] in ("grant", "other") and float(answer[1]) >= 0.5 for answer in answers)
    code, out, _ = albert_keras("inspect", work / "served" / "licence")
    assert code == 0 and "2 labels (grant, other)" in out
    assert "at most 32 pieces" in out  # as fine-tuned; the model has 64 positions


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vocab", ["250"]),
        ("records", ["pair_chunks"]),
        ("pretrained", ["albert_pretrainer", "parameters"]),
        ("finetuned", ["albert_classifier"]),
    ],
)
def test_inspect_says_what_a_folder_holds(work, albert_keras, name, words):
    code, out, _ = albert_keras("inspect", work / name)
    assert code == 0 and all(word in out for word in words), out


def test_inspect_of_a_run_shows_its_steps_scores_labels_and_settings(work, albert_keras):
    code, out, _ = albert_keras("inspect", work / "finetuned")
    values = dict(line.split("\t")[:2] for line in out.splitlines())
    accuracy = json.loads((work / "finetuned" / "evaluation.json").read_text())["accuracy"]
    assert values["steps done"] == "4 of 4" and values["labels"] == "2 labels (grant, other)"
    assert values["score: accuracy"] == f"{accuracy:.6g}" and values["batch_size"] == "4"


def test_what_is_not_shown_on_a_terminal_is_not_cut(work, albert_keras, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    code, out, _ = albert_keras("inspect", work / "vocab")
    [sha] = [line.split("\t")[1] for line in out.splitlines() if line.startswith("sha256\t")]
    assert len(sha) == 64


def test_inspect_shows_the_pieces_of_a_text(work, albert_keras):
    code, out, _ = albert_keras("inspect", work / "vocab", "--tokenize", "License")
    rows = [line.split("\t") for line in out.splitlines()]
    pieces = [(row[1], *map(int, row[2].split(":"))) for row in rows if len(row) == 3]
    assert code == 0 and "".join(piece for piece, _, _ in pieces) == "\u2581license"
    assert pieces[0][1] == 0 and pieces[-1][2] == len("License")
    assert all(end == start for (_, _, end), (_, start, _) in itertools.pairwise(pieces))


def test_ctrl_c_leaves_a_run_that_goes_on(work, albert_keras):
    arguments = ["--records", work / "records", "--vocab", work / "vocab", *TINY]
    arguments += ["--out", work / "stopped", "--steps", 100_000, "--log-every", 5]
    process = subprocess.Popen(
        [sys.executable, "-m", "albert_keras.cli", "pretrain", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (work / "stopped" / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "--resume" in err
    stopped_at = int(err.split("Stopped at step ")[1].split(" of")[0].replace(",", ""))
    code, out, _ = albert_keras("inspect", work / "stopped")
    assert code == 0 and str(stopped_at) in out
    # Going on needs the same settings, and says which differ.
    code, _, err = albert_keras("pretrain", *arguments, "--resume", "--seed", 5)
    assert code == 2 and "Traceback" not in err
    assert [line for line in err.splitlines() if line.startswith(" ")] == ["  --seed was 0, is 5"]
    # And no second process in the same folder.
    with only_process_in(work / "stopped"):
        code, _, err = albert_keras("pretrain", *arguments, "--resume")
    assert code == 2 and f"Received: {work / 'stopped'}, in which another one does" in err


def test_an_early_ctrl_c_says_so(work, albert_keras, monkeypatch):
    def interrupted(strategy):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.pretraining, "start_tensorflow", interrupted)
    out = work / "new"
    arguments = ["pretrain", "--records", work / "records", "--vocab", work / "vocab", "--out", out]
    code, _, err = albert_keras(*arguments, "--steps", 5)
    assert (code, err) == (130, f"Stopped. Nothing was written to {out}.\n")


def test_a_text_of_several_lines_is_answered_on_one(work, albert_keras):
    if not (work / "served" / "other").exists():
        albert_keras("export", "--model", work / "finetuned", "--out", work / "served" / "other")
    code, out, _ = albert_keras("predict", "--export", work / "served" / "other", "two\nlines\t!")
    assert code == 0 and out.endswith("\ttwo lines !\n") and out.count("\t") == 2


MISTAKES = {
    "no command": ([], "Usage"),
    "an unknown option": (["vocab", "text.txt", "--colour", "red"], "No such option"),
    "a missing file": (["vocab", "nowhere.txt", "--out", "new", "--size", 50], "nowhere.txt"),
    "an empty corpus": (
        ["records", "empty.txt", "--vocab", "vocab", "--out", "new"],
        "corpus is empty",
    ),
    "invalid UTF-8": (["vocab", "latin1.txt", "--out", "new", "--size", 50], "not valid UTF-8"),
    "UTF-16": (["vocab", "utf16.txt", "--out", "new", "--size", 50], "UTF-16"),
    "more pieces than the text supports": (
        ["vocab", "text.txt", "--out", "new", "--size", 30000],
        "at most",
    ),
    "no vocabulary": (
        ["records", "text.txt", "--vocab", "text.txt", "--out", "new"], "WordPiece vocabulary"
    ),
    "an output folder that exists": (
        ["records", "text.txt", "--vocab", "vocab", "--out", "records"],
        "must not exist yet",
    ),
    "a run that exists": (
        ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "pretrained", *TINY,
         "--steps", 5],
        "must not exist yet",
    ),
    "another vocabulary than the records'": (
        ["pretrain", "--records", "records", "--vocab", "other", "--out", "new", *TINY,
         "--steps", 5],
        "another vocabulary",
    ),
    "a length over the positions": (
        ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "new", "--preset",
         "tiny", "--length", 500, "--steps", 5],
        "max_position_embeddings",
    ),
    "a hidden size that heads do not divide": (
        ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "new", *TINY,
         "--steps", 5, "--set", "hidden_size=25"],
        "multiple of `num_attention_heads`",
    ),
    "an unknown config key": (
        ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "new", *TINY,
         "--steps", 5, "--set", "hiden_size=24"],
        "did you mean 'hidden_size'",
    ),
    "neither steps nor minutes": (
        ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "new", *TINY],
        "one of --steps, --minutes. Received: none",
    ),
    "a label never seen": (
        ["finetune", "--model", "pretrained", "--train", "train.tsv", "--dev", "strange.tsv",
         "--out", "new", "--length", 32, "--steps", 2],
        "strange.tsv.*'never'",
    ),
    "an export of a pretrainer as pairs": (
        ["export", "--model", "pretrained", "--out", "new", "--pair"],
        "--pair and --single are for classifiers and encoders. Received: a pretrainer",
    ),
    "an export of labels with a threshold": (
        ["export", "--model", "finetuned", "--out", "new", "--null-threshold", 1],
        "--null-threshold is of SQuAD 2.0. Received: it for a classifier",
    ),
    "a threshold that is no number": (
        ["export", "--model", "vocab", "--out", "new", "--null-threshold", "nan"],
        "--null-threshold must be a number",
    ),
    "a question to no export": (["predict", "--export", "vocab", "text"], "saved_model.pb"),
    "nothing to inspect": (["inspect", "text"], "does not exist"),
    "a damaged export": (["predict", "--export", "cut", "text"], "export in cut/1 is damaged"),
    "a batch above the records": (
        ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "new", "--preset",
         "tiny", "--length", 32, "--batch", 5000, "--steps", 5],
        r"--batch must not be above .* Received: 5000, and \d+ records",
    ),
    "a model of one segment": (
        ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "new", *TINY,
         "--steps", 5, "--set", "type_vocab_size=1"],
        "`type_vocab_size` must be at least 2",
    ),
    "more characters than pieces": (
        ["vocab", "text.txt", "--out", "new", "--size", 20], "--size 20. Ask for more pieces, or "
    ),
    "a classifier on a span predictor": (
        ["finetune", "--model", "spans", "--train", "train.tsv", "--out", "new", "--steps", 2],
        "--model must have a pooler.* Received: spans, a span predictor",
    ),
    "a table with commas": (
        ["finetune", "--model", "pretrained", "--train", "commas.txt", "--out", "new",
         "--length", 32, "--steps", 2],
        "Received: commas.txt with .*separated by tabs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_with_code_2_a_reason_and_nothing_written(
    work, albert_keras, monkeypatch, mistake
):
    monkeypatch.chdir(work)
    Path("empty.txt").write_text("")
    Path("latin1.txt").write_bytes("Caf\xe9 au lait.\n".encode("latin-1"))
    Path("utf16.txt").write_text("A text.\n", encoding="utf-16")
    Path("commas.txt").write_text("text,label\nA text.,yes\n")
    Path("cut/1").mkdir(parents=True, exist_ok=True)
    Path("cut/1/saved_model.pb").write_bytes(b"\x08")
    Path("strange.tsv").write_text("text\tlabel\nA text.\tnever\n")
    if mistake.endswith("span predictor") and not Path("spans").exists():
        tokenizer = Tokenizer.load("vocab")
        encoder = build_albert("tiny", vocab_size=tokenizer.vocab_size)
        save_albert(build_span_predictor(encoder), "spans", tokenizer)
    if mistake.startswith("another vocabulary") and not Path("other").exists():
        albert_keras("vocab", "text.txt", "--out", "other", "--size", 200)
    before = sorted(path for path in work.rglob("*"))
    arguments, reason = MISTAKES[mistake]
    code, out, err = albert_keras(*arguments)
    assert code == 2, err
    assert "Traceback" not in err
    assert re.search(reason, out + err), err
    assert sorted(path for path in work.rglob("*")) == before


PRETRAIN = ["pretrain", "--records", "records", "--vocab", "vocab", "--out", "new"]
FINETUNE = ["finetune", "--model", "pretrained", "--train", "train.tsv", "--out", "new"]
RECORDS = ["records", "text.txt", "--vocab", "vocab", "--out", "new"]
AT_ONCE = {
    "a missing corpus": (["vocab", "none.txt", "--out", "new", "--size", 50], "none.txt"),
    "a missing vocabulary": (
        ["records", "text.txt", "--vocab", "none", "--out", "new"], "--vocab must be .*none"
    ),
    "an output folder that exists": (
        ["records", "text.txt", "--vocab", "vocab", "--out", "records"], "must not exist yet"
    ),
    "missing records": (
        ["pretrain", "--records", "none", *PRETRAIN[3:], "--steps", 5], "--records must be .*none"
    ),
    "a run that exists": ([*PRETRAIN[:-1], "pretrained", "--steps", 5], "must not exist yet"),
    "no run to resume": ([*PRETRAIN, "--steps", 5, "--resume"], "no run to resume"),
    "minutes that are none": ([*PRETRAIN, "--minutes", "inf"], "--minutes must be .* inf"),
    "a rate that is none": (
        [*PRETRAIN, "--steps", 5, "--learning-rate", "nan"], "--learning-rate must be .*nan"
    ),
    "a mask rate that is none": (
        [*PRETRAIN, "--steps", 5, "--mask-rate", "inf"], "--mask-rate must .*inf"
    ),
    "no such preset": (
        [*PRETRAIN, "--steps", 5, "--preset", "smal"], "'smal'. Did you mean 'small'\\?\n$"
    ),
    "no such optimizer": (
        [*PRETRAIN, "--steps", 5, "--optimizer", "sgd"], "--optimizer.*'lamb'.*'adamw'"
    ),
    "no such optimizer of fine-tuning": (
        [*FINETUNE, "--steps", 5, "--optimizer", "sgd"], "--optimizer.*'lamb'.*'adamw'"
    ),
    "a run under a file": (
        [*PRETRAIN[:-1], "text.txt/run", "--steps", 5],
        "--out must be where .*text.txt/run, .*Not a dir"
    ),
    "a run where none can be": (
        [*FINETUNE[:-1], "text.txt/x/y", "--steps", 5], "--out must be where .*text.txt/x/y"
    ),
    "a vocabulary under a file": (
        ["vocab", "text.txt", "--out", "text.txt/v", "--size", 50], "--out must be where"
    ),
    "records that are complete": (
        ["records", "text.txt", "--vocab", "vocab", "--out", "records", "--resume"],
        "--resume goes on with records that were stopped. Received: records",
    ),
    "records under a file": (
        ["records", "text.txt", "--vocab", "vocab", "--out", "text.txt/r"], "--out must be where"
    ),
    "an export under a file": (
        ["export", "--model", "finetuned", "--out", "text.txt/e"], "--out must be where"
    ),
    "sequences over the positions": (
        [*PRETRAIN, "--steps", 5, "--preset", "tiny", "--length", 65], "--length .*64 positions"
    ),
    "rows over the positions": (
        [*FINETUNE, "--steps", 5, "--length", 65], "--length must be at most the 64 positions"
    ),
    "served rows over the positions": (
        ["export", "--model", "finetuned", "--out", "new", "--length", 65],
        "--length must be at most the 64 positions"
    ),
    "no version": (["export", "--model", "finetuned", "--out", "new", "--version", 0], "--version"),
    "a version that exists": (
        ["export", "--model", "finetuned", "--out", "versions", "--version", 9],
        "--version must be a new one.*versions/9 exists. The next is --version 11"
    ),
    "a model of a run that has not ended": (
        ["finetune", "--model", "unfinished", *FINETUNE[3:], "--steps", 5],
        "Received: unfinished, which has not.* --resume",
    ),
    "an export of a run that has not ended": (
        ["export", "--model", "unfinished", "--out", "new"], "Received: unfinished, which has not"
    ),
    "no checkpoint": (["export", "--model", "vocab", "--out", "new"], "config.json.*: vocab"),
    "too short records": ([*RECORDS, "--length", 3], "--length"),
    "no workers": ([*RECORDS, "--workers", 0], "--workers"),
    "no shards": ([*RECORDS, "--shards", 0], "--shards"),
    "more short ones than all": ([*RECORDS, "--short-fraction", 3], "--short-fraction"),
    "too few pieces": (["vocab", "text.txt", "--out", "new", "--size", 3], "--size"),
    "no sentence to train on": (
        ["vocab", "text.txt", "--out", "new", "--size", 50, "--max-sentences", 0],
        "--max-sentences"
    ),
    "pieces without a vocabulary": (
        ["inspect", "records", "--tokenize", "x"], "--tokenize needs a vocabulary.*: records"
    ),
    "a field that is none": ([*PRETRAIN, "--steps", 5, "--set", "layers=3"], "layers"),
    "no mask rate": ([*PRETRAIN, "--steps", 5, "--mask-rate", 0], "--mask-rate must be above 0"),
    "no rate for adamw": (
        [*PRETRAIN, "--steps", 5, "--optimizer", "adamw"], "--learning-rate must be given"
    ),
    "a negative rate": ([*PRETRAIN, "--steps", 5, "--learning-rate", -1], "--learning-rate must"),
    "a warm-up that is none": ([*PRETRAIN, "--steps", 5, "--warmup", "nan"], "--warmup must .*nan"),
    "an endless warm-up": ([*PRETRAIN, "--steps", 5, "--warmup", "inf"], "--warmup must .*inf"),
    "a warm-up over the steps": ([*PRETRAIN, "--steps", 5, "--warmup", 9], "--warmup must .*the 5"),
    "a field without a value": ([*PRETRAIN, "--steps", 5, "--set", "x"], "--set takes name=value"),
    "epochs that are none": ([*FINETUNE, "--epochs", "nan"], "--epochs must be .* nan"),
    "endless epochs": ([*FINETUNE, "--epochs", "inf"], "--epochs must be .* inf"),
    "steps and epochs": ([*FINETUNE, "--epochs", 1, "--steps", 3], "--steps and --epochs"),
    "a dropout that is none": (
        [*FINETUNE, "--steps", 3, "--dropout", "nan"], "--dropout must .*nan"
    ),
    "a missing checkpoint": (["export", "--model", "none", "--out", "new"], "--model must .*none"),
    "no export": (["predict", "--export", "vocab", "text"], "saved_model.pb.*Received: vocab"),
    "nothing to inspect": (["inspect", "none"], "none, which does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", AT_ONCE)
def test_a_mistake_in_a_name_or_number_is_told_before_tensorflow_starts(
    work, albert_keras, monkeypatch, mistake
):
    def started():
        raise AssertionError("TensorFlow was started")

    for module in (cli.data, cli.pretraining, cli.finetuning, cli.serving):
        monkeypatch.setattr(module, "start_tensorflow", started)
    monkeypatch.chdir(work)
    for number in ("1", "9", "10", "11old"):
        Path("versions", number).mkdir(parents=True, exist_ok=True)
    Path("unfinished").mkdir(exist_ok=True)
    Path("unfinished", "run.json").write_text("{}")
    arguments, reason = AT_ONCE[mistake]
    code, out, err = albert_keras(*arguments)
    assert code == 2 and re.search(reason, out + err), err
    assert not (work / "new").exists()


def test_the_ranges_of_options_are_those_of_the_library(work, albert_keras, monkeypatch, tmp_path):
    def started():
        raise ValueError("TensorFlow was started")

    monkeypatch.setattr(cli.data, "start_tensorflow", started)
    corpus = work / "text.txt"
    vocab = ["vocab", corpus, "--out", tmp_path / "x", "--size"]
    records = ["records", corpus, "--vocab", work / "vocab", "--out", tmp_path / "x", "--length"]
    for arguments, inside, outside in (
        (vocab, 14, 13),
        (records, MIN_LENGTH, MIN_LENGTH - 1),
        (records, MAX_LENGTH, MAX_LENGTH + 1),
    ):
        assert "TensorFlow was started" in albert_keras(*arguments, inside)[2]
        assert arguments[-1] in albert_keras(*arguments, outside)[2]
    with pytest.raises(ValueError, match="must be over 13,"):
        train_vocabulary(["a"], 13)


def test_the_choices_of_the_command_line_are_those_of_the_library():
    assert tuple(cli.runs.OptimizerName) == tuple(OPTIMIZERS)
    assert tuple(cli.pretraining.Objective) == PAIR_OBJECTIVES
    assert tuple(cli.pretraining.Strategy) == STRATEGIES
    assert tuple(cli.pretraining.Decay) == DECAYS


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("`recipe.learning_rate` was 1, is 2", "--learning-rate was 1, is 2"),
        ("`config.hidden_size` was 1, is 2", "--set hidden_size was 1, is 2"),
        ("only where `allow_missing` has", "only where --allow-missing has"),
        ("`folder` must not exist yet", "DEST must not exist yet"),
        # A key of a file that is named before keeps its name.
        ("x/albert_keras.json: `head` must have", "x/albert_keras.json: `head` must have"),
        ("x/albert_keras.json: `dropout` must be", "x/albert_keras.json: `dropout` must be"),
        ("`hidden_size` must be a multiple", "`hidden_size` must be a multiple"),
    ],
)
def test_an_error_has_the_words_of_the_command_line(message, words):
    flags = {**cli.startup.FLAGS, **cli.startup.FLAGS_OF["convert"]}
    assert cli.startup.in_the_users_words(message, flags) == words


def test_the_version_is_printed(albert_keras):
    assert albert_keras("--version") == (0, f"albert-keras {__version__}\n", "")


def test_the_help_names_every_preset(albert_keras):
    shown = "".join(albert_keras("pretrain", "--help")[1].split())  # wrapped, at hyphens too
    assert ",".join(PRESETS) in shown


def test_pretraining_records_its_length_and_fine_tuning_starts_from_it(work, albert_keras):
    assert load_head(work / "pretrained" / "model")["max_length"] == 32
    arguments = ["finetune", "--model", work / "pretrained", "--train", work / "train.tsv"]
    arguments += ["--batch", 4, "--steps", 1]
    code, _, err = albert_keras(*arguments, "--out", work / "as-pretrained")
    assert code == 0 and "note:" not in err
    assert load_head(work / "as-pretrained" / "model")["max_length"] == 32
    code, _, err = albert_keras(*arguments, "--out", work / "longer", "--length", 40)
    assert code == 0 and "positions from 32 on were not trained there; --length 40" in err
    assert load_head(work / "longer" / "model")["max_length"] == 40


def test_rows_of_unknown_length_are_no_longer_than_the_positions(work, albert_keras):
    model, tokenizer = load_albert(work / "pretrained" / "model")
    save_albert(model, work / "unknown", tokenizer)
    arguments = ["finetune", "--model", work / "unknown", "--train", work / "train.tsv"]
    arguments += ["--batch", 4, "--steps", 1, "--out", work / "of-unknown"]
    code, _, err = albert_keras(*arguments)
    assert code == 0 and "note:" not in err
    assert load_head(work / "of-unknown" / "model")["max_length"] == 64  # not 128


def test_a_score_no_better_than_the_most_frequent_label_is_remarked(work, albert_keras):
    lines = (work / "train.tsv").read_text().splitlines()
    [frequent] = {line.split("\t")[1] for line in lines[1:3]}
    alone = [line for line in lines[1:] if line.endswith(f"\t{frequent}")]
    (work / "frequent.tsv").write_text("\n".join([lines[0], *alone]) + "\n")
    arguments = ["finetune", "--model", work / "pretrained", "--train", work / "train.tsv"]
    arguments += ["--dev", work / "frequent.tsv", "--batch", 4, "--steps", 1]
    code, _, err = albert_keras(*arguments, "--out", work / "one-step")
    assert code == 0 and "note: that is no better" in err  # than 1.0


def finetune_again(work, model, **others):
    options = {"batch": 4, "epochs": 0.1, "log-every": 2, **others}
    return [
        *("finetune", "--model", model, "--train", work / "train.tsv", "--out", work / "again"),
        *(part for name, value in options.items() for part in (f"--{name}", value)),
    ]


def test_a_run_goes_on_with_the_same_model_by_any_path_and_with_no_other(work, albert_keras):
    shutil.copytree(work / "pretrained", work / "copy")
    assert albert_keras(*finetune_again(work, work / "pretrained"))[0] == 0
    for same in (work / "pretrained" / "model", work / "vocab" / ".." / "copy"):
        code, _, err = albert_keras(*finetune_again(work, same), "--resume")
        assert code == 0, err
    code, _, err = albert_keras(*finetune_again(work, work / "finetuned"), "--resume")
    assert code == 2 and "what --model holds (sha256) was " in err


@pytest.mark.parametrize(
    ("others", "lines"),
    [
        ({"epochs": 0.2}, ["--steps was {steps}, is {twice}"]),
        ({"batch": 8}, ["--batch was 4, is 8"]),
        ({"learning-rate": 1e-4}, ["--learning-rate was 3e-05, is 0.0001"]),
        ({"warmup": 0.9}, ["--warmup was {warmup}, is {most}"]),
    ],
)
def test_settings_that_differ_are_named_by_their_flags_and_no_others_are(
    work, albert_keras, others, lines
):
    if not (work / "again").exists():
        assert albert_keras(*finetune_again(work, work / "pretrained"))[0] == 0
    examples = len((work / "train.tsv").read_text().splitlines()) - 1
    steps = int(0.1 * examples / 4)
    values = {"steps": steps, "twice": int(0.2 * examples / 4)}
    values |= {"warmup": round(0.1 * steps), "most": round(0.9 * steps)}
    code, _, err = albert_keras(*finetune_again(work, work / "pretrained", **others), "--resume")
    assert code == 2
    found = [line.strip() for line in err.splitlines() if line.startswith(" ")]
    assert found == [line.format(**values) for line in lines]


def test_settings_of_pretraining_that_differ_are_named_by_their_flags(work, albert_keras):
    arguments = ["pretrain", "--records", work / "records", "--vocab", work / "pretrained", *SIZES]
    arguments += ["--out", work / "lamb", "--steps", 40]
    assert albert_keras(*arguments)[0] == 0
    others = ["--resume", "--steps", 80, "--batch", 2, "--set", "hidden_size=26"]
    code, _, err = albert_keras(*arguments, *others, "--mask-rate", 0.2)
    assert code == 2
    assert [line.strip() for line in err.splitlines() if line.startswith(" ")] == [
        "--set hidden_size was 24, is 26",
        "--batch was 4, is 2",
        "--steps was 40, is 80",
        "--mask-rate was 0.15, is 0.2",
    ]


def test_few_chunks_of_two_sentences_are_remarked(work, albert_keras):
    paragraphs = ["A first one. " * 5] * 9
    (work / "lines.txt").write_text("\n\n".join([*paragraphs, "One line.\nAnother line."]))
    arguments = ["records", work / "lines.txt", "--vocab", work / "pretrained", "--length", 64]
    code, _, err = albert_keras(*arguments, "--out", work / "lines")
    assert code == 0 and "note: 1 of 10 chunks have two sentences" in err
    assert "use --sentences split" in err
    code, _, err = albert_keras(*arguments, "--out", work / "split", "--sentences", "split")
    assert (code, err) == (0, "")


def test_another_backend_of_keras_3_does_not_concern_keras_2(albert_keras, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
    (tmp_path / "text.txt").write_text("A text. Another one.\n")
    arguments = ["vocab", tmp_path / "text.txt", "--out", tmp_path / "v", "--size", 30]
    code, _, err = albert_keras(*arguments)
    assert code == 2 and "KERAS_BACKEND=jax. Unset it" in err
    monkeypatch.delenv("TF_USE_LEGACY_KERAS")  # the command line then chooses Keras 2
    code, _, err = albert_keras(*arguments)
    assert "KERAS_BACKEND" not in err


def test_an_error_of_tensorflow_is_told_in_a_line(work, albert_keras, monkeypatch):
    import tensorflow as tf

    def full(*args):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device\nand more")

    monkeypatch.setattr(tf.train.Checkpoint, "write", full)
    monkeypatch.chdir(work)
    code, _, err = albert_keras(
        *("pretrain", "--records", "records", "--vocab", "vocab", "--out", "full"), *TINY,
        *("--steps", 2),
    )  # fmt: skip
    assert code == 2 and "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("Error: The state of step 2 could not be saved (No space left on device")


def test_held_out_records_that_are_too_short_are_told_before_the_training(
    work, albert_keras, monkeypatch, tmp_path
):
    monkeypatch.chdir(work)
    options = ["--vocab", "vocab", "--length", 16, "--sentences", "split"]
    assert albert_keras("records", "text.txt", "--out", tmp_path / "short", *options)[0] == 0
    code, _, err = albert_keras(
        *("pretrain", "--records", "records", "--dev", tmp_path / "short", "--vocab", "vocab"),
        *("--out", tmp_path / "run", *TINY, "--steps", 2),
    )
    assert code == 2 and "chunks, which are of 16 pieces" in err
    assert not (tmp_path / "run").exists()
