"""docs/benchmarks.md, made of the results alone: the same results give the same page."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from albert_keras.new_file import write_file
from benchmarks.catalogue import BENCHMARKS
from benchmarks.page.results import Result, Run
from benchmarks.page.sections import SECTIONS, Section
from benchmarks.page.tables import number, table

CHARTS = "benchmarks"  # the folder of the plots, beside the page
_HEAD = """\
<!-- Written by `python -m benchmarks --page` from benchmarks/results/: edit benchmarks/page/. -->

# Benchmarks

`make bench` measures all of this, in about {minutes} minutes on two quiet cores, with the peers
in an environment of their own (3.4 GB), and writes this page. Each part can be measured alone by
the command beside it, in that environment or by `make bench NAMES="depth scaling"`. What this
revision has measured on this machine is kept, so it goes on where it was stopped.
`python -m benchmarks --page` only writes the page again, from the lines in `benchmarks/results/`.
Where a part needs data, it reads the texts in `ALBERT_KERAS_DATA`; `--help` of its module says
how to name others.

A value with two in brackets is the median with the least and the greatest. Ratios are of one run.
"""


def write_page(docs: Path, results: Mapping[str, Result]) -> None:
    """Writes the page and its plots into a folder.

    Raises:
        ValueError: the lines of a benchmark lack something; with its name.
    """
    page, charts = render(results)
    (docs / CHARTS).mkdir(parents=True, exist_ok=True)
    for name, content in charts.items():
        write_file(docs / CHARTS / name, content)
    write_file(docs / "benchmarks.md", page)


def render(results: Mapping[str, Result]) -> tuple[str, dict[str, bytes]]:
    """The page, and the plots by their file names."""
    parts = [_HEAD.format(minutes=sum(benchmark.minutes for benchmark in BENCHMARKS.values()))]
    runs = sorted((r.run for r in results.values() if r.run), key=lambda run: run.date)
    newest = {}
    if runs:
        # The peers take part in some benchmarks only.
        peers = next((run.peers for run in reversed(runs) if run.peers), {})
        newest = _described(replace(runs[-1], peers=peers))
        parts.append(table(["measured on", ""], newest.items()) + "\n")
    charts = {}
    for name, section in SECTIONS.items():
        result = results.get(name) or Result(None, [])
        parts.append(_section(name, section, result, newest))
        if section.chart and result.lines:
            file, _, draw = section.chart
            charts[file] = _of(name, draw, result.lines)
    return "\n".join(parts), charts


def _described(run: Run) -> dict[str, str]:
    """Names and values of what figures depend on."""
    peers = {f"{name} (peer)": version for name, version in run.peers.items()}
    return {"revision": f"`{run.revision}`", **run.machine, **peers}


def _section(name: str, section: Section, result: Result, newest: Mapping[str, str]) -> str:
    minutes = BENCHMARKS[name].minutes
    parts = [
        f"## {section.title}",
        section.text,
        f"`python -m benchmarks {name}`, about {minutes} minutes.",
    ]
    if result.failed:
        failed = result.failed
        parts.append(
            f"**The last attempt failed**, on {_day(failed['date'])} at `{failed['revision']}`: "
            f"{failed['reason']}."
        )
    if not result.run:
        return "\n\n".join([*parts, "Not measured yet."]) + "\n"
    parts.append(_measured(result.run, newest))
    if BENCHMARKS[name].has_peers and not result.run.peers:
        parts.append("Measured without the peers: `make .venv-parity/installed` was not there.")
    if section.chart:
        file, description, _ = section.chart
        parts.append(f"![{description}]({CHARTS}/{file})")
    parts.append(_of(name, section.tables, result.lines))
    return "\n\n".join(parts) + "\n"


def _measured(run: Run, newest: Mapping[str, str]) -> str:
    """When, and what of it differs from the head of the page."""
    text = f"Measured on {_day(run.date)} in {number(run.minutes)} minutes."
    differences = [
        f"{name} {value}" for name, value in _described(run).items() if newest.get(name) != value
    ]
    return f"{text} **Older figures**: {', '.join(differences)}." if differences else text


def _day(date: str) -> str:
    return date.partition("T")[0]


def _of(name, function, lines):
    try:
        return function(lines)
    except (LookupError, TypeError, AttributeError, ValueError, StopIteration) as error:
        raise ValueError(
            f"The lines of {name} must be as its benchmark prints them. Received: something is "
            f"missing or of another type ({error!r}). Run `python -m benchmarks {name}` again."
        ) from error
