"""From the text on this machine to a served answer: `make demo`, or

    python -m examples.demo --out demo --minutes 5.5

Reads the documentation installed with Python, trains a vocabulary, pretrains a small ALBERT on it,
fine-tunes it to say which library a paragraph documents, with three seeds each and as often without
pretraining, exports the one of the first seed, and asks the export about five strings. Each step is
a command, printed before it runs: type the same for files of your own.

--minutes is the time of pretraining; the other steps add about five.
"""

import argparse
import contextlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

CONSOLE = Console()
SEEDS = range(3)  # of fine-tuning; the first one's model is exported, whichever is the best
PARTS = [
    *"corpus vocabulary records pretrained baselines serve report".split(),
    *(f"{start}_{seed}" for start in ("finetuned", "from_scratch") for seed in SEEDS),
]
MARK = ".albert_keras_demo"  # in the folder of a demo, whose parts a new run may remove

# Nobody's documentation: written for this demo, so that no part of them was trained on.
QUESTIONS = [
    "Solves a sparse linear system with conjugate gradients, until the residual is small enough.",
    "How thick the line is and which colour its markers have; the legend shows both.",
    "Fits many decision trees on random samples of the rows and averages what they predict.",
    "The number of units, and the regularizer for the weights of this recurrent layer.",
    "Waits for a connection on the socket and starts a thread that answers each request.",
]


def commands(out, minutes):
    """The steps of the demo in order, each a list of words as one would type them.

    One that ends in "&" runs beside the next: two fine-tunings of this size share two cores well.
    """
    corpus, vocabulary, records = out / "corpus", out / "vocabulary", out / "records"
    pretrained = out / "pretrained"
    served = out / "serve" / "classifier"
    cli = "albert-keras"
    demo = ["python", "-m"]

    yield [*demo, "examples.demo.corpus", "--out", corpus]
    yield [
        cli, "vocab", corpus / "train", "--out", vocabulary,
        "--size", 4000, "--sentences", "split",
    ]  # fmt: skip
    for side in ("train", "heldout"):
        yield [
            cli, "records", corpus / side, "--vocab", vocabulary, "--out", records / side,
            "--length", 64, "--sentences", "split",
        ]  # fmt: skip
    yield [
        cli, "pretrain", "--records", records / "train", "--vocab", vocabulary,
        "--dev", records / "heldout", "--out", pretrained, "--preset", "small",
        "--length", 64, "--batch", 32, "--minutes", minutes, "--mask-rate", 0.3,
        "--optimizer", "adamw", "--learning-rate", 2e-3, "--warmup", 0.06,
    ]  # fmt: skip
    for seed in SEEDS:
        for start, flag, end in (
            ("finetuned", [], ["&"]),
            ("from_scratch", ["--from-scratch"], []),
        ):
            yield [
                cli, "finetune", "--model", pretrained, *flag, "--train", corpus / "train.tsv",
                "--dev", corpus / "dev.tsv", "--out", out / f"{start}_{seed}", "--length", 64,
                "--batch", 32, "--epochs", 1, "--learning-rate", 1e-3, "--seed", seed, *end,
            ]  # fmt: skip
    yield [
        *demo, "examples.demo.baselines", "--corpus", corpus, "--records", records,
        "--vocabulary", vocabulary, "--out", out / "baselines",
    ]  # fmt: skip
    first = out / f"finetuned_{SEEDS[0]}"
    yield [cli, "export", "--model", first, "--out", served, "--length", 64]
    yield [*demo, "examples.demo.report", out]
    yield ["python", "examples/demo/ask.py", served, *QUESTIONS]


def run(steps):
    """Runs commands in turn, and one that ends in "&" beside those up to the next without.

    What the former says is shown when all of these have ended. The first failure ends all of them.
    """
    running = []
    with contextlib.ExitStack() as files:
        try:
            for step in steps:
                running.append(start(step, files))
                if step[-1] != "&":
                    wait(running)
                    for _, said, _ in running:
                        show(said, sys.stdout)
                    running.clear()
        finally:
            for process, _, _ in running:
                process.kill()
                process.wait()


def wait(running):
    """Returns when all have ended; raises SystemExit as soon as one has failed."""
    ended = False
    while not ended:
        ended = all(process.poll() is not None for process, _, _ in running)
        for process, said, errors in running:
            if process.poll():
                show(said, sys.stdout)
                show(errors, sys.stderr)
                raise SystemExit(process.returncode)
        time.sleep(0 if ended else 0.1)


def show(file, stream):
    """Writes what a process left in `file`, if it had one, to `stream`."""
    if file is not None:
        file.seek(0)
        stream.write(file.read())


def start(command, files):
    """Prints a command and starts it, with the programs beside this interpreter.

    Args:
      command: a list of words.
      files: a `contextlib.ExitStack`, which closes the files.

    Returns:
      A `subprocess.Popen`, and the files with what it says and with its errors; None for what goes
      to the terminal.
    """
    background = command[-1] == "&"
    words = [str(word) for word in command if word != "&"]
    shown = shlex.join(words) + (" &" if background else "")
    CONSOLE.print(f"\n$ {shown}", style="bold cyan", soft_wrap=True, highlight=False)
    CONSOLE.file.flush()  # or the command's own output comes first in a log file
    ours = words[0] == "python"
    words[0] = sys.executable if ours else str(Path(sys.executable).parent / words[0])
    # What TensorFlow says about itself while it starts is of use only after a failure. The command
    # line hides it on its own, and needs its standard error for progress bars.
    # In files: a pipe that nobody reads would stop it once it is full.
    said, errors = (
        files.enter_context(tempfile.TemporaryFile("w+")) if hidden else None
        for hidden in (background, ours or background)
    )
    return subprocess.Popen(words, stdout=said, stderr=errors), said, errors


def take_folder(out):
    """Makes the folder `out`, or clears it of an earlier demo's parts; no other folder's."""
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise SystemExit(
            f"--out must be a new folder, or that of an earlier demo. Received: {out}, which holds "
            "other files. Name another."
        )
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    for folder in PARTS:
        shutil.rmtree(out / folder, ignore_errors=True)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="default: demo")
    parser.add_argument("--minutes", type=float, default=5.5, help="of pretraining; default 5.5")
    arguments = parser.parse_args(argv)
    started = time.monotonic()

    take_folder(arguments.out)
    run(commands(arguments.out, arguments.minutes))
    minutes = (time.monotonic() - started) / 60
    CONSOLE.print(f"\n{minutes:.1f} minutes in all.")


if __name__ == "__main__":
    main()
