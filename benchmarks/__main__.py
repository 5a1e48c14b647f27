"""Every measurement and its page: `make bench`.

    python -m benchmarks                   # all that this revision has not measured on this machine
    python -m benchmarks depth scaling     # these, whether they have been measured or not
    python -m benchmarks --page            # only docs/benchmarks.md, from benchmarks/results/

Results are kept in benchmarks/results/, a file of JSON lines a benchmark, which appears when the
benchmark has ended; stop at any moment and start again. A benchmark that fails leaves its old
figures, which the page then marks, and the exit code is 1.
"""

import argparse
import os
import sys
import time
from dataclasses import replace

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.catalogue import BENCHMARKS, OF_PEERS
from benchmarks.circumstances import ROOT, machine, now, revision, versions_of_peers
from benchmarks.collecting import BenchmarkFailedError, collect
from benchmarks.page.results import Result, Run, read_results, write_result
from benchmarks.page.writing import write_page

RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--page", action="store_true", help="measure nothing")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown or (arguments.page and arguments.names):
        parser.error(
            "A benchmark must be one of the list, and --page measures none. Received: "
            f"{' '.join(argv or sys.argv[1:])}. The list: {', '.join(BENCHMARKS)}."
        )
    try:
        results = read_results(RESULTS, BENCHMARKS)
        failed = [] if arguments.page else measure(arguments.names, results)
        write_page(DOCS, results)
    except (ValueError, ImportError) as error:
        parser.exit(2, f"{error}\n")
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


def measure(names: list[str], results: dict[str, Result]) -> list[str]:
    """Runs benchmarks and puts their results beside the others; the names of those that fail."""
    here, at, peers = machine(), revision(), versions_of_peers()
    failed = []
    for name in names or BENCHMARKS:
        benchmark, old = BENCHMARKS[name], results.get(name)
        if benchmark.needs_data and not os.environ.get("ALBERT_KERAS_DATA"):
            say(f"{name} is left out: it needs ALBERT_KERAS_DATA.")
            continue
        commands = list(benchmark.commands)
        if benchmark.has_peers and not peers:
            say(f"{name} runs without the peers: `make .venv-parity/installed` makes theirs.")
            commands = [one for one in commands if one.split()[0] not in OF_PEERS]
        its_peers = peers if benchmark.has_peers else {}
        run = Run(now(), at, commands, here, its_peers, minutes=0)
        if not names and old and old.run and not old.failed and run.is_as(old.run):
            say(f"{name} is kept: measured at {at} on {old.run.date}.")
            continue
        say(f"{name}: about {benchmark.minutes} minutes.")
        start = time.monotonic()
        try:
            lines = collect(commands)
        except BenchmarkFailedError as error:
            say(f"{name} failed: {error}")
            failed.append(name)
            attempt = {"date": run.date, "revision": at, "reason": str(error)}
            result = replace(old or Result(None, []), failed=attempt)
        else:
            minutes = round((time.monotonic() - start) / 60, 1)
            result = Result(replace(run, minutes=minutes), lines)
        results[name] = result
        write_result(RESULTS / f"{name}.jsonl", result)
    return failed


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
