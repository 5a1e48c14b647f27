"""albert-keras pretrain, finetune: runs that can be stopped and go on."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.cli.checks import refuse_duration, refuse_missing, refuse_schedule, refuse_share
from albert_keras.cli.startup import start_tensorflow
from albert_keras.config import config_from
from albert_keras.json_file import write_json
from albert_keras.run_folder import (
    MODEL,
    SCORES,
    begin_run,
    only_process_in,
    refuse_run,
    run_recipe,
    run_settings,
)

Out = Annotated[Path, typer.Option(help="Folder of the run; its model is in OUT/model.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in OUT.")]
Minutes = Annotated[
    float | None, typer.Option(help="Instead of --steps: as many as this machine makes.")
]
Optimizer = Annotated[str, typer.Option(help='"lamb" or "adamw".')]
LogEvery = Annotated[int, typer.Option(min=1, help="Steps between two lines of OUT/metrics.jsonl.")]
SaveEvery = Annotated[
    int, typer.Option(min=1, help="Steps between two saves of the training state.")
]


def pretrain(
    records: Annotated[Path, typer.Option(help="Folder of `albert-keras records`.")],
    vocab: Annotated[Path, typer.Option(help="The vocabulary of the records.")],
    out: Out,
    preset: Annotated[str, typer.Option(help="base, large, xlarge, xxlarge, small, ...")] = "base",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A config field, as hidden_size=256. May be repeated."),
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Held-out records to score at the end.")] = None,
    length: Annotated[int, typer.Option(min=5, help="Sequence length in pieces.")] = 128,
    batch: Annotated[int, typer.Option(min=1, help="Sequences in a batch.")] = 32,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    minutes: Minutes = None,
    optimizer: Optimizer = "lamb",
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Peak of the schedule. Default of lamb: the paper's 0.00176 at batch 4096, by the "
            "square root of the batch."
        ),
    ] = None,
    warmup: Annotated[float, typer.Option(help="Steps, or below 1 a share of them.")] = 0.025,
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
    learning_rate = _paper_rate(optimizer, batch) if learning_rate is None else learning_rate
    refuse_schedule(learning_rate, warmup, steps)
    refuse_share(mask_rate, "--mask-rate")
    fields = _fields(set_)
    config_from(preset, fields)  # refuses what makes no model
    _check_out(out, resume)
    start_tensorflow()
    from albert_keras.checkpoints import save_albert
    from albert_keras.data.records import RecordSet
    from albert_keras.tasks import pretraining
    from albert_keras.text.tokenizer import Tokenizer
    from albert_keras.training import train

    tokenizer = Tokenizer.load(vocab)
    train_set = RecordSet.load(records, tokenizer)
    dev_set = RecordSet.load(dev, tokenizer) if dev else None
    config = config_from(preset, {"vocab_size": tokenizer.vocab_size, **fields})
    recipe = pretraining.PretrainingRecipe(
        sequence_length=length,
        batch_size=batch,
        optimizer=optimizer,
        learning_rate=learning_rate,
        seed=seed,
        ngram=ngram,
        mask_rate=mask_rate,
    )
    recipe = _timed(
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
    begin_run(out, settings, resume=resume)
    with only_process_in(out):
        reached = train(
            model,
            batches_from,
            out,
            total_steps=recipe.total_steps,
            tokens_per_step=batch * length,
            log_every=log_every,
            save_every=save_every,
        )
        _exit_if_stopped(reached, recipe.total_steps)
        if dev_set is not None:
            scores = pretraining.evaluate(pretrainer, dev_set, tokenizer, sequence_length=length)
            _write_scores(out, scores)
        save_albert(pretrainer, out / MODEL, tokenizer=tokenizer, replace=True)
    typer.echo(f"{out / MODEL}: trained {reached:,} steps")


def finetune(
    model: Annotated[Path, typer.Option(help="Checkpoint folder to start from.")],
    train: Annotated[Path, typer.Option(help=".tsv or .jsonl with text and label.")],
    out: Out,
    dev: Annotated[Path | None, typer.Option(help="Held-out examples to score at the end.")] = None,
    length: Annotated[int, typer.Option(min=3, help="Texts are cut to so many pieces.")] = 128,
    batch: Annotated[int, typer.Option(min=1, help="Texts in a batch.")] = 32,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Instead of --steps.")] = None,
    minutes: Minutes = None,
    optimizer: Optimizer = "adamw",
    learning_rate: Annotated[float, typer.Option(help="Peak of the schedule.")] = 3e-5,
    warmup: Annotated[float, typer.Option(help="Steps, or below 1 a share of them.")] = 0.1,
    dropout: Annotated[float, typer.Option(help="On the classifier's input.")] = 0.1,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Random weights, as if not pretrained.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 2, help="Of the head's weights and the order.")
    ] = 0,
    log_every: LogEvery = 50,
    save_every: SaveEvery = 500,
    resume: Resume = False,
) -> None:
    """Fine-tune a checkpoint to tell the labels of texts."""
    for path, flag in ((model, "--model"), (train, "--train"), (dev, "--dev")):
        if path is not None:
            refuse_missing(path, flag)
    refuse_duration(steps=steps, epochs=epochs, minutes=minutes)
    refuse_schedule(learning_rate, warmup, steps)
    if not 0 <= dropout < 1:
        raise ValueError(f"--dropout must be at least 0 and below 1. Received: {dropout}.")
    _check_out(out, resume)
    start_tensorflow()
    import tensorflow as tf

    from albert_keras import training
    from albert_keras.checkpoints import find_checkpoint, load_albert, save_albert
    from albert_keras.model import build_albert, build_classifier, config_of, encoder_of
    from albert_keras.tasks import classification

    examples = classification.read_examples(train)
    names = classification.label_names(examples)
    labels = classification.label_indices(examples, names, train)
    dev_examples = classification.read_examples(dev) if dev else None
    if dev_examples:
        dev_labels = classification.label_indices(dev_examples, names, dev)
    loaded, tokenizer = load_albert(find_checkpoint(model))
    if tokenizer is None:
        raise ValueError(f"Fine-tuning needs the vocabulary. Received: {model} without one.")
    if epochs is not None:
        steps = max(1, round(epochs * len(labels) / batch))
    recipe = classification.ClassificationRecipe(
        max_length=length,
        batch_size=batch,
        optimizer=optimizer,
        learning_rate=learning_rate,
        seed=seed,
    )

    def new_classifier():
        tf.keras.utils.set_random_seed(seed)
        encoder = build_albert(config_of(loaded)) if from_scratch else encoder_of(loaded)
        return build_classifier(encoder, len(names), dropout)

    recipe = _timed(
        recipe,
        steps,
        minutes,
        warmup,
        out if resume else None,
        lambda: classification.steps_in_minutes(
            minutes, new_classifier, examples.texts, labels, tokenizer, recipe
        ),
    )
    if minutes is not None:
        loaded, _ = load_albert(find_checkpoint(model))  # the timing trained the first one
    classifier = new_classifier()
    classification.compile_classifier(classifier, recipe)
    batches_from = classification.training_batches(examples.texts, labels, tokenizer, recipe)
    batches_from(0)
    settings = {
        "model": None if from_scratch else str(model),
        "vocabulary_sha256": tokenizer.sha256,
        "labels": names,
        "examples_sha256": classification.fingerprint(examples),
        "dropout": dropout,
        "recipe": dataclasses.asdict(recipe),
    }
    begin_run(out, settings, resume=resume)
    with only_process_in(out):
        reached = training.train(
            classifier,
            batches_from,
            out,
            total_steps=recipe.total_steps,
            tokens_per_step=batch * length,
            log_every=log_every,
            save_every=save_every,
        )
        _exit_if_stopped(reached, recipe.total_steps)
        if dev_examples:
            texts = dev_examples.texts
            probabilities = classification.predict(classifier, texts, tokenizer, length)
            _write_scores(out, classification.score(probabilities, dev_labels, names))
            classification.write_predictions(
                out / "predictions.tsv", dev_examples, probabilities, names
            )
        save_albert(
            classifier,
            out / MODEL,
            tokenizer=tokenizer,
            labels=names,
            max_length=length,
            replace=True,
        )
    typer.echo(f"{out / MODEL}: trained {reached:,} steps")


def _check_out(out, resume):
    if resume:
        run_settings(out)
    else:
        refuse_run(out)


def _timed(recipe, steps, minutes, warmup, resumed, count_steps):
    """The recipe with its steps and warm-up, which a run that goes on had settled before."""
    if resumed is not None and steps is None:
        steps = run_recipe(resumed)["total_steps"]
    elif steps is None:
        steps = count_steps()
    refuse_schedule(recipe.learning_rate, warmup, steps)
    warmup_steps = round(warmup * steps) if warmup < 1 else round(warmup)
    return dataclasses.replace(recipe, total_steps=steps, warmup_steps=warmup_steps)


def _paper_rate(optimizer, batch):
    """The rate of the paper's run for another batch, by the square-root rule of the LAMB paper."""
    if optimizer != "lamb":
        raise ValueError(f"--learning-rate must be given for {optimizer}; lamb has a default.")
    return 1.76e-3 * math.sqrt(batch / 4096)


def _fields(assignments):
    """["hidden_size=256", "sharing=ffn"] -> {"hidden_size": 256, "sharing": "ffn"}"""
    fields = {}
    for assignment in assignments or ():
        name, sign, value = assignment.partition("=")
        if not sign:
            raise ValueError(f"--set takes name=value. Received: {assignment!r}.")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields


def _exit_if_stopped(reached, total):
    if reached < total:
        typer.echo(
            f"Stopped at step {reached:,} of {total:,}, which is saved. To go on, repeat the "
            f"command with --resume.",
            err=True,
        )
        raise typer.Exit(130)


def _write_scores(out, scores):
    write_json(out / SCORES, scores)
    shown = {name: value for name, value in scores.items() if isinstance(value, float | int)}
    typer.echo("  ".join(f"{name} {value:.4g}" for name, value in shown.items()))
