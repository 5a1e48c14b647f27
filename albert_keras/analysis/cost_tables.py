"""What configurations cost, as tables of text: a model beside the BERT of the same L and H."""

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from albert_keras.analysis.comparing import (
    PAPER_LENGTH,
    PAPER_SPEEDUPS,
    equal_steps,
    speedups_by_flops,
)
from albert_keras.analysis.costs import can_recompute, costs_of
from albert_keras.analysis.measuring import Measured, available_bytes, measured
from albert_keras.analysis.memory import PEAK, training_memory
from albert_keras.analysis.parameters import bert_of
from albert_keras.analysis.setting import Setting
from albert_keras.config import AlbertConfig

Models = Mapping[str, AlbertConfig]
# So often two models take turns, to be compared by time.
ROUNDS = 3


class Table(NamedTuple):
    """A table of text.

    Args:
        title: what it is of, with the unit.
        columns: their names, without that of the rows' names.
        rows: a name and a value for each column.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def beside_bert(name: str, config: AlbertConfig) -> Models:
    """A model by its name, and the BERT of the same L and H unless that is what it is."""
    bert = bert_of(config)
    return {name: config} if bert == config else {name: config, "BERT of its L and H": bert}


def cost_tables(models: Models, setting: Setting) -> list[Table]:
    """What some models cost in the same setting, and the speeds that the paper gives.

    Raises:
        ValueError: see `costs_of`.
    """
    found = {name: costs_of(config, setting) for name, config in models.items()}
    one = next(iter(found.values()))
    columns = list(found)
    shape = f"{setting.batch} x {setting.length}, {setting.policy}"
    if setting.recompute:
        shape += ", recomputed"

    def rows(part, shown):
        names = getattr(one, part)
        return [[name, *(shown(getattr(c, part)[name]) for c in found.values())] for name in names]

    def row(name, value, shown):
        return [name, *(shown(value(c)) for c in found.values())]

    def a_piece(flops):
        return f"{flops / setting.length / 1e6:,.1f}"

    return [
        Table(
            "parameters by part",
            columns,
            [
                *rows("parameters", _whole),
                row("encoder", lambda c: c.encoder_parameters, _whole),
                row("with the heads of pretraining", lambda c: sum(c.parameters.values()), _whole),
            ],
        ),
        Table(
            f"training, million FLOPs a piece, rows of {setting.length}",
            columns,
            [
                *rows("training_flops", a_piece),
                row("step", lambda c: c.training_row_flops, a_piece),
            ],
        ),
        Table(
            f"inference, million FLOPs a piece, rows of {setting.length}",
            columns,
            [
                *rows("inference_flops", a_piece),
                row("encoder", lambda c: c.inference_row_flops, a_piece),
                row("if lookups were one-hot products, more", lambda c: c.one_hot_flops, a_piece),
            ],
        ),
        Table(
            f"memory of training, MB, {shape}",
            columns,
            [*rows("training_memory", _megabytes), *_the_other_way(models, setting)],
        ),
        Table(f"memory of inference, MB, {shape}", columns, rows("inference_memory", _megabytes)),
        Table(
            "on disk and between devices, MB",
            columns,
            [
                row("checkpoint", lambda c: c.checkpoint_bytes, _megabytes),
                row("saved state of a run", lambda c: c.state_bytes, _megabytes),
                row("gradients to all-reduce, a step", lambda c: c.all_reduced_bytes, _megabytes),
            ],
        ),
        _paper_table(),
    ]


def _the_other_way(models, setting):
    """Rows of the same training with recomputation, or without where it is with."""
    if not all(map(can_recompute, models.values())):
        return []
    setting = dataclasses.replace(setting, recompute=not setting.recompute)
    how = "recomputed" if setting.recompute else "not recomputed"
    found = [training_memory(config, setting) for config in models.values()]
    return [
        [f"{name}, {how}", *(_megabytes(memory[name]) for memory in found)]
        for name in ("activations", PEAK)
    ]


def _paper_table():
    by_flops = speedups_by_flops()
    return Table(
        f"rows a second in training, BERT-large = 1, rows of {PAPER_LENGTH}",
        ["by FLOPs", "the paper's Table 2, on TPUs"],
        [[name, f"{by_flops[name]:.2f}", f"{paper:.1f}"] for name, paper in PAPER_SPEEDUPS.items()],
    )


def measured_tables(models: Models, setting: Setting) -> Iterator[Table]:
    """Predicted beside measured, in training and in inference, of one model after the other.

    One that this machine has no memory for is left out, and its table says so.
    """
    for name, config in models.items():
        predicted = costs_of(config, setting)
        for kind, flops, memory in (
            ("training", predicted.training_row_flops, predicted.training_memory),
            ("inference", predicted.inference_row_flops, predicted.inference_memory),
        ):
            columns = ["predicted", "measured", "ratio"]
            peak, free = memory[PEAK], available_bytes()
            if free is not None and free < peak:
                row = ["peak of the tensors, MB", _megabytes(peak), "not run", ""]
                rows = [row, ["free memory, MB", "", _megabytes(free), ""]]
            else:
                found = measured(config, setting, training=kind == "training")
                rows = _measured_rows(setting, flops * setting.batch, peak, found)
            shape = f"{setting.batch} x {setting.length}, {setting.policy}"
            yield Table(f"{name}, a step of {kind}, {shape}", columns, rows)


def _measured_rows(setting: Setting, flops: int, peak: int, found: Measured):
    seconds = flops / found.flops_per_second

    def row(name, predicted, actual, shown):
        if actual is None:
            return [name, shown(predicted), "not known", ""]
        return [name, shown(predicted), shown(actual), f"{predicted / actual:.2f}"]

    pieces = [setting.pieces / each for each in (seconds, found.seconds)]
    return [
        row("seconds, if there were but matrix products", seconds, found.seconds, _significant),
        row("pieces a second", *pieces, _significant),
        row("peak of the tensors, MB", peak, found.peak_bytes, _megabytes),
        ["peak of the process, MB", "", _megabytes(found.process_bytes), ""],
        ["matrix products, GFLOP/s", "", _significant(found.flops_per_second / 1e9), ""],
    ]


def matched_by_flops(models: Models, setting: Setting, steps: int) -> Table:
    """The steps of two models that take as many FLOPs in training."""
    first, second = (costs_of(config, setting).training_row_flops for config in models.values())
    return _matched("FLOPs", models, steps, [first / second])


def matched_by_time(models: Models, setting: Setting, steps: int) -> Table:
    """The steps of two models that take as long in training, by running both here.

    The two take turns, `ROUNDS` times: a machine that others use as well is slow to both. Given are
    the median and, in brackets, the lowest and the highest.

    Raises:
        ValueError: this machine has no memory for one of them.
    """
    for name, config in models.items():
        peak, free = costs_of(config, setting).training_memory[PEAK], available_bytes()
        if free is not None and free < peak:
            raise ValueError(
                "Both models must fit into memory to be run. Received: "
                f"{name}, which takes {_megabytes(peak)} MB of {_megabytes(free)} that are free. "
                "Lower --batch, give --recompute, or take --match-flops."
            )
    ratios = []
    for _ in range(ROUNDS):
        first, second = (
            measured(config, setting, training=True).seconds for config in models.values()
        )
        ratios.append(first / second)
    return _matched("time", models, steps, ratios)


def _matched(what: str, models: Models, steps: int, ratios: Sequence[float]) -> Table:
    """Of what a step of the first costs, by what one of the second does."""
    one, other = models
    back = [1 / ratio for ratio in ratios]
    return Table(
        f"training steps of equal {what}",
        [one, other],
        [
            [f"{steps:,} of {one}", f"{steps:,}", _steps(steps, ratios)],
            [f"{steps:,} of {other}", _steps(steps, back), f"{steps:,}"],
        ],
    )


def _steps(steps, ratios):
    lowest, median, highest = (
        f"{equal_steps(steps, ratio, 1):,}"
        for ratio in (min(ratios), statistics.median(ratios), max(ratios))
    )
    return median if lowest == highest else f"{median} ({lowest} to {highest})"


def _whole(number):
    return f"{number:,}"


def _megabytes(count):
    return f"{count / 1e6:,.1f}"


def _significant(number):
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
