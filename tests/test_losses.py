import numpy as np
import pytest
import tensorflow as tf

from albert_keras.losses import PretrainingLoss, weighted_mean, with_pretraining_loss
from albert_keras.model import build_albert, build_pretrainer
from tests import numpy_albert

pytestmark = pytest.mark.both_kerases


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


def test_the_loss_is_the_weighted_mean_of_each_objective():
    pretrainer = scattered_pretrainer()
    model = with_pretraining_loss(pretrainer)
    inputs = batch()
    outputs = model(inputs)
    parts = expected_parts(pretrainer({k: inputs[k] for k in pretrainer.input}), inputs)
    expected = sum(parts[name][0] / parts[name][1] for name in ("mlm_loss", "sop_loss"))
    assert float(model.losses[0]) == pytest.approx(expected, rel=1e-5)
    assert set(outputs) == {"mlm_logits", "sop_logits"}


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
    assert set(logs) == {"loss", "mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy"}
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
    assert set(history) == {"loss", "mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy"}
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


def test_a_mean_of_no_weights_is_zero_and_its_gradient_is_a_number():
    values = tf.constant([1.0, 2.0])
    assert weighted_mean(values, tf.constant([1.0, 3.0])).numpy() == 1.75
    with tf.GradientTape() as tape:
        tape.watch(values)
        mean = weighted_mean(values, tf.zeros([2]))
    assert mean.numpy() == 0
    np.testing.assert_array_equal(tape.gradient(mean, values), [0, 0])


def test_the_loss_is_float32_under_bfloat16():
    layer = PretrainingLoss(dtype="mixed_bfloat16")
    one = tf.ones([1, 1], tf.int32)
    logits = tf.constant([[[0.0, 10.001]]])
    outputs = layer(logits, one, tf.ones([1, 1]), tf.zeros([1, 2]), one[0], tf.ones([1]))
    np.testing.assert_array_equal(outputs[0], logits)
    assert float(layer.losses[0]) == pytest.approx(np.log1p(np.exp(-10.001)) + np.log(2), rel=1e-6)


def test_a_model_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="A pretrainer takes masked_positions"):
        with_pretraining_loss(build_albert("tiny"))
