"""RunRecord: what a run has written so far, as far as it can be read."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from albert_keras.json_file import read_json
from albert_keras.lock import lock
from albert_keras.run_folder import (
    CORPORA,
    EVALUATIONS,
    EVENTS,
    METRICS,
    MODEL,
    SCORES,
    SETTINGS,
)

_LARGEST = 1e300  # of a float, with room for the arithmetic of an axis


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Held-out scores after some step; `corpus` is None where there is a single one."""

    step: int
    corpus: str | None
    scores: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened at a step, and what it means."""

    step: int
    kind: str
    text: str


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """A run's files, read.

    Attributes:
        folder: of the run.
        running: whether a process trains in it.
        ended: whether it has its model, the last thing that a run writes.
        settings: run.json; empty where it cannot be read.
        rows: the lines of metrics.jsonl, in the order of their steps.
        evaluations: of held-out data, in the order of their steps.
        events: in the order of their steps.
        corpora: what was read of each corpus; empty where there is no corpora.json.
        problems: a sentence for each thing that is missing or cannot be read.
    """

    folder: Path
    running: bool
    ended: bool
    settings: Mapping[str, Any]
    rows: list[dict[str, Any]]
    evaluations: list[Evaluation]
    events: list[Event]
    corpora: list[dict[str, Any]]
    problems: list[str]

    @property
    def recipe(self) -> Mapping[str, Any]:
        settings = self.settings.get("settings")
        recipe = settings.get("recipe") if isinstance(settings, dict) else None
        return recipe if isinstance(recipe, dict) else {}

    @property
    def step(self) -> int:
        """The last step of which there are numbers."""
        return self.rows[-1]["step"] if self.rows else 0

    @property
    def total_steps(self) -> int | None:
        return whole(self.recipe.get("total_steps"))

    @property
    def tokens_per_example(self) -> float | None:
        """Of fine-tuning, whose rows differ in length: the mean, without padding."""
        settings = self.settings.get("settings")
        return finite(settings.get("tokens_per_example")) if isinstance(settings, dict) else None

    def tokens_at(self, step: int) -> int | None:
        """Tokens of the first steps, as in the speed of metrics.jsonl.

        Padding included in pretraining; without it, on the average, in fine-tuning.
        """
        batch = whole(self.recipe.get("batch_size"))
        length = whole(self.recipe.get("sequence_length", self.recipe.get("max_length")))
        if self.tokens_per_example is not None:
            return max(1, round(batch * self.tokens_per_example)) * step
        if not batch or not length:
            return None
        short, longer = self.long_phase or (step, length)
        return batch * (length * min(step, short) + longer * max(0, step - short))

    @property
    def long_phase(self) -> tuple[int, int] | None:
        """The step after which rows are longer, and how long; None where they never are."""
        steps, length = (whole(self.recipe.get(name)) for name in ("long_steps", "long_length"))
        return (self.total_steps - steps, length) if self.total_steps and steps and length else None

    @property
    def state(self) -> str:
        """ "finished", "running" or "stopped"."""
        if self.ended or (self.total_steps is not None and self.step >= self.total_steps):
            return "finished"
        return "running" if self.running else "stopped"

    @property
    def seconds(self) -> float | None:
        """Time in training, from each interval's steps and speed."""
        if not self.rows or self.tokens_at(0) is None:
            return None
        total, before = 0.0, 0
        for row in self.rows:
            speed = finite(row.get("tokens_per_second"))
            if not speed or speed < 0:
                return None
            total += (self.tokens_at(row["step"]) - self.tokens_at(before)) / speed
            before = row["step"]
        return total

    def curve(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, wherever it is a finite number."""
        values = ((row["step"], finite(row.get(name))) for row in self.rows)
        return [(step, value) for step, value in values if value is not None]


def read_run(folder: str | Path, running: bool | None = None) -> RunRecord:
    """Reads what there is. A file that is missing or damaged is a problem named in the record.

    Args:
        folder: of a run.
        running: whether the training goes on. None asks for the lock of the run, which its process
            holds.

    Raises:
        ValueError: there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"A run is a folder. Received: {folder}, which is none.")
    if running is None:
        with lock(folder / SETTINGS) as ours:
            running = ours is False
    problems = []
    rows = {row["step"]: row for row in _lines(folder / METRICS, problems)}
    rows = [rows[step] for step in sorted(rows)]
    if not rows:
        problems.append("No interval of training has been logged yet, so there are no curves.")
    problems += _not_finite(METRICS, rows)
    events = [*_skipped(rows), *_events(_lines(folder / EVENTS, problems))]
    lines = _lines(folder / EVALUATIONS, problems)
    evaluations = [one for line in lines for one in _evaluations(line, line["step"])]
    problems += _not_finite(EVALUATIONS, [one.scores for one in evaluations])
    if (folder / SCORES).exists():
        last = rows[-1]["step"] if rows else 0
        scores = _object(folder / SCORES, problems)
        step = whole(scores.get("step"))  # of fine-tuning, whose best checkpoint is scored
        evaluations += _evaluations(scores, last if step is None else step)
    if not evaluations:
        problems.append("There are no held-out scores, or not yet: they need --dev.")
    run = RunRecord(
        folder=folder,
        running=running,
        ended=(folder / MODEL).exists(),
        settings=_object(folder / SETTINGS, problems),
        rows=rows,
        evaluations=_merged(evaluations),
        events=events,
        corpora=_corpora(folder / CORPORA, problems),
        problems=problems,
    )
    events += _longer_rows(run)
    events.sort(key=lambda event: event.step)
    return run


