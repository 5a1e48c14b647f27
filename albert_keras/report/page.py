"""write_report: a run's report.html, one file that needs nothing else."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

import tensorflow as tf

from albert_keras.new_file import write_file
from albert_keras.report.example_cards import example_card
from albert_keras.report.figures import grouped
from albert_keras.report.headline import headline
from albert_keras.report.machine import describe_machine
from albert_keras.report.markup import Markup, element, join, section
from albert_keras.report.masked_examples import GUESSES, masked_examples
from albert_keras.report.measures import scores_of
from albert_keras.report.run_charts import curves_section, events_section
from albert_keras.report.run_record import RunRecord, read_run
from albert_keras.report.score_tables import scores_section
from albert_keras.report.settings_tables import settings_tables
from albert_keras.report.style import STYLE
from albert_keras.run_folder import (
    BEST,
    CORPORA,
    EVALUATIONS,
    EVENTS,
    METRICS,
    MODEL,
    REPORT,
    SCORES,
    SETTINGS,
    STATE,
    TENSORBOARD,
    TEST,
    saved_steps,
)
from albert_keras.text.tokenizer import Tokenizer

_SERIOUS = "collapse", "diverged"  # events that stand at the top as well
_FILES = {
    SETTINGS: "the settings that the run began with",
    METRICS: "the numbers of the curves, a line an interval",
    EVALUATIONS: "held-out scores on the way",
    EVENTS: "what was worth a look, a line each",
    SCORES: "the held-out scores at the end",
    CORPORA: "what was read of each corpus",
    "predictions.tsv": "held-out examples with what the model says about them",
    "predictions.json": "the answers to the held-out questions, for the official script",
    "nbest_predictions.json": "for each of these the best answers, with probabilities",
    "null_odds.json": "how much speaks for no answer, for the official script",
    TEST: "predictions of the test set, with the file for the leaderboard",
    BEST: "the model with the best held-out scores so far",
    MODEL: "the model and its vocabulary, for load_albert and every command",
    STATE: "the saved steps, from which --resume goes on",
    TENSORBOARD: "the numbers of the curves for TensorBoard",
}
# A browser then runs and loads nothing, whatever stands in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_report(
    folder: str | Path,
    model: tf.keras.Model | None = None,
    tokenizer: Tokenizer | None = None,
    batches: Iterable[Mapping[str, tf.Tensor]] | None = None,
    *,
    running: bool | None = None,
) -> Path:
    """Writes `report.html` into the folder of a run: how far it is, curves, held-out scores, masked
    examples with the model's guesses, settings.

    The page is one file: no script, nothing loaded. What is missing or damaged among the run's
    files is said on it. The same files give the same page, on the same machine.

    Args:
        folder: of a run begun by `begin_run`, of pretraining or of fine-tuning.
        model: of `build_pretrainer`, for the masked examples. Without all three there are none.
        tokenizer: of the batches.
        batches: held-out ones, masked as in an evaluation.
        running: whether the training goes on. A process that has the run's lock and has ended its
            training says False. Default: whether some process has that lock.

    Returns:
        The path of the page.

    Raises:
        ValueError: there is no such folder.

    Example:

    >>> write_report("pretrained")
    PosixPath('pretrained/report.html')
    """
    run = read_run(folder, running)
    examples = []
    if model is not None and tokenizer is not None and batches is not None:
        examples = masked_examples(model, tokenizer, batches)
    scores = scores_of(run.evaluations)
    path = Path(folder) / REPORT
    write_file(
        path,
        _document(
            f"{_name(run)}: {_state(run)}",
            _header(run),
            _problems(run),
            headline(run, scores),
            curves_section(run, scores),
            events_section(run),
            scores_section(scores),
            _examples(examples),
            _settings(run),
            _files(run),
        ),
    )
    return path


def _document(title, *parts) -> Markup:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    return join(
        Markup("<!DOCTYPE html>\n"), element("html", head, element("body", *parts), lang="en"), "\n"
    )


def _name(run):
    return run.folder.resolve().name


def _state(run: RunRecord) -> str:
    if run.state == "finished":
        return f"finished after {grouped(run.total_steps or run.step)} steps"
    of = f" of {grouped(run.total_steps)}" if run.total_steps is not None else ""
    return f"{run.state} at step {grouped(run.step)}{of}"


def _header(run):
    saved = saved_steps(run.folder / STATE)
    go_on = None
    if run.state == "stopped" and saved:
        go_on = element(
            "p",
            f"Step {grouped(saved[-1])} is saved: the same command with ",
            element("code", "--resume"),
            " goes on from there.",
        )
    return element(
        "header",
        element("h1", _name(run)),
        element("p", element("span", _state(run).capitalize(), class_="state")),
        go_on,
        element("p", element("code", run.folder.resolve()), class_="soft anywhere"),
    )


def _problems(run):
    serious = [
        f"Step {grouped(event.step)}, {event.kind}: {event.text}"
        for event in run.events
        if event.kind in _SERIOUS
    ]
    items = [element("li", text) for text in [*serious, *run.problems]]
    return element("div", element("ul", items), class_="problems anywhere") if items else None


def _examples(examples):
    if not examples:
        return None
    hidden = [piece for example in examples for piece in example.hidden]
    pairs = [example.pair for example in examples if example.pair]
    found = f"{_right(hidden)} pieces are right"
    if pairs:
        found += f", and {_right(pairs)} pairs"
    cards = [example_card(number, example) for number, example in enumerate(examples, 1)]
    return section(
        "Masked examples",
        f"{len(examples)} held-out rows, those with two segments first. The marked pieces are "
        f"hidden from the model; below each text are its {GUESSES} most probable guesses, as the "
        f"vocabulary writes them. {found}.",
        element("div", cards, class_="examples"),
    )


def _right(answers):
    return f"{sum(answer.right for answer in answers)} of {len(answers)}"


def _settings(run):
    tables = settings_tables(run.settings, run.corpora, describe_machine())
    return section("Settings", f"As in {SETTINGS}.", element("div", tables, class_="settings"))


def _files(run):
    names = [path.name for path in run.folder.iterdir() if not path.name.startswith(".")]
    known = [name for name in _FILES if name in names]
    rest = sorted(name for name in names if name not in _FILES and name != REPORT)
    rows = [
        element(
            "tr",
            element("td", element("a", element("code", name), href=f"./{quote(name)}")),
            element("td", _FILES.get(name, "")),
        )
        for name in [*known, *rest]
    ]
    return section(
        "Files",
        "In the folder of the run, beside this page.",
        element("table", element("tbody", rows)),
    )
