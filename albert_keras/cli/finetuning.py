"""albert-keras finetune."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import WEIGHTS, find_checkpoint
from albert_keras.cli.checks import (
    refuse_duration,
    refuse_length,
    refuse_missing,
    refuse_schedule,
)
from albert_keras.cli.runs import (
    LogEvery,
    Minutes,
    Optimizer,
    OptimizerName,
    Out,
    Resume,
    SaveEvery,
    checked_out,
    timed,
    trained,
    write_scores,
)
from albert_keras.cli.startup import start_tensorflow
from albert_keras.run_folder import MODEL, run_recipe

LENGTH = 128  # where nobody knows how long the rows of pretraining were


def finetune(
    model: Annotated[Path, typer.Option(help="Checkpoint folder to start from.")],
    train: Annotated[Path, typer.Option(help=".tsv, .csv or .jsonl with text and label.")],
    out: Out,
    dev: Annotated[Path | None, typer.Option(help="Held-out examples to score at the end.")] = None,
    length: Annotated[
        int | None,
        typer.Option(
            min=3,
            help="Texts are cut to so many pieces. Default: the longest row that the model was "
            f"trained on; {LENGTH} where that is not known.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts in a batch.")] = 32,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Instead of --steps.")] = None,
    minutes: Minutes = None,
    optimizer: Optimizer = OptimizerName.ADAMW,
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
    folder = find_checkpoint(model)
    refuse_length(length, folder)
    out = checked_out(out, resume)
    start_tensorflow()
    import tensorflow as tf

    from albert_keras.checkpoints import load_albert, load_head, save_albert
    from albert_keras.checkpoints.head import WITHOUT_POOLER
    from albert_keras.model import build_albert, config_of, encoder_of
    from albert_keras.task_models import build_classifier
    from albert_keras.tasks import classification

    examples = classification.read_examples(train)
    names = classification.label_names(examples)
    labels = classification.label_indices(examples, names, train)
    dev_examples = classification.read_examples(dev) if dev else None
    if dev_examples:
        dev_labels = classification.label_indices(dev_examples, names, dev)
    loaded, tokenizer = load_albert(folder)
    if tokenizer is None:
        raise ValueError(
            f"--model must have its vocabulary. Received: {model} without one. `albert-keras "
            f"convert {model} DEST --vocab FILE` adds it."
        )
    head, config = load_head(folder), config_of(loaded)
    if head["kind"] in WITHOUT_POOLER and not from_scratch:
        raise ValueError(
            "--model must have a pooler, on which a classifier stands. Received: "
            f"{model}, a span predictor, which has none. Name the model that it was made from."
        )
    longest = head["max_length"]
    if length is None:
        length = min(longest or LENGTH, config.max_position_embeddings)
    elif longest is not None and length > longest and not from_scratch:
        typer.echo(
            f"note: {model} was trained on rows of at most {longest} pieces. Its positions from "
            f"{longest} on were not trained there; --length {length} uses them.",
            err=True,
        )
    if epochs is not None:
        # Of the run's own batch: another --batch is one difference, not two.
        begun = run_recipe(out) if resume else {}
        steps = max(1, round(epochs * len(labels) / begun.get("batch_size", batch)))
    recipe = classification.ClassificationRecipe(
        max_length=length,
        batch_size=batch,
        optimizer=optimizer,
        learning_rate=learning_rate,
        seed=seed,
    )

    def new_classifier():
        tf.keras.utils.set_random_seed(seed)
        encoder = build_albert(config) if from_scratch else encoder_of(loaded)
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
        loaded, _ = load_albert(folder)  # the timing trained the first one
    classifier = new_classifier()
    classification.compile_classifier(classifier, recipe)
    batches_from = classification.training_batches(examples.texts, labels, tokenizer, recipe)
    batches_from(0)
    settings = {
        # By what it is: another spelling of its path is the same model.
        "model_sha256": None if from_scratch else _sha256(folder / WEIGHTS),
        "config": config.to_dict(),
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
            scores = classification.score(probabilities, dev_labels, names)
            write_scores(out, scores)
            if scores["accuracy"] <= scores["majority"]:
                typer.echo(
                    "note: that is no better than always saying the most frequent label (majority "
                    f"{scores['majority']:.4g}). Few texts need many --epochs, or a higher "
                    "--learning-rate.",
                    err=True,
                )
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


def _sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
