"""albert-keras pretrain."""

import dataclasses
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_checkpoint, find_tokenizer
from albert_keras.cli.checks import refuse_duration, refuse_missing, refuse_schedule, refuse_share
from albert_keras.cli.fields import Set, fields_in
from albert_keras.cli.runs import (
    LogEvery,
    Minutes,
    OptimizerName,
    Out,
    Precision,
    PrecisionOption,
    Resume,
    SaveEvery,
    Strategy,
    StrategyOption,
    checked_out,
    refuse_stopped,
    show_scores,
    timed,
)
from albert_keras.cli.startup import start_tensorflow
from albert_keras.cli.teacher import (
    DistillationWeight,
    DistillHiddenWeight,
    TeacherFolder,
    Temperature,
    teacher_settings,
)
from albert_keras.config import PRESETS, config_from
from albert_keras.data.storage import is_remote
from albert_keras.json_file import read_json
from albert_keras.recipes import RECIPES, scaled_rate
from albert_keras.run_folder import MODEL, REPORT, SCORES, SETTINGS, run_recipe

# Without --recipe: the paper's, on rows and batches that any machine takes.
USUAL = dataclasses.replace(RECIPES["paper"], sequence_length=128, batch_size=32)


class Objective(StrEnum):
    """What --objective may be."""

    SOP = "sop"
    NSP = "nsp"
    NONE = "none"


class Decay(StrEnum):
    """What --decay may be."""

    FROM_START = "from_start"
    FROM_PEAK = "from_peak"


RecipeName = StrEnum("RecipeName", {name.upper(): name for name in RECIPES})


