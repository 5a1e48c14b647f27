"""pretrain: a pretraining run from record sets to a checkpoint folder, in one folder."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.checkpoints import save_albert
from albert_keras.data.mixture import rows_seen
from albert_keras.data.record_set import RecordSet
from albert_keras.json_file import write_json
from albert_keras.model import config_of
from albert_keras.pretraining_model import PretrainingModel
from albert_keras.recipes import PretrainingRecipe
from albert_keras.report.page import write_report
from albert_keras.run_folder import BEST, CORPORA, MODEL, SCORES, begin_run, only_process_in
from albert_keras.tasks.pretraining import refuse_misfit, training_batches
from albert_keras.tasks.pretraining_scores import evaluate, evaluation_batches
from albert_keras.tasks.teacher import teacher_settings
from albert_keras.tasks.unigram import unigram_entropy
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.training.guards import Plateau
from albert_keras.training.loop import train
from albert_keras.training.periodic_evaluation import PeriodicEvaluation
from albert_keras.training.saved_state import TrainingDiverged
from albert_keras.training.stopping import asked_to_stop
from albert_keras.training.strategy import refuse_uneven_batch
from albert_keras.training.workers import (
    from_all_workers,
    naming_lost_workers,
    worker_index,
)

# Rows of a development set that are scored while a run goes on; at the end it is all of them.
_ROWS_ON_THE_WAY = 2048
# Of the rows that the report shows the first dozen of.
_EXAMPLE_ROWS = 64
_CAUSES = (
    "The model guesses by frequency. Likely causes: a learning rate that is too high for the batch "
    "(of LAMB 0.00176 at 4,096, with the square root of the batch), or too short a warm-up; a "
    "narrow model whose initializer_range is too small; a deep one, for which a lower rate or a "
    "start from a shallower run (--init-from) helps; or too few steps yet."
)


class Corpora(NamedTuple):
    """What a run reads.

    Args:
        train: record sets, mixed.
        weights: of `train`, see `pretraining_batches`; None for their sizes.
        dev: held-out record sets by name; may be empty.
        tokenizer: of all of them.
    """

    train: Sequence[RecordSet]
    weights: Sequence[float] | None
    dev: Mapping[str, RecordSet]
    tokenizer: Tokenizer


def pretrain(
    model: PretrainingModel,
    pretrainer: tf.keras.Model,
    corpora: Corpora,
    recipe: PretrainingRecipe,
    folder: str | Path,
    *,
    origin: str | None = None,
    evaluate_every: int | None = None,
    resume: bool = False,
    **options: Any,
) -> int:
    """Trains to the end of the recipe, scores, and saves.

    The run's folder then has what `run_folder` says. With `evaluate_every`, `best/` holds the model
    with the lowest sum of held-out losses so far, the mean over the development sets.

    Args:
        model: of `compiled`, made in the scope of the strategy that it is to train under.
        pretrainer: the model around which it was made.
        corpora: what to read.
        recipe: what to do.
        folder: of the run.
        origin: what the weights began from, None for random ones; the run keeps it, and a resumed
            run must have the same, as it must have the same teacher.
        evaluate_every: int > 0, steps between two scores on the first rows of the development
            sets. Default None, at the end alone.
        resume: go on with the run in `folder`.
        **options: `log_every`, `save_every`, `quiet` of `train`.

    Returns:
        The step that was reached, below `recipe.total_steps` if the process was asked to stop; then
        nothing was scored or saved but the state.

    Raises:
        ValueError: see `begin_run`, `training_batches` and `refuse_uneven_batch`; a development set
            with shorter rows; or `evaluate_every` without a development set.
        TrainingDiverged, OSError, RuntimeError: see `train`.
    """
    folder, strategy = Path(folder), model.distribute_strategy
    refuse_uneven_batch(recipe.batch_size, strategy, recipe.micro_batches)
    refuse_misfit(pretrainer, corpora.tokenizer)
    if evaluate_every is not None and not corpora.dev:
        raise ValueError(
            "`evaluate_every` scores development sets. Received: "
            f"{evaluate_every} and none. Name one, or leave it out."
        )
    for records in corpora.dev.values():
        records.refuse_rows_of(recipe.longest)
    # What cannot be read is refused before there is a folder.
    phases = [
        (length, end, _batches(pretrainer, corpora, recipe, length))
        for length, end in recipe.phases()
    ]
    plateau = Plateau("mlm_loss", unigram_entropy(phases[0][2](0)), recipe.warmup_steps, _CAUSES)
    settings = {**_settings(pretrainer, corpora, recipe, origin), **teacher_settings(model)}
    with naming_lost_workers(strategy):
        _begin(folder, settings, strategy, resume)
    is_chief = worker_index(strategy) == 0
    with only_process_in(folder) if is_chief else nullcontext():
        try:
            with asked_to_stop() as asked:
                for length, end, batches_from in phases:
                    # Keras would trace its step for rows of any length, and a TPU takes none such.
                    model.train_function = None
                    reached = train(
                        model,
                        batches_from,
                        folder,
                        total_steps=end,
                        tokens_per_step=recipe.batch_size * length,
                        evaluation=_on_the_way(pretrainer, corpora, recipe, folder, evaluate_every),
                        plateau=plateau,
                        asked=asked,
                        run_steps=recipe.total_steps,
                        **options,
                    )
                    if reached < end or asked.is_set():
                        break
        except TrainingDiverged:
            if is_chief:
                with suppress(OSError):
                    write_report(folder, running=False)  # of such weights no examples
            raise
        if is_chief:
            if reached == recipe.total_steps:
                if corpora.dev:
                    write_json(folder / SCORES, _flat(_scores(pretrainer, corpora, recipe)))
                _keep(pretrainer, corpora, recipe, folder / MODEL)
            _report(pretrainer, corpora, recipe, folder, reached)
    return reached


def _batches(pretrainer, corpora, recipe, length):
    batches_from = training_batches(
        pretrainer,
        corpora.train,
        corpora.tokenizer,
        recipe,
        weights=corpora.weights,
        sequence_length=length,
    )
    batches_from(0)
    return batches_from


def _scores(pretrainer, corpora, recipe, max_rows=None):
    """The scores on each development set, by its name."""
    return {
        name: evaluate(
            pretrainer,
            records,
            corpora.tokenizer,
            sequence_length=recipe.longest,
            max_rows=max_rows,
        )
        for name, records in corpora.dev.items()
    }


def _flat(scores):
    """Those of a single set alone, without its name."""
    return next(iter(scores.values())) if len(scores) == 1 else scores


def _on_the_way(pretrainer, corpora, recipe, folder, every):
    if every is None:
        return None

    def with_loss():
        scores = _scores(pretrainer, corpora, recipe, _ROWS_ON_THE_WAY)
        losses = [
            value
            for one in scores.values()
            for name, value in one.items()
            if name.endswith("_loss")
        ]
        return {"loss": sum(losses) / len(scores), **_flat(scores)}

    return PeriodicEvaluation(
        scores=with_loss,
        every=every,
        best_by="loss",
        on_best=lambda step, scores: _keep(pretrainer, corpora, recipe, folder / BEST),
    )


def _keep(pretrainer, corpora, recipe, folder):
    save_albert(
        pretrainer, folder, tokenizer=corpora.tokenizer, max_length=recipe.longest, replace=True
    )


def _report(pretrainer, corpora, recipe, folder, steps):
    """Writes report.html, and what was read of each corpus."""
    seen = rows_seen(corpora.train, corpora.weights, batch_size=recipe.batch_size, steps=steps)
    write_json(folder / CORPORA, {"records": seen})
    held_out = None
    if corpora.dev:
        held_out = evaluation_batches(
            pretrainer,
            next(iter(corpora.dev.values())),
            corpora.tokenizer,
            sequence_length=recipe.longest,
            batch_size=_EXAMPLE_ROWS,
        ).take(1)
    write_report(folder, pretrainer, corpora.tokenizer, held_out, running=False)


def _begin(folder, settings, strategy, resume):
    """Makes the run's folder or checks it: the chief for all workers, which then go on together."""
    mistake = None
    if worker_index(strategy) == 0:
        try:
            begin_run(folder, settings, resume=resume)
        except (ValueError, OSError) as error:
            mistake = error
    digest = hashlib.sha256(json.dumps(settings).encode()).digest()
    # Four bytes: the sum over a worker's replicas must fit into 64 bits.
    said = from_all_workers(strategy, [mistake is not None, int.from_bytes(digest[:4], "big")])
    if said[:, 0].any():
        raise mistake or ValueError("The run cannot begin: see what the chief worker says.")
    if (said[:, 1] != said[0, 1]).any():
        others = np.flatnonzero(said[:, 1] != said[0, 1]).tolist()
        raise ValueError(
            "All workers must have the same settings, records and model. Received: others with "
            f"worker {', '.join(map(str, others))} than with the chief, 0. Start all of them with "
            "the same command."
        )


def _settings(pretrainer, corpora, recipe, origin):
    """What decides the result of a run: a resumed one must have the same."""
    return {
        "records": [
            {"shards": records.manifest["shards"], "weight": weight}
            for records, weight in zip(
                corpora.train, corpora.weights or [None] * len(corpora.train), strict=True
            )
        ],
        "vocabulary_sha256": corpora.tokenizer.sha256,
        "config": config_of(pretrainer).to_dict(),
        "origin": origin,
        "recipe": dataclasses.asdict(recipe),
        "precision": pretrainer.get_layer("masked_lm").compute_dtype,
        # They decide which model is best.
        "dev": [{"shards": records.manifest["shards"]} for records in corpora.dev.values()],
    }
