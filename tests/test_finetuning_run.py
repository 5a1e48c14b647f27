"""Fine-tuning of every family: from official files to score, checkpoint and submission."""

import csv
import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import load_albert
from albert_keras.checkpoints import load_head
from albert_keras.model import config_of, encoder_of
from albert_keras.tasks import finetuning_data, finetuning_run
from albert_keras.tasks.finetuning_data import FinetuningData, encoded_training_rows
from albert_keras.tasks.finetuning_recipe import FinetuningRecipe
from albert_keras.tasks.finetuning_run import finetune
from albert_keras.tasks.finetuning_task import Member, answered_by
from albert_keras.tasks.length_batches import Predictor
from albert_keras.tasks.task_files import TaskFiles
from albert_keras.tasks.text_examples import TextColumns
from albert_keras.tasks.text_task import TextSource, TextTask
from albert_keras.training.loop import train
from tests import finetuning_files
from tests.finetuning_files import start
from tests.small_tokenizer import small_tokenizer

RECIPE = FinetuningRecipe(
    max_length=32,
    batch_size=8,
    learning_rate=3e-3,
    warmup=0.1,
    total_steps=30,
    classifier_dropout=0.0,
    checkpoint_every=10,
)


def run(files, data, folder, recipe=RECIPE, **options):
    rows = encoded_training_rows(files.task, data.train, small_tokenizer(), recipe.max_length)
    settings = {"log_every": 10, "quiet": True, **options}
    return finetune(files.task, data, rows, start(), recipe, folder, **settings)


def rte(folder):
    finetuning_files.write_rte(folder / "RTE")
    files = TaskFiles("rte")
    return files, files.data(folder / "RTE")


def scores_in(folder):
    return json.loads((folder / "evaluation.json").read_text())


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def weights_in(folder):
    return [weight.numpy() for weight in load_albert(folder)[0].weights]


@pytest.mark.both_kerases
def test_glue_goes_from_official_files_to_score_and_submission(tmp_path):
    recipe = dataclasses.replace(RECIPE, total_steps=90, checkpoint_every=30)
    assert run(*rte(tmp_path), tmp_path / "run", recipe) == 90
    rows = table(tmp_path / "run" / "predictions.tsv")
    assert [row["id"] for row in rows] == [str(number) for number in range(20)]
    assert all(row["text_pair"] == 'a "quoted work' for row in rows)
    scores = scores_in(tmp_path / "run")
    right = np.mean([row["label"] == row["predicted"] for row in rows])
    assert scores["accuracy"] == pytest.approx(right) and right >= 0.9  # the task can be learned
    lines = (tmp_path / "run" / "test" / "RTE.tsv").read_text().splitlines()
    test_rows = table(tmp_path / "run" / "test" / "predictions.tsv")
    assert lines == [
        "index\tprediction",
        *(f"{row['id']}\t{row['predicted']}" for row in test_rows),
    ]
    assert len(lines) == 8 and (tmp_path / "run" / "report.html").exists()
    head = load_head(tmp_path / "run" / "model")
    assert head["labels"] == ["entailment", "not_entailment"] and head["max_length"] == 32


def test_the_best_checkpoint_is_the_one_that_is_scored_and_saved(tmp_path, monkeypatch):
    files, data = rte(tmp_path)
    accuracy = iter([0.25, 0.75, 0.5])
    kept = []
    finish, save = TextTask.finish, finetuning_run.save_albert

    def rated(self, source, answered, folder):
        scores = finish(self, source, answered, folder)
        return {**scores, "score": next(accuracy)} if folder is None else scores

    def save_and_keep(model, folder, **options):
        kept.append([weight.numpy() for weight in model.weights])
        save(model, folder, **options)

    monkeypatch.setattr(TextTask, "finish", rated)
    monkeypatch.setattr(finetuning_run, "save_albert", save_and_keep)
    run(files, data, tmp_path / "run")
    assert len(kept) == 2  # after the first 10 steps and after 20, not after 30
    for saved, expected in zip(weights_in(tmp_path / "run" / "model"), kept[1], strict=True):
        np.testing.assert_array_equal(saved, expected)
    scores = scores_in(tmp_path / "run")
    assert scores["step"] == 20
    model, tokenizer = load_albert(tmp_path / "run" / "model")
    member = Member(model, tokenizer, 32)
    (source,) = data.dev.values()
    again = finish(files.task, source, answered_by([member], files.task, source), None)
    assert again["accuracy"] == scores["accuracy"] and again["confusion"] == scores["confusion"]


