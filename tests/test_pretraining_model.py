"""PretrainingModel: the loss, its metrics, micro-batches, and steps that are left out."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.model import build_albert, build_pretrainer
from albert_keras.optimizers import AdamW, Lamb
from albert_keras.pretraining_model import with_pretraining_loss
from tests import numpy_albert

pytestmark = pytest.mark.both_kerases

LOGS = {"loss", "mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy", "skipped_steps"}


def batch(rows=4, length=10, slots=3, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.ones((rows, slots))
    weights[0, 1:] = 0
    return {
        "token_ids": rng.integers(5, 100, (rows, length)).astype("int32"),
        "segment_ids": np.zeros((rows, length), "int32"),
        "padding_mask": np.ones((rows, length), "int32"),
        "masked_positions": rng.integers(1, length, (rows, slots)).astype("int32"),
        "masked_ids": rng.integers(5, 100, (rows, slots)).astype("int32"),
        "masked_weights": weights.astype("float32"),
        "sop_labels": rng.integers(0, 2, rows).astype("int32"),
        "sop_weights": np.array([1, 1, 0, 1] * (rows // 4), "float32"),
    }


def expected_parts(outputs, batch):
    """Numerators and denominators of the four metrics, in NumPy."""
    parts = {}
    for name, ids, weights in [
        ("mlm", batch["masked_ids"], batch["masked_weights"]),
        ("sop", batch["sop_labels"], batch["sop_weights"]),
    ]:
        logits = np.asarray(outputs[f"{name}_logits"], np.float64)
        loss = -np.take_along_axis(numpy_albert.log_softmax(logits), ids[..., None], -1)[..., 0]
        right = logits.argmax(-1) == ids
        parts[f"{name}_loss"] = (loss * weights).sum(), weights.sum()
        parts[f"{name}_accuracy"] = (right * weights).sum(), weights.sum()
    return parts


def scattered_pretrainer():
    """A pretrainer whose logits are far from uniform."""
    tf.keras.utils.set_random_seed(3)
    return build_pretrainer(build_albert("tiny", initializer_range=0.7))


def gradients_of_one_step(model, inputs):
    """The gradients of a step: what SGD with a rate of 1 takes from the weights."""
    model.compile(tf.keras.optimizers.SGD(1.0))
    before = {id(w): w.numpy() for w in model.trainable_variables}
    fit(model, inputs)
    return [before[id(w)] - w.numpy() for w in model.trainable_variables]


def assert_near(gradient, expected):
    """Equal but for the order of sums; and a weight less its gradient is rounded at its size.

    The bias of the keys has no gradient but rounding, of a norm of 1.1e-5, and differs by 5.4e-6.
    """
    error = np.linalg.norm(gradient - expected)
    assert error <= 2e-4 * np.linalg.norm(expected) + 6e-6, error


def fit(model, inputs):
    """The logs of one step."""
    dataset = tf.data.Dataset.from_tensors(inputs)
    history = model.fit(dataset, verbose=0, shuffle=False).history
    return {name: values[0] for name, values in history.items()}


def test_the_loss_is_the_weighted_mean_of_each_objective():
    pretrainer = scattered_pretrainer()
    model = with_pretraining_loss(pretrainer)
    inputs = batch()
    parts = expected_parts(pretrainer({k: inputs[k] for k in pretrainer.input}), inputs)
    expected = sum(parts[name][0] / parts[name][1] for name in ("mlm_loss", "sop_loss"))
    model.compile(tf.keras.optimizers.SGD(0.0))
    logs = fit(model, inputs)
    assert logs["loss"] == pytest.approx(expected, rel=1e-5)
    assert logs["skipped_steps"] == 0


def test_the_gradient_is_that_of_the_loss():
    pretrainer = scattered_pretrainer()
    inputs = {name: tf.constant(values) for name, values in batch().items()}
    with tf.GradientTape() as tape:
        outputs = pretrainer({k: inputs[k] for k in pretrainer.input})
        losses = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(inputs[labels], outputs[logits])
            for labels, logits in (("masked_ids", "mlm_logits"), ("sop_labels", "sop_logits"))
        ]
        weights = inputs["masked_weights"], inputs["sop_weights"]
        loss = tf.add_n(
            [tf.reduce_sum(a * b) / tf.reduce_sum(b) for a, b in zip(losses, weights, strict=True)]
        )
    model = with_pretraining_loss(pretrainer)
    expected = tape.gradient(loss, model.trainable_variables)
    for ours, theirs in zip(gradients_of_one_step(model, inputs), expected, strict=True):
        theirs = tf.convert_to_tensor(theirs).numpy()
        assert_near(ours, theirs)


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_micro_batches_give_the_step_of_the_whole_batch(micro_batches):
    # Uneven weights: a mean of the parts' means would be another one.
    inputs = batch(rows=8, seed=4)
    inputs["masked_weights"][:3] = 0
    inputs["sop_weights"][5:] = 0
    whole_model = with_pretraining_loss(scattered_pretrainer())
    whole = gradients_of_one_step(whole_model, inputs)
    cut_model = with_pretraining_loss(scattered_pretrainer(), micro_batches)
    cut = gradients_of_one_step(cut_model, inputs)
    for one, other in zip(whole, cut, strict=True):
        assert_near(one, other)
    for ours, theirs in zip(whole_model.metrics, cut_model.metrics, strict=True):
        assert float(ours.result()) == pytest.approx(float(theirs.result()), rel=1e-5), ours.name


def test_micro_batches_must_divide_the_rows():
    model = with_pretraining_loss(build_pretrainer(build_albert("tiny")), 3)
    model.compile(tf.keras.optimizers.SGD(1.0))
    with pytest.raises(ValueError, match="`micro_batches` must divide the rows"):
        fit(model, batch(rows=4))


@pytest.mark.parametrize("optimizer", [Lamb, AdamW])
@pytest.mark.parametrize("clip", [1.0, None])
def test_a_step_without_a_finite_gradient_changes_nothing_and_is_counted(optimizer, clip):
    model = with_pretraining_loss(scattered_pretrainer(), micro_batches=2)
    model.compile(optimizer(0.01, global_clipnorm=clip))
    good, bad = batch(seed=1), batch(seed=2)
    bad["masked_weights"][1, 0] = np.inf
    fit(model, good)
    before = [w.numpy() for w in (*model.weights, *model.optimizer.variables)]
    logs = fit(model, bad)
    assert logs["skipped_steps"] == 1
    assert np.isfinite(list(logs.values())).all()
    after = [w.numpy() for w in (*model.weights, *model.optimizer.variables)]
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if (a != b).any()]
    counters = [i for i, value in enumerate(before) if value.dtype.kind == "i" and not value.shape]
    metrics = {id(w) for metric in model.metrics for w in metric.variables}
    counters += [i for i, w in enumerate(model.weights) if id(w) in metrics]
    assert set(changed) <= set(counters)  # the step is counted all the same
    fit(model, good)
    assert any((w.numpy() != old).any() for w, old in zip(model.weights, after, strict=False))


def test_without_a_pair_objective_the_pooler_and_the_pair_head_stay_as_they_are():
    tf.keras.utils.set_random_seed(3)
    pretrainer = build_pretrainer(build_albert("tiny"), pair_objective="none")
    model = with_pretraining_loss(pretrainer)
    model.compile(Lamb(0.1))
    untouched = [pretrainer.get_layer(name) for name in ("pooler", "sop")]
    before = [w for layer in untouched for w in layer.get_weights()]
    stack = pretrainer.get_layer("encoder").get_weights()
    inputs = batch()
    inputs["sop_weights"] *= 0
    logs = fit(model, inputs)
    assert set(logs) == {"loss", "mlm_loss", "mlm_accuracy", "skipped_steps"}
    after = [w for layer in untouched for w in layer.get_weights()]
    assert all(map(np.array_equal, before, after))
    assert not any(map(np.array_equal, stack, pretrainer.get_layer("encoder").get_weights()))


def test_metrics_are_named_by_the_objective():
    model = with_pretraining_loss(build_pretrainer(build_albert("tiny"), pair_objective="nsp"))
    model.compile(tf.keras.optimizers.SGD(0.1))
    logs = fit(model, batch())
    assert {"nsp_loss", "nsp_accuracy"} < set(logs)
    assert not any(name.startswith("sop") for name in logs)


def test_evaluation_averages_over_all_predictions_of_all_batches():
    pretrainer = scattered_pretrainer()
    model = with_pretraining_loss(pretrainer)
    model.compile(tf.keras.optimizers.Adam())
    batches = [batch(rows=4, seed=1), batch(rows=8, seed=2)]
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature={
            name: tf.TensorSpec([None, *value.shape[1:]], value.dtype)
            for name, value in batches[0].items()
        },
    ).apply(tf.data.experimental.assert_cardinality(2))
    logs = model.evaluate(dataset, return_dict=True, verbose=0)
    assert set(logs) == LOGS
    parts = [
        expected_parts(pretrainer({k: each[k] for k in pretrainer.input}), each) for each in batches
    ]
    for name in parts[0]:
        expected = sum(p[name][0] for p in parts) / sum(p[name][1] for p in parts)
        assert logs[name] == pytest.approx(expected, rel=1e-4), name


def test_fit_needs_the_optimizer_alone_and_learns():
    model = with_pretraining_loss(build_pretrainer(build_albert("tiny")))
    model.compile(tf.keras.optimizers.Adam(1e-2))
    dataset = tf.data.Dataset.from_tensors(batch()).repeat(10)
    history = model.fit(dataset, epochs=3, verbose=0, shuffle=False).history
    assert set(history) == LOGS
    assert history["mlm_loss"][-1] < history["mlm_loss"][0] - 0.5
    np.testing.assert_allclose(
        history["loss"], np.add(history["mlm_loss"], history["sop_loss"]), rtol=1e-5
    )


def test_metrics_start_anew_in_each_epoch():
    model = with_pretraining_loss(scattered_pretrainer())
    model.compile(tf.keras.optimizers.SGD(0.0))
    dataset = tf.data.Dataset.from_tensors(batch())
    history = model.fit(dataset, epochs=2, verbose=0, shuffle=False).history
    assert history["mlm_loss"][0] == pytest.approx(history["mlm_loss"][1], rel=1e-6)


def test_a_batch_without_any_weight_costs_nothing_and_moves_nothing():
    model = with_pretraining_loss(build_pretrainer(build_albert("tiny")))
    model.compile(tf.keras.optimizers.SGD(1.0))
    inputs = batch()
    inputs["masked_weights"] *= 0
    inputs["sop_weights"] *= 0
    before = [w.numpy() for w in model.trainable_weights]
    dataset = tf.data.Dataset.from_tensors(inputs)
    history = model.fit(dataset, verbose=0, shuffle=False).history
    assert history["loss"] == [0.0]
    for weight, value in zip(model.trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def test_a_model_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="A pretrainer takes masked_positions"):
        with_pretraining_loss(build_albert("tiny"))
