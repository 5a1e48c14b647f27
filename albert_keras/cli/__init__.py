"""`albert-keras <command>`: parse, build, call. What a command does is in the library.

Commands train on Keras 2 unless the user has chosen: TF_USE_LEGACY_KERAS is set here, before
anything imports TensorFlow (Keras 3 fails under some distribution strategies).
"""

import os
from typing import Annotated

import typer

import albert_keras
from albert_keras.cli import (
    coherence,
    conversion,
    data,
    evaluation,
    finetuning,
    inspection,
    prediction,
    pretraining,
    server,
    serving,
    trajectories,
)
from albert_keras.cli.startup import as_command

app = typer.Typer(
    name="albert-keras",
    help="Pretrain an ALBERT on your own text, fine-tune it, and serve it as a SavedModel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"albert-keras {albert_keras.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """What may stand before a command."""


# In the order of use. Each checks what it can before it starts TensorFlow.
for command in (
    data.vocab,
    data.records,
    pretraining.pretrain,
    evaluation.evaluate,
    finetuning.finetune,
    prediction.predict_file,
    serving.export,
    serving.predict,
    server.serve,
    server.serving_config,
    conversion.convert,
    inspection.inspect,
    trajectories.trajectories,
    coherence.coherence,
):
    app.command()(as_command(command))


def main() -> None:
    """The console script: 0 done, 2 a user's mistake, 130 stopped by Ctrl-C."""
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    app()
