"""Distillation: the losses against NumPy, what trains and what does not, runs, refusals."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import load_albert, save_albert
from albert_keras.config import config_from
from albert_keras.distillation import (
    HIDDEN,
    Distillation,
    hidden_error,
    soft_divergence,
    taught_layers,
)
from albert_keras.distilled_model import DistilledPretraining
from albert_keras.model import build_albert, build_pretrainer, encoder_of
from albert_keras.pretraining_model import with_pretraining_loss
from albert_keras.tasks import finetuning_run
from albert_keras.tasks.finetuning_data import encoded_training_rows, training_batches
from albert_keras.tasks.finetuning_recipe import FinetuningRecipe
from albert_keras.tasks.race.task import RaceTask
from albert_keras.tasks.squad.task import SquadTask
from albert_keras.tasks.task_files import TaskFiles
from albert_keras.tasks.teacher import for_pretrainer, load_teacher
from albert_keras.tasks.text_examples import TextColumns
from albert_keras.tasks.text_task import TextTask
from albert_keras.training.loop import train
from tests import finetuning_files, numpy_albert
from tests.small_tokenizer import small_tokenizer
from tests.test_pretraining_model import batch, fit, gradients_of_one_step

both_kerases = pytest.mark.both_kerases
RECIPE = FinetuningRecipe(
    max_length=32,
    batch_size=8,
    learning_rate=3e-3,
    warmup=0.1,
    total_steps=6,
    classifier_dropout=0.0,
    checkpoint_every=None,
)


def divergence(teacher, student, temperature):
    """KL of the softened distributions times the square of the temperature, in float64."""
    logs = [numpy_albert.log_softmax(np.float64(x) / temperature) for x in (teacher, student)]
    return temperature**2 * (np.exp(logs[0]) * (logs[0] - logs[1])).sum(-1)


def pretrainer(seed, **fields):
    tf.keras.utils.set_random_seed(seed)
    all_layers = fields.pop("output_all_layers", False)
    config = config_from("tiny", {"initializer_range": 0.5, **fields})
    return build_pretrainer(build_albert(config, output_all_layers=all_layers))


def hidden_states(model, inputs, layers):
    encoder = encoder_of(model)
    outputs = encoder({name: inputs[name] for name in encoder.input})["layer_outputs"]
    return np.stack([outputs[layer].numpy() for layer in layers], axis=1)


@both_kerases
def test_the_losses_are_those_of_numpy():
    rng = np.random.default_rng(0)
    teacher, student = rng.normal(0, 3, (2, 4, 3, 5, 7)).astype("float32")
    for temperature in (0.5, 1.0, 4.0):
        found = soft_divergence(teacher, student, temperature)
        np.testing.assert_allclose(found, divergence(teacher, student, temperature), rtol=1e-4)
    expected = np.square(teacher - student).mean(axis=(1, 3))
    np.testing.assert_allclose(hidden_error(teacher, student), expected, rtol=1e-5)
    assert taught_layers(3, 6) == [0, 2, 4, 6] and taught_layers(4, 2) == [0, 0, 1, 2, 2]
    # Positions that no answer may have.
    masked = np.where(np.arange(7) < 3, -1e30, teacher).astype("float32")
    expected = divergence(masked[..., 3:], student[..., 3:], 2.0)
    other = np.where(np.arange(7) < 3, -1e30, student).astype("float32")
    np.testing.assert_allclose(soft_divergence(masked, other, 2.0), expected, rtol=1e-4)


@both_kerases
def test_the_temperature_leaves_the_size_of_the_gradient():
    """Of high ones it is that of the squared difference of centred logits over C."""
    teacher, student = tf.constant([[1.0, -2.0, 0.5]]), tf.Variable([[0.2, 0.1, -0.9]])
    with tf.GradientTape() as tape:
        loss = soft_divergence(teacher, student, 1e3)
    centred = [x - np.mean(x) for x in (teacher.numpy(), student.numpy())]
    expected = (centred[1] - centred[0]) / 3
    np.testing.assert_allclose(tape.gradient(loss, student), expected, rtol=2e-3)


@both_kerases
def test_a_pretraining_step_mixes_labels_teacher_and_hidden_states():
    student = pretrainer(1, output_all_layers=True)
    teacher = pretrainer(
        2, output_all_layers=True, num_hidden_layers=2, hidden_size=16, intermediate_size=32
    )
    chosen = Distillation(teacher, "sha", temperature=3.0, weight=0.25, hidden_weight=2.0)
    inputs = batch()
    inputs["padding_mask"][1, 7:] = 0
    before = [weight.numpy() for weight in teacher.weights]
    model = DistilledPretraining(student, chosen, micro_batches=2)
    model.compile(tf.keras.optimizers.SGD(0.0))
    logs = fit(model, inputs)
    answers = [
        one({name: inputs[name] for name in student.input}, training=False)
        for one in (teacher, student)
    ]
    for name, weights in (("mlm", inputs["masked_weights"]), ("sop", inputs["sop_weights"])):
        soft = divergence(*(one[f"{name}_logits"].numpy() for one in answers), 3.0)
        expected = (soft * weights).sum() / weights.sum()
        assert logs[f"{name}_distillation"] == pytest.approx(expected, rel=1e-4)
    plain = with_pretraining_loss(student)
    plain.compile(tf.keras.optimizers.SGD(0.0))
    labels = fit(plain, inputs)
    assert {name: logs[name] for name in labels} == pytest.approx(labels, rel=1e-5)
    kernel, bias = (w.numpy() for w in model.get_layer("projection").weights)
    ours = hidden_states(student, inputs, [0, 1, 2, 3]) @ kernel + bias
    error = np.square(ours - hidden_states(teacher, inputs, [0, 1, 1, 2])).mean((1, 3))
    tokens = inputs["padding_mask"]
    expected = (error * tokens).sum() / tokens.sum()
    assert logs["hidden_error"] == pytest.approx(expected, rel=1e-4)
    assert model.shares == [0.75, 0.75, 0.25, 0.25, 2.0]
    for weight, value in zip(teacher.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


@both_kerases
def test_the_gradient_is_that_of_the_mixed_loss():
    student, teacher = pretrainer(1), pretrainer(2)
    inputs = batch()
    features = {name: inputs[name] for name in student.input}
    taught = teacher(features)
    variables = student.trainable_variables
    with tf.GradientTape() as tape:
        outputs, loss = student(features), 0.0
        for name, key, labels in (("mlm", "masked", "masked_ids"), ("sop", "sop", "sop_labels")):
            logits, weights = outputs[f"{name}_logits"], inputs[f"{key}_weights"]
            hard = tf.nn.sparse_softmax_cross_entropy_with_logits(inputs[labels], logits)
            soft = tf.keras.losses.kld(
                tf.nn.softmax(taught[f"{name}_logits"] / 2), tf.nn.softmax(logits / 2)
            )
            mixed = 0.7 * hard + 0.3 * 4 * soft
            loss += tf.reduce_sum(weights * mixed) / weights.sum()
    expected = [tf.convert_to_tensor(part) for part in tape.gradient(loss, variables)]
    model = DistilledPretraining(student, Distillation(teacher, "sha", weight=0.3), 2)
    for found, other in zip(gradients_of_one_step(model, inputs), expected, strict=True):
        error = np.linalg.norm(found - other)
        # Keras clips probabilities at 1e-7; the bias of the keys has no gradient but rounding.
        assert error <= 1e-3 * np.linalg.norm(other) + 1e-5


@both_kerases
@pytest.mark.parametrize("objectives", [("sop", "sop"), ("sop", "nsp"), ("none", "none")])
def test_pairs_are_taught_where_both_have_the_same_objective(objectives):
    student, teacher = (
        build_pretrainer(build_albert("tiny"), pair_objective=objective) for objective in objectives
    )
    model = DistilledPretraining(student, Distillation(teacher, "sha", weight=0.5))
    assert ("sop_distillation" in model.places) == (objectives == ("sop", "sop"))
    assert model.shares[1] == (0.5 if objectives == ("sop", "sop") else 1.0)
    model.compile(tf.keras.optimizers.SGD(0.1))
    assert np.isfinite(fit(model, batch())["mlm_distillation"])


@both_kerases
def test_a_student_that_equals_its_teacher_learns_nothing_from_it():
    student, teacher = (pretrainer(1, output_all_layers=True) for _ in range(2))
    chosen = Distillation(teacher, "sha", weight=1.0, hidden_weight=1.0)
    model = DistilledPretraining(student, chosen)
    for gradient in gradients_of_one_step(model, batch()):
        assert np.abs(gradient).max() < 1e-5  # of others it is above 1e-2
    chosen = dataclasses.replace(chosen, teacher=pretrainer(2, output_all_layers=True))
    other = gradients_of_one_step(DistilledPretraining(student, chosen), batch())
    assert max(np.abs(gradient).max() for gradient in other) > 1e-2


@both_kerases
def test_with_weight_0_a_student_trains_as_without_a_teacher():
    ends = []
    for chosen in (None, Distillation(pretrainer(9), "sha", weight=0.0)):
        student = pretrainer(1)
        model = (
            with_pretraining_loss(student, 2)
            if chosen is None
            else DistilledPretraining(student, chosen, 2)
        )
        model.compile(tf.keras.optimizers.Adam(1e-2))
        for seed in range(3):
            fit(model, batch(seed=seed))
        ends.append([weight.numpy() for weight in student.weights])
        assert len(model.trainable_variables) == len(student.trainable_variables)
    for ours, theirs in zip(*ends, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@both_kerases
def test_a_student_counts_and_saves_its_own_weights_alone(tmp_path):
    student, teacher = pretrainer(1), pretrainer(2, hidden_size=48, num_attention_heads=4)
    model = DistilledPretraining(student, Distillation(teacher, "sha"))
    model.compile(tf.keras.optimizers.Adam())
    fit(model, batch())
    trained = [{id(weight) for weight in one.trainable_variables} for one in (model, student)]
    assert trained[0] == trained[1] and teacher.count_params() > student.count_params()
    assert not {id(weight) for weight in model.weights} & {id(w) for w in teacher.weights}
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = checkpoint.write(str(tmp_path / "state"))
    shapes = [tuple(shape) for _, shape in tf.train.list_variables(path)]
    assert (100, 8) in shapes and not any(48 in shape for shape in shapes)


@both_kerases
def test_the_losses_of_the_tasks():
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.normal(0, 2, (2, *shape)).astype("float32")

    def found(task, targets, **outputs):
        both = [{name: value[i] for name, value in outputs.items()} for i in (0, 1)]
        return task.distillation_loss(targets, *both, temperature=2.0).numpy()

    labels = draw(4, 3)
    expected = divergence(*labels, 2.0)
    np.testing.assert_allclose(found(TextTask("abc"), {}, logits=labels), expected, rtol=1e-4)
    numbers = draw(4, 1)
    expected = np.square(numbers[0] - numbers[1])[:, 0]
    np.testing.assert_allclose(found(TextTask(), {}, logits=numbers), expected, rtol=1e-5)
    spans = {"start_logits": draw(4, 6), "end_logits": draw(4, 6)}
    expected = sum(divergence(*logits, 2.0) for logits in spans.values()) / 2
    np.testing.assert_allclose(found(SquadTask(True), {}, **spans), expected, rtol=1e-4)
    odds = draw(4)
    p, q = 1 / (1 + np.exp(-np.float64(odds) / 2))
    binary = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    expected = expected + 4 * binary / 2
    one = found(SquadTask(False), {}, **spans, unanswerable_logits=odds)
    np.testing.assert_allclose(one, expected, rtol=1e-4)
    choices = draw(2, 4)
    marks = np.array([[0, 1, 0, 0], [1, 0, -1, -1]], "int32")
    expected = [divergence(*choices[:, 0], 2.0), divergence(*choices[:, 1, :2], 2.0)]
    one = found(RaceTask(), {"logits": marks}, logits=choices)
    np.testing.assert_allclose(one, expected, rtol=1e-4)


FAMILIES = {
    "rte": finetuning_files.write_rte,
    "squad1": finetuning_files.write_squad,
    "squad2": lambda folder: finetuning_files.write_squad(folder, unanswerable=True),
    "race": finetuning_files.write_race,
}


def prepared(name, folder):
    """The task of a family with its data and rows, and a start."""
    FAMILIES[name](folder / "data")
    files = TaskFiles(name, **({"max_query_length": 8} if "squad" in name else {}))
    data = files.data(folder / "data")
    rows = encoded_training_rows(files.task, data.train, small_tokenizer(), 32)
    return files.task, data, rows


def start(output_all_layers=False, seed=5, **fields):
    def new_encoder():
        tf.keras.utils.set_random_seed(seed)
        config = {"vocab_size": 400, "max_position_embeddings": 128, **fields}
        return build_albert("tiny", output_all_layers=output_all_layers, **config)

    return finetuning_run.Start(new_encoder, small_tokenizer(), "some weights")


def save_teacher(task, folder, seed=7, **fields):
    model = task.build(start(seed=seed, initializer_range=0.3, **fields).new_encoder(), 0.0)
    save_albert(model, folder, tokenizer=small_tokenizer(), labels=task.labels)


@both_kerases
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_learns_from_a_teacher(tmp_path, name):
    task, _, rows = prepared(name, tmp_path)
    save_teacher(task, tmp_path / "teacher", hidden_size=16, num_hidden_layers=2)
    hidden_weight = 0.0 if name == "race" else 0.5
    chosen = load_teacher(
        tmp_path / "teacher", small_tokenizer(), weight=1.0, hidden_weight=hidden_weight
    )
    one = tf.distribute.get_strategy()
    recipe = dataclasses.replace(RECIPE, total_steps=40)
    begin = start(output_all_layers=hidden_weight > 0)
    model, trainer = finetuning_run.compiled(task, begin, recipe, one, distillation=chosen)
    before = [weight.numpy() for weight in chosen.teacher.weights]
    batches = training_batches(task, rows, recipe, one)(0)
    first, _, history = (
        trainer.fit(batches.take(steps), steps_per_epoch=steps, verbose=0, shuffle=False).history
        for steps in (1, 20, 1)
    )
    names = {"loss", "distillation"} | ({"hidden_error"} if hidden_weight else set())
    assert names <= set(history) and "task_loss" not in history
    assert ("accuracy" in history) == (name in ("rte", "race"))
    assert history["distillation"][0] < 0.8 * first["distillation"][0]
    for weight, value in zip(chosen.teacher.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    save_albert(model, tmp_path / "student", tokenizer=small_tokenizer(), labels=task.labels)
    assert load_albert(tmp_path / "student")[0].count_params() == model.count_params()


@both_kerases
def test_the_loss_of_a_task_is_mixed_and_logged_as_without_a_teacher(tmp_path):
    task, _, rows = prepared("rte", tmp_path)
    save_teacher(task, tmp_path / "teacher", hidden_dropout_prob=0.5)
    one = tf.distribute.get_strategy()
    batches = training_batches(task, rows, RECIPE, one)(0).take(1)
    ((inputs, targets),) = batches
    for weight in (0.0, 0.75):
        chosen = load_teacher(tmp_path / "teacher", small_tokenizer(), weight=weight)
        model, trainer = finetuning_run.compiled(task, start(), RECIPE, one, distillation=chosen)
        logits, taught = (each(inputs)["logits"].numpy() for each in (model, chosen.teacher))
        labels = targets["logits"].numpy().reshape(-1, 1)
        hard = -np.take_along_axis(numpy_albert.log_softmax(logits), labels, -1).mean()
        soft = divergence(taught, logits, 2.0).mean()
        loss = trainer.compute_loss(inputs, targets, trainer(inputs))
        assert float(loss) == pytest.approx((1 - weight) * hard + weight * soft, rel=1e-5)
        logs = trainer.fit(batches, steps_per_epoch=1, verbose=0, shuffle=False).history
        assert logs["loss"][0] == pytest.approx(hard, rel=1e-5)
        assert logs["distillation"][0] == pytest.approx(soft, rel=1e-4)


def finetuned(task, data, rows, folder, chosen, recipe=RECIPE, **options):
    settings = {"log_every": 2, "quiet": True, **options}
    return finetuning_run.finetune(
        task, data, rows, start(output_all_layers=chosen and chosen.hidden_weight > 0), recipe,
        folder, distillation=chosen, **settings,
    )  # fmt: skip


def weights_in(folder):
    return [weight.numpy() for weight in load_albert(folder / "model")[0].weights]


def test_a_run_with_weight_0_ends_at_the_same_bits(tmp_path):
    task, data, rows = prepared("rte", tmp_path)
    save_teacher(task, tmp_path / "teacher")
    for name in ("alone", "taught"):
        chosen = load_teacher(tmp_path / "teacher", small_tokenizer(), weight=0.0)
        finetuned(task, data, rows, tmp_path / name, chosen if name == "taught" else None)
    for pair in zip(*(weights_in(tmp_path / name) for name in ("alone", "taught")), strict=True):
        np.testing.assert_array_equal(*pair)
    assert "teacher" not in json.loads((tmp_path / "alone" / "run.json").read_text())["settings"]


def test_a_run_goes_on_to_the_same_bits_and_with_its_own_teacher_alone(tmp_path, monkeypatch):
    task, data, rows = prepared("rte", tmp_path)
    for seed in (7, 8):
        save_teacher(task, tmp_path / f"teacher-{seed}", seed, hidden_size=16)

    def teacher(seed=7, **settings):
        chosen = {"hidden_weight": 1.0, **settings}
        return load_teacher(tmp_path / f"teacher-{seed}", small_tokenizer(), **chosen)

    finetuned(task, data, rows, tmp_path / "whole", teacher())

    class Killed(Exception):
        pass

    def until_4(*arguments, **options):
        train(*arguments, **{**options, "total_steps": 4})
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(finetuning_run, "train", until_4)
        finetuned(task, data, rows, tmp_path / "run", teacher())
    for other in (teacher(8), teacher(temperature=3.0), None):
        with pytest.raises(ValueError, match="A run goes on with the settings.*\n.*teacher"):
            finetuned(task, data, rows, tmp_path / "run", other, resume=True)
    assert finetuned(task, data, rows, tmp_path / "run", teacher(), resume=True) == 6
    for pair in zip(*(weights_in(tmp_path / name) for name in ("whole", "run")), strict=True):
        np.testing.assert_array_equal(*pair)


def test_a_teacher_of_another_task_is_refused(tmp_path):
    task, data, rows = prepared("rte", tmp_path)
    one = tf.distribute.get_strategy()

    def refused(message, other=task, **settings):
        folder = tmp_path / f"teacher-{len(list(tmp_path.iterdir()))}"
        save_teacher(other, folder, **settings)
        chosen = load_teacher(folder, small_tokenizer())
        with pytest.raises(ValueError, match=message):
            finetuning_run.compiled(task, start(), RECIPE, one, distillation=chosen)

    refused("Received: span_predictor, and the student is classifier", SquadTask(True))
    swapped = TextTask(["not_entailment", "entailment"])
    refused("the same labels in the same order", swapped)
    refused("of 16 positions, for rows of 32", max_position_embeddings=16)
    save_teacher(task, tmp_path / "teacher")
    with pytest.raises(ValueError, match="must have the student's vocabulary"):
        load_teacher(tmp_path / "teacher", small_tokenizer(lowercase=False))
    chosen = load_teacher(tmp_path / "teacher", small_tokenizer(), hidden_weight=1.0)
    with pytest.raises(ValueError, match="with output_all_layers=True"):
        finetuning_run.compiled(task, start(), RECIPE, one, distillation=chosen)
    race = RaceTask()
    save_teacher(race, tmp_path / "race")
    chosen = load_teacher(tmp_path / "race", small_tokenizer(), hidden_weight=1.0)
    with pytest.raises(ValueError, match="whose encoder is one layer"):
        finetuning_run.compiled(
            race, start(output_all_layers=True), RECIPE, one, distillation=chosen
        )


def test_a_teacher_of_another_pretraining_is_refused():
    student = pretrainer(1)
    for teacher, message in (
        (build_albert("tiny"), "A pretrainer's teacher is one as well"),
        (pretrainer(2, vocab_size=90), "the same `vocab_size`. Received: 90 and 100"),
        (pretrainer(2, max_position_embeddings=16), "of 16 positions, for rows of 32"),
    ):
        with pytest.raises(ValueError, match=message):
            for_pretrainer(Distillation(teacher, "sha"), student, 32)
    for name, value in (("temperature", 0.0), ("weight", 1.1), ("hidden_weight", float("nan"))):
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            Distillation(student, "sha", **{name: value})


def test_hidden_states_have_a_name_that_no_head_has():
    assert HIDDEN not in {*pretrainer(1).output, *build_albert("tiny").output}


def test_mixed_precision_and_recomputation_train_with_a_teacher():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        student, teacher = (
            build_pretrainer(build_albert("tiny", output_all_layers=True, recompute=recompute))
            for recompute in (True, False)
        )
        model = DistilledPretraining(student, Distillation(teacher, "sha", hidden_weight=1.0), 2)
        model.compile(tf.keras.optimizers.Adam(1e-3))
        logs = fit(model, batch())
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    assert logs["skipped_steps"] == 0 and np.isfinite(list(logs.values())).all()


def test_a_regression_is_taught_by_its_own_kind(tmp_path):
    finetuning_files.write_own(tmp_path / "own.csv", numbers=True)
    files = TaskFiles("regress", TextColumns("said", None, "mark"))
    data = files.data(train=tmp_path / "own.csv")
    rows = encoded_training_rows(files.task, data.train, small_tokenizer(), 32)
    save_teacher(files.task, tmp_path / "teacher")
    chosen = load_teacher(tmp_path / "teacher", small_tokenizer(), weight=1.0)
    recipe = dataclasses.replace(RECIPE, total_steps=80)
    finetuned(files.task, data, rows, tmp_path / "run", chosen, recipe)
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[-1]["distillation"] < 0.3 * lines[0]["distillation"]
