"""finetune: a fine-tuning run from a checkpoint to a scored one, in one folder."""

import dataclasses
import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from albert_keras.checkpoints import load_albert, save_albert
from albert_keras.data.shards import sha256_of
from albert_keras.distillation import Distillation
from albert_keras.json_file import read_json, write_json
from albert_keras.model import config_of, encoder_of, layers_of
from albert_keras.new_folder import new_folder
from albert_keras.optimizers import optimizer_named
from albert_keras.rebuilding import fill_layer, rebuilt
from albert_keras.report.page import write_report
from albert_keras.run_folder import (
    BEST,
    MODEL,
    SCORES,
    TEST,
    begin_run,
    only_process_in,
)
from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.finetuning_data import FinetuningData, has_fixed_shapes, training_batches
from albert_keras.tasks.finetuning_recipe import FinetuningRecipe
from albert_keras.tasks.finetuning_task import FinetuningTask, Member, answered_by
from albert_keras.tasks.teacher import taught, teacher_settings
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.training.guards import Plateau
from albert_keras.training.loop import train
from albert_keras.training.periodic_evaluation import PeriodicEvaluation
from albert_keras.training.saved_state import TrainingDiverged
from albert_keras.training.strategy import refuse_uneven_batch

_CAUSES = (
    "The model gives the same answer to everything. Likely causes: a learning rate that is too "
    "high, or too few steps yet; dropout, which large models take badly; a seed with bad luck, "
    "where several runs help."
)


class Start(NamedTuple):
    """What a run starts from.

    Args:
        new_encoder: makes an encoder of its own at each call, in the scope of a strategy.
        tokenizer: of the encoder.
        origin: the sha256 of its weights; None for random ones. A resumed run must have the same.
    """

    new_encoder: Callable[[], tf.keras.Model]
    tokenizer: Tokenizer
    origin: str | None


def compiled(
    task: FinetuningTask,
    start: Start,
    recipe: FinetuningRecipe,
    strategy: tf.distribute.Strategy,
    *,
    freeze_encoder: bool = False,
    distillation: Distillation | None = None,
) -> tuple[tf.keras.Model, tf.keras.Model]:
    """The model that predicts and the compiled one that trains it, of the same weights.

    Args:
        recipe: with `total_steps`.
        freeze_encoder: train the task's head alone, and the pooler that it stands on.
        distillation: a teacher to learn from as well. Default None.
    """
    refuse_uneven_batch(recipe.batch_size, strategy)
    warmup_steps = recipe.steps(examples=1)[1]
    tf.keras.utils.set_random_seed(recipe.seed)
    with strategy.scope():
        encoder = _with_dropout(start.new_encoder(), recipe.dropout)
        model = task.build(encoder, recipe.classifier_dropout)
        for name in ("embeddings", "encoder") if freeze_encoder else ():
            layers_of(model)[name].trainable = False
        trainer = task.trainer_of(model)
        arguments = task.compile_arguments(trainer)
        if distillation is not None:
            trainer = taught(distillation, task, model, trainer, recipe.max_length)
        trainer.compile(
            optimizer_named(
                recipe.optimizer,
                recipe.learning_rate,
                warmup_steps,
                recipe.total_steps,
                clip_norm=recipe.clip_norm,
            ),
            **arguments,
        )
    return model, trainer


