"""albert-keras pretrain and evaluate: recipes, mixtures, phases, warm starts, what they refuse."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints import load_albert
from albert_keras.model import config_of, pair_objective_of
from albert_keras.run_folder import run_settings

SIZES = ["--preset", "tiny", "--set", "initializer_range=0.1"]
TRAINING = [
    *("--length", 32, "--batch", 4, "--optimizer", "adamw", "--learning-rate", "1e-3"),
    *("--log-every", 2),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a vocabulary, two corpora of records and held-out ones."""
    import sys

    from albert_keras import cli

    folder = tmp_path_factory.mktemp("work")
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), rng.integers(2, 6))) for _ in range(60)]
    for name, documents in (("one", 12), ("two", 6), ("held-out", 5)):
        sentences = [[" ".join(rng.choice(words, 5)) for _ in range(20)] for _ in range(documents)]
        text = "\n\n".join("\n".join(document) for document in sentences)
        (folder / f"{name}.txt").write_text(text)
    commands = [["vocab", "one.txt", "two.txt", "--out", "vocab", "--size", 60]]
    commands += [
        ["records", f"{name}.txt", "--vocab", "vocab", "--out", name, "--length", 48]
        for name in ("one", "two", "held-out")
    ]
    before, arguments = os.getcwd(), sys.argv
    os.chdir(folder)
    try:
        for command in commands:
            sys.argv = ["albert-keras", *map(str, command)]
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert not ended.value.code
    finally:
        os.chdir(before)
        sys.argv = arguments
    return folder


@pytest.fixture
def pretrain(work, albert_keras, monkeypatch):
    monkeypatch.chdir(work)

    def call(out, *arguments):
        return albert_keras(
            "pretrain", "--records", "one", "--vocab", "vocab", "--out", out, *SIZES, *TRAINING,
            *arguments,
        )  # fmt: skip

    policy = tf.keras.mixed_precision.global_policy()
    yield call
    tf.keras.mixed_precision.set_global_policy(policy)  # what --precision sets


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_two_corpora_two_lengths_and_scores_on_the_way(work, pretrain):
    code, out, err = pretrain(
        "everything", "--records", "two", "--weight", 3, "--weight", 1, "--dev", "held-out",
        "--length", 24, "--long-length", 48, "--long-share", 0.25, "--steps", 8,
        "--micro-batches", 2, "--evaluate-every", 3,
    )  # fmt: skip
    assert code == 0, err
    run = work / "everything"
    seen = json.loads((run / "corpora.json").read_text())["records"]
    assert [(one["folder"], one["rows"]) for one in seen] == [("one", 24), ("two", 8)]
    evaluations = lines(run / "evaluations.jsonl")
    assert [line["step"] for line in evaluations] == [3, 6, 8]
    losses = [line["mlm_loss"] + line["sop_loss"] for line in evaluations]
    np.testing.assert_allclose([line["loss"] for line in evaluations], losses)
    assert (run / "report.html").stat().st_size > 10_000
    best, _ = load_albert(run / "best")
    last, _ = load_albert(run / "model")
    same = all(map(np.array_equal, best.get_weights(), last.get_weights()))
    assert same == (np.argmin(losses) == 2)
    recipe = run_settings(run)["settings"]["recipe"]
    assert (recipe["long_length"], recipe["long_steps"], recipe["micro_batches"]) == (48, 2, 2)
    scores = json.loads((run / "evaluation.json").read_text())
    assert f"mlm_loss {scores['mlm_loss']:.4g}" in out


def test_a_model_of_any_objective_is_scored_on_both(work, pretrain, albert_keras):
    assert pretrain("next", "--objective", "nsp", "--steps", 2, "--length", 32)[0] == 0
    assert pair_objective_of(load_albert(work / "next" / "model")[0]) == "nsp"
    code, out, err = albert_keras(
        "evaluate", "--model", "next", "--records", "held-out", "--out", "scores.json"
    )
    assert code == 0, err
    scores = json.loads((work / "scores.json").read_text())["held-out"]
    assert scores["pair_objective"] == "nsp"
    assert scores["sop_examples"] >= scores["nsp_examples"] > 0
    assert "sop_accuracy" in out and "nsp_accuracy" in out
    code, _, err = albert_keras("evaluate", "--model", "vocab", "--records", "held-out")
    assert code == 2


def test_a_deeper_run_starts_from_a_shallower_one(work, pretrain):
    assert pretrain("shallow", "--steps", 2, "--set", "num_hidden_layers=1")[0] == 0
    code, out, err = pretrain("deep", "--steps", 2, "--init-from", "shallow/model")
    assert code == 0, err
    assert "num_hidden_layers 1 -> 3" in out
    assert config_of(load_albert(work / "deep" / "model")[0]).num_hidden_layers == 3
    assert run_settings(work / "deep")["settings"]["origin"] is not None
    # A run goes on with what it began from.
    code, _, err = pretrain("deep", "--steps", 2, "--resume")
    assert code == 2 and "--init-from was" in err


