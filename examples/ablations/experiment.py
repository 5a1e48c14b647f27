"""An experiment: its settings, its text, and the folder of each cell."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_keras.differences import differences, listed
from albert_keras.json_file import read_json, write_json
from albert_keras.new_folder import new_folder
from examples.ablations.budget import matched_steps, step_flops
from examples.ablations.cells import BASE, Cell

MATCHES = ("steps", "flops", "time")
# So many characters of each held-out file are scored, and nothing else of these files is read.
HELD_OUT_CHARACTERS = 60_000


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What all cells of a folder have in common.

    Args:
        folder: of all that it writes.
        match: what its cells have the same of: "steps", "flops" or "time".
        steps: int, of `BASE`, and of every cell with matched steps.
        minutes: float, of a cell with matched time; else None.
        learning_rate: float, peak, the same at every size.
        length: int, S.
        batch: int, B.
        vocab_size: int, V.
        warmup: float, share of a cell's steps.
        mask_rate: float; twice the paper's, from which small models learn sooner.
        save_every: int, steps between two saves.
        task: files to fine-tune on and to score, (train, dev); None for no downstream score.
        task_epochs: float.
    """

    folder: Path
    match: str = "steps"
    steps: int = 4000
    minutes: float | None = None
    learning_rate: float = 2e-3
    length: int = 64
    batch: int = 32
    vocab_size: int = 2000
    warmup: float = 0.06
    mask_rate: float = 0.3
    save_every: int = 500
    task: tuple[Path, Path] | None = None
    task_epochs: float = 3

    def settings(self) -> dict[str, Any]:
        """What decides its results, with the sums of the files that it reads, as JSON holds it."""
        fields = dataclasses.asdict(self)
        del fields["folder"], fields["save_every"]
        fields["steps" if self.match == "time" else "minutes"] = None
        fields["task"] = self.task and [_sha256(path) for path in self.task]
        return fields | {"text": read_json(self.folder / "data" / "text.json")}

    def cell_folder(self, cell: Cell, seed: int) -> Path:
        return self.folder / "cells" / cell.name / f"seed{seed}"

    def flops(self, cell: Cell) -> int:
        """FLOPs of a training step of the cell."""
        return step_flops(
            cell.config(self.vocab_size, self.length),
            length=self.length,
            batch=self.batch,
            mask_rate=self.mask_rate,
        )

    def steps_of(self, cell: Cell) -> int | None:
        """The cell's steps; None where its time decides."""
        if self.match == "time":
            return None
        steps = max(1, round(cell.share * self.steps))
        if self.match == "flops":
            steps = matched_steps(steps, self.flops(cell), self.flops(BASE))
        return steps

    def commands(self, cell: Cell, seed: int) -> list[list[str]]:
        """What is still to be done for a cell, as one would type it.

        A run that has begun goes on from its last save, with the weights of a run without a break.
        """
        data, folder = self.folder / "data", self.cell_folder(cell, seed)
        run, scores, task = folder / "run", folder / "scores.json", folder / "task"
        commands = []
        if not (run / "model").exists():
            steps = self.steps_of(cell)
            budget = ("--steps", steps)
            if steps is None:
                budget = ("--minutes", cell.share * self.minutes)
            commands.append(
                [
                    *("pretrain", "--records", data / "train", "--vocab", data / "vocab"),
                    *("--out", run, "--preset", "small", *_fields(cell, self)),
                    *("--objective", cell.objective, "--length", self.length),
                    *("--batch", self.batch, "--mask-rate", self.mask_rate, *budget),
                    *("--optimizer", "adamw", "--learning-rate", self.learning_rate),
                    *("--warmup", self.warmup, "--seed", seed),
                    *("--log-every", 50, "--save-every", self.save_every),
                    *(
                        ("--init-from", self.cell_folder(cell.grown_from, seed) / "run" / "model")
                        if cell.grown_from
                        else ()
                    ),
                    *(("--resume",) if run.exists() else ()),
                ]
            )
        if not scores.exists():
            commands.append(
                [
                    *("evaluate", "--model", run, "--records", data / "heldout"),
                    *("--length", self.length, "--out", scores),
                ]
            )
        if self.task and not (task / "evaluation.json").exists():
            train, dev = self.task
            header, _, _ = train.read_text(encoding="utf-8-sig").partition("\n")
            pair = "pair" in header.strip().split("\t")
            commands.append(
                [
                    *("finetune", "--model", run, "--train", train, "--dev", dev, "--out", task),
                    *("--length", self.length, "--batch", 32, "--learning-rate", 1e-3),
                    *("--epochs", self.task_epochs, "--seed", seed),
                    *(("--pair-column", "pair") if pair else ()),
                    *(("--resume",) if task.exists() else ()),
                ]
            )
        return [list(map(str, command)) for command in commands]

    def begin_cell(self, cell: Cell, seed: int) -> Path:
        """Makes the cell's folder, or checks the one that is there.

        Raises:
            ValueError: it was begun with other settings.
        """
        folder = self.cell_folder(cell, seed)
        self.refuse_other_settings(cell, seed)
        if not folder.exists():
            with new_folder(folder) as partial:
                write_json(partial / "cell.json", self._described(cell, seed))
        return folder

    def refuse_other_settings(self, cell: Cell, seed: int) -> None:
        """Raises ValueError where the cell was begun with other settings."""
        refuse_others(self.cell_folder(cell, seed) / "cell.json", self._described(cell, seed))

    def _described(self, cell, seed):
        return {"experiment": self.settings(), "cell": dataclasses.asdict(cell), "seed": seed}


