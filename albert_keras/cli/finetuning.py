"""albert-keras finetune."""

import dataclasses
import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import WEIGHTS, find_checkpoint
from albert_keras.cli.checks import refuse_length, refuse_missing
from albert_keras.cli.recipe_flags import chosen_recipe, fitting_length, in_steps
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
)
from albert_keras.cli.startup import start_tensorflow
from albert_keras.cli.task_options import (
    IdColumn,
    LabelColumn,
    PairColumn,
    SkipBroken,
    TextColumn,
    columns_named,
    on_broken,
    refuse_unused,
    say_note,
)
from albert_keras.cli.teacher import (
    DistillationWeight,
    DistillHiddenWeight,
    TeacherFolder,
    Temperature,
    teacher_settings,
)
from albert_keras.json_file import read_json
from albert_keras.run_folder import MODEL, REPORT, SCORES, SETTINGS, TEST, run_recipe
from albert_keras.tasks.finetuning_recipe import FROM_MNLI, RECIPES
from albert_keras.tasks.glue import NLI
from albert_keras.tasks.task_names import CLASSIFY, TRAINED

TaskName = StrEnum("TaskName", {name.upper(): name for name in TRAINED})
OWN = TaskName(CLASSIFY)
RecipeName = StrEnum("RecipeName", {name.upper(): name for name in RECIPES})