def finetune(
    task: FinetuningTask,
    data: FinetuningData,
    rows: EncodedRows,
    start: Start,
    recipe: FinetuningRecipe,
    folder: str | Path,
    *,
    strategy: tf.distribute.Strategy | None = None,
    freeze_encoder: bool = False,
    distillation: Distillation | None = None,
    resume: bool = False,
    **options: Any,
) -> int:
    """Trains to the end of the recipe, keeps the best checkpoint, scores and saves it.

    The run's folder then has what `run_folder` says. The best is that of the highest score on the
    first held-out source, of all that are looked at every `checkpoint_every` steps; without such a
    source or number it is the last.

    Args:
        task: what the examples are and how they are scored.
        data: its files.
        rows: of `encoded_training_rows`.
        start: what to start from.
        recipe: with `total_steps`, see `FinetuningRecipe.resolved`.
        folder: of the run.
        strategy: where to train. Default None: the current one.
        freeze_encoder, distillation: see `compiled`.
        resume: go on with the run in `folder`; one that has ended stays as it is.
        **options: `log_every`, `save_every`, `quiet` of `train`.

    Returns:
        The step that was reached, below `recipe.total_steps` if the process was asked to stop; then
        nothing was scored or saved but the state.

    Raises:
        ValueError: see `begin_run`; or rows longer than the model's positions.
        TrainingDiverged, OSError: see `train`.
    """
    strategy = strategy or tf.distribute.get_strategy()
    model, trainer = compiled(
        task, start, recipe, strategy, freeze_encoder=freeze_encoder, distillation=distillation
    )
    positions = config_of(model).max_position_embeddings
    if recipe.max_length > positions:
        raise ValueError(
            f"`max_length` must be at most the model's {positions} positions. Received: "
            f"{recipe.max_length}."
        )
    batches_from = training_batches(task, rows, recipe, strategy)
    settings = {
        **_settings(task, data, start, recipe, rows, model, freeze_encoder),
        **teacher_settings(trainer),
    }
    _check(task, data)
    folder = Path(folder)
    held_out = _HeldOut(task, data, start, recipe, folder, model, strategy)
    begin_run(folder, settings, resume=resume)
    if (folder / MODEL).exists():
        return recipe.total_steps
    with only_process_in(folder):
        try:
            reached = train(
                trainer,
                batches_from,
                folder,
                total_steps=recipe.total_steps,
                tokens_per_step=max(1, round(recipe.batch_size * _tokens_per_example(rows))),
                evaluation=held_out.on_the_way(),
                plateau=_plateau(task.unlearned_loss(rows), recipe),
                **options,
            )
        except TrainingDiverged:
            with suppress(OSError):
                write_report(folder, running=False)
            raise
        if reached == recipe.total_steps:
            held_out.at_the_end()
        write_report(folder, running=False)
    return reached