def test_a_student_learns_from_a_pretrained_teacher(work, pretrain):
    code, _, err = pretrain("teacher", "--steps", 4)
    assert code == 0, err
    student = ["--set", "hidden_size=16", "--set", "num_hidden_layers=2", "--steps", 4]
    student += ["--recompute", "--micro-batches", 2]
    taught = ["--teacher", "teacher", "--distill-hidden-weight", 0.5]
    code, _, err = pretrain("student", *student, *taught, "--length", 48)
    assert code == 0, err
    names = {"mlm_loss", "mlm_distillation", "sop_distillation", "hidden_error"}
    assert names <= set(lines(work / "student" / "metrics.jsonl")[-1])
    settings = run_settings(work / "student")["settings"]["teacher"]
    assert settings["weight"] == 0.5 and settings["temperature"] == 2.0
    assert config_of(load_albert(work / "student" / "model")[0]).hidden_size == 16
    code, _, err = pretrain("other", *student, "--teacher", "teacher", "--objective", "nsp")
    assert code == 0, err
    assert "nsp_distillation" not in lines(work / "other" / "metrics.jsonl")[-1]
    assert "note: --teacher was trained for other pairs than nsp" in err
    code, _, err = pretrain("student", *student, "--length", 48, "--resume")
    assert code == 2 and "others:" in err and "teacher" in err


def test_a_recipe_is_what_the_flags_change(work, pretrain):
    code, _, err = pretrain(
        "small", "--recipe", "small-budget", "--length", 32, "--steps", 4, "--mask-rate", 0.2
    )
    assert code == 0, err
    recipe = run_settings(work / "small")["settings"]["recipe"]
    expected = {"optimizer": "adamw", "mask_rate": 0.2, "sequence_length": 32, "total_steps": 4}
    assert {name: recipe[name] for name in expected} == expected


def test_a_run_that_diverged_has_a_report(work, pretrain):
    code, _, err = pretrain("diverged", "--steps", 40, "--learning-rate", "1e30", "--warmup", 0)
    assert code == 1 and "not finite" in err and "Traceback" not in err
    assert "diverged" in (work / "diverged" / "report.html").read_text()


def test_a_run_goes_on_with_the_precision_and_the_held_out_texts_that_it_began_with(pretrain):
    begun = "--steps", 2, "--dev", "held-out"
    assert pretrain("begun", *begun)[0] == 0
    code, _, err = pretrain("begun", *begun, "--resume", "--precision", "bfloat16")
    assert code == 2 and "--precision was float32, is bfloat16" in err
    code, _, err = pretrain("begun", "--steps", 2, "--dev", "two", "--resume")
    assert code == 2 and "`dev" in err


def test_a_stop_between_the_lengths_is_not_forgotten(work, pretrain, monkeypatch):
    from albert_keras.tasks import pretraining_run

    def asked_at_the_end(*arguments, asked, **options):
        reached = train(*arguments, asked=asked, **options)
        asked.set()  # after the last step of the first length
        return reached

    train = pretraining_run.train
    monkeypatch.setattr(pretraining_run, "train", asked_at_the_end)
    lengths = "--length", 24, "--long-length", 48, "--long-share", 0.5, "--steps", 4
    code, _, err = pretrain("two-lengths", *lengths)
    assert code == 130 and "Stopped at step 2 of 4" in err
    monkeypatch.undo()
    monkeypatch.chdir(work)
    assert pretrain("two-lengths", *lengths, "--resume")[0] == 0


def test_a_run_is_never_in_a_bucket(work, pretrain):
    code, _, err = pretrain("gs://bucket/run", "--steps", 2)
    assert code == 2 and "--out of a run must be on this machine. Received: gs://bucket/run" in err
    assert not (work / "gs:").exists()


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["--steps", 2, "--weight", 1, "--weight", 2], "--weight must be given once for each"),
        (["--steps", 2, "--dev", "two", "--dev", "two"], "--dev must name different folders"),
        (["--steps", 2, "--long-share", 0.5], "and is that of --long-length. Received: 0.5 and no"),
        (["--steps", 2, "--micro-batches", 3], "multiple of the 1 replicas times --micro-batches"),
        (["--steps", 2, "--evaluate-every", 1], "--evaluate-every scores development sets"),
        (["--steps", 2, "--long-length", 48, "--long-share", 1], "--long-share must be above 0"),
        (["--minutes", 2, "--long-length", 64], "--minutes are timed on rows of one length"),
        (["--steps", 2, "--strategy", "tpu"], "TPU"),
        (["--steps", 2, "--strategy", "mirrored"], "needs several devices"),
        (["--steps", 2, "--init-from", "nowhere"], "--init-from must be there"),
        (["--steps", 2, "--learning-rate", 0], "--learning-rate must be a number above 0"),
        (["--steps", 2, "--teacher", "nowhere"], "--teacher must be there. Received: nowhere"),
        (["--steps", 2, "--distillation-weight", 1], "--distillation-weight is of --teacher"),
        ([], "Say how long to train"),
    ],
)
def test_a_mistake_is_told_and_leaves_nothing(work, pretrain, arguments, message):
    code, _, err = pretrain("mistaken", *arguments)
    assert code == 2 and message in err and "Traceback" not in err
    assert not (work / "mistaken").exists()
