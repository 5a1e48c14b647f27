"""The curves of a run with its events on them, and the table of those."""

from albert_keras.report.curves import Chart, draw
from albert_keras.report.figures import grouped
from albert_keras.report.markup import Markup, element, section, table_head
from albert_keras.report.measures import MEASURES, Score
from albert_keras.report.run_record import RunRecord

_CHARTS = (
    *("loss", "mlm_loss", "mlm_accuracy", "sop_accuracy", "nsp_accuracy", "accuracy"),
    *("learning_rate", "tokens_per_second"),
)
_MOST_EVENTS = 50


def curves_section(run: RunRecord, scores: list[Score]) -> Markup | None:
    """A chart for each metric that the run has; None where it has none."""
    last = max([1, run.step, *(one.step for one in run.evaluations)])
    marks = [
        (str(number), event.step, event.kind)
        for number, event in enumerate(run.events[:_MOST_EVENTS], 1)
    ]
    charts = [_chart(key, run, [score for score in scores if score.key == key]) for key in _CHARTS]
    drawn = [draw(chart, last, marks) for chart in charts if chart is not None]
    if not drawn:
        return None
    lead = "Of training: each value is the mean of the steps since the one before."
    if any(score.key == "mlm_loss" for score in scores):
        lead += (
            " Held out, every masked piece is hidden, and in training some are left in place or "
            "replaced: the two losses do not compare exactly."
        )
    return section("Curves", lead, element("div", drawn, class_="charts"))


def _chart(key, run, scores):
    measure, curve = MEASURES[key], run.curve(key)
    if not curve and all(len(score.points) < 2 for score in scores):
        return None
    return Chart(
        title=measure.title,
        unit=measure.unit,
        curve=curve,
        show=measure.show,
        scale=100 if measure.unit == "%" else 1,
        held_out={score.corpus or "held out": score.points for score in scores},
        baseline=scores[0].baseline if scores else measure.baseline_in({}),
        lower_is_better=measure.lower_is_better,
        from_zero=measure.from_zero,
        name="training" if measure.compared else "",
    )


def events_section(run: RunRecord) -> Markup | None:
    """The events by the numbers that they have on the charts; None where there are none."""
    if not run.events:
        return None
    rows = [
        element(
            "tr",
            element("td", number, class_="number"),
            element("td", grouped(event.step), class_="number"),
            element("td", event.kind),
            element("td", event.text, class_="words"),
        )
        for number, event in enumerate(run.events[:_MOST_EVENTS], 1)
    ]
    heads = table_head("no.", "step", "what", "", numbers=("no.", "step"))
    table = element("table", heads, element("tbody", rows))
    more = len(run.events) - len(rows)
    return section(
        "Events",
        "Their numbers stand over the curves.",
        element("div", table, class_="scroll"),
        element("p", f"and {grouped(more)} more", class_="soft") if more else None,
    )