def finite(value: Any) -> float | None:
    """A number that can be drawn; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _LARGEST else None  # not NaN


def whole(value: Any) -> int | None:
    """A whole number from 0 on; None for anything else."""
    return value if type(value) is int and 0 <= value < _LARGEST else None


def _lines(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines that have a step; none where there is no file."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{path.name} cannot be read ({error.strerror}).")
        return []
    found, damaged = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError:  # UnicodeDecodeError as well
            fields = None
        if isinstance(fields, dict) and whole(fields.get("step")) is not None:
            found.append(fields)
        else:
            damaged.append(number)
    if damaged:
        shown = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        problems.append(
            f"{path.name}: {_counted(len(damaged), 'line')} damaged and left out (line {shown})."
        )
    return found


def _object(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return read_json(path)
    except ValueError as error:
        problems.append(str(error))
        return {}


def _corpora(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    rows = _object(path, problems).get("records", []) if path.exists() else []
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        return rows
    problems.append(f"{path.name} is damaged and left out.")
    return []


def _not_finite(name: str, rows: list[Mapping[str, Any]]) -> list[str]:
    values = [value for row in rows for value in row.values() if isinstance(value, float)]
    lost = sum(finite(value) is None for value in values)
    return [f"{name}: {_counted(lost, 'value')} not finite and left out."] if lost else []


def _skipped(rows: list[dict[str, Any]]) -> Iterator[Event]:
    before = 0
    for row in rows:
        steps = finite(row.get("skipped_steps")) or 0
        if steps > 0:
            many = "1 step" if steps == 1 else f"{steps:,.0f} steps"
            yield Event(
                row["step"],
                "skipped",
                f"{many} of steps {before + 1:,} to {row['step']:,} changed nothing: the gradient "
                "was not finite.",
            )
        before = row["step"]


def _longer_rows(run: RunRecord) -> Iterator[Event]:
    if run.long_phase and run.step > run.long_phase[0]:
        step, length = run.long_phase
        yield Event(step + 1, "longer rows", f"From here on rows have {length:,} pieces.")


def _events(lines: list[dict[str, Any]]) -> Iterator[Event]:
    for line in lines:
        kind = str(line.get("kind", "event")).replace("_", " ")
        yield Event(line["step"], kind, str(line.get("text", "")))


def _evaluations(scores: Mapping[str, Any], step: int) -> Iterator[Evaluation]:
    """One for each corpus, whose scores are an object, and one for scores that are of no corpus."""
    if any(finite(value) is not None for name, value in scores.items() if name != "step"):
        yield Evaluation(step, None, scores)
    for corpus, of_corpus in scores.items():
        if isinstance(of_corpus, dict):
            yield Evaluation(step, corpus, of_corpus)


def _merged(evaluations: list[Evaluation]) -> list[Evaluation]:
    """By step; of two after the same step the scores of the later one count.

    That is evaluation.json: it has the scores of all held-out rows, those on the way are of the
    first ones.
    """
    merged = {}
    for one in evaluations:
        before = merged.get((one.step, one.corpus))
        scores = {**before.scores, **one.scores} if before else one.scores
        merged[one.step, one.corpus] = Evaluation(one.step, one.corpus, scores)
    return sorted(merged.values(), key=lambda one: one.step)


def _counted(number: int, noun: str) -> str:
    return f"1 {noun} is" if number == 1 else f"{number:,} {noun}s are"
