"""What a benchmark printed, and where and when: one file of JSON lines for each benchmark.

The first line has `run`, null where the benchmark never succeeded, and `failed`, null unless the
last attempt failed; the others are the benchmark's own.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from albert_keras.json_file import parse_json
from albert_keras.new_file import write_file


@dataclasses.dataclass(frozen=True)
class Run:
    """The circumstances of a benchmark.

    Args:
        date: ISO 8601, in UTC; later ones sort behind.
        revision: the commit, with `CHANGED` at its end where files differed from it.
        commands: of the benchmark.
        machine: names and values: processor, cores, memory, versions.
        peers: names and versions of the other implementations; empty where none took part.
        minutes: that it took.
    """

    date: str
    revision: str
    commands: list[str]
    machine: dict[str, str]
    peers: dict[str, str]
    minutes: float

    CHANGED = "+changes"

    def is_as(self, other: "Run") -> bool:
        """Whether the other one measured the same on the same machine."""
        if self.revision.endswith(self.CHANGED):
            return False  # nobody knows which
        same = ("revision", "commands", "machine", "peers")
        return all(getattr(self, name) == getattr(other, name) for name in same)


@dataclasses.dataclass(frozen=True)
class Result:
    """The lines of a benchmark's last success, its run, and the last attempt if that failed.

    Args:
        run: of the lines, or None where there are none.
        lines: as the benchmark printed them.
        failed: `date`, `revision` and `reason` of an attempt after the run, or None.
    """

    run: Run | None
    lines: list[dict[str, Any]]
    failed: dict[str, str] | None = None


def write_result(path: Path, result: Result) -> None:
    """Writes a file of results, whole or not at all."""
    run = dataclasses.asdict(result.run) if result.run else None
    lines = [{"run": run, "failed": result.failed}, *result.lines]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def read_result(path: Path) -> Result:
    """Reads what `write_result` wrote.

    Raises:
        ValueError: a line is not as it was written; with file and line.
    """
    first, *others = path.read_bytes().splitlines() or [b""]
    head = parse_json(first, f"{path}, line 1", keys=["run", "failed"])
    try:
        run = Run(**head["run"]) if head["run"] is not None else None
    except TypeError as error:
        names = ", ".join(field.name for field in dataclasses.fields(Run))
        raise ValueError(
            f"{path}, line 1: `run` must have {names}. Received: {head['run']}. Run the benchmark "
            "again."
        ) from error
    lines = [
        parse_json(line, f"{path}, line {number}", keys=["benchmark"])
        for number, line in enumerate(others, 2)
    ]
    return Result(run, lines, head["failed"])


def read_results(folder: Path, names) -> dict[str, Result]:
    """Those of the names that have a file in the folder."""
    paths = {name: folder / f"{name}.jsonl" for name in names}
    return {name: read_result(path) for name, path in paths.items() if path.exists()}