def pretrain(
    records: Annotated[
        list[str], typer.Option(help="Folder of `albert-keras records`; several are mixed.")
    ],
    vocab: Annotated[Path, typer.Option(help="The vocabulary of the records.")],
    out: Out,
    weight: Annotated[
        list[float] | None,
        typer.Option(help="Share of the rows, one for each --records. Default: by their size."),
    ] = None,
    dev: Annotated[
        list[str] | None, typer.Option(help="Held-out records to score; may be repeated.")
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(min=1, help="Steps between scores; the best is in OUT/best.")
    ] = None,
    recipe: Annotated[
        RecipeName | None, typer.Option(help="Settings by name, which other flags override.")
    ] = None,
    preset: Annotated[str, typer.Option(help=", ".join(PRESETS) + ".")] = "base",
    set_: Set = None,
    init_from: Annotated[
        Path | None,
        typer.Option(help="Checkpoint of any format to start from; it may be shallower."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=5, help="Sequence length in pieces. [default: --recipe's, or 128]"),
    ] = None,
    long_length: Annotated[
        int | None, typer.Option(min=5, help="Sequence length of the last steps.")
    ] = None,
    long_share: Annotated[
        float | None, typer.Option(help="Share of the steps at --long-length. [default: 0.1]")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Sequences in a step, on all devices. [default: 32]")
    ] = None,
    micro_batches: Annotated[
        int, typer.Option(min=1, help="Parts that a device computes its sequences of a step in.")
    ] = 1,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    minutes: Minutes = None,
    optimizer: Annotated[
        OptimizerName | None,
        typer.Option(help="Weight decay and clipping are set. [default: lamb]"),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Peak of the schedule. Default of lamb: the paper's 0.00176 at batch 4096, by the "
            "square root of the batch."
        ),
    ] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Steps, or below 1 a share of them. [default: 0.025]")
    ] = None,
    decay: Annotated[
        Decay, typer.Option(help="Linear, as if from step 0 (Google's form) or from the peak.")
    ] = Decay.FROM_START,
    objective: Annotated[
        Objective, typer.Option(help="Of the pairs: sentence order, next sentence, or none.")
    ] = Objective.SOP,
    ngram: Annotated[int, typer.Option(min=1, help="Longest n-gram that is masked, in words.")] = 3,
    mask_rate: Annotated[
        float | None, typer.Option(help="Share of the pieces that is masked. [default: 0.15]")
    ] = None,
    teacher: TeacherFolder = None,
    temperature: Temperature = None,
    distillation_weight: DistillationWeight = None,
    distill_hidden_weight: DistillHiddenWeight = None,
    strategy: StrategyOption = Strategy.AUTO,
    precision: PrecisionOption = Precision.FLOAT32,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Keep a layer's input alone for its gradient.")
    ] = False,
    jit_compile: Annotated[
        bool, typer.Option("--jit-compile", help="Compile a step with XLA; for one GPU.")
    ] = False,
    steps_per_execution: Annotated[
        int, typer.Option(min=1, help="Steps in a call; tens of them on a TPU.")
    ] = 1,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="The same bits every time, also on a GPU.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 2, help="Of weights, order, pairs and masks.")
    ] = 0,
    log_every: LogEvery = 50,
    save_every: SaveEvery = 500,
    resume: Resume = False,
) -> None:
    """Pretrain on records: n-gram masked language model and sentence-order prediction."""
    refuse_missing(vocab, "--vocab")
    for paths, flag in ((records, "--records"), (dev or (), "--dev")):
        for path in paths:
            if not is_remote(path):
                refuse_missing(path, flag)
    if init_from is not None and not Path(f"{init_from}.index").exists():
        refuse_missing(init_from, "--init-from")
        if (init_from / SETTINGS).exists():
            init_from = find_checkpoint(init_from)
    taught = teacher_settings(
        teacher,
        temperature=temperature,
        distillation_weight=distillation_weight,
        distill_hidden_weight=distill_hidden_weight,
    )
    teacher = teacher and find_checkpoint(teacher)
    for paths, flag in ((records, "--records"), (dev or (), "--dev")):
        if len(set(paths)) < len(paths):
            raise ValueError(f"{flag} must name different folders. Received: {', '.join(paths)}.")
    if weight and len(weight) != len(records):
        raise ValueError(
            f"--weight must be given once for each --records. Received: {len(weight)} and "
            f"{len(records)}."
        )
    if recipe is None or steps is not None or minutes is not None:
        refuse_duration(steps=steps, minutes=minutes)
    if minutes is not None and long_length is not None:
        raise ValueError(
            "--minutes are timed on rows of one length. Received: --long-length "
            f"{long_length}. Give --steps."
        )
    out = checked_out(out, resume)
    usual = RECIPES[recipe] if recipe else USUAL
    # Of the run's own batch: another --batch is one difference, not two.
    begun = run_recipe(out) if resume else {}
    chosen = dataclasses.replace(
        usual,
        **_given(
            sequence_length=length, batch_size=batch, optimizer=optimizer, mask_rate=mask_rate
        ),
        decay=str(decay),
        micro_batches=micro_batches,
        seed=seed,
        ngram=ngram,
        pair_objective=str(objective),
    )
    chosen = dataclasses.replace(
        chosen,
        learning_rate=_rate(chosen, usual, begun.get("batch_size", chosen.batch_size))
        if learning_rate is None
        else learning_rate,
    )
    if warmup is None:
        warmup = usual.warmup_steps / usual.total_steps
    refuse_schedule(chosen.learning_rate, warmup, steps)
    refuse_share(chosen.mask_rate, "--mask-rate")
    if long_share is None:
        long_share = 0.1
    elif long_length is None or not 0 < long_share < 1:
        raise ValueError(
            "--long-share must be above 0 and below 1, and is that of --long-length. Received: "
            f"{long_share} and {long_length or 'none'}."
        )
    fields = fields_in(set_)
    positions = config_from(preset, fields).max_position_embeddings  # refuses what makes no model
    longest = max(chosen.sequence_length, long_length or 0)
    if longest > positions:
        flag = "--long-length" if longest > chosen.sequence_length else "--length"
        raise ValueError(
            f"{flag} must be at most the model's {positions} positions. Received: {longest}. "
            "Shorten it, or add --set max_position_embeddings=..."
        )
    if strategy == Strategy.MULTIWORKER and "TF_CONFIG" in os.environ:
        typer.echo("waiting for the other workers", err=True)
    devices = start_tensorflow(strategy)
    import tensorflow as tf

    from albert_keras.data.record_set import RecordSet
    from albert_keras.tasks import pretraining
    from albert_keras.tasks.pretraining_run import Corpora, pretrain
    from albert_keras.tasks.teacher import load_teacher
    from albert_keras.text.tokenizer import Tokenizer
    from albert_keras.training.timing import steps_in
    from albert_keras.training.workers import has_several_workers

    if minutes is not None and has_several_workers(devices):
        raise ValueError("--minutes are timed on one machine. Received: several. Give --steps.")
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    if precision != Precision.FLOAT32:
        tf.keras.mixed_precision.set_global_policy(f"mixed_{precision}")
    tokenizer = Tokenizer.load(find_tokenizer(vocab))
    corpora = Corpora(
        train=[RecordSet.load(folder, tokenizer) for folder in records],
        weights=weight or None,
        dev={folder: RecordSet.load(folder, tokenizer) for folder in dev or ()},
        tokenizer=tokenizer,
    )
    for held_out in corpora.dev.values():
        held_out.refuse_rows_of(longest)  # now, not when the training has ended
    config = config_from(preset, {"vocab_size": tokenizer.vocab_size, **fields})

    with devices.scope():
        distillation = teacher and load_teacher(teacher, tokenizer, **taught)
    output_all_layers = taught.get("hidden_weight", 0) > 0

    def new_model(recipe):
        with devices.scope():
            pretrainer = pretraining.new_pretrainer(
                config, recipe, tokenizer, recompute, output_all_layers
            )
            if init_from is not None:
                from albert_keras.tasks.warm_start import warm_start

                origin = warm_start(pretrainer, init_from, tokenizer, recipe.seed)
            model = pretraining.compiled(
                pretrainer,
                recipe,
                distillation,
                steps_per_execution=steps_per_execution,
                jit_compile=jit_compile,
            )
        return model, pretrainer, origin if init_from is not None else None

    def count_steps():
        model, pretrainer, _ = new_model(chosen)
        batches_from = pretraining.training_batches(
            pretrainer, corpora.train, tokenizer, chosen, weights=corpora.weights
        )
        return steps_in(minutes, model, batches_from(0), steps_per_execution)

    if recipe is not None and steps is None and minutes is None:
        steps = usual.total_steps
    chosen = timed(chosen, steps, minutes, warmup, out if resume else None, count_steps)
    if long_length is not None:
        chosen = dataclasses.replace(
            chosen,
            long_length=long_length,
            long_steps=max(1, round(long_share * chosen.total_steps)),
        )
    model, pretrainer, origin = new_model(chosen)
    if origin is not None:
        typer.echo(origin.text)
    if teacher and objective != Objective.NONE and f"{objective}_distillation" not in model.places:
        typer.echo(
            f"note: --teacher was trained for other pairs than {objective}: of it the masked words "
            "are learned, of pairs the labels.",
            err=True,
        )
    reached = pretrain(
        model,
        pretrainer,
        corpora,
        chosen,
        out,
        origin=origin and origin.sha256,
        evaluate_every=evaluate_every,
        resume=resume,
        log_every=log_every,
        save_every=save_every,
    )
    refuse_stopped(reached, chosen.total_steps)
    if dev:
        scores = read_json(out / SCORES)
        for name, one in scores.items() if len(corpora.dev) > 1 else [(dev[0], scores)]:
            typer.echo(f"{name}:")
            show_scores(one)
            if one["mlm_loss"] >= one["unigram_entropy"]:
                typer.echo(
                    "note: that mlm_loss is not below the unigram_entropy, so the model knows no "
                    "more than how frequent each piece is: too few steps, or a learning rate that "
                    "is too high.",
                    err=True,
                )
    typer.echo(f"{out / MODEL}: trained {reached:,} steps; {out / REPORT} shows how it went")


def _given(**values):
    return {name: value for name, value in values.items() if value is not None}


def _rate(chosen, usual, batch):
    """The default rate: the paper's by the square root of the batch, or that of the recipe."""
    if chosen.optimizer == OptimizerName.LAMB:
        return scaled_rate(batch)
    if chosen.optimizer != usual.optimizer:
        raise ValueError(
            f"--learning-rate must be given for {chosen.optimizer}; lamb has a default."
        )
    return usual.learning_rate
