"""Time and memory of a training step against length, batch and depth.

    python -m benchmarks.scaling
    python -m benchmarks.scaling --layers 1 2 --batches 1 2 --lengths 64 128 --rounds 1

One of the three is varied, the others stay at `--at`: layers, rows, length. A preset with all
layers shared, in float32, with and without recomputation; each depth is a process, whose model
takes its shapes in turn, round by round, so a machine that gets slower or faster favours none. The
first round, in which every shape is met for the first time, is not counted.

One JSON line a point: `step_seconds` by the clock, median, least and most over the rounds;
`processor_seconds`, their median; `step_mb`, the most that the step's tensors take beside the
weights and moments that are there before; and in `varied` in which of the three series it stands.
"""

import argparse
import json
import statistics
import subprocess
import sys

from benchmarks.step_costs import step_costs


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="base")
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 3, 6, 12, 24])
    parser.add_argument("--at", type=int, nargs=3, default=[12, 8, 128])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--of-layers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--recompute", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    points = series(arguments)
    if arguments.of_layers:
        measure(arguments, points)
        return
    for layers in sorted({layers for layers, _, _ in points}):
        for recompute in ([], ["--recompute"]):
            options = [*argv, "--of-layers", str(layers), *recompute]
            subprocess.run([sys.executable, "-m", "benchmarks.scaling", *options], check=True)


def series(arguments) -> dict[tuple[int, int, int], list[str]]:
    """Layers, rows and length of each point, to the series in which it stands."""
    layers, rows, length = arguments.at
    points = {}
    for name, its_points in {
        "length": [(layers, rows, one) for one in arguments.lengths],
        "batch": [(layers, one, length) for one in arguments.batches],
        "depth": [(one, rows, length) for one in arguments.layers],
    }.items():
        for point in its_points:
            points.setdefault(point, []).append(name)
    return points


def measure(arguments, points):
    """Prints the lines of one depth."""
    points = {point: varied for point, varied in points.items() if point[0] == arguments.of_layers}
    shapes = [(rows, length) for _, rows, length in points]
    _, steps = step_costs(
        *(arguments.preset, arguments.of_layers, arguments.recompute),
        shapes * (1 + arguments.rounds),
    )
    for place, ((layers, rows, length), varied) in enumerate(points.items()):
        counted = steps[len(shapes) + place :: len(shapes)]
        clock = [step["clock_seconds"] for step in counted]
        line = {
            "benchmark": "scaling",
            "preset": arguments.preset,
            "layers": layers,
            "rows": rows,
            "length": length,
            "recompute": arguments.recompute,
            "varied": varied,
            "rounds": arguments.rounds,
            "step_seconds": [round(f(clock), 4) for f in (statistics.median, min, max)],
            "processor_seconds": round(
                statistics.median(step["processor_seconds"] for step in counted), 4
            ),
            "step_mb": round(max(step["megabytes"] for step in counted), 1),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
