"""SavedState: only what is finite and whole is gone on from."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.run_folder import begin_run
from albert_keras.training import saved_state
from albert_keras.training.saved_state import SavedState, TrainingDiverged
from tests.regression_run import (
    BATCH,
    STEPS,
    WIDTH,
    assert_same_weights,
    batches_from,
    regression,
    run,
    with_nan_in,
)

pytestmark = pytest.mark.both_kerases


def saved(folder):
    return {path.stem for path in (folder / "training").glob("*.index")}


@pytest.fixture
def state(tmp_path):
    """Saves of the steps 5 and 10 of a wide model, and a function that gives a fresh one of it."""

    def fresh():
        tf.keras.utils.set_random_seed(0)
        model = tf.keras.Sequential([tf.keras.Input((WIDTH,)), tf.keras.layers.Dense(1000)])
        model.compile(tf.keras.optimizers.SGD(0.1), loss="mse")
        return SavedState(model, tmp_path / "training"), model

    state, model = fresh()
    for step in (5, 10):
        model.optimizer.iterations.assign(step)
        model.layers[-1].kernel.assign(tf.fill([WIDTH, 1000], float(step)))
        state.save()
    return fresh


@pytest.mark.parametrize("log_every", [2, 100])
def test_a_state_from_after_a_divergence_is_never_saved(tmp_path, log_every):
    # The loss is NaN from step 8 on, and a save ends an interval.
    options = {"log_every": log_every, "save_every": 3}
    with pytest.raises(TrainingDiverged, match="state saved at step 6 is from before"):
        run(tmp_path / "run", with_nan_in(range(7, STEPS)), **options)
    starts = []

    def noting(start):
        starts.append(start)
        return batches_from(start)

    reached, weights = run(tmp_path / "run", noting, resume=True, **options)
    assert (starts, reached) == ([6], STEPS) and np.isfinite(weights[0]).all()


def test_weights_that_the_last_step_broke_are_not_saved(tmp_path):
    model = regression()

    class Breaking(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:  # the loss of this step was that of the weights before it
                model.layers[-1].kernel.assign(model.layers[-1].kernel * np.inf)

    fit = model.fit
    model.fit = lambda *data, callbacks, **rest: fit(
        *data, callbacks=[Breaking(), *callbacks], **rest
    )
    with pytest.raises(TrainingDiverged, match="A weight .* at step 4. The state saved at step 2"):
        run(tmp_path / "run", model=model, log_every=100, save_every=2)


def test_a_run_whose_name_is_a_pattern_leaves_others_alone_and_keeps_two_saves(tmp_path):
    for name in ("run1", "run[12]", "run?"):
        run(tmp_path / name, save_every=3)
    for name in ("run1", "run[12]", "run?"):
        folder = tmp_path / name / "training"
        assert {path.stem for path in folder.iterdir()} == {"step-9", "step-12"}
        assert run(tmp_path / name, resume=True)[0] == STEPS


def test_what_a_first_save_left_when_it_was_killed_is_no_save(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    begin_run(folder, {"batch": BATCH}, resume=False)
    partial = folder / "training" / ".saving-x"
    (partial / "step-4_temp").mkdir(parents=True)
    (partial / "step-4_temp" / "part-0.tempstate").write_bytes(b"half")
    (folder / "training" / "step-4.data-00000-of-00001").write_bytes(b"its index never came")
    reached, weights = run(folder, resume=True)
    assert reached == STEPS and not partial.exists()
    assert_same_weights(weights, uninterrupted[1])


def test_a_damaged_save_is_passed_over_by_name_and_the_run_goes_on_from_the_one_before(
    tmp_path, uninterrupted
):
    folder = tmp_path / "run"
    run(folder, save_every=5)
    (folder / "training" / "step-12.data-00000-of-00001").write_bytes(b"no data")
    with pytest.warns(UserWarning, match="saved at step 12 is damaged .* goes on from the one of "
                      "step 10. It is now .*damaged-step-12"):  # fmt: skip
        reached, weights = run(folder, resume=True, save_every=1)
    assert reached == STEPS
    assert_same_weights(weights, uninterrupted[1])
    # It counts as no save, so the newest two that are whole have been kept.
    assert saved(folder) == {"damaged-step-12", "step-11", "step-12"}


def flipped(data, position):
    return data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :]


@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: flipped(data, 40),
        lambda data: flipped(data, len(data) // 2),
        lambda data: flipped(data, len(data) - 60),
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: bytes(len(data)),
        None,
    ],
    ids=["begin", "middle", "end", "less a byte", "half", "empty", "zeros", "missing"],
)
def test_damage_of_any_kind_is_seen(tmp_path, state, part, damage):
    if part == "index" and damage is None:
        pytest.skip("a save without an index is none")
    path = tmp_path / "training" / f"step-10.{part}"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    again, model = state()
    with pytest.warns(UserWarning, match="saved at step 10 is damaged"):
        assert again.restore() == 5
    assert (model.layers[-1].kernel.numpy() == 5).all()


def test_a_small_tensor_is_checked_as_a_large_one(tmp_path, state):
    """Of each byte of the last 100, which hold the count of steps and no weight."""
    path = tmp_path / "training" / "step-10.data-00000-of-00001"
    data = path.read_bytes()
    again, _ = state()
    for position in range(len(data) - 100, len(data)):
        path.write_bytes(flipped(data, position))
        assert again._damage_of(10), position
    path.write_bytes(data)
    assert not again._damage_of(10)


def test_when_all_saves_are_damaged_they_are_named_and_left(tmp_path, state):
    for path in (tmp_path / "training").glob("*.data*"):
        path.write_bytes(b"no data")
    for _ in range(2):  # the second time as well: it never begins anew by itself
        with pytest.raises(ValueError, match=r"damaged: .*step-5, .*step-10 cannot be read"):
            state()[0].restore()


def test_the_state_of_another_model_is_refused(tmp_path, state):
    model = tf.keras.Sequential([tf.keras.Input((WIDTH,)), tf.keras.layers.Dense(7)])
    model.compile(tf.keras.optimizers.SGD(0.1), loss="mse")
    with pytest.raises(ValueError, match="step-10 is the state of another model"):
        SavedState(model, tmp_path / "training").restore()


@pytest.mark.parametrize(
    ("others", "step", "left"),
    [
        ([[5, 10], [5, 10]], 10, {"step-5", "step-10"}),
        ([[-1, 5], [5, 10]], 5, {"step-5"}),  # killed before the second save
        ([[10, 15], [10, 15]], 10, {"step-5", "step-10"}),  # this one was
    ],
)
def test_workers_go_on_from_the_newest_step_that_all_have(
    tmp_path, state, monkeypatch, others, step, left
):
    monkeypatch.setattr(
        saved_state, "from_all_workers", lambda strategy, ours: np.array([ours, *others])
    )
    again, model = state()
    assert again.restore() == step
    assert (model.layers[-1].kernel.numpy() == step).all()
    assert saved(tmp_path) == left


def test_workers_that_were_killed_in_their_first_save_begin_at_the_beginning(
    tmp_path, state, monkeypatch
):
    (tmp_path / "training" / "step-10.index").unlink()
    monkeypatch.setattr(
        saved_state, "from_all_workers", lambda strategy, ours: np.array([ours, [-1, -1]])
    )
    again, _ = state()
    assert again.restore() == 0 and saved(tmp_path) == set()


def test_workers_without_a_step_in_common_are_told_what_to_copy(tmp_path, state, monkeypatch):
    monkeypatch.setattr(
        saved_state, "from_all_workers", lambda strategy, ours: np.array([ours, [-1, -1]])
    )
    with pytest.raises(ValueError, match=r"no step that all have saved .* others \[5, 10\].*copy"):
        state()[0].restore()
    assert saved(tmp_path) == {"step-5", "step-10"}


def test_no_worker_saves_when_one_of_them_cannot(tmp_path, state, monkeypatch):
    again, model = state()
    again.restore()
    model.optimizer.iterations.assign(15)
    monkeypatch.setattr(
        saved_state, "from_all_workers", lambda strategy, ours: np.array([ours, [1]])
    )
    with pytest.raises(OSError, match="another worker cannot write"):
        again.save()

    def full():
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        again.save(first=full)
    names = {path.stem for path in (tmp_path / "training").iterdir()}
    assert names == {"step-5", "step-10"}
