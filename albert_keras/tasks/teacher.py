"""A teacher from a checkpoint folder, and which students it can teach."""

import dataclasses
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_keras.checkpoint_folder import WEIGHTS
from albert_keras.checkpoints import load_albert, load_head
from albert_keras.data.shards import sha256_of
from albert_keras.distillation import Distillation
from albert_keras.distilled_model import DistilledModel
from albert_keras.model import (
    build_pretrainer,
    config_of,
    encoder_of,
    layers_of,
    pair_objective_of,
)
from albert_keras.rebuilding import fill_layer
from albert_keras.task_models import TASK_HEADS
from albert_keras.tasks.finetuning_task import FinetuningTask
from albert_keras.text.tokenizer import Tokenizer


def load_teacher(folder: str | Path, tokenizer: Tokenizer, **settings: float) -> Distillation:
    """The teacher in a checkpoint folder; in the scope of the strategy that the student is in.

    Args:
        folder: of a pretrainer or a task's model.
        tokenizer: of the student.
        **settings: `temperature`, `weight` and `hidden_weight` of `Distillation`.

    Raises:
        ValueError: what `load_albert` refuses, or another vocabulary than the student's.
    """
    folder = Path(folder)
    has_hidden = settings.get("hidden_weight", 0) > 0
    model, theirs = load_albert(folder, output_all_layers=has_hidden)
    if theirs is None or theirs.sha256 != tokenizer.sha256:
        found = "none" if theirs is None else f"one of sha256 {theirs.sha256}"
        raise ValueError(
            "A teacher must have the student's vocabulary, or its logits are of other pieces. "
            f"Received: {folder} with {found}, and the student's is {tokenizer.sha256}."
        )
    labels = load_head(folder).get("labels")
    return Distillation(model, sha256_of(folder / WEIGHTS), labels, **settings)


def for_pretrainer(
    distillation: Distillation, pretrainer: tf.keras.Model, longest: int
) -> Distillation:
    """The same teacher with room for as many masked positions as a batch of the student has.

    Args:
        longest: int, pieces of the student's longest row.

    Raises:
        ValueError: it is no pretrainer, or of other pieces or segments or fewer positions than the
            student needs.
    """
    teacher = distillation.teacher
    if "masked_lm" not in layers_of(teacher):
        raise ValueError(
            "A pretrainer's teacher is one as well: its masked words are what is learned. "
            f"Received: {teacher.name}."
        )
    theirs, ours = config_of(teacher), config_of(pretrainer)
    _refuse_short(theirs, longest)
    for name in ("vocab_size", "type_vocab_size"):
        if getattr(theirs, name) != getattr(ours, name):
            raise ValueError(
                f"Teacher and student must have the same `{name}`. Received: "
                f"{getattr(theirs, name)} and {getattr(ours, name)}."
            )
    objective = pair_objective_of(teacher)
    new = build_pretrainer(encoder_of(teacher), pair_objective=objective)
    for name in ("masked_lm", "sop"):
        fill_layer(layers_of(new)[name], layers_of(teacher)[name])
    return dataclasses.replace(distillation, teacher=new)


def taught(
    distillation: Distillation,
    task: FinetuningTask,
    model: tf.keras.Model,
    trainer: tf.keras.Model,
    max_length: int,
) -> DistilledModel:
    """What trains a task's model with a teacher.

    Args:
        model: the student, of the task's `build`.
        trainer: of the task's `trainer_of`.
        max_length: int, the student's longest row.

    Raises:
        ValueError: the teacher has another head or other labels, or fewer positions than the
            student needs; or hidden states of a multiple-choice model.
    """
    teacher = distillation.teacher
    heads = [_head(one) for one in (teacher, model)]
    if heads[0] != heads[1]:
        raise ValueError(
            "A teacher must have been trained for the student's task. Received: "
            f"{heads[0] or teacher.name}, and the student is {heads[1]}."
        )
    if distillation.labels is not None and distillation.labels != task.labels:
        raise ValueError(
            "Teacher and student must have the same labels in the same order. Received: "
            f"{distillation.labels} and {task.labels}."
        )
    _refuse_short(config_of(teacher), max_length)
    return DistilledModel(trainer, distillation, task.trainer_of(teacher), task.distillation_loss)


def teacher_settings(trainer: tf.keras.Model) -> dict[str, Any]:
    """What a run keeps of its teacher: nothing where it has none."""
    distillation = getattr(trainer, "distillation", None)
    return {} if distillation is None else {"teacher": distillation.settings()}


def _head(model):
    return next((name for name in TASK_HEADS if name in layers_of(model)), None)


def _refuse_short(config, longest):
    if config.max_position_embeddings < longest:
        raise ValueError(
            f"A teacher reads the student's rows. Received: one of "
            f"{config.max_position_embeddings} positions, for rows of {longest}."
        )
