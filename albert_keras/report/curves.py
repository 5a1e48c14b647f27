"""Line charts as inline SVG: one metric over the steps, with what it has to be compared with."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

from albert_keras.report.figures import grouped, nice_ticks, span, tick_labels
from albert_keras.report.markup import Markup, element

# In units of the drawing, which are pixels where a chart is as wide as this.
WIDTH, HEIGHT = 400, 208
LEFT, RIGHT, TOP, BOTTOM = 48, 292, 20, 186  # the edges of the plot
_LABELS = RIGHT + 9  # where the labels at the right begin
_LABEL_HEIGHT = 13
_MARK_WIDTH = 12
_TOOLTIPS = 40
_SHAPES = "circle", "square", "triangle", "diamond"


@dataclasses.dataclass(frozen=True)
class Point:
    """A held-out score at a step, with its 95 % interval where it has one."""

    step: int
    value: float
    interval: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Chart:
    """What a chart shows.

    Args:
        title: of the chart.
        unit: of the values, as the axis names it.
        curve: (step, value) of training, in the order of the steps.
        show: a value as its label.
        scale: what values are multiplied by for the axis. Default 1.
        held_out: name of a corpus -> its points, in the order of their steps.
        baseline: (name, value) of a line to compare with, or None.
        lower_is_better: decides on which side of its line the baseline is named.
        from_zero: whether the axis begins at 0.
        name: of the curve, beside its last value. Default "training".
    """

    title: str
    unit: str
    curve: Sequence[tuple[int, float]]
    show: Callable[[float], str]
    scale: int = 1
    held_out: dict[str, list[Point]] = dataclasses.field(default_factory=dict)
    baseline: tuple[str, float] | None = None
    lower_is_better: bool = False
    from_zero: bool = False
    name: str = "training"


def draw(chart: Chart, last_step: int, marks: Sequence[tuple[str, int, str]] = ()) -> Markup:
    """The chart as a figure.

    Args:
        chart: with at least one value.
        last_step: int > 0, where the axis of steps ends; the same for all charts of a page.
        marks: (label, step, text) of the events to mark.
    """
    scale = _Scale(chart, last_step)
    caption = element("figcaption", element("b", chart.title), " ", element("span", chart.unit))
    drawing = element(
        "svg",
        _axes(chart, scale),
        _marks(scale, marks),
        _curve(chart, scale),
        [
            _held_out(chart, scale, _SHAPES[number % len(_SHAPES)], name, points)
            for number, (name, points) in enumerate(chart.held_out.items())
        ],
        _baseline(chart, scale),
        _end_labels(chart, scale),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=_in_words(chart),
    )
    return element("figure", caption, drawing, class_="chart")


class _Scale:
    """Where steps and values lie in the drawing."""

    def __init__(self, chart, last_step):
        values = [value for _, value in chart.curve]
        for point in itertools.chain(*chart.held_out.values()):
            values += [point.value, *(point.interval or ())]
        if chart.baseline:
            values.append(chart.baseline[1])
        if chart.from_zero:
            values.append(0.0)
        self.ticks = nice_ticks(min(values), max(values), 6)
        self._last_step, self._low, self._high = last_step, self.ticks[0], self.ticks[-1]

    def x(self, step):
        return round(LEFT + (RIGHT - LEFT) * step / self._last_step, 1)

    def y(self, value):
        share = (value - self._low) / (self._high - self._low)
        return round(BOTTOM - (BOTTOM - TOP) * share, 1)

    def steps(self):
        return [step for step in nice_ticks(0, self._last_step, 5) if step <= self._last_step]


def _axes(chart, scale):
    parts = []
    labels = tick_labels([chart.scale * value for value in scale.ticks])
    for value, label in zip(scale.ticks, labels, strict=True):
        y = scale.y(value)
        parts += [
            element("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="grid"),
            element("text", label, x=LEFT - 6, y=y, class_="tick y"),
        ]
    steps = scale.steps()
    for step, label in zip(steps, tick_labels(steps), strict=True):
        x = scale.x(step)
        parts += [
            element("line", x1=x, x2=x, y1=BOTTOM, y2=BOTTOM + 4, class_="axis"),
            element("text", label if step else "step 0", x=x, y=BOTTOM + 16, class_="tick x"),
        ]
    parts.append(element("line", x1=LEFT, x2=RIGHT, y1=BOTTOM, y2=BOTTOM, class_="axis"))
    return parts


def _curve(chart, scale):
    if not chart.curve:
        return None
    corners = [f"{scale.x(step)},{scale.y(value)}" for step, value in thinned(chart.curve, scale)]
    every = -(-len(chart.curve) // _TOOLTIPS)
    spots = [
        element(
            "circle",
            element("title", f"step {grouped(step)}: {chart.show(value)}"),
            cx=scale.x(step),
            cy=scale.y(value),
            r=5,
            class_="spot",
        )
        # Counted from the end, so that the last value has one.
        for step, value in chart.curve[::-1][::every][::-1]
    ]
    return [element("polyline", points=" ".join(corners), class_="curve"), spots]


def thinned(curve: Sequence[tuple[int, float]], scale) -> list[tuple[int, float]]:
    """The first, lowest, highest and last of the values that share a pixel's column.

    A line through these looks as one through all of them: no spike is lost.
    """
    kept = []
    for _, column in itertools.groupby(curve, key=lambda pair: int(scale.x(pair[0]))):
        column = list(column)
        extremes = [min(column, key=lambda pair: pair[1]), max(column, key=lambda pair: pair[1])]
        kept += sorted({column[0], *extremes, column[-1]})
    return kept


def _baseline(chart, scale):
    if chart.baseline is None:
        return None
    name, value = chart.baseline
    y = scale.y(value)
    above = chart.lower_is_better if TOP + 14 < y < BOTTOM - 14 else y > BOTTOM - 15
    return [
        element("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="baseline"),
        element(
            "text",
            f"{name} {chart.show(value)}",
            x=RIGHT,
            y=round(y - 5 if above else y + 12, 1),
            class_="baseline-name",
        ),
    ]


def _held_out(chart, scale, shape, name, points):
    parts = []
    if len(points) > 1:
        corners = " ".join(f"{scale.x(point.step)},{scale.y(point.value)}" for point in points)
        parts.append(element("polyline", points=corners, class_="held-out-line"))
    for point in points:
        x, y = scale.x(point.step), scale.y(point.value)
        told = f"{name}, step {grouped(point.step)}: {chart.show(point.value)}"
        if point.interval:
            low, high = (scale.y(bound) for bound in point.interval)
            told += f" (95 %: {span(*point.interval, chart.show)})"
            parts.append(element("line", x1=x, x2=x, y1=low, y2=high, class_="whisker"))
        parts.append(_shape(shape, x, y, element("title", told)))
    return parts


def _shape(shape, x, y, *children):
    if shape == "circle":
        return element("circle", *children, cx=x, cy=y, r=3.5, class_="held-out")
    corners = {
        "square": [(-3, -3), (3, -3), (3, 3), (-3, 3)],
        "triangle": [(0, -4), (4, 3), (-4, 3)],
        "diamond": [(0, -4.5), (4.5, 0), (0, 4.5), (-4.5, 0)],
    }[shape]
    points = " ".join(f"{round(x + dx, 1)},{round(y + dy, 1)}" for dx, dy in corners)
    return element("polygon", *children, points=points, class_="held-out")


def _end_labels(chart, scale):
    """Names and last values at the right, each beside its point, apart from each other."""
    labels = []
    if chart.curve:
        labels.append((chart.curve[-1][1], chart.name, "curve-name"))
    for name, points in chart.held_out.items():
        labels.append((points[-1].value, name, "held-out-name"))
    labels.sort(key=lambda label: -label[0])
    heights = _apart([scale.y(value) for value, _, _ in labels])
    return [
        element(
            "text",
            element("title", f"{name} {chart.show(value)}"),
            element("tspan", chart.show(value), class_="value"),
            " ",
            _shortened(name, 15 - len(chart.show(value))),
            x=_LABELS,
            y=y,
            class_=f"end {kind}",
        )
        for y, (value, name, kind) in zip(heights, labels, strict=True)
    ]


def _apart(heights):
    """The same heights, rising, moved until none is closer than a label to the one before."""
    placed = []
    for height in heights:
        placed.append(max(height, placed[-1] + _LABEL_HEIGHT if placed else TOP))
    limit = BOTTOM
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], limit)
        limit = placed[index] - _LABEL_HEIGHT
    return [round(height, 1) for height in placed]


def _shortened(name, most):
    # The end, since names of corpora are paths.
    return name if len(name) <= most else "…" + name[1 - most :]


def _marks(scale, marks):
    parts, named = [], -_MARK_WIDTH
    for label, step, text in marks:
        x = scale.x(step)
        name = None
        if x - named >= _MARK_WIDTH:  # else it would stand over the one before
            name, named = element("text", label, x=x, y=TOP - 4, class_="event-name"), x
        parts.append(
            element(
                "g",
                element("title", f"{label}: step {grouped(step)}, {text}"),
                element("line", x1=x, x2=x, y1=TOP, y2=BOTTOM, class_="event"),
                name,
            )
        )
    return parts


def _in_words(chart):
    words = [f"{chart.title}{', ' if chart.unit else ''}{chart.unit}."]
    if chart.curve:
        (first, start), (last, end) = chart.curve[0], chart.curve[-1]
        words.append(
            f"Training: from {chart.show(start)} at step {grouped(first)} to "
            f"{chart.show(end)} at step {grouped(last)}."
        )
    for name, points in chart.held_out.items():
        words.append(f"{name} {chart.show(points[-1].value)} at step {grouped(points[-1].step)}.")
    if chart.baseline:
        words.append(f"{chart.baseline[0]} {chart.show(chart.baseline[1])}.")
    return " ".join(words)