def finetune(
    model: Annotated[Path, typer.Option(help="Checkpoint folder to start from.")],
    out: Out,
    task: Annotated[
        TaskName, typer.Option(help="What the examples are; classify and regress: your own.")
    ] = OWN,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the official files: GLUE's of the task, SQuAD's, RACE's."),
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="File to train on; .tsv, .csv or .jsonl of your own.")
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Held-out file to score.")] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="File to predict at the end; labels in one of your own are not read."),
    ] = None,
    text_column: TextColumn = "text",
    pair_column: PairColumn = None,
    label_column: LabelColumn = "label",
    id_column: IdColumn = None,
    recipe: Annotated[
        RecipeName | None,
        typer.Option(help="Settings by name, which other flags override. Default: the task's."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            min=4,
            help="Longest row in pieces. Default: the recipe's, 512 for your own, or the longest "
            "row that the model was trained on if that is shorter.",
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Examples in a batch. [default: 32]")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Instead of --steps.")] = None,
    minutes: Minutes = None,
    optimizer: Annotated[
        OptimizerName | None, typer.Option(help="Weight decay is set. [default: adamw]")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak of the schedule. [default: 3e-5]")
    ] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Steps, or below 1 a share of them. [default: 0.1]")
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="ALBERT's own, hidden and attention. [default: 0]")
    ] = None,
    classifier_dropout: Annotated[
        float | None, typer.Option(help="On the input of the task's head. [default: 0.1]")
    ] = None,
    evaluate_every: Annotated[
        int | None,
        typer.Option(min=1, help="Steps between scores on --dev; the best model is kept."),
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, help="Runs with a seed each, then their median and spread.")
    ] = 1,
    freeze_encoder: Annotated[
        bool, typer.Option("--freeze-encoder", help="Train the pooler and the head alone.")
    ] = False,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Random weights, as if not pretrained.")
    ] = False,
    teacher: TeacherFolder = None,
    temperature: Temperature = None,
    distillation_weight: DistillationWeight = None,
    distill_hidden_weight: DistillHiddenWeight = None,
    skip_broken: SkipBroken = False,
    cache: Annotated[
        Path | None, typer.Option(help="Folder to keep the encoded examples in.")
    ] = None,
    strategy: StrategyOption = Strategy.AUTO,
    precision: PrecisionOption = Precision.FLOAT32,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 2, help="Of the head's weights and the order.")
    ] = 0,
    log_every: LogEvery = 50,
    save_every: SaveEvery = 500,
    resume: Resume = False,
) -> None:
    """Fine-tune a checkpoint: labels and numbers for texts, GLUE, SQuAD, RACE."""
    paths = {"--model": model, "--data": data, "--train": train, "--dev": dev, "--test": test}
    for flag, path in paths.items():
        if path is not None:
            refuse_missing(path, flag)
    refuse_unused(task, skip_broken=skip_broken, temperature=temperature)
    if evaluate_every is not None and data is None and dev is None:
        raise ValueError(f"--evaluate-every scores --dev. Received: {evaluate_every} without.")
    if seed + 2 * runs >= 2**32:  # restarts take further seeds
        raise ValueError(f"--seed must leave room for {runs} runs. Received: {seed}.")
    if data is None and train is None:
        raise ValueError("There must be something to train on: --train, or --data. Received: none.")
    if runs > 1 and data is None and dev is None:
        raise ValueError(f"--runs are compared on --dev. Received: --runs {runs} without.")
    to_teach = teacher_settings(
        teacher,
        temperature=temperature,
        distillation_weight=distillation_weight,
        distill_hidden_weight=distill_hidden_weight,
    )
    teacher = teacher and find_checkpoint(teacher)
    output_all_layers = to_teach.get("hidden_weight", 0) > 0
    if output_all_layers and freeze_encoder:
        raise ValueError(
            "--distill-hidden-weight trains the layers that --freeze-encoder keeps. Received: "
            "both. Leave one out."
        )
    chosen = chosen_recipe(
        task,
        recipe,
        steps=steps,
        epochs=epochs,
        minutes=minutes,
        batch_size=batch,
        optimizer=optimizer and str(optimizer),
        learning_rate=learning_rate,
        warmup=warmup,
        dropout=dropout,
        classifier_dropout=classifier_dropout,
        checkpoint_every=evaluate_every,
        seed=seed,
    )
    folder = find_checkpoint(model)
    refuse_length(length, folder)
    out = _checked_out(out, resume, runs)
    if strategy == Strategy.MULTIWORKER:
        raise ValueError("Fine-tuning trains on one machine. Received: --strategy multiworker.")
    devices = start_tensorflow(strategy)
    import tensorflow as tf

    from albert_keras.checkpoints import load_albert, load_head
    from albert_keras.checkpoints.head import WITHOUT_POOLER
    from albert_keras.model import build_albert, config_of, encoder_of
    from albert_keras.tasks import finetuning_data, finetuning_run
    from albert_keras.tasks.finetuning_runs import numbers_in, several_runs
    from albert_keras.tasks.task_files import TaskFiles
    from albert_keras.tasks.teacher import load_teacher
    from albert_keras.training.timing import steps_in

    if precision != Precision.FLOAT32:
        tf.keras.mixed_precision.set_global_policy(f"mixed_{precision}")
    files = TaskFiles(
        task,
        columns_named(text_column, pair_column, label_column, id_column),
        on_broken=on_broken(skip_broken),
        on_note=say_note,
    )
    sources = files.data(data, train, dev, test)
    loaded, tokenizer = load_albert(folder)
    if tokenizer is None:
        raise ValueError(
            f"--model must have its vocabulary. Received: {model} without one. `albert-keras "
            f"convert {model} DEST --vocab FILE` adds it."
        )
    head, config = load_head(folder), config_of(loaded)
    del loaded  # each run loads its own
    if head["kind"] in WITHOUT_POOLER and not from_scratch and not task.startswith("squad"):
        raise ValueError(
            "--model must have a pooler, on which a classifier stands. Received: "
            f"{model}, a span predictor, which has none. Name the model that it was made from."
        )
    if task in FROM_MNLI and not from_scratch and head.get("labels") != list(NLI):
        typer.echo(
            f"note: for {task} the paper starts from a model that was fine-tuned on MNLI; --model "
            "takes the folder of such a run.",
            err=True,
        )
    trained = None if from_scratch else head["max_length"]
    length = fitting_length(length, chosen, trained, folder)
    chosen = dataclasses.replace(chosen, max_length=length)
    begun = _begun(out if runs == 1 else out / f"seed-{seed}") if resume else {}
    rows = finetuning_data.encoded_training_rows(
        files.task, sources.train, tokenizer, length, cache
    )

    def new_encoder():
        if from_scratch:
            return build_albert(config, output_all_layers=output_all_layers)
        return encoder_of(load_albert(folder, output_all_layers=output_all_layers)[0])

    with devices.scope():
        distillation = teacher and load_teacher(teacher, tokenizer, **to_teach)

    start = finetuning_run.Start(
        new_encoder, tokenizer, None if from_scratch else _sha256(folder / WEIGHTS)
    )
    if minutes is not None and not begun:
        _, trainer = finetuning_run.compiled(
            files.task,
            start,
            chosen,
            devices,
            freeze_encoder=freeze_encoder,
            distillation=distillation,
        )
        batches_from = finetuning_data.training_batches(files.task, rows, chosen, devices)
        timed = steps_in(minutes, trainer, batches_from(0))
        del trainer
        chosen = dataclasses.replace(chosen, total_steps=timed)
    elif minutes is not None:
        chosen = dataclasses.replace(chosen, total_steps=begun["total_steps"])
    chosen = in_steps(chosen, files.task.count(sources.train, rows), begun)

    def one_run(seed: int, folder: Path) -> bool:
        if runs > 1:
            typer.echo(f"seed {seed}:", err=True)
        recipe = dataclasses.replace(chosen, seed=seed)
        reached = finetuning_run.finetune(
            files.task,
            sources,
            rows,
            start,
            recipe,
            folder,
            strategy=devices,
            freeze_encoder=freeze_encoder,
            distillation=distillation,
            resume=(folder / SETTINGS).exists() if runs > 1 else resume,
            log_every=log_every,
            save_every=save_every,
        )
        if runs == 1:
            refuse_stopped(reached, recipe.total_steps)
        return reached == recipe.total_steps

    if runs > 1:
        unlearned = files.task.unlearned_loss(rows)
        summary = several_runs(one_run, out, runs=runs, first_seed=seed, unlearned_loss=unlearned)
        if summary is None:
            typer.echo("Stopped. To go on, repeat the command with --resume.", err=True)
            raise typer.Exit(130)
        _show_summary(summary, runs)
        typer.echo(f"{out / MODEL}: the best of {len(summary['runs'])} runs")
        return
    one_run(seed, out)
    if sources.dev:
        scores = read_json(out / SCORES)
        typer.echo(f"{', '.join(sources.dev)}:")
        show_scores(numbers_in(scores))
        _note_majority(scores)
    if (out / TEST / SCORES).exists():
        typer.echo(f"{', '.join(sources.test)}:")
        show_scores(numbers_in(read_json(out / TEST / SCORES)))
    typer.echo(
        f"{out / MODEL}: trained {chosen.total_steps:,} steps; {out / REPORT} shows how it went"
    )


def _checked_out(out, resume, runs):
    if runs == 1:
        return checked_out(out, resume)
    if resume and not Path(out).is_dir():
        raise ValueError(f"There are no runs to resume in {out}. Leave --resume out.")
    return Path(out) if resume else checked_out(out, resume)


def _begun(folder):
    """The recipe of the run in a folder; empty where it has not begun."""
    return run_recipe(folder) if (folder / SETTINGS).exists() else {}


def _note_majority(scores):
    if "majority" in scores and scores["accuracy"] <= scores["majority"]:
        typer.echo(
            "note: that is no better than always saying the most frequent label (majority "
            f"{scores['majority']:.4g}). Few texts need many --epochs, or a higher "
            "--learning-rate.",
            err=True,
        )


def _show_summary(summary, asked):
    for run in summary["collapsed"]:
        typer.echo(f"seed {run['seed']} left out: {run['why']}", err=True)
    if len(summary["runs"]) < asked:
        typer.echo(f"note: of {asked} runs {len(summary['runs'])} learned something.", err=True)
    for name, value in summary["median"].items():
        low, high = (summary[what][name] for what in ("lowest", "highest"))
        typer.echo(f"{name}: median {value:.4g}, {low:.4g} to {high:.4g}")


def _sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
