"""Runs the commands of a benchmark and keeps the JSON lines that they print."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from albert_keras.json_file import parse_json
from benchmarks.catalogue import OF_PEERS
from benchmarks.circumstances import PEERS, ROOT


class BenchmarkFailedError(Exception):
    """Says which command, and how it ended."""


def collect(commands: Sequence[str], root=ROOT) -> list[dict[str, Any]]:
    """Runs modules of `benchmarks` one after the other, each a process, and shows what they print.

    Args:
        commands: modules with their arguments.
        root: the folder that has the package `benchmarks`.

    Returns:
        The lines of all of them, in order.

    Raises:
        BenchmarkFailedError: a command ended with another code than 0, printed no line, or a broken
            one.
    """
    # Some environments slow NumPy's matrix products down with these; here that would be unfair.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    lines = []
    for command in commands:
        module, *arguments = command.split()
        python = PEERS if module in OF_PEERS else sys.executable
        with subprocess.Popen(
            [python, "-m", f"benchmarks.{module}", *arguments],
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            printed = []
            for line in process.stdout:
                print(line, end="", flush=True)
                if line.startswith("{"):  # libraries print other things
                    printed.append(line)
        if process.returncode != 0:
            raise BenchmarkFailedError(f"`{command}` ended with {process.returncode}")
        if not printed:
            raise BenchmarkFailedError(f"`{command}` printed no line of JSON")
        try:
            lines += [parse_json(line, f"a line of `{command}`", ["benchmark"]) for line in printed]
        except ValueError as error:
            raise BenchmarkFailedError(str(error)) from error
    return lines
