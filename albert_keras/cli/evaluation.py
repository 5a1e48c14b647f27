"""albert-keras evaluate: a pretrained model on held-out records."""

from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_checkpoint
from albert_keras.cli.checks import refuse_length, refuse_missing, refuse_out_file
from albert_keras.cli.runs import show_scores
from albert_keras.cli.startup import start_tensorflow
from albert_keras.data.storage import is_remote


def evaluate(
    model: Annotated[Path, typer.Option(help="Folder of a pretraining run or of its model.")],
    records: Annotated[list[str], typer.Option(help="Held-out records; may be repeated.")],
    length: Annotated[
        int | None,
        typer.Option(min=5, help="Sequence length. Default: the longest row of pretraining."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write the scores to, as JSON.")] = None,
) -> None:
    """Score a pretrainer on masked words, sentence order and next sentences.

    Its pair head is scored on both objectives, whichever it was trained for.
    """
    refuse_missing(model, "--model")
    for folder in records:
        if not is_remote(folder):
            refuse_missing(folder, "--records")
    if out is not None:
        refuse_out_file(out)
    folder = find_checkpoint(model)
    refuse_length(length, folder)
    start_tensorflow()
    from albert_keras.checkpoints import load_albert, load_head
    from albert_keras.data.record_set import RecordSet
    from albert_keras.json_file import write_json
    from albert_keras.model import config_of
    from albert_keras.tasks.pretraining_scores import cross_evaluate

    head = load_head(folder)
    if head["kind"] != "pretrainer":
        raise ValueError(
            "--model must be a pretrainer, which predicts masked words. Received: "
            f"{model}, a model of the kind {head['kind']}."
        )
    pretrainer, tokenizer = load_albert(folder)
    if tokenizer is None:
        raise ValueError(
            f"--model must have its vocabulary. Received: {model} without one. `albert-keras "
            f"convert {model} DEST --vocab FILE` adds it."
        )
    sets = {name: RecordSet.load(name, tokenizer) for name in records}
    if length is None:
        shortest = min(one.layout.length for one in sets.values())
        positions = config_of(pretrainer).max_position_embeddings
        length = head["max_length"] or min(shortest, positions)
    for one in sets.values():
        one.refuse_rows_of(length)
    scores = {
        name: cross_evaluate(pretrainer, one, tokenizer, sequence_length=length)
        for name, one in sets.items()
    }
    for name, one in scores.items():
        typer.echo(f"{name}: trained for {one['pair_objective']}, length {length}")
        show_scores(one)
    if out is not None:
        write_json(out, scores)