def test_without_checkpoints_the_last_model_is_scored_once(tmp_path):
    recipe = dataclasses.replace(RECIPE, checkpoint_every=None)
    run(*rte(tmp_path), tmp_path / "run", recipe)
    assert not (tmp_path / "run" / "best").exists()
    assert scores_in(tmp_path / "run")["step"] == 30


class Killed(Exception):
    pass


@pytest.mark.parametrize("where", ["at step 17", "while the test set is predicted"])
def test_a_run_that_is_killed_goes_on_to_the_same_bits(tmp_path, monkeypatch, where):
    files, data = rte(tmp_path)
    run(files, data, tmp_path / "whole", save_every=5)

    def until_17(*arguments, **options):
        train(*arguments, **{**options, "total_steps": 15})
        raise Killed

    def killed(*arguments):
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        if where == "at step 17":
            patched.setattr(finetuning_run, "train", until_17)
        else:
            patched.setattr("albert_keras.tasks.text_task.write_submission", killed)
        run(files, data, tmp_path / "run", save_every=5)
    assert not (tmp_path / "run" / "model").exists()
    with pytest.raises(ValueError, match="must not exist yet"):
        run(files, data, tmp_path / "run")
    assert run(files, data, tmp_path / "run", save_every=5, resume=True) == 30
    for name in ("predictions.tsv", "test/RTE.tsv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    pair = (weights_in(tmp_path / folder / "model") for folder in ("run", "whole"))
    for ours, theirs in zip(*pair, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    (tmp_path / "RTE" / "train.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n"
    )
    with pytest.raises(ValueError, match="`train_sha256` was"):
        run(files, data, tmp_path / "run", resume=True)


def test_a_regression_learns_numbers_of_the_users_own_columns(tmp_path):
    for name, seed in (("train", 0), ("dev", 1)):
        finetuning_files.write_own(tmp_path / f"{name}.csv", seed=seed, numbers=True)
    files = TaskFiles("regress", TextColumns("said", None, "mark", "key"))
    data = files.data(train=tmp_path / "train.csv", dev=tmp_path / "dev.csv")
    recipe = dataclasses.replace(RECIPE, total_steps=200, checkpoint_every=None)
    run(files, data, tmp_path / "run", recipe)
    rows = table(tmp_path / "run" / "predictions.tsv")
    assert rows[3]["id"] == "k3" and rows[3]["score"] == ""
    pair = ([float(row[name]) for row in rows] for name in ("label", "predicted"))
    expected = np.corrcoef(*pair)[0, 1]
    scores = scores_in(tmp_path / "run")
    assert scores["pearson"] == pytest.approx(expected, abs=1e-3) and expected > 0.8
    assert load_head(tmp_path / "run" / "model")["labels"] == ["number"]
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["loss"] < 0.3  # of a variance of 1.56
    squares = [(float(row["label"]) - float(row["predicted"])) ** 2 for row in rows]
    assert np.mean(squares) < 0.3


@pytest.mark.both_kerases
def test_the_loss_of_a_regression_is_the_mean_of_squares():
    """Keras gives the loss (B, 1) of the numbers, which broadcasts against (B,)."""
    inputs = tf.keras.Input((1,))
    one = tf.keras.layers.Dense(1, kernel_initializer="ones")
    model = tf.keras.Model(inputs, {"logits": one(inputs)})
    model.compile("sgd", **TextTask().compile_arguments(model))
    values = np.arange(5, dtype=np.float32)
    for numbers in (values, values[::-1].copy()):
        found = model.evaluate(values[:, None], {"logits": numbers}, batch_size=5, verbose=0)
        assert np.ravel(found)[0] == pytest.approx(np.mean((numbers - values) ** 2))


def test_the_loss_without_learning(tmp_path):
    """Of the best answer that is the same for all examples, from the targets alone."""
    finetuning_files.write_own(tmp_path / "own.csv", numbers=True)
    finetuning_files.write_rte(tmp_path / "RTE")
    finetuning_files.write_race(tmp_path / "RACE")
    finetuning_files.write_squad(tmp_path / "squad2", unanswerable=True)

    def found(files, **paths):
        data = files.data(**paths)
        rows = encoded_training_rows(files.task, data.train, small_tokenizer(), 48)
        return files.task.unlearned_loss(rows), rows

    own = TaskFiles("regress", TextColumns("said", None, "mark"))
    loss, rows = found(own, train=tmp_path / "own.csv")
    assert loss == pytest.approx(np.var(rows.targets["logits"]), rel=1e-5)
    loss, rows = found(TaskFiles("rte"), folder=tmp_path / "RTE")
    p = rows.targets["logits"].mean()
    assert loss == pytest.approx(-p * np.log(p) - (1 - p) * np.log(1 - p), rel=1e-5)
    loss, rows = found(TaskFiles("race"), folder=tmp_path / "RACE")
    assert loss == pytest.approx(np.log(4))
    loss, rows = found(TaskFiles("squad2", max_query_length=8), folder=tmp_path / "squad2")
    # About half have no answer; the others have it in one of the pieces of the context.
    context = rows.lengths - rows.second_starts - 1
    answered = rows.targets["end_logits"] > 0
    p = answered.mean()
    of_p = -p * np.log(p) - (1 - p) * np.log(1 - p)
    expected = of_p + np.log(context[answered]).sum() / len(rows) + 0.5 * of_p
    assert 0.4 < p < 0.6 and loss == pytest.approx(expected, rel=1e-5)


def test_mnli_has_two_of_dev_and_test_and_the_matched_one_decides(tmp_path):
    folder = tmp_path / "MNLI"
    folder.mkdir()
    labels = ("neutral", "entailment", "contradiction")
    for split in ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"):
        has_labels = not split.startswith("test")
        header = ["index", "sentence1", "sentence2", *(["gold_label"] if has_labels else [])]
        lines = ["\t".join(header)]
        for number, (text, _) in enumerate(finetuning_files.sentences(len(split), 12)):
            row = [str(number), text, "a work", *([labels[number % 3]] if has_labels else [])]
            lines.append("\t".join(row))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    files = TaskFiles("mnli")
    run(files, files.data(folder), tmp_path / "run")
    scores = scores_in(tmp_path / "run")
    assert scores["dev_matched"]["examples"] == scores["dev_mismatched"]["examples"] == 12
    lines = (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()
    best = [line for line in map(json.loads, lines) if line["best"]][-1]
    assert "dev_mismatched" not in best and best["step"] == scores["step"]
    assert best["score"] == best["dev_matched"]["accuracy"] == scores["dev_matched"]["accuracy"]
    for split, name in (("test_matched", "MNLI-m"), ("test_mismatched", "MNLI-mm")):
        submission = tmp_path / "run" / "test" / split / f"{name}.tsv"
        assert len(submission.read_text().splitlines()) == 13
    assert len(table(tmp_path / "run" / "dev_mismatched" / "predictions.tsv")) == 12


FAMILIES = {
    "rte": finetuning_files.write_rte,
    "squad1": finetuning_files.write_squad,
    "squad2": lambda folder: finetuning_files.write_squad(folder, unanswerable=True),
    "race": finetuning_files.write_race,
}


@pytest.mark.parametrize("name", FAMILIES)
def test_on_a_tpu_every_batch_and_every_prediction_has_one_static_shape(
    tmp_path, monkeypatch, name
):
    FAMILIES[name](tmp_path / "data")
    files = TaskFiles(name, **({"max_query_length": 8} if "squad" in name else {}))
    data = files.data(tmp_path / "data")
    rows = encoded_training_rows(files.task, data.train, small_tokenizer(), 32)
    one = tf.distribute.get_strategy()
    monkeypatch.setattr(finetuning_data, "has_fixed_shapes", lambda strategy: True)
    batches = finetuning_data.training_batches(files.task, rows, RECIPE, one)(0)
    specs = tf.nest.flatten(batches.element_spec)
    assert len(specs) >= 4 and all(spec.shape.is_fully_defined() for spec in specs)
    assert {spec.shape[0] for spec in specs} == {8}
    # The step lowers to HLO, which has no other shapes.
    model, trainer = finetuning_run.compiled(files.task, start(), RECIPE, one)
    loss = files.task.compile_arguments(trainer)["loss"]

    @tf.function(jit_compile=True, input_signature=batches.element_spec)
    def step(inputs, targets):
        with tf.GradientTape() as tape:
            outputs = trainer(inputs, training=True)
            values = [
                tf.reduce_mean(one(targets[output], outputs[output]))
                for output, one in loss.items()
            ]
            total = tf.add_n(values)
        return total, tape.gradient(total, trainer.trainable_variables)

    lowered = step.experimental_get_compiler_ir(*next(iter(batches)))(stage="hlo")
    assert "s32[8," in lowered and not re.search(r"<=\d", lowered)  # no bounded dimension
    predictor = Predictor(model, batch_size=4, max_length=32, multiple=32)
    answers = list(predictor(rows))
    assert len(answers) == len(rows)
    (spec,) = {spec.shape for spec in tf.nest.flatten(predictor._spec)}
    assert spec.is_fully_defined() and spec[0] == 4


def test_a_threshold_is_searched_for_on_dev_and_used_on_test(tmp_path):
    finetuning_files.write_squad(tmp_path / "squad", unanswerable=True)
    dev = tmp_path / "squad" / "dev-v2.0.json"
    files = TaskFiles("squad2", max_query_length=8)
    data = files.data(tmp_path / "squad", test=tmp_path / "squad" / "train-v2.0.json")
    run(files, data, tmp_path / "run")
    threshold = scores_in(tmp_path / "run")["squad_null_threshold"]
    assert threshold != 0
    test = scores_in(tmp_path / "run" / "test")
    assert test["squad_null_threshold"] == threshold
    odds = json.loads((tmp_path / "run" / "test" / "null_odds.json").read_text())
    predictions = json.loads((tmp_path / "run" / "test" / "predictions.json").read_text())
    assert {key for key, text in predictions.items() if not text} == {
        key for key, value in odds.items() if value > threshold
    }
    assert dev.exists() and len(odds) == 16


def test_questions_of_one_id_are_refused_before_training(tmp_path):
    finetuning_files.write_squad(tmp_path / "squad")
    path = tmp_path / "squad" / "dev-v1.1.json"
    path.write_text(path.read_text().replace("dev3", "dev2"))
    files = TaskFiles("squad1", max_query_length=8)
    with pytest.raises(ValueError, match="an id of its own.*'dev2'"):
        run(files, files.data(tmp_path / "squad"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_has_ended_stays_as_it_is_and_another_setting_is_refused(tmp_path):
    files, data = rte(tmp_path)
    run(files, data, tmp_path / "run")
    before = (tmp_path / "run" / "evaluation.json").stat().st_mtime_ns
    assert run(files, data, tmp_path / "run", resume=True) == 30
    assert (tmp_path / "run" / "evaluation.json").stat().st_mtime_ns == before
    other = dataclasses.replace(RECIPE, learning_rate=1e-4)
    with pytest.raises(ValueError, match="learning_rate` was 0.003, is 0.0001"):
        run(files, data, tmp_path / "run", other, resume=True)


@pytest.mark.both_kerases
@pytest.mark.parametrize("version", ["squad1", "squad2"])
def test_squad_goes_from_official_files_to_official_files(tmp_path, version):
    finetuning_files.write_squad(tmp_path / "squad", unanswerable=version == "squad2")
    files = TaskFiles(version, max_query_length=8)
    data = files.data(tmp_path / "squad")
    recipe = dataclasses.replace(RECIPE, total_steps=60, checkpoint_every=30)
    run(files, data, tmp_path / "run", recipe)
    scores = scores_in(tmp_path / "run")
    predictions = json.loads((tmp_path / "run" / "predictions.json").read_text())
    (dev,) = data.dev.values()
    questions = [
        (paragraph["context"], question)
        for paragraph in json.loads(Path(dev).read_text())["data"][0]["paragraphs"]
        for question in paragraph["qas"]
    ]
    assert list(predictions) == [question["id"] for _, question in questions]
    assert all(predictions[question["id"]] in context for context, question in questions)
    exact = np.mean(
        [
            predictions[question["id"]] in [answer["text"] for answer in question["answers"]]
            or not question["answers"]
            and not predictions[question["id"]]
            for _, question in questions
        ]
    )
    name = "squad_exact_match" if version == "squad1" else "squad_exact"
    assert scores[name] == pytest.approx(100 * exact)
    assert scores["examples"] == len(questions)
    if version == "squad2":
        odds = json.loads((tmp_path / "run" / "null_odds.json").read_text())
        empty = {key for key, text in predictions.items() if not text}
        assert empty == {
            key for key, value in odds.items() if value > scores["squad_null_threshold"]
        }
        right = np.mean([(odds[key] > 0) == key.endswith("-none") for key in odds])
        assert scores["answerability"] == pytest.approx(right)
        assert scores["answerability_majority"] == 0.5
        assert scores["squad_NoAns_total"] == 8 and scores["squad_f1"] >= 50


@pytest.mark.both_kerases
def test_race_goes_from_the_official_archive_to_middle_and_high(tmp_path):
    finetuning_files.write_race(tmp_path / "RACE")
    files = TaskFiles("race")
    run(files, files.data(tmp_path / "RACE"), tmp_path / "run")
    for part in (tmp_path / "run", tmp_path / "run" / "test"):
        scores, rows = scores_in(part), table(part / "predictions.tsv")
        assert [row["id"] for row in rows[:3]] == [
            "middle0.txt-0",
            "middle0.txt-1",
            "middle1.txt-0",
        ]
        right = [row["label"] == row["predicted"] for row in rows]
        assert scores["accuracy"] == pytest.approx(np.mean(right)) and len(rows) == 12
        assert scores["middle"]["accuracy"] == pytest.approx(np.mean(right[:6]))


@pytest.mark.parametrize("freeze", [True, False])
def test_a_frozen_encoder_stays_as_it_was(tmp_path, freeze):
    run(*rte(tmp_path), tmp_path / "run", freeze_encoder=freeze)
    trained = load_albert(tmp_path / "run" / "model")[0]
    before = start().new_encoder()
    for name in ("embeddings", "encoder"):
        pairs = zip(
            before.get_layer(name).get_weights(), trained.get_layer(name).get_weights(), strict=True
        )
        assert all(np.array_equal(*pair) for pair in pairs) == freeze
    pooler = (one.get_layer("pooler").get_weights()[0] for one in (before, trained))
    assert not np.array_equal(*pooler)


def test_the_recipe_s_dropout_is_albert_s_own_and_the_weights_stay(tmp_path):
    recipe = dataclasses.replace(RECIPE, dropout=0.1, classifier_dropout=0.3)
    files, data = rte(tmp_path)
    model, _ = finetuning_run.compiled(files.task, start(), recipe, tf.distribute.get_strategy())
    config = config_of(model)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.1
    assert model.get_layer("embeddings").dropout == 0.1
    assert model.get_layer("classifier_dropout").rate == 0.3
    ids = tf.constant([[2, 7, 9, 3]])
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    outputs = (
        one(inputs, training=False)["pooled_output"].numpy()
        for one in (encoder_of(model), start().new_encoder())
    )
    np.testing.assert_array_equal(*outputs)
    noisy = encoder_of(model)(inputs, training=True)["pooled_output"].numpy()
    assert np.abs(noisy - encoder_of(model)(inputs, training=False)["pooled_output"]).max() > 1e-3


def test_the_optimizer_has_the_recipe_s_rate_and_clipping(tmp_path):
    recipe = dataclasses.replace(RECIPE, clip_norm=0.1, warmup=10, learning_rate=0.5)
    _, trainer = finetuning_run.compiled(
        rte(tmp_path)[0].task, start(), recipe, tf.distribute.get_strategy()
    )
    config = trainer.optimizer.get_config()
    assert config["global_clipnorm"] == 0.1
    schedule = config["learning_rate"]["config"]
    assert schedule["peak"] == 0.5 and schedule["warmup_steps"] == 10


ON_TWO_DEVICES = """
import dataclasses, sys
from pathlib import Path

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.test_finetuning_run import RECIPE, rte, run

folder = Path(sys.argv[1])
files, data = rte(folder)
recipe = dataclasses.replace(RECIPE, total_steps=10)
run(files, data, folder / "one", recipe)
two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
run(files, data, folder / "two", recipe, strategy=two)
"""


def test_several_devices_train_and_predict_as_one(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.run(
        [sys.executable, "-c", ON_TWO_DEVICES, tmp_path],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    pair = (weights_in(tmp_path / folder / "model") for folder in ("one", "two"))
    for ours, theirs in zip(*pair, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4)
    one, two = (scores_in(tmp_path / folder) for folder in ("one", "two"))
    assert one == two
    for name in ("predictions.tsv", "test/predictions.tsv"):
        columns = (
            [(row["id"], row["predicted"]) for row in table(tmp_path / folder / name)]
            for folder in ("one", "two")
        )
        ours, theirs = columns
        assert ours == theirs


def test_what_is_held_out_must_say_what_is_right(tmp_path):
    finetuning_files.write_rte(tmp_path / "RTE")
    files = TaskFiles("rte")
    data = files.data(tmp_path / "RTE")
    data = FinetuningData(data.train, data.test, {})
    with pytest.raises(ValueError, match="must say what is right.*test.tsv"):
        run(files, data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def member(seed):
    tf.keras.utils.set_random_seed(seed)
    model = TextTask(["low", "high"]).build(start().new_encoder(), dropout=0.0)
    model.get_layer("classifier").kernel.assign(
        np.random.default_rng(seed).normal(size=(model.get_layer("classifier").kernel.shape))
    )
    return Member(model, small_tokenizer(), 32)


def test_an_ensemble_gives_the_mean_probabilities_in_the_order_of_the_file(tmp_path):
    finetuning_files.write_own(tmp_path / "dev.csv", count=30)
    task = TextTask(["low", "high"])
    source = TextSource(str(tmp_path / "dev.csv"), TextColumns("said", None, "mark", "key"))
    members = [member(seed) for seed in (1, 2, 3)]
    alone = [np.concatenate([one.answers for one in m.answered(task, source)]) for m in members]
    together = list(answered_by(members, task, source))
    mean = np.concatenate([block.answers for block in together])
    np.testing.assert_allclose(mean, np.mean(alone, axis=0), atol=1e-6)
    assert np.abs(alone[0] - alone[1]).max() > 0.01
    scores = task.finish(source, together, tmp_path)
    rows = table(tmp_path / "predictions.tsv")
    assert [row["id"] for row in rows] == [f"k{number}" for number in range(30)]
    for row, probabilities in zip(rows, mean, strict=True):
        assert row["predicted"] == ("low", "high")[probabilities.argmax()]
        assert float(row["score"]) == pytest.approx(probabilities.max(), abs=6e-5)
    right = np.mean([row["label"] == row["predicted"] for row in rows])
    assert scores["accuracy"] == pytest.approx(right)


def test_a_file_is_predicted_block_by_block(tmp_path, monkeypatch):
    """Of 5,000 examples at most two blocks are in memory: the first answers come before the rest
    of the file is read."""
    finetuning_files.write_own(tmp_path / "many.csv", count=5000)
    read = []
    module = "albert_keras.tasks.text_task.read_text_examples"
    from albert_keras.tasks.text_task import read_text_examples

    def counted(*arguments, **options):
        for example in read_text_examples(*arguments, **options):
            read.append(example.id)
            yield example

    monkeypatch.setattr(module, counted)
    task = TextTask(["low", "high"])
    source = TextSource(str(tmp_path / "many.csv"), TextColumns("said", None, "mark", "key"))
    blocks = answered_by([member(1)], task, source)
    first = next(blocks)
    assert len(first.examples) == 2048 and len(read) <= 2 * 2048
    assert sum(len(block.examples) for block in blocks) == 5000 - 2048


def test_rows_that_cannot_be_read_are_told_of_and_keep_their_place(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("text\tlabel\na\tlow\nb\nc\thigh\nd\tmiddle\ne\tlow\n")
    source = TextSource(str(path), TextColumns())
    with pytest.raises(ValueError, match="line 3: every line must have the 2 fields"):
        list(TextTask(["low", "high"]).encode(source, small_tokenizer(), 16))
    told = []
    task = TextTask(["low", "high"], on_broken=told.append)
    (block,) = task.encode(source, small_tokenizer(), 16)
    assert [example.id for example in block.examples] == ["0", "2", "4"]
    assert block.rows.targets["logits"].tolist() == [0, 1, 0]
    assert [f"line {line}" in str(error) for line, error in zip((3, 5), told, strict=True)] == [
        True,
        True,
    ]


def test_correlations_that_are_not_defined_are_none_and_the_lowest_score(tmp_path):
    finetuning_files.write_own(tmp_path / "dev.csv", numbers=True)
    task = TextTask()
    source = TextSource(str(tmp_path / "dev.csv"), TextColumns("said", None, "mark", "key"))
    (block,) = task.encode(source, small_tokenizer(), 16)
    answered = [(block.examples, np.ones((len(block.rows), 1), np.float32))]
    scores = task.finish(source, answered, None)
    assert scores["pearson"] is None and scores["score"] == -1.0
    assert json.dumps(scores, allow_nan=False)


def test_the_cache_gives_the_same_rows(tmp_path):
    files, data = rte(tmp_path)
    fresh, first, second = (
        encoded_training_rows(files.task, data.train, small_tokenizer(), 32, cache)
        for cache in (None, tmp_path / "cache", tmp_path / "cache")
    )
    for rows in (first, second):
        for name, array in fresh.arrays().items():
            np.testing.assert_array_equal(rows.arrays()[name], array)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_the_cache_hides_no_row_that_cannot_be_read(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("text\tlabel\na\tlow\nb\nc\thigh\n")
    source = TextSource(str(path), TextColumns())
    for _ in range(2):
        told = []
        task = TextTask(["low", "high"], on_broken=told.append)
        rows = encoded_training_rows(task, source, small_tokenizer(), 16, tmp_path / "cache")
        assert len(rows) == 2 and told
    with pytest.raises(ValueError, match="line 3"):
        task = TextTask(["low", "high"])
        encoded_training_rows(task, source, small_tokenizer(), 16, tmp_path / "cache")


def test_answers_that_are_not_where_the_file_says_are_told_of_once(tmp_path):
    finetuning_files.write_squad(tmp_path / "squad")
    path = tmp_path / "squad" / "train-v1.1.json"
    content = json.loads(path.read_text())
    first, second, *_ = content["data"][0]["paragraphs"]
    first["qas"][0]["answers"][0]["answer_start"] = 0
    second["qas"][0]["answers"][0]["text"] = "nowhere"
    path.write_text(json.dumps(content))
    told = []
    files = TaskFiles("squad1", max_query_length=8, on_note=told.append)
    data = files.data(tmp_path / "squad")
    for _ in range(2):
        rows = encoded_training_rows(files.task, data.train, small_tokenizer(), 32)
    assert "found at another place than the file says: 1, the first is 'train0'" in told[0]
    assert "does not occur in the text" in told[1] and "'train1'" in told[1] and len(told) == 2
    all_rows = sum(
        len(block.rows) for block in files.task.encode(data.train, small_tokenizer(), 32)
    )
    assert len(rows) < all_rows  # without those of the answer that has no place
