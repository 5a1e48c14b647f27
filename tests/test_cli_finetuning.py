"""finetune and predict-file by command, and the scripts of the benchmarks."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from albert_keras import build_albert, load_albert, save_albert
from albert_keras.task_models import build_classifier
from albert_keras.tasks.glue import NLI
from tests import finetuning_files

ROOT = Path(__file__).parents[1]
SHORT = ["--steps", 6, "--batch", 4, "--length", 32, "--log-every", 2, "--learning-rate", 1e-3]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a model to start from and files of every family."""
    work = tmp_path_factory.mktemp("finetuning")
    finetuning_files.save_start(work / "model")
    finetuning_files.write_rte(work / "glue" / "RTE")
    finetuning_files.write_race(work / "RACE")
    finetuning_files.write_squad(work / "squad")
    finetuning_files.write_squad(work / "squad2", unanswerable=True)
    finetuning_files.write_own(work / "train.csv")
    finetuning_files.write_own(work / "dev.csv", seed=1)
    return work


@pytest.fixture
def here(work, monkeypatch):
    monkeypatch.chdir(work)
    return work


OWN = ["--text-column", "said", "--label-column", "mark", "--id-column", "key"]


def test_several_runs_are_summed_up_and_their_mean_predicts(here, albert_keras):
    training = ["finetune", "--model", "model", "--train", "train.csv", "--dev", "dev.csv", *OWN]
    training += ["--out", "runs", "--runs", 2, *SHORT, "--steps", 90, "--batch", 8]
    training += ["--learning-rate", 3e-3, "--evaluate-every", 30]
    code, out, err = albert_keras(*training)
    assert code == 0, err
    summary = json.loads((here / "runs" / "summary.json").read_text())
    scores = [run["scores"]["accuracy"] for run in summary["runs"]]
    assert summary["median"]["accuracy"] == pytest.approx(sum(scores) / 2)
    assert f"accuracy: median {sum(scores) / 2:.4g}" in out
    seeds = [f"runs/seed-{run['seed']}" for run in summary["runs"]]
    models = [word for seed in seeds for word in ("--model", seed)]
    arguments = ["predict-file", *models, "--file", "dev.csv", *OWN, "--out", "ensemble"]
    code, out, err = albert_keras(*arguments)
    assert code == 0 and "predicted by 2 models" in out, err
    lines = (here / "ensemble" / "predictions.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["id", "label", "predicted", "score", "text"]
    assert [line.split("\t")[0] for line in lines[1:]] == [f"k{n}" for n in range(40)]
    # What has ended is not trained again.
    before = (here / "runs" / "seed-0" / "model" / "model.safetensors").stat().st_mtime_ns
    assert albert_keras(*training, "--resume")[0] == 0
    assert (here / "runs" / "seed-0" / "model" / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("task", "data", "file"),
    [
        ("rte", "glue/RTE", "glue/RTE/dev.tsv"),
        ("squad1", "squad", "squad/dev-v1.1.json"),
        ("squad2", "squad2", "squad2/dev-v2.0.json"),
        ("race", "RACE", "RACE/dev"),
    ],
)
def test_a_family_in_one_command_and_the_same_answers_from_its_model(
    here, albert_keras, task, data, file
):
    length = ["--length", 96] if task.startswith("squad") else []  # questions may take 64
    arguments = ["finetune", "--model", "model", "--task", task, "--data", data]
    arguments += ["--out", f"{task}-run"]
    code, out, err = albert_keras(*arguments, *SHORT, *length)
    assert code == 0 and "dev:" in out, err
    name = ["--task", task] if task == "rte" else []
    code, out, err = albert_keras(
        "predict-file", "--model", f"{task}-run", "--file", file, *name, "--out", f"{task}-again"
    )
    assert code == 0, err
    for found in (here / f"{task}-again").glob("predictions*"):
        assert found.read_bytes() == (here / f"{task}-run" / found.name).read_bytes()
    scores = json.loads((here / f"{task}-again" / "evaluation.json").read_text())
    ours = json.loads((here / f"{task}-run" / "evaluation.json").read_text())
    assert {**scores, "step": ours["step"]} == ours


MISTAKES = {
    "nothing to train on": (["finetune", "--model", "model", "--out", "new"], "--train, or --data"),
    "runs without dev": (
        ["finetune", "--model", "model", "--train", "train.csv", "--out", "new", "--runs", 3,
         "--steps", 2],
        "--runs are compared on --dev",
    ),
    "a column that is not there": (
        ["finetune", "--model", "model", "--train", "train.csv", "--out", "new", "--steps", 2],
        "must name the columns, 'text' once among them. Received: train.csv",
    ),
    "no such file in the folder": (
        ["finetune", "--model", "model", "--task", "cola", "--data", "glue/RTE", "--out", "new",
         "--length", 32],
        "train.tsv.*",
    ),
    "a folder for one's own task": (
        ["finetune", "--model", "model", "--data", "glue/RTE", "--out", "new", "--steps", 2],
        "official files is for GLUE, SQuAD and RACE. Received: glue/RTE for classify",
    ),
    "a recipe and no room": (
        ["finetune", "--model", "model", "--task", "rte", "--data", "glue/RTE", "--out", "new",
         "--length", 500],
        "at most the 128 positions",
    ),
    "a warm-up above the steps": (
        ["finetune", "--model", "model", "--task", "rte", "--data", "glue/RTE", "--out", "new",
         "--steps", 10, "--warmup", 20],
        "--warmup must lie between 0 and the 10 steps. Received: 20",
    ),
    "several machines": (
        ["finetune", "--model", "model", "--task", "rte", "--data", "glue/RTE", "--out", "new",
         "--strategy", "multiworker"],
        "trains on one machine",
    ),
    "skipping in one file of JSON": (
        ["finetune", "--model", "model", "--task", "squad1", "--data", "squad", "--out", "new",
         "--skip-broken"],
        "--skip-broken is for files of a row an example. Received: it for squad1",
    ),
    "scores of nothing": (
        ["finetune", "--model", "model", "--train", "train.csv", *OWN, "--out", "new", "--steps",
         2, "--evaluate-every", 1],
        "--evaluate-every scores --dev. Received: 1 without",
    ),
    "dropout of one": (
        ["finetune", "--model", "model", "--task", "rte", "--data", "glue/RTE", "--out", "new",
         "--dropout", 1],
        "--dropout must be at least 0 and below 1. Received: 1",
    ),
    "a temperature without a teacher": (
        ["finetune", "--model", "model", "--train", "train.csv", *OWN, "--out", "new", "--steps",
         2, "--temperature", 3],
        "--temperature is of --teacher. Received: 3.0 without one",
    ),
    "a temperature of numbers": (
        ["finetune", "--model", "model", "--train", "train.csv", *OWN, "--out", "new", "--steps",
         2, "--task", "regress", "--teacher", "model", "--temperature", 3],
        "--temperature softens logits. Received: it for regress, whose model gives numbers",
    ),
    "hidden states of a frozen encoder": (
        ["finetune", "--model", "model", "--train", "train.csv", *OWN, "--out", "new", "--steps",
         2, "--teacher", "model", "--distill-hidden-weight", 1, "--freeze-encoder"],
        "--distill-hidden-weight trains the layers that --freeze-encoder keeps",
    ),
    "more than the whole loss": (
        ["finetune", "--model", "model", "--train", "train.csv", *OWN, "--out", "new", "--steps",
         2, "--teacher", "model", "--distillation-weight", 1.5],
        "--distillation-weight must be between 0 and 1. Received: 1.5",
    ),
    "a teacher of no task": (
        ["finetune", "--model", "model", "--train", "train.csv", *OWN, *SHORT, "--out", "new",
         "--teacher", "model"],
        "trained for the student's task. Received: albert, and the student is classifier",
    ),
    "a model that is not fine-tuned": (
        ["predict-file", "--model", "model", "--file", "dev.csv", "--out", "new"],
        "--model must be fine-tuned. Received: model, a model of the kind encoder",
    ),
    "the same model twice": (
        ["predict-file", "--model", "model", "--model", "model", "--file", "dev.csv", "--out",
         "new"],
        "--model must name different ones",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_with_code_2_a_reason_and_nothing_written(here, albert_keras, mistake):
    arguments, reason = MISTAKES[mistake]
    code, out, err = albert_keras(*arguments)
    assert code == 2, err
    assert re.search(reason, err), err
    assert "Traceback" not in err and not (here / "new").exists()


def test_a_student_of_other_sizes_learns_from_a_teacher_by_command(here, albert_keras):
    files = ["--train", "train.csv", "--dev", "dev.csv", *OWN, *SHORT]
    tf.keras.utils.set_random_seed(0)
    tokenizer = load_albert("model")[1]
    encoder = build_albert("tiny", vocab_size=400, hidden_size=16, max_position_embeddings=128)
    save_albert(encoder, "narrow", tokenizer)
    teacher = ["finetune", *files, "--model", "model", "--out", "teacher"]
    assert albert_keras(*teacher)[0] == 0
    taught = ["finetune", *files, "--model", "narrow", "--out", "taught", "--teacher", "teacher"]
    taught += ["--temperature", 3, "--distillation-weight", 0.8, "--distill-hidden-weight", 0.5]
    code, _, err = albert_keras(*taught)
    assert code == 0, err
    lines = (here / "taught" / "metrics.jsonl").read_text().splitlines()
    assert {"loss", "distillation", "hidden_error"} <= set(json.loads(lines[-1]))
    settings = json.loads((here / "taught" / "run.json").read_text())["settings"]
    weights = (here / "teacher" / "model" / "model.safetensors").read_bytes()
    assert settings["teacher"] == {
        "sha256": hashlib.sha256(weights).hexdigest(),
        "temperature": 3.0,
        "weight": 0.8,
        "hidden_weight": 0.5,
    }
    assert load_albert("taught/model")[0].count_params() == (
        build_classifier(encoder, 2).count_params()
    )


def test_a_broken_row_is_refused_by_line_or_left_out_and_named(here, albert_keras):
    text = (here / "train.csv").read_text() + 'k40,"unknown, label"\nk41,"fine, so",low\n'
    (here / "broken.csv").write_text(text)
    arguments = ["finetune", "--model", "model", "--train", "broken.csv", *OWN, *SHORT]
    code, _, err = albert_keras(*arguments, "--out", "refused")
    assert code == 2 and "broken.csv, line 42" in err and not (here / "refused").exists()
    code, _, err = albert_keras(*arguments, "--out", "named", "--skip-broken")
    assert code == 0 and err.count("left out: broken.csv, line 42") == 1


def test_a_task_of_other_labels_is_refused(here, albert_keras):
    if not (here / "rte-run").exists():
        arguments = ["--task", "rte", "--data", "glue/RTE", "--out", "rte-run", *SHORT]
        assert albert_keras("finetune", "--model", "model", *arguments)[0] == 0
    arguments = ["predict-file", "--model", "rte-run", "--file", "glue/RTE/dev.tsv", "--out", "new"]
    code, _, err = albert_keras(*arguments, "--task", "mnli")
    assert code == 2 and "has the labels entailment, not_entailment" in err
    code, _, err = albert_keras(*arguments, "--task", "race")
    assert code == 2 and "must be one that the model was fine-tuned for" in err


def test_the_note_on_mnli_is_for_models_that_were_not_there(here, albert_keras):
    tf.keras.utils.set_random_seed(0)
    mnli = build_classifier(load_albert("model")[0], 3)
    save_albert(mnli, "mnli", load_albert("model")[1], list(NLI), max_length=64)
    for model, is_told in (("model", True), ("mnli", False)):
        arguments = ["--task", "rte", "--data", "glue/RTE", "--out", f"rte-of-{model}", *SHORT]
        code, _, err = albert_keras("finetune", "--model", model, *arguments)
        assert code == 0 and ("note: for rte the paper starts from" in err) == is_told


# Two runs that learn something: the ensemble is of those.
MORE = {
    "finetune_squad.sh": [
        *("--runs", 2, "--length", 96, "--steps", 60, "--batch", 8, "--learning-rate", 5e-3)
    ]
}


@pytest.mark.parametrize(
    ("script", "arguments", "made"),
    [
        ("finetune_glue.sh", ["glue", "by-script/glue", "rte"], ["glue/rte/test/RTE.tsv"]),
        ("finetune_race.sh", ["RACE", "by-script/race"], ["race/test/evaluation.json"]),
        (
            "finetune_squad.sh",
            ["squad", "by-script/squad", "squad1"],
            ["squad/summary.json", "squad/ensemble/predictions.json"],
        ),
    ],
)
def test_the_scripts_run(here, script, arguments, made):
    bin_folder = here / "bin"
    bin_folder.mkdir(exist_ok=True)
    command = bin_folder / "albert-keras"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m albert_keras.cli "$@"\n')
    command.chmod(0o755)
    (here / "by-script").mkdir(exist_ok=True)
    subprocess.run(
        ["bash", ROOT / "examples" / script, "model", *arguments],
        env={
            **os.environ,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "FLAGS": " ".join(map(str, [*SHORT, *MORE.get(script, [])])),
        },
        check=True,
        capture_output=True,
    )
    for name in made:
        assert (here / "by-script" / name).exists()
