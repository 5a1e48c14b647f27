"""albert-keras export, predict: what comes after training."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_checkpoint
from albert_keras.cli.checks import refuse_length, refuse_missing, refuse_out
from albert_keras.cli.startup import start_tensorflow
from albert_keras.cli.trained_as import own_columns, threshold_of
from albert_keras.json_file import read_json
from albert_keras.served_folder import LARGEST_VERSION, SIGNATURE, versions_in
from albert_keras.tasks.task_names import NUMBER

ExportFormat = StrEnum(
    "ExportFormat",
    {
        name.upper().replace("-", "_"): name
        for name in ("saved-model", "litert-int8", "litert-fp16", "onnx", "onnx-int8")
    },
)


def export(
    model: Annotated[Path, typer.Option(help="Checkpoint folder, or a run.")],
    out: Annotated[Path, typer.Option(help="Folder of the served model, OUT/VERSION is made.")],
    format: Annotated[
        ExportFormat,
        typer.Option(
            help="Another one than saved-model is for devices: the model as a file, integers to "
            "scores, and the vocabulary, in OUT itself."
        ),
    ] = ExportFormat.SAVED_MODEL,
    version: Annotated[
        int, typer.Option(min=1, max=LARGEST_VERSION, help="Version number of a SavedModel.")
    ] = 1,
    length: Annotated[
        int | None,
        typer.Option(min=5, help="Longest row in pieces. Default: that of training."),
    ] = None,
    pair: Annotated[
        bool | None,
        typer.Option(
            "--pair/--single",
            help="Whether an example is two texts. Default: as the run was trained, else one.",
        ),
    ] = None,
    null_threshold: Annotated[
        float | None,
        typer.Option(
            help="Of SQuAD 2.0: null scores above it mean no answer. Default: that of the run's "
            "dev set, else 0."
        ),
    ] = None,
) -> None:
    """Write a SavedModel that takes raw strings, and check that it answers."""
    refuse_missing(model, "--model")
    folder = find_checkpoint(model)
    refuse_length(length, folder)
    is_edge = format != ExportFormat.SAVED_MODEL
    given = {"--version": version != 1, "--null-threshold": null_threshold is not None}
    if is_edge and any(given.values()):
        named = " and ".join(flag for flag, is_given in given.items() if is_given)
        raise ValueError(
            f"--format {format} has neither versions nor a null threshold. Received: {named}."
        )
    if is_edge:
        refuse_out(out)
    elif (out / str(version)).exists():
        raise ValueError(
            f"--version must be a new one. Received: {version}, and {out / str(version)} exists. "
            f"The next is --version {_newest_version(out) + 1}."
        )
    else:
        refuse_out(out / str(version))
    start_tensorflow()
    from albert_keras.checkpoints import load_albert, load_head
    from albert_keras.export import export_saved_model

    loaded, tokenizer = load_albert(folder)
    head = load_head(folder)
    kind, labels = head["kind"], head.get("labels")
    if tokenizer is None:
        raise ValueError(f"--model must have its vocabulary. Received: {folder} without one.")
    if pair is not None and kind not in ("classifier", "encoder"):
        raise ValueError(
            f"--pair and --single are for classifiers and encoders. Received: a {kind}."
        )
    if null_threshold is not None and kind != "answerable_span_predictor":
        raise ValueError(f"--null-threshold is of SQuAD 2.0. Received: it for a {kind}.")
    if null_threshold is None and kind == "answerable_span_predictor":
        null_threshold = threshold_of([model])
    if pair is None and kind == "classifier":
        pair = own_columns(model).text_pair is not None
    settings = {
        "labels": None if labels == [NUMBER] else labels,
        "pair": bool(pair),
        "max_length": length or head["max_length"],
    }
    if is_edge:
        from albert_keras.export.edge import export_edge

        export_edge(loaded, tokenizer, out, format=str(format), **settings)
        typer.echo(f"{out}: {format}; the accuracy check passed")
        return
    written = export_saved_model(
        *(loaded, tokenizer, out),
        null_threshold=null_threshold or 0.0,
        version=version,
        **settings,
    )
    kind = read_json(written / "assets.extra" / "metadata.json")["kind"]
    typer.echo(f"{written}: {kind}; the self-check passed")


def predict(
    text: Annotated[
        list[str],
        typer.Argument(
            help="Texts, or - for lines of standard input. Where an example is several, one after "
            "the other: question and context; context, question and options."
        ),
    ],
    export: Annotated[Path, typer.Option(help="Folder of an exported model.")],
    signature: Annotated[
        str, typer.Option(help="Another one that takes strings, such as coherence.")
    ] = SIGNATURE,
) -> None:
    """Ask an exported SavedModel raw strings.

    Of a classifier label, score and text of each, tab-separated; of others a JSON line each.
    """
    versions_in(export)
    start_tensorflow()
    from albert_keras.export import ServedModel

    texts = _standard_input() if text == ["-"] else text
    served = ServedModel(export, signature)
    names = served.inputs
    for place, answer in enumerate(served.ask(_examples(texts, names))):
        if names == ["text"] and "label" in answer:
            # One line a text, whatever is in it; an argument that is no UTF-8 has surrogates.
            shown = " ".join(texts[place].split()).encode(errors="replace").decode()
            typer.echo(f"{answer['label']}\t{answer['score']:.4f}\t{shown}")
        else:
            typer.echo(json.dumps(answer, ensure_ascii=False))


def _examples(texts, names):
    """The texts by input: an example takes as many as there are names, and the last one of
    `options` all that are left."""
    if names[-1] == "options":
        if len(texts) < len(names):
            raise ValueError(
                "A question with options is a context, a question and one option or more. "
                f"Received: {len(texts)} texts."
            )
        return {names[0]: texts[:1], names[1]: texts[1:2], names[2]: [texts[2:]]}
    if len(texts) % len(names):
        raise ValueError(
            f"An example of this export is {len(names)} texts: {', '.join(names)}. Received: "
            f"{len(texts)} texts."
        )
    return {name: texts[place :: len(names)] for place, name in enumerate(names)}


def _newest_version(out):
    names = [path.name for path in out.iterdir()]
    return max(int(name) for name in names if name.isascii() and name.isdecimal())


def _standard_input():
    texts = []
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            texts.append(line.decode().rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Texts must be UTF-8. Received: standard input, line {number}: {error}."
            ) from None
    return texts
