"""Kills `albert-keras pretrain` at random moments, goes on, and compares to the bit.

    python -m tests.kill_and_resume [--kills 20] [--steps 400] [--seed 0] [-- FLAG ...]

Trains the preset "tiny" on the licence of this project, once undisturbed and once killed by
SIGKILL and resumed, again and again. Most kills come at a random moment after a random step, one
in five while the process still starts. Every line of metrics.jsonl but its speed, every tensor of
the training state, and the saved model must be equal. What follows `--` are flags of `pretrain`,
such as `--micro-batches 2`.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
RECIPE = [
    *("--preset", "tiny", "--length", "32", "--batch", "4", "--optimizer", "adamw"),
    *("--learning-rate", "1e-3", "--log-every", "1", "--save-every", "3"),
]


def command(name: str, *flags: str | Path | int) -> list[str]:
    return [sys.executable, "-m", "albert_keras.cli", name, *map(str, flags)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def prepare(folder: Path) -> None:
    """Makes a vocabulary and records in `folder`."""
    paragraphs = (ROOT / "LICENSE").read_text().split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    (folder / "text.txt").write_text(text)
    corpus = [folder / "text.txt", "--sentences", "split"]
    for made in (
        command("vocab", *corpus, "--out", folder / "vocab", "--size", 250),
        command(
            *("records", *corpus, "--vocab", folder / "vocab", "--out", folder / "records"),
            *("--length", 32),
        ),
    ):
        subprocess.run(made, env=environment(), check=True, capture_output=True)


def pretraining(folder: Path, out: Path, steps: int, flags: list[str]) -> list[str]:
    """The command that begins the run in `out`, or goes on with it."""
    data = ["--records", folder / "records", "--vocab", folder / "vocab", "--out", out]
    begun = ["--resume"] if (out / "run.json").exists() else []
    return command("pretrain", *data, *RECIPE, "--steps", steps, *flags, *begun)


def logged_step(out: Path) -> int:
    """The last step in metrics.jsonl, 0 before the first."""
    try:
        return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    except (OSError, IndexError, ValueError):  # none yet, or half a line
        return 0


def kill_at(process: subprocess.Popen, out: Path, step: int | None, draws: random.Random) -> bool:
    """Kills the process a moment after `step` was logged; with None, while it starts.

    Returns:
        Whether it was killed before it had ended.
    """
    began, first = time.monotonic(), logged_step(out)
    moment = draws.uniform(0, 10)
    while process.poll() is None:
        now = logged_step(out)
        if step is None and time.monotonic() - began > moment:
            break
        # What a killed process logged is still there until the next one has begun.
        if step is not None and now >= step and now != first:
            time.sleep(draws.uniform(0, 0.1))
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def run_with_kills(
    folder: Path, out: Path, steps: int, kills: int, draws: random.Random, flags: list[str]
) -> None:
    """Trains to the end, killed so many times on the way."""
    # Not in the last steps: the process would have ended.
    points = sorted(draws.randrange(1, max(2, steps * 4 // 5)) for _ in range(kills))
    for number, point in enumerate(points, 1):
        starting = number % 5 == 0
        with subprocess.Popen(
            pretraining(folder, out, steps, flags), env=environment(), stderr=subprocess.PIPE
        ) as process:
            killed = kill_at(process, out, None if starting else point, draws)
            errors = process.stderr.read().decode()
        if not killed:
            raise RuntimeError(f"It ended by itself, with {process.returncode}: {errors}")
        where = "while it started" if starting else f"after step {point}"
        print(f"kill {number}: {where}, {logged_step(out)} steps logged", flush=True)
    subprocess.run(
        pretraining(folder, out, steps, flags), env=environment(), check=True, capture_output=True
    )


def differences(one: Path, other: Path, steps: int) -> list[str]:
    """What differs between two runs: lines of the log, tensors of the state, the saved model."""
    import tensorflow as tf

    found = []
    logs = []
    for out in (one, other):
        lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        logs.append([{**line, "tokens_per_second": 0} for line in lines])
        if [line["step"] for line in logs[-1]] != list(range(1, steps + 1)):
            found.append(f"{out.name}: the log does not have a line for each step")
    for ours, theirs in zip(*logs, strict=False):
        if ours != theirs:
            found.append(f"step {ours['step']}: {ours} and {theirs}")
    readers = [
        tf.train.load_checkpoint(str(out / "training" / f"step-{steps}")) for out in (one, other)
    ]
    for name in readers[0].get_variable_to_shape_map():
        if not np.array_equal(*(reader.get_tensor(name) for reader in readers)):
            found.append(f"the state's {name}")
    models = [(out / "model" / "model.safetensors").read_bytes() for out in (one, other)]
    if models[0] != models[1]:
        found.append("model.safetensors")
    return found


def compared(folder: Path, kills: int, steps: int, seed: int, flags: list[str]) -> list[str]:
    """What differs between a run that is killed so many times and one that is not."""
    prepare(folder)
    whole, killed = folder / "whole", folder / "killed"
    subprocess.run(
        pretraining(folder, whole, steps, flags),
        env=environment(),
        check=True,
        capture_output=True,
    )
    run_with_kills(folder, killed, steps, kills, random.Random(seed), flags)
    return differences(whole, killed, steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("flags", nargs="*", help="of pretrain, after --")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = compared(Path(folder), given.kills, given.steps, given.seed, given.flags)
    for line in found[:20]:
        print(line)
    print(f"{given.kills} kills in {given.steps} steps: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
