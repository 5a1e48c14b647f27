"""Charts: every point at its place, by the labels of the axes and a line through two of them."""

import random

import numpy as np
import pytest
from report_page import parse

from albert_keras.report.curves import Chart, Point, draw

ROUNDED = 0.051  # of a pixel: coordinates have one decimal


def chart(curve=(), **settings):
    return Chart("Loss", "nats", list(curve), "{:.3f}".format, **settings)


def drawn(chart, last_step, marks=()):
    return parse(draw(chart, last_step, marks)).one("svg")


def pixels(polyline):
    return np.array([[float(n) for n in pair.split(",")] for pair in polyline.split()])


def number(label):
    size = {"k": 1e3, "M": 1e6}.get(label[-1], 1)
    return float(label.removeprefix("step ").rstrip("kM").replace(",", "")) * size


def axis(svg, kind, coordinate):
    """A value's pixel, by the first and last label of an axis; all others must lie between."""
    labels = list(svg.all("text", class_=kind))
    values = np.array([number(label.text) for label in labels])
    places = np.array([float(label.attributes[coordinate]) for label in labels])

    def place(value):
        share = (np.asarray(value) - values[0]) / (values[-1] - values[0])
        return places[0] + share * (places[-1] - places[0])

    np.testing.assert_allclose(places, place(values), atol=2 * ROUNDED)
    return place


def inside(svg, points):
    """Whether points lie in the plot, whose edges the grid lines are."""
    grid = [line.attributes for line in svg.all("line", class_="grid")]
    left, right = float(grid[0]["x1"]), float(grid[0]["x2"])
    bottom, top = float(grid[0]["y1"]), float(grid[-1]["y1"])
    x, y = np.asarray(points).T
    return ((left <= x) & (x <= right) & (top <= y) & (y <= bottom)).all()


@pytest.mark.parametrize(
    "values,settings",
    [
        ([8.477, 7.055, 6.2, 6.3, 5.133], {}),
        ([0.035, 0.26, 0.51], {"scale": 100}),
        ([4.9e-4, 1.98e-3, 5.9e-7], {"from_zero": True}),
        ([12_416.2, 18_532.0, 24_001.7], {"from_zero": True}),
        ([-2.5, 0.5], {}),
        ([3.0], {}),
    ],
)
def test_the_curve_goes_through_its_values(values, settings):
    steps = [50 * (index + 1) for index in range(len(values))]
    svg = drawn(chart(zip(steps, values, strict=True), **settings), last_step=steps[-1] + 30)
    points = pixels(svg.one("polyline", class_="curve").attributes["points"])
    x, y = axis(svg, "x", "x"), axis(svg, "y", "y")
    np.testing.assert_allclose(points[:, 0], x(steps), atol=3 * ROUNDED)
    # The axes are the edges of the plot, and the labels stand at the grid lines.
    grid = [line.attributes for line in svg.all("line", class_="grid")]
    edges = [float(grid[0]["x1"]), float(grid[0]["x2"])]
    np.testing.assert_allclose(x([0, steps[-1] + 30]), edges, atol=3 * ROUNDED)
    labels = [label.attributes["y"] for label in svg.all("text", class_="y")]
    assert labels == [line["y1"] for line in grid]
    top, bottom = 20, 186  # of the plot
    assert [float(labels[-1]), float(labels[0])] == [top, bottom]
    scaled = settings.get("scale", 1) * np.array(values)
    np.testing.assert_allclose(points[:, 1], y(scaled), atol=3 * ROUNDED)
    assert inside(svg, points)


def test_an_axis_from_zero_begins_there_and_others_do_not():
    curve = [(1, 20_000.0), (2, 21_000.0)]
    lowest = [
        number(next(drawn(chart(curve, from_zero=zero), 2).all("text", class_="y")).text)
        for zero in (True, False)
    ]
    assert lowest == [0, 20_000]


def test_held_out_scores_stand_at_their_steps_with_their_intervals():
    points = [Point(100, 0.55, (0.53, 0.58)), Point(200, 0.6), Point(300, 0.687, (0.67, 0.7))]
    svg = drawn(
        chart([(10, 0.5), (300, 0.7)], scale=100, held_out={"novels": points}, baseline=("x", 0.5)),
        last_step=300,
    )
    x, y = axis(svg, "x", "x"), axis(svg, "y", "y")
    for circle, point in zip(svg.all("circle", class_="held-out"), points, strict=True):
        assert float(circle.attributes["cx"]) == pytest.approx(x(point.step), abs=3 * ROUNDED)
        assert float(circle.attributes["cy"]) == pytest.approx(
            y(100 * point.value), abs=3 * ROUNDED
        )
    having = [point for point in points if point.interval]
    for whisker, point in zip(svg.all("line", class_="whisker"), having, strict=True):
        low, high = (float(whisker.attributes[name]) for name in ("y1", "y2"))
        expected = y(100 * np.array(point.interval))
        np.testing.assert_allclose([low, high], expected, atol=3 * ROUNDED)
    baseline = svg.one("line", class_="baseline").attributes
    assert float(baseline["y1"]) == float(baseline["y2"]) == pytest.approx(y(50), abs=3 * ROUNDED)


