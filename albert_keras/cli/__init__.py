"""`albert-keras <command>`: parse, build, call. What a command does is in the library.

Commands train on Keras 2 unless the user has chosen: TF_USE_LEGACY_KERAS is set here, before
anything imports TensorFlow (Keras 3 fails under some distribution strategies).
"""

import os
import sys

import typer
from rich.console import Console

from albert_keras.cli import data, serving, training
from albert_keras.cli.startup import with_tensorflow

app = typer.Typer(
    name="albert-keras",
    help="Pretrain an ALBERT on your own text, fine-tune it, and serve it as a SavedModel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# In the order of use. They import TensorFlow only when they run.
for command in (
    data.vocab,
    data.records,
    training.pretrain,
    training.finetune,
    serving.export,
    serving.predict,
    serving.inspect,
):
    app.command()(with_tensorflow(command))


def main() -> None:
    """The console script: 0 done, 2 a user's mistake, 130 stopped by Ctrl-C."""
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        app()
    except (ValueError, OSError, RuntimeError) as error:
        _say_and_exit(error)
    except KeyboardInterrupt:
        sys.exit(130)


def _say_and_exit(error: Exception) -> None:
    Console(stderr=True).print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
    sys.exit(2 if isinstance(error, ValueError | OSError) else 1)
