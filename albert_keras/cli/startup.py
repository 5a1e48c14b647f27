"""How a command starts and ends: TensorFlow without its notices, errors in the user's words."""

import errno
import functools
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from albert_keras.backend import refuse_other_backends

# The library's names of what the user typed, wherever an error has them in `backticks` or as
# name=value. A config field keeps its name: --set takes it.
FLAGS = {
    "folder": "--out",
    "learning_rate": "--learning-rate",
    "mask_rate": "--mask-rate",
    "train_sha256": "what --train holds (sha256)",
    "dev_sha256": "what --dev holds (sha256)",
    "model_sha256": "what --model holds (sha256)",
    "allow_missing": "--allow-missing of `albert-keras convert`",
    "allow_unused": "--allow-unused of `albert-keras convert`",
    "peak": "--learning-rate",
    "warmup_steps": "--warmup",
    "total_steps": "--steps",
    "batch_size": "--batch",
    "max_length": "--length",
    "sequence_length": "--length",
    "short_fraction": "--short-fraction",
    "max_sentences": "--max-sentences",
    "dropout": "--dropout",
    "classifier_dropout": "--classifier-dropout",
    "checkpoint_every": "--evaluate-every",
    "freeze_encoder": "--freeze-encoder",
    "precision": "--precision",
    "warmup": "--warmup",
    "field": "--field",
    "length": "--length",
    "lowercase": "--lowercase",
    "keep_accents": "--keep-accents",
    "minutes": "--minutes",
    "ngram": "--ngram",
    "rate": "--mask-rate",
    "optimizer": "--optimizer",
    "pair_objective": "--objective",
    "decay": "--decay",
    "long_steps": "--long-share",
    "long_length": "--long-length",
    "micro_batches": "--micro-batches",
    "weights": "--weight",
    "origin": "--init-from",
    "evaluate_every": "--evaluate-every",
    "strategy": "--strategy",
    "recompute": "--recompute",
    "resume": "--resume",
    "seed": "--seed",
    "sentences": "--sentences",
    "shards": "--shards",
    "version": "--version",
    "workers": "--workers",
}
# Where a command has another.
FLAGS_OF = {
    "vocab": {"vocab_size": "--size"},
    "convert": {
        "folder": "DEST",
        "head": "--head",
        "allow_missing": "--allow-missing",
        "allow_unused": "--allow-unused",
    },
}

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def as_command(command: Callable) -> Callable:
    """`command` with its ends: 2 after a user's mistake, 1 after a failure, 130 after Ctrl-C."""

    @functools.wraps(command)
    def run(*args, **kwargs):
        try:
            _refuse_nan(kwargs)
            return command(*args, **kwargs)
        except (BrokenPipeError, typer.Exit):  # typer's: the reader of our output went, or an end
            raise
        except (ValueError, OSError, RuntimeError) as error:
            flags = {**FLAGS, **FLAGS_OF.get(command.__name__, {})}
            message = str(error)
            if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
                message += f". Free some space where {error.filename or 'it writes'} is."
            _say(f"Error: {in_the_users_words(message, flags)}", style="red")
            raise typer.Exit(2 if isinstance(error, ValueError | OSError) else 1) from None
        except ImportError as error:
            _say(f"Error: {error}", style="red")
            raise typer.Exit(2) from None
        except Exception as error:
            # TensorFlow's own, such as of a disk that is full. By name, it may not be imported.
            if not type(error).__module__.startswith("tensorflow."):
                raise
            reason = str(error).partition("\n")[0]
            _say(f"Error: {type(error).__name__}: {reason}", style="red")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            out = kwargs.get("out")
            if out is not None and (Path(out) / "run.json").exists():
                _say(f"Stopped. To go on with the run in {out}, repeat the command with --resume.")
            else:
                _say("Stopped." if out is None else f"Stopped. Nothing was written to {out}.")
            raise typer.Exit(130) from None

    return run


def _refuse_nan(options):
    """No option means anything by it, and it passes every comparison with a limit."""
    for name, value in options.items():
        if any(isinstance(one, float) and math.isnan(one) for one in _listed(value)):
            raise ValueError(f"--{name.replace('_', '-')} must be a number. Received: nan.")


def _listed(value):
    return value if isinstance(value, list | tuple) else [value]


def in_the_users_words(message: str, flags: dict[str, str]) -> str:
    """`message` with flags for the library's names of them.

    >>> in_the_users_words("`peak` must be above 0. Received: -1.", FLAGS)
    '--learning-rate must be above 0. Received: -1.'
    >>> in_the_users_words("Pass lowercase=False.", FLAGS)
    'Pass --no-lowercase.'
    """

    def flag(match):
        return f"--set {match[2]}" if match[1] == "config." else flags.get(match[2], match[0])

    # Behind a colon it is a key of the file that is named before.
    message = re.sub(r"(?<!: )`(recipe\.|config\.)?(\w+)`", flag, message)

    def assigned(match):
        flag = flags.get(match[1])
        if flag is None:
            return match[0]
        switched = {"True": flag, "False": flag.replace("--", "--no-", 1)}
        return switched.get(match[2], f"{flag} {match[2]}")

    # Behind a space: a path may have a part like seed=5.
    return re.sub(r"(?<= )(\w+)=\"?(\w+(?:\.\w+)*)\"?", assigned, message)


def start_tensorflow(strategy: str | None = None) -> Any:
    """Imports TensorFlow, which takes seconds: call it when the user's words have been checked.

    Returns the distribution strategy of that name, None without one: the only moment at which some
    can be made.

    Its libraries log to the process's standard error before they read TF_CPP_MIN_LOG_LEVEL (seen
    with 2.21), so that is kept aside meanwhile, and shown only if the start fails.
    """
    refuse_other_backends()
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as notices:
        os.dup2(notices.fileno(), 2)
        try:
            import tensorflow as tf

            if strategy is not None:
                from albert_keras.training.strategy import strategy_named

                made = strategy_named(strategy)
            tf.config.list_logical_devices()
            # Keras warns of callbacks that take longer than a step, as an evaluation does.
            tf.get_logger().setLevel("ERROR")
        except Exception:
            notices.seek(0)
            os.write(stderr, notices.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    return None if strategy is None else made


def _say(message: str, style: str | None = None) -> None:
    Console(stderr=True).print(message, style=style, markup=False, highlight=False, soft_wrap=True)