class _HeldOut:
    """Scores a run's model on the way and at the end, and keeps the best.

    best/ holds it as a run's folder does: its model/, and evaluation.json with its step and score.
    """

    def __init__(self, task, data, start, recipe, folder, model, strategy):
        self._task, self._data, self._start, self._recipe = task, data, start, recipe
        self._folder, self._model, self._strategy = folder, model, strategy
        self._trained = self._member(model)

    def on_the_way(self) -> PeriodicEvaluation | None:
        """None where there is nothing to score, or the last model is wanted."""
        if not self._data.dev or self._recipe.checkpoint_every is None:
            return None
        kept = self._folder / BEST / SCORES
        return PeriodicEvaluation(
            scores=self._deciding_scores,
            every=self._recipe.checkpoint_every,
            best_by="score",
            on_best=self._keep_best,
            highest=True,
            kept=read_json(kept, ["step", "score"]) if kept.exists() else None,
        )

    def at_the_end(self) -> None:
        """Scores the best model, predicts the test sets with it, and makes it the run's model."""
        folder, best, step = self._folder, self._trained, self._recipe.total_steps
        kept = (folder / BEST).exists()
        if kept:
            with self._strategy.scope():
                best = self._member(load_albert(folder / BEST / MODEL)[0])
            step = read_json(folder / BEST / SCORES, ["step"])["step"]
        found = {}
        if self._data.dev:
            found = _flat(self._scores(self._task, best, self._data.dev, folder))
            write_json(folder / SCORES, {"step": step, **found})
        if self._data.test:
            tuned = self._task.tuned_by(found)
            of_test = self._scores(tuned, best, self._data.test, folder / TEST)
            if of_test:
                write_json(folder / TEST / SCORES, _flat(of_test))
        # The last thing: a run that has its model has ended.
        if kept:
            with new_folder(folder / MODEL) as partial:
                shutil.copytree(folder / BEST / MODEL, partial, dirs_exist_ok=True)
        else:
            self._save(folder / MODEL)

    def _member(self, model):
        return Member(
            model,
            self._start.tokenizer,
            self._recipe.max_length,
            batch_size=self._recipe.batch_size,
            fixed_shapes=has_fixed_shapes(self._strategy),
        )

    def _deciding_scores(self):
        name, source = next(iter(self._data.dev.items()))
        answered = answered_by([self._trained], self._task, source)
        found = self._task.finish(source, answered, None)
        return found if len(self._data.dev) == 1 else {"score": found["score"], name: found}

    def _scores(self, task, member, sources, folder):
        """The scores on each source whose truth is known; its predictions go to the folder."""
        found = {}
        for name, source in sources.items():
            target = folder if len(sources) == 1 else folder / name
            target.mkdir(parents=True, exist_ok=True)
            found[name] = task.finish(source, answered_by([member], task, source), target)
        return {name: one for name, one in found.items() if one}

    def _keep_best(self, step, scores):
        best = self._folder / BEST
        with new_folder(best, replace=best.exists()) as partial:
            self._save(partial / MODEL)
            write_json(partial / SCORES, {"step": step, **scores})

    def _save(self, folder):
        save_albert(
            self._model,
            folder,
            tokenizer=self._start.tokenizer,
            labels=self._task.labels,
            max_length=self._recipe.max_length,
        )


def _check(task, data):
    """Raises ValueError for what cannot be read: now, not when the training has ended."""
    labelled = {name: task.is_labelled(source) for name, source in (data.dev | data.test).items()}
    for name, source in data.dev.items():
        if not labelled[name]:
            raise ValueError(
                f"A held-out file must say what is right, for its score. Received: {name}, "
                f"{task.files(source)[0]}, which does not for all. It can be a test file."
            )


def _with_dropout(encoder, rate):
    """The same weights with ALBERT's dropout, on hidden values and on attention, at this rate."""
    changed = {
        "embeddings": {"dropout": rate},
        "encoder": {"dropout": rate, "attention_dropout": rate},
    }
    new = rebuilt(encoder, changed)
    for name in changed:
        fill_layer(layers_of(new)[name], layers_of(encoder)[name])
    return encoder_of(new)


def _plateau(loss, recipe):
    warmup_steps = recipe.steps(examples=1)[1]
    return Plateau("loss", loss, warmup_steps, _CAUSES, scale=loss)


def _flat(scores):
    """Those of a single source alone, without its name."""
    return next(iter(scores.values())) if len(scores) == 1 else scores


def _settings(task, data, start, recipe, rows, model, freeze_encoder):
    """What decides the result of a run: a resumed one must have the same."""
    sources = {"train": data.train, **data.dev}
    return {
        "task": type(task).__name__,
        **{f"{name}_sha256": _sha256(task.files(source)) for name, source in sources.items()},
        "sources": {name: task.settings(source) for name, source in sources.items()},
        "model_sha256": start.origin,
        "vocabulary_sha256": start.tokenizer.sha256,
        "config": config_of(model).to_dict(),
        "labels": task.labels,
        "recipe": dataclasses.asdict(recipe),
        "tokens_per_example": _tokens_per_example(rows),
        "freeze_encoder": freeze_encoder,
        "precision": layers_of(model)["encoder"].compute_dtype,
    }


def _sha256(files):
    sums = "".join(sha256_of(file) for file in files)
    return hashlib.sha256(sums.encode()).hexdigest()


def _tokens_per_example(rows):
    """Without padding, on the average."""
    return round(len(rows.ids) / len(rows), 2)
