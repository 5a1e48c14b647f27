"""albert-keras pretrain."""

import dataclasses
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_tokenizer
from albert_keras.cli.checks import refuse_duration, refuse_missing, refuse_schedule, refuse_share
from albert_keras.cli.fields import Set, fields_in
from albert_keras.cli.runs import (
    LogEvery,
    Minutes,
    Optimizer,
    OptimizerName,
    Out,
    Resume,
    SaveEvery,
    check_out,
    timed,
    trained,
    write_scores,
)
from albert_keras.cli.startup import start_tensorflow
from albert_keras.config import PRESETS, config_from
from albert_keras.run_folder import MODEL, run_recipe


class PairObjective(StrEnum):
    """What --objective may be."""

    SOP = "sop"
    NSP = "nsp"
    NONE = "none"


def pretrain(
    records: Annotated[Path, typer.Option(help="Folder of `albert-keras records`.")],
    vocab: Annotated[Path, typer.Option(help="The vocabulary of the records.")],
    out: Out,
    preset: Annotated[str, typer.Option(help=", ".join(PRESETS) + ".")] = "base",
    set_: Set = None,
    dev: Annotated[Path | None, typer.Option(help="Held-out records to score at the end.")] = None,
    length: Annotated[int, typer.Option(min=5, help="Sequence length in pieces.")] = 128,
    batch: Annotated[int, typer.Option(min=1, help="Sequences in a batch.")] = 32,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    minutes: Minutes = None,
    optimizer: Optimizer = OptimizerName.LAMB,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Peak of the schedule. Default of lamb: the paper's 0.00176 at batch 4096, by the "
            "square root of the batch."
        ),
    ] = None,
    warmup: Annotated[float, typer.Option(help="Steps, or below 1 a share of them.")] = 0.025,
    objective: Annotated[
        PairObjective, typer.Option(help="Of the pairs: sentence order, next sentence, or none.")
    ] = PairObjective.SOP,
    ngram: Annotated[int, typer.Option(min=1, help="Longest n-gram that is masked, in words.")] = 3,
    mask_rate: Annotated[float, typer.Option(help="Share of the pieces that is masked.")] = 0.15,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 2, help="Of weights, order, pairs and masks.")
    ] = 0,
    log_every: LogEvery = 50,
    save_every: SaveEvery = 500,
    resume: Resume = False,
) -> None:
    """Pretrain on records: n-gram masked language model and sentence-order prediction."""
    for path, flag in ((records, "--records"), (vocab, "--vocab"), (dev, "--dev")):
        if path is not None:
            refuse_missing(path, flag)
    refuse_duration(steps=steps, minutes=minutes)
    check_out(out, resume)
    if learning_rate is None:
        # Of the run's own batch: another --batch is one difference, not two.
        begun = run_recipe(out) if resume else {}
        learning_rate = _paper_rate(optimizer, begun.get("batch_size", batch))
    refuse_schedule(learning_rate, warmup, steps)
    refuse_share(mask_rate, "--mask-rate")
    fields = fields_in(set_)
    positions = config_from(preset, fields).max_position_embeddings  # refuses what makes no model
    if length > positions:
        raise ValueError(
            f"--length must be at most the model's {positions} positions. Received: {length}. "
            "Shorten it, or add --set max_position_embeddings=..."
        )
    start_tensorflow()
    from albert_keras.checkpoints import save_albert
    from albert_keras.data.records import RecordSet
    from albert_keras.tasks import pretraining
    from albert_keras.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(find_tokenizer(vocab))
    train_set = RecordSet.load(records, tokenizer)
    dev_set = RecordSet.load(dev, tokenizer) if dev else None
    if dev_set is not None:
        dev_set.refuse_rows_of(length)  # now, not when the training has ended
    config = config_from(preset, {"vocab_size": tokenizer.vocab_size, **fields})
    recipe = pretraining.PretrainingRecipe(
        sequence_length=length,
        batch_size=batch,
        optimizer=optimizer,
        learning_rate=learning_rate,
        seed=seed,
        ngram=ngram,
        mask_rate=mask_rate,
        pair_objective=objective,
    )
    recipe = timed(
        recipe,
        steps,
        minutes,
        warmup,
        out if resume else None,
        lambda: pretraining.steps_in_minutes(minutes, config, train_set, tokenizer, recipe),
    )
    pretrainer = pretraining.new_pretrainer(config, recipe, tokenizer)
    settings = {
        "records": train_set.manifest["shards"],
        "vocabulary_sha256": tokenizer.sha256,
        "config": config.to_dict(),
        "recipe": dataclasses.asdict(recipe),
    }
    # Made before the run's folder, which a mistake must not leave behind.
    model = pretraining.compiled(pretrainer, recipe)
    batches_from = pretraining.training_batches(pretrainer, train_set, tokenizer, recipe)
    batches_from(0)
    with trained(
        model,
        batches_from,
        out,
        settings,
        recipe,
        batch * length,
        log_every=log_every,
        save_every=save_every,
        resume=resume,
    ):
        if dev_set is not None:
            scores = pretraining.evaluate(pretrainer, dev_set, tokenizer, sequence_length=length)
            write_scores(out, scores)
        save_albert(pretrainer, out / MODEL, tokenizer=tokenizer, max_length=length, replace=True)


def _paper_rate(optimizer, batch):
    """The rate of the paper's run for another batch, by the square-root rule of the LAMB paper."""
    if optimizer != OptimizerName.LAMB:
        raise ValueError(f"--learning-rate must be given for {optimizer}; lamb has a default.")
    return 1.76e-3 * math.sqrt(batch / 4096)