def refuse_others(path: Path, settings: dict[str, Any]) -> None:
    """Raises ValueError where `path` is there and holds other settings."""
    if not path.exists():
        return
    # A pattern of layers is a tuple here and a list there.
    changed = list(differences(read_json(path), json.loads(json.dumps(settings))))
    if changed:
        raise ValueError(
            f"A folder of results has one set of settings. Received: {path.parent} and others:\n"
            f"{listed(changed)}Name another --out, or repeat the first command."
        )


def prepare(experiment: Experiment, text: Sequence[Path], held_out: Sequence[Path] = ()) -> None:
    """Vocabulary, training records and held-out records, in the experiment's `data`.

    Args:
        experiment: whose `data` is made, or compared.
        text: files, or folders of *.txt.
        held_out: the same, to score; without any, each tenth file of `text`.

    Raises:
        ValueError: too few files of text, one that is trained on and held out, or another text,
            length or vocabulary size than before.
    """
    train, scored = _files(text), _files(held_out)
    if not scored:
        scored = train[::10]
        train = [file for file in train if file not in scored]
    if not train or not scored:
        raise ValueError(
            "--text takes at least two files, of which each tenth is held out. Received: "
            f"{len(train) + len(scored)}. Cut yours into parts, or name --held-out files as well."
        )
    described = {
        name: [{"name": file.name, "sha256": _sha256(file)} for file in files]
        for name, files in (("train", train), ("held_out", scored))
    }
    trained_on = {file["sha256"] for file in described["train"]}
    both = [file["name"] for file in described["held_out"] if file["sha256"] in trained_on]
    if both:
        raise ValueError(
            f"What is held out is not trained on. Received: {', '.join(both)} for both."
        )
    folder = experiment.folder / "data"
    sizes = {"length": experiment.length, "vocab_size": experiment.vocab_size}
    refuse_others(folder / "text.json", described)
    refuse_others(folder / "sizes.json", sizes)
    if folder.exists():
        return
    split = ["--sentences", "split"]
    with new_folder(folder) as partial:
        excerpt = partial / "heldout.txt"
        excerpt.write_text("\n\n".join(map(_beginning, scored)) + "\n", encoding="utf-8")
        vocab = partial / "vocab"
        size = ["--size", str(experiment.vocab_size), "--max-sentences", "100000"]
        run_command(["vocab", *map(str, train), "--out", str(vocab), *size, *split])
        for name, part in (("train", train), ("heldout", [excerpt])):
            out = ["--vocab", str(vocab), "--out", str(partial / name)]
            length = ["--length", str(experiment.length)]
            run_command(["records", *map(str, part), *out, *length, *split])
        write_json(partial / "text.json", described)
        write_json(partial / "sizes.json", sizes)


def _files(paths):
    return sorted(
        file
        for path in paths
        for file in (path.glob("*.txt") if path.is_dir() else [path])
        if file.is_file()
    )


def run_command(command: list[str], **options: Any) -> None:
    """Runs `albert-keras`; ends this program where that fails."""
    if code := subprocess.run([*CLI, *command], **options).returncode:
        raise SystemExit(code)


CLI = (sys.executable, "-m", "albert_keras.cli")


def environment(threads: int) -> dict[str, str]:
    """Of a process that computes on so many threads, where ours says nothing else."""
    names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    return dict.fromkeys(names, str(threads)) | os.environ


def _fields(cell, experiment):
    """The cell's config as flags, as far as it is not that of the preset."""
    config = cell.config(experiment.vocab_size, experiment.length).to_dict()
    for name in ("vocab_size", "type_vocab_size"):
        del config[name]
    for name, value in config.items():
        yield from ("--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}")


def _beginning(file):
    """The first paragraphs of a file."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"Texts must be UTF-8. Received: {file}: {error}.") from None
    if len(text) <= HELD_OUT_CHARACTERS:
        return text
    end = text.rfind("\n", 0, HELD_OUT_CHARACTERS)
    return text[: end if end > 0 else HELD_OUT_CHARACTERS]


def _sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
