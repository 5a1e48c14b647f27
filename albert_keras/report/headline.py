"""The figures at the top of a page: how far a run is, and how good its model is."""

from albert_keras.report.figures import duration, grouped, large, span
from albert_keras.report.markup import Markup, element, join
from albert_keras.report.measures import Score
from albert_keras.report.run_record import RunRecord

_SCORES = (
    *("mlm_loss", "mlm_accuracy", "sop_accuracy", "nsp_accuracy"),
    *("accuracy", "f1", "matthews", "pearson", "spearman"),
    *("squad_exact_match", "squad_exact", "squad_f1"),
)


def headline(run: RunRecord, scores: list[Score]) -> Markup:
    """Two groups of figures; the scores are those of the first corpus."""
    total = run.total_steps
    tiles = [
        _tile(
            "Steps",
            (grouped(run.step), ""),
            f"of {grouped(total)}" if total else None,
            element("progress", value=min(run.step, total), max=total) if total else None,
        )
    ]
    tokens = run.tokens_at(run.step)
    if tokens is not None:
        tiles.append(_tile("Tokens seen", large(tokens), _with_padding(run)))
        if run.seconds:
            speed = f"{grouped(tokens / run.seconds)} tokens/s"
            tiles.append(_tile("Time in training", (duration(run.seconds), ""), speed))
    groups = [_group("Training", tiles)]
    shown = [score for score in scores if score.key in _SCORES]
    if shown:
        shown = [score for score in shown if score.corpus == shown[0].corpus]
        corpus = [": ", element("bdi", shown[0].corpus)] if shown[0].corpus else None
        title = join("Held out", corpus, f", after step {grouped(shown[0].last.step)}")
        groups.append(_group(title, [_score_tile(score) for score in shown]))
    return element("div", groups, class_="groups")


def _with_padding(run):
    return "padding included" if run.tokens_per_example is None else "without padding"


def _group(title, tiles):
    return element("section", element("h3", title), element("dl", tiles, class_="tiles"))


def _tile(title, figure, *notes):
    value, unit = figure
    return element(
        "div",
        element("dt", title),
        element("dd", value, element("small", " ", unit) if unit else None, class_="figure"),
        [element("dd", note) for note in notes if note],
        class_="tile",
    )


def _score_tile(score):
    measure, last, best = score.measure, score.last, score.best
    return _tile(
        measure.title,
        (measure.show(last.value), "nats" if measure.lower_is_better else ""),
        f"95 %: {span(*last.interval, measure.show)}" if last.interval else None,
        score.verdict,
        f"best {measure.show(best.value)} at step {grouped(best.step)}" if best != last else None,
    )
