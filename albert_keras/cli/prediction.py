"""albert-keras predict-file."""

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_checkpoint
from albert_keras.cli.checks import refuse_length, refuse_missing, refuse_out
from albert_keras.cli.runs import (
    Precision,
    PrecisionOption,
    Strategy,
    StrategyOption,
    show_scores,
)
from albert_keras.cli.startup import start_tensorflow
from albert_keras.cli.task_options import (
    IdColumn,
    PairColumn,
    SkipBroken,
    on_broken,
    refuse_unused,
    say_note,
)
from albert_keras.cli.trained_as import own_columns, threshold_of
from albert_keras.run_folder import SCORES
from albert_keras.tasks.glue import GLUE_TASKS
from albert_keras.tasks.task_names import CLASSIFY, NUMBER, PREDICTED, RACE, REGRESS, SQUAD

TaskName = StrEnum("TaskName", {name.upper(): name for name in PREDICTED})
# The task of a model, where --task does not say.
_BY_KIND = {
    "classifier": CLASSIFY,
    "span_predictor": SQUAD[0],
    "answerable_span_predictor": SQUAD[1],
    "multiple_choice": RACE,
}


def predict_file(
    model: Annotated[
        list[Path], typer.Option(help="Fine-tuned run or model; of several, the mean is taken.")
    ],
    file: Annotated[Path, typer.Option(help="File with the examples; of RACE also a folder.")],
    out: Annotated[Path, typer.Option(help="New folder for predictions and scores.")],
    task: Annotated[
        TaskName | None, typer.Option(help="Whose files it is. Default: the model's own examples.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Of GLUE: test, dev, ... Default: by the name of the file, else test."),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Of your own files. Default: as the run was trained.")
    ] = None,
    pair_column: PairColumn = None,
    label_column: Annotated[
        str | None, typer.Option(help="The column of the label. Default: nothing is scored.")
    ] = None,
    id_column: IdColumn = None,
    null_threshold: Annotated[
        float | None,
        typer.Option(
            help="Of SQuAD 2.0: null odds above it mean no answer. Default: that of the run's dev "
            "set; without, the best one where the answers are known, else 0."
        ),
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=4, help="Longest row. Default: that of fine-tuning.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Examples that are computed at once.")] = 32,
    skip_broken: SkipBroken = False,
    strategy: StrategyOption = Strategy.AUTO,
    precision: PrecisionOption = Precision.FLOAT32,
) -> None:
    """Predict a file with a fine-tuned model or with the mean of several, and score it."""
    for one in model:
        refuse_missing(one, "--model")
    refuse_missing(file, "--file")
    folders = [find_checkpoint(one) for one in model]
    if len(set(folders)) < len(folders):
        raise ValueError(
            f"--model must name different ones. Received: {', '.join(map(str, model))}."
        )
    for folder in folders:
        refuse_length(length, folder)
    refuse_out(out)
    if strategy == Strategy.MULTIWORKER:
        raise ValueError("Predicting is for one machine. Received: --strategy multiworker.")
    devices = start_tensorflow(strategy)
    import tensorflow as tf

    from albert_keras.checkpoints import load_albert, load_head
    from albert_keras.json_file import write_json
    from albert_keras.new_folder import new_folder
    from albert_keras.tasks.finetuning_runs import numbers_in
    from albert_keras.tasks.finetuning_task import Member, answered_by
    from albert_keras.tasks.task_files import TaskFiles

    heads = [load_head(folder) for folder in folders]
    _refuse_different(model, heads)
    kind, labels = heads[0]["kind"], heads[0].get("labels")
    if kind not in _BY_KIND:
        raise ValueError(
            f"--model must be fine-tuned. Received: {model[0]}, a model of the kind {kind}. Make "
            "one with `albert-keras finetune`."
        )
    if kind == "classifier" and labels == [NUMBER]:
        name = REGRESS
    else:
        name = _BY_KIND[kind]
    _refuse_misfit(task, name, labels, model[0])
    name = task or name
    refuse_unused(name, skip_broken=skip_broken, null_threshold=null_threshold)
    if null_threshold is None and name == SQUAD[1]:
        null_threshold = threshold_of(model)
    if precision != Precision.FLOAT32:
        tf.keras.mixed_precision.set_global_policy(f"mixed_{precision}")
    options = {"null_threshold": null_threshold} if name in SQUAD else {}
    files = TaskFiles(
        name,
        _columns(model[0], text_column, pair_column, label_column, id_column),
        labels=labels if name == CLASSIFY else None,
        on_broken=on_broken(skip_broken),
        on_note=say_note,
        **options,
    )
    source = files.source(str(file), split or _split(name, file))
    files.task.is_labelled(source)  # what cannot be read is refused now
    members = []
    for folder, head in zip(folders, heads, strict=True):
        with devices.scope():
            loaded, tokenizer = load_albert(folder)
        if tokenizer is None:
            raise ValueError(f"--model must have its vocabulary. Received: {folder} without one.")
        longest = length or head["max_length"]
        if longest is None:
            raise ValueError(f"--length must be given for {folder}, which does not say its own.")
        members.append(
            Member(
                loaded,
                tokenizer,
                longest,
                batch_size=batch,
                fixed_shapes=isinstance(devices, tf.distribute.TPUStrategy),
            )
        )
    with new_folder(out) as partial:
        scores = files.task.finish(source, answered_by(members, files.task, source), partial)
        if scores:
            write_json(partial / SCORES, scores)
    if scores:
        show_scores(numbers_in(scores))
    typer.echo(f"{out}: predicted by {len(members)} model{'s' if len(members) > 1 else ''}")


def _columns(run, text, pair, label, id):
    """Those that were named, else text, pair and id as the run was trained: a model of pairs would
    answer single texts as well."""
    named = {"text": text, "text_pair": pair, "label": label, "id": id}
    return dataclasses.replace(
        own_columns(run), **{key: one for key, one in named.items() if one is not None}
    )


def _refuse_different(models, heads):
    first = {key: heads[0].get(key) for key in ("kind", "labels")}
    for model, head in zip(models, heads, strict=True):
        other = {key: head.get(key) for key in first}
        if other != first:
            raise ValueError(
                f"Models are averaged that have the same head and labels. Received: {models[0]}, "
                f"{_named(first)}, and {model}, {_named(other)}."
            )


def _named(head):
    labels = head["labels"]
    return f"a {head['kind']}" + (f" of {', '.join(labels)}" if labels else "")


def _refuse_misfit(task, own, labels, model):
    """Raises ValueError for a task that is not one of the model's head."""
    if task is None or task == own:
        return
    fits = task in GLUE_TASKS and own in (CLASSIFY, REGRESS)
    if fits and own == CLASSIFY:
        fits = list(GLUE_TASKS[task].labels) == labels
    elif fits:
        fits = GLUE_TASKS[task].regression
    if not fits:
        has = f"the labels {', '.join(labels)}" if labels else f"the head of {own}"
        raise ValueError(
            f"--task must be one that the model was fine-tuned for. Received: {task}, and {model} "
            f"has {has}."
        )


def _split(task, file):
    """Of GLUE by the file's name; of others it is of no matter."""
    if task in GLUE_TASKS and file.stem in GLUE_TASKS[task].splits:
        return file.stem
    return "test" if task in GLUE_TASKS else "file"
