"""The folder of a training run: what it holds, how a run begins or goes on in it.

    run.json          the settings, the Keras and the library version that the run began with
    training/         a tf.train.Checkpoint of the model, the optimizer and the step; of several
                      workers, the others' are in training/worker-N
    metrics.jsonl     one line an interval: step, the model's metrics, learning rate, speed
    evaluations.jsonl one line for each evaluation while it goes on: step, held-out scores
    events.jsonl      one line for each thing worth a look: step, kind, text
    tensorboard/      the same numbers for TensorBoard; steps that a killed run repeats, twice
    best/             the checkpoint folder with the best held-out scores so far; in fine-tuning its
                      model/, and evaluation.json with its step

of a pretraining run that has ended or was asked to stop,

    corpora.json      rows and epochs of each corpus
    report.html       all of it on a page

and when a command has trained to the end,

    evaluation.json   the scores on held-out data
    model/            the checkpoint folder
    test/             predictions and scores of fine-tuning on a test set
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import albert_keras
from albert_keras.backend import is_keras_3
from albert_keras.differences import differences, listed
from albert_keras.json_file import check_object, read_json, write_json
from albert_keras.lock import lock
from albert_keras.new_folder import new_folder, refuse_unwritable

SETTINGS, STATE, METRICS, TENSORBOARD = "run.json", "training", "metrics.jsonl", "tensorboard"
EVALUATIONS, EVENTS = "evaluations.jsonl", "events.jsonl"
SCORES, MODEL, BEST, CORPORA = "evaluation.json", "model", "best", "corpora.json"
TEST = "test"
REPORT = "report.html"


def refuse_run(folder: str | Path) -> None:
    """Raises ValueError when something is at `folder`, where a run is to begin, or none can be."""
    if os.path.lexists(folder):
        raise ValueError(
            f"`folder` must not exist yet. Received: {folder}. Name another, or go on with the "
            "run in it (--resume)."
        )
    refuse_unwritable(folder)


def begin_run(folder: str | Path, settings: Mapping[str, Any], *, resume: bool = False) -> None:
    """Makes the folder of a run, or checks that the one to resume had the same settings.

    Args:
        folder: of the run.
        settings: what decides its result, as JSON can hold it.
        resume: go on with a run that is there.

    Raises:
        ValueError: the folder exists and `resume` is False; it does not and `resume` is True; or
            the run there began with other settings or on the other Keras.
    """
    ours = {
        "library_version": albert_keras.__version__,
        "keras": 3 if is_keras_3() else 2,
        "settings": json.loads(json.dumps(settings)),
    }
    if not resume:
        refuse_run(folder)
        with new_folder(folder) as partial:
            write_json(partial / SETTINGS, ours)
        return
    theirs = run_settings(folder)
    if theirs["keras"] != ours["keras"]:
        raise ValueError(
            f"A run goes on with the Keras that it began with. Received: {folder} of Keras "
            f"{theirs['keras']}, and this is Keras {ours['keras']}. Set TF_USE_LEGACY_KERAS="
            f"{int(theirs['keras'] == 2)}."
        )
    changed = list(differences(theirs["settings"], ours["settings"]))
    if changed:
        raise ValueError(
            f"A run goes on with the settings that it began with. Received: {folder} and others:\n"
            f"{listed(changed)}Repeat the first command with --resume added."
        )


def run_settings(folder: str | Path) -> dict[str, Any]:
    """What `begin_run` wrote: library_version, keras, settings."""
    path = Path(folder) / SETTINGS
    if not path.is_file():
        raise ValueError(
            f"There is no run to resume in {folder}: it has no {SETTINGS}. To begin one, leave "
            "--resume out and name a folder that does not exist yet."
        )
    found = read_json(path, keys=["keras", "settings"])
    check_object(found["settings"], f"{path}: `settings`")
    return found


def run_recipe(folder: str | Path) -> dict[str, Any]:
    """The recipe among the settings of a command's run; it has total_steps."""
    path, settings = Path(folder) / SETTINGS, run_settings(folder)["settings"]
    check_object(settings, f"{path}: `settings`", ["recipe"])
    recipe = settings["recipe"]
    check_object(recipe, f"{path}: `recipe`", ["total_steps", "batch_size"])
    for name in ("total_steps", "batch_size"):
        if type(recipe[name]) is not int or recipe[name] < 1:
            raise ValueError(
                f"{path} is damaged: its {name} must be a whole number above 0. Received: "
                f"{recipe[name]!r:.60}."
            )
    return recipe


def saved_steps(saves: str | Path) -> list[int]:
    """The steps, in order, whose state is in a folder of saves, from which a run can go on."""
    steps = (path.stem.removeprefix("step-") for path in Path(saves).glob("step-*.index"))
    return sorted(int(step) for step in steps if step.isdecimal())


@contextmanager
def only_process_in(folder: str | Path) -> Iterator[None]:
    """Keeps a second process from training in the folder of a run while the block runs.

    Raises:
        ValueError: another process does.
    """
    with lock(Path(folder) / SETTINGS) as ours:
        if ours is False:  # not None: where a file system has no locks, nothing can be told
            raise ValueError(
                f"One process at a time trains in a run's folder. Received: {folder}, in which "
                "another one does. Wait for it to end, or stop it first."
            )
        yield
