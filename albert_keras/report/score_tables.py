"""All held-out scores in a table."""

from albert_keras.report.figures import grouped, span
from albert_keras.report.markup import Markup, element, section, table_head
from albert_keras.report.measures import Score


def scores_section(scores: list[Score]) -> Markup | None:
    """The table with its heading; None without scores."""
    if not scores:
        return None
    several = len({score.corpus for score in scores}) > 1
    repeated = any(len(score.points) > 1 for score in scores)
    names = ["last", "95 % interval", "step", *(["best", "at step"] if repeated else [])]
    rows = []
    for score in scores:
        measure, last, best = score.measure, score.last, score.best
        cells = [
            measure.show(last.value),
            span(*last.interval, measure.show) if last.interval else "",
            grouped(last.step),
            *([measure.show(best.value), grouped(best.step)] if repeated else []),
        ]
        rows.append(
            element(
                "tr",
                element("td", element("bdi", score.corpus or "mean of all"), class_="name")
                if several
                else None,
                element("th", measure.title, *_unit(measure), scope="row"),
                [element("td", cell, class_="number") for cell in cells],
                element("td", score.verdict or ""),
                element("td", score.count or ""),
            )
        )
    heads = table_head(
        *(["corpus"] if several else []), "", *names, "against", "mean of", numbers=names
    )
    lead = "On data that was not trained on."
    if any(score.key == "mlm_loss" for score in scores):
        lead += (
            " The unigram entropy is the loss of guessing by frequency alone on the same pieces: "
            "a loss below it is knowledge of context."
        )
    table = element("table", heads, element("tbody", rows))
    return section("Held-out scores", lead, element("div", table, class_="scroll"))


def _unit(measure):
    return (" ", element("span", measure.unit, class_="soft")) if measure.lower_is_better else ()