def test_each_corpus_has_a_shape_of_its_own_and_its_name_beside_its_last_point():
    held_out = {
        name: [Point(1, 3.0 + index), Point(2, 2.5 + index)]
        for index, name in enumerate(["a", "b", "c", "d"])
    }
    svg = drawn(chart([(1, 4.0), (2, 3.0)], held_out=held_out), last_step=2)
    marks = list(svg.all(class_="held-out"))
    outlines = {
        mark.name
        + str(
            (pixels(mark.attributes["points"])[1:] - pixels(mark.attributes["points"])[0]).round(1)
        )
        if mark.name == "polygon"
        else mark.name
        for mark in marks
    }
    assert len(marks) == 8 and len(outlines) == 4
    names = {
        label.text.split()[-1]: float(label.attributes["y"]) for label in svg.all(class_="end")
    }
    assert list(names) == ["d", "c", "b", "training", "a"]  # from above


def test_labels_never_stand_on_each_other_nor_outside_of_the_plot():
    for values in ([5.0] * 8, [9.0, 8.99, 8.98, 0.0], [0.0, 0.01, 0.02, 9.0], [4.0, 4.1, 9.0, 0.0]):
        held_out = {str(index): [Point(1, value)] for index, value in enumerate(values)}
        svg = drawn(chart([(1, 4.05)], held_out=held_out), last_step=1)
        heights = [float(label.attributes["y"]) for label in svg.all(class_="end")]
        assert min(np.diff(heights)) >= 13 - ROUNDED
        assert inside(svg, [[100, heights[0]], [100, heights[-1]]])


def test_a_long_run_is_thinned_and_keeps_every_spike():
    draws = random.Random(0)
    curve = [(50 * step, 4 + draws.uniform(-0.1, 0.1)) for step in range(1, 20_001)]
    curve[12_345] = (curve[12_345][0], 9.0)
    curve[777] = (curve[777][0], 0.5)
    svg = drawn(chart(curve), last_step=curve[-1][0])
    points = pixels(svg.one("polyline", class_="curve").attributes["points"])
    columns = np.unique(points[:, 0].astype(int), return_counts=True)[1]
    assert len(points) < 1000 and columns.max() <= 4
    assert (np.diff(points[:, 0]) >= 0).all()
    x, y = axis(svg, "x", "x"), axis(svg, "y", "y")
    for place, step in ((points[:, 1].argmin(), 12_345), (points[:, 1].argmax(), 777)):
        expected = [x(curve[step][0]), y(curve[step][1])]
        np.testing.assert_allclose(points[place], expected, atol=3 * ROUNDED)
    np.testing.assert_allclose(points[-1], [x(curve[-1][0]), y(curve[-1][1])], atol=3 * ROUNDED)


def test_tooltips_say_the_values_of_the_file_and_are_few():
    curve = [(50 * step, 10 / step) for step in range(1, 1001)]
    svg = drawn(chart(curve), last_step=50_000)
    spots = [spot.one("title").text for spot in svg.all("circle", class_="spot")]
    known = {f"step {step:,}: {value:.3f}" for step, value in curve}
    assert len(spots) <= 40 and set(spots) <= known
    assert spots[-1] == "step 50,000: 0.010"


def test_events_are_lines_at_their_steps_and_numbers_that_do_not_overlap():
    marks = [("1", 100, "skipped"), ("2", 105, "loss spike"), ("3", 900, "collapse")]
    svg = drawn(chart([(50, 5.0), (1000, 4.0)]), 1000, marks)
    x = axis(svg, "x", "x")
    lines = [float(line.attributes["x1"]) for line in svg.all("line", class_="event")]
    np.testing.assert_allclose(lines, x([100, 105, 900]), atol=3 * ROUNDED)
    assert [label.text for label in svg.all("text", class_="event-name")] == ["1", "3"]
    titles = [group.one("title").text for group in svg.all("g")]
    assert titles[1] == "2: step 105, loss spike"


def test_the_chart_is_said_in_words_too():
    svg = drawn(
        chart(
            [(50, 8.4773), (3373, 5.1327)],
            held_out={"held out": [Point(3373, 4.694)]},
            baseline=("unigram entropy", 6.027),
        ),
        last_step=3373,
    )
    assert svg.attributes["role"] == "img"
    assert svg.attributes["aria-label"] == (
        "Loss, nats. Training: from 8.477 at step 50 to 5.133 at step 3,373. held out 4.694 at "
        "step 3,373. unigram entropy 6.027."
    )
