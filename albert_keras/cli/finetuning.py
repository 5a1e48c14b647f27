"""albert-keras finetune."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.cli.checks import refuse_duration, refuse_missing, refuse_schedule
from albert_keras.cli.runs import (
    LogEvery,
    Minutes,
    Optimizer,
    Out,
    Resume,
    SaveEvery,
    check_out,
    timed,
    trained,
    write_scores,
)
from albert_keras.cli.startup import start_tensorflow
from albert_keras.run_folder import MODEL


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
    check_out(out, resume)
    start_tensorflow()
    import tensorflow as tf

    from albert_keras.checkpoints import find_checkpoint, load_albert, save_albert
    from albert_keras.model import build_albert, config_of, encoder_of
    from albert_keras.task_models import build_classifier
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

    recipe = timed(
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
    with trained(
        classifier,
        batches_from,
        out,
        settings,
        recipe,
        batch * length,
        log_every=log_every,
        save_every=save_every,
        resume=resume,
    ):
        if dev_examples:
            texts = dev_examples.texts
            probabilities = classification.predict(classifier, texts, tokenizer, length)
            write_scores(out, classification.score(probabilities, dev_labels, names))
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
