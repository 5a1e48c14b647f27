"""report.html: what a run's files say is on it, and nothing in them can do more than be read."""

import json
import re

import numpy as np
import pytest
from report_page import Node, read_page, rows_of

from albert_keras.report.page import write_report
from albert_keras.run_folder import only_process_in

CONFIG = {"vocab_size": 4000, "hidden_size": 128, "layer_norm_eps": 1e-12, "sharing": "all"}
RECIPE = {
    "sequence_length": 64,
    "batch_size": 32,
    "total_steps": 1000,
    "learning_rate": 0.00176,
    "max_predictions": None,
}
SHA256 = "8ef3c20a5c57f899e4d63699c1b56b24a7516fd59eb90f4b1e1a0272c7745871"
SHARDS = [
    {"name": "a", "records": 59_000, "tokens": 2_494_071, "bytes": 7_409_648, "sha256": SHA256},
    {"name": "b", "records": 537, "tokens": 29, "bytes": 52, "sha256": SHA256},
]
SETTINGS = {
    "records": [{"shards": SHARDS, "weight": 2.5}, {"shards": SHARDS[1:], "weight": None}],
    "vocabulary_sha256": SHA256,
    "config": CONFIG,
    "recipe": RECIPE,
}
SCORES = {
    "mlm_loss": 4.694467392786534,
    "mlm_accuracy": 0.22834722663602805,
    "mlm_accuracy_interval": [0.2243050592548018, 0.23244040949000702],
    "masked_tokens": 40907,
    "unigram_entropy": 6.026784083080601,
    "sop_loss": 0.5510904222385893,
    "sop_accuracy": 0.687243686596158,
    "sop_accuracy_interval": [0.6737433726298252, 0.7004337510406039],
    "sop_examples": 4633,
}


def metrics(steps, every=50):
    return [
        {
            "step": step,
            "loss": 9 - step / 250,
            "mlm_loss": 8 - step / 300,
            "mlm_accuracy": step / 4000,
            "sop_loss": 0.7,
            "sop_accuracy": 0.5 + step / 5000,
            "skipped_steps": 0,
            "learning_rate": 1e-5 * (step % 400),
            "tokens_per_second": 10_000 + step,
        }
        for step in range(every, steps + 1, every)
    ]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_run(folder, rows=None, settings=SETTINGS, scores=None, ended=False, **files):
    folder.mkdir()
    run = {"library_version": "0.1.0", "keras": 2, "settings": settings}
    (folder / "run.json").write_text(json.dumps(run))
    if rows is not None:
        write_lines(folder / "metrics.jsonl", rows)
    if scores is not None:
        (folder / "evaluation.json").write_text(json.dumps(scores))
    for name, lines in files.items():
        write_lines(folder / f"{name}.jsonl", lines)
    if ended:
        (folder / "model").mkdir()
    return folder


@pytest.fixture
def finished(tmp_path):
    return make_run(tmp_path / "run", metrics(1000), scores=SCORES, ended=True)


def page_of(run, *arguments, **options):
    path = write_report(run, *arguments, **options)
    assert path == run / "report.html"
    return read_page(path)


def tiles(page):
    return {
        tile.one("dt").text: [part.text for part in tile.all("dd")]
        for tile in page.all("div", "tile")
    }


def section(page, title):
    [found] = [part for part in page.all("section") if [h.text for h in part.all("h2")] == [title]]
    return found


def titles(page):
    return [heading.text for heading in page.all("h2")]


def problems(page):
    return [item.text for box in page.all("div", "problems") for item in box.all("li")]


def test_the_headline_has_the_numbers_of_the_files(finished):
    page = page_of(finished)
    assert page.one("head").one("title").text == "run: finished after 1,000 steps"
    rows = metrics(1000)
    seconds = sum(50 * 64 * 32 / row["tokens_per_second"] for row in rows)
    minutes, rest = divmod(round(seconds), 60)
    assert tiles(page) == {
        "Steps": ["1,000", "of 1,000", ""],
        "Tokens seen": ["2.05 million", "padding included"],
        "Time in training": [f"{minutes} min {rest} s", f"{2_048_000 / seconds:,.0f} tokens/s"],
        "Masked pieces, loss": ["4.694 nats", "1.332 below unigram entropy (6.027)"],
        "Masked pieces, right": ["22.8\u00a0%", "95 %: 22.4 to 23.2\u00a0%"],
        "Sentence order, right": [
            "68.7\u00a0%",
            "95 %: 67.4 to 70.0\u00a0%",
            "18.7 points above chance (50.0\u00a0%)",
        ],
    }
    assert problems(page) == []


def test_the_table_has_every_score(finished):
    table = rows_of(section(page_of(finished), "Held-out scores").one("table"))
    assert table == [
        ["", "last", "95 % interval", "step", "against", "mean of"],
        [
            "Masked pieces, loss nats a piece",
            "4.694",
            "",
            "1,000",
            "1.332 below unigram entropy (6.027)",
            "40,907 masked pieces",
        ],
        [
            "Masked pieces, right",
            "22.8\u00a0%",
            "22.4 to 23.2\u00a0%",
            "1,000",
            "",
            "40,907 masked pieces",
        ],
        [
            "Sentence order, right",
            "68.7\u00a0%",
            "67.4 to 70.0\u00a0%",
            "1,000",
            "18.7 points above chance (50.0\u00a0%)",
            "4,633 pairs",
        ],
        [
            "Sentence order, loss nats a pair",
            "0.551",
            "",
            "1,000",
            "0.142 below chance (0.693)",
            "4,633 pairs",
        ],
    ]


@pytest.mark.parametrize("interval,verdict", [([0.49, 0.53], "cannot be told from"), (None, "1.0")])
def test_an_interval_around_the_baseline_is_no_success(tmp_path, interval, verdict):
    scores = {"nsp_accuracy": 0.51, "nsp_accuracy_interval": interval}
    page = page_of(make_run(tmp_path / "run", metrics(100), scores=scores))
    [said] = [text for text in tiles(page)["Next sentence, right"] if "chance" in text]
    assert said.startswith(verdict) and said.endswith("chance (50.0\u00a0%)")


def test_every_metric_has_its_curve(finished):
    charts = list(section(page_of(finished), "Curves").all("figure"))
    shown = [chart.one("figcaption").text for chart in charts]
    assert shown == [
        "Loss nats",
        "Masked pieces, loss nats a piece",
        "Masked pieces, right %",
        "Sentence order, right %",
        "Learning rate ",
        "Speed tokens/s",
    ]
    last = metrics(1000)[-1]
    values = [chart.one(class_="curve-name").one("tspan").text for chart in charts]
    assert values == [
        f"{last['loss']:.3f}",
        f"{last['mlm_loss']:.3f}",
        f"{100 * last['mlm_accuracy']:.1f}\u00a0%",
        f"{100 * last['sop_accuracy']:.1f}\u00a0%",
        f"{last['learning_rate']:.3g}",
        f"{last['tokens_per_second']:,}",
    ]
    baselines = [[name.text for name in chart.all(class_="baseline-name")] for chart in charts]
    assert baselines == [
        [], ["unigram entropy 6.027"], [], ["chance 50.0\u00a0%"], [], []
    ]  # fmt: skip
    held_out = [[name.text for name in chart.all(class_="held-out-name")] for chart in charts]
    assert held_out[1:4] == [
        ["held out 4.6944.694 held out"],
        ["held out 22.8\u00a0%22.8\u00a0% held out"],
        ["held out 68.7\u00a0%68.7\u00a0% held out"],
    ]


def test_the_state_is_finished_stopped_or_running(tmp_path):
    run = make_run(tmp_path / "run", metrics(400))
    (run / "training").mkdir()
    for step in (300, 400, 1000):
        (run / "training" / f"step-{step}.index").write_bytes(b"")
    (run / "training" / "step-1000.index").rename(run / "training" / "damaged-step-1000.index")
    state = "Stopped at step 400 of 1,000"
    page = page_of(run)
    assert page.one("span", "state").text == state
    assert "Step 400 is saved: the same command with --resume goes on from there." in page.text
    assert page.one("progress").attributes == {"value": "400", "max": "1000"}
    with only_process_in(run):
        page = page_of(run)
        assert page.one("span", "state").text == "Running at step 400 of 1,000"
        assert "--resume goes on from there" not in page.text
        # The process that holds the lock says itself that it has stopped.
        assert page_of(run, running=False).one("span", "state").text == state
    (run / "model").mkdir()
    assert page_of(run).one("span", "state").text == "Finished after 1,000 steps"


def test_several_corpora_are_told_apart_with_their_best_steps(tmp_path):
    evaluations = [
        {
            "step": step,
            "loss": loss,
            "best": step == 400,
            "novels": {**SCORES, "mlm_loss": loss},
            "wikipedia": {**SCORES, "mlm_loss": loss + 1, "unigram_entropy": 5.5},
        }
        for step, loss in ((200, 6.0), (400, 5.25), (600, 5.5))
    ]
    run = make_run(tmp_path / "run", metrics(600), evaluations=evaluations)
    page = page_of(run)
    head, *rows = rows_of(section(page, "Held-out scores").one("table"))
    assert head[0] == "corpus" and head[5:7] == ["best", "at step"]
    losses = [row for row in rows if "loss nats a piece" in row[1] or row[1] == "Loss nats"]
    assert losses == [
        ["mean of all", "Loss nats", "5.500", "", "600", "5.250", "400", "", ""],
        *(
            [
                corpus,
                "Masked pieces, loss nats a piece",
                *(last, "", "600", best, "400"),
                verdict,
                "40,907 masked pieces",
            ]
            for corpus, last, best, verdict in (
                ("novels", "5.500", "5.250", "0.527 below unigram entropy (6.027)"),
                ("wikipedia", "6.500", "6.250", "1.000 above unigram entropy (5.500)"),
            )
        ),
    ]
    assert tiles(page)["Masked pieces, loss"][-1] == "best 5.250 at step 400"
    assert "Held out: novels, after step 600" in page.text
    chart = list(section(page, "Curves").all("figure"))[1]
    assert [line.attributes["points"].count(",") for line in chart.all(class_="held-out-line")] == [
        3,
        3,
    ]


def test_the_scores_at_the_end_replace_those_on_the_way(tmp_path):
    """They are of all held-out rows, not of the first ones."""
    evaluations = [{"step": step, "loss": 5.5, "mlm_loss": 5.0} for step in (500, 1000)]
    run = make_run(
        tmp_path / "run", metrics(1000), scores={"mlm_loss": 4.5}, evaluations=evaluations
    )
    page = page_of(run)
    assert [row[:6] for row in rows_of(section(page, "Held-out scores").one("table"))[1:]] == [
        ["Loss nats", "5.500", "", "1,000", "5.500", "500"],
        ["Masked pieces, loss nats a piece", "4.500", "", "1,000", "4.500", "1,000"],
    ]
    chart = list(section(page, "Curves").all("figure"))[1]
    assert len(list(chart.all("circle", "held-out"))) == 2


def test_events_have_numbers_that_stand_on_the_curves(tmp_path):
    rows = metrics(600)
    rows[3]["skipped_steps"] = 2
    rows[9] = {key: rows[9][key] for key in ("step", "learning_rate", "tokens_per_second")}
    rows[9]["skipped_steps"] = 50
    events = [
        {"step": 550, "kind": "collapse", "text": "The model still guesses by frequency."},
        {"step": 300, "kind": "loss_spike", "text": "The loss rose."},
    ]
    page = page_of(make_run(tmp_path / "run", rows, events=events))
    assert rows_of(section(page, "Events").one("table")) == [
        ["no.", "step", "what", ""],
        [
            "1",
            "200",
            "skipped",
            "2 steps of steps 151 to 200 changed nothing: the gradient was not finite.",
        ],
        ["2", "300", "loss spike", "The loss rose."],
        [
            "3",
            "500",
            "skipped",
            "50 steps of steps 451 to 500 changed nothing: the gradient was not finite.",
        ],
        ["4", "550", "collapse", "The model still guesses by frequency."],
    ]
    for chart in section(page, "Curves").all("figure"):
        assert [mark.text for mark in chart.all(class_="event-name")] == ["1", "2", "3", "4"]
    assert problems(page)[0] == "Step 550, collapse: The model still guesses by frequency."


def test_longer_rows_count_as_many_tokens_and_are_marked(tmp_path):
    recipe = {**RECIPE, "long_steps": 200, "long_length": 256}
    settings = {**SETTINGS, "recipe": recipe}
    rows = metrics(900)
    page = page_of(make_run(tmp_path / "run", rows, settings))
    tokens = 32 * (64 * 800 + 256 * 100)
    assert tiles(page)["Tokens seen"][0] == f"{tokens / 1e6:.3g} million"
    seconds = sum(
        50 * 32 * (64 if row["step"] <= 800 else 256) / row["tokens_per_second"] for row in rows
    )
    assert tiles(page)["Time in training"][1] == f"{tokens / seconds:,.0f} tokens/s"
    assert rows_of(section(page, "Events").one("table"))[1] == [
        "1",
        "801",
        "longer rows",
        "From here on rows have 256 pieces.",
    ]


def test_the_settings_are_readable(finished):
    seen = [
        {"folder": f"records/{name}", "share": 0.25, "rows": 8000, "epochs": 0.46} for name in "ab"
    ]
    (finished / "corpora.json").write_text(json.dumps({"records": seen}))
    part = section(page_of(finished), "Settings")
    tables = {found.one("h3").text: rows_of(found.one("table")) for found in part.all("section")}
    assert tables["Model"] == [
        ["vocab_size", "4,000"],
        ["hidden_size", "128"],
        ["layer_norm_eps", "1e-12"],
        ["sharing", "all"],
    ]
    assert ["learning_rate", "0.00176"] in tables["Recipe"]
    assert ["max_predictions", "not set"] in tables["Recipe"]
    assert tables["Run"] == [
        ["vocabulary_sha256", SHA256[:12]],
        ["albert_keras", "0.1.0"],
        ["Keras", "2"],
    ]
    assert tables["Records"] == [
        ["shards", "weight", "records", "tokens", "bytes"],
        ["2", "2.5", "59,537", "2,494,100", "7,409,700"],
        ["1", "not set", "537", "29", "52"],
    ]
    assert tables["Read of the records"] == [
        ["folder", "share", "rows", "epochs"],
        ["records/a", "0.25", "8,000", "0.46"],
        ["records/b", "0.25", "8,000", "0.46"],
    ]
    machine = dict(tables["This page was written on"])
    assert machine["NumPy"] == np.__version__ and "cores" in machine["processor"]
    [code] = [code for code in part.all("code")]
    assert code.attributes["title"] == SHA256


def test_files_are_linked_from_beside_the_page(finished):
    for name in ("notes: 50%.txt", ".hidden"):
        (finished / name).write_text("")
    page_of(finished)
    part = section(page_of(finished), "Files")
    links = [(link.text, link.attributes["href"]) for link in part.all("a")]
    assert links == [
        ("run.json", "./run.json"),
        ("metrics.jsonl", "./metrics.jsonl"),
        ("evaluation.json", "./evaluation.json"),
        ("model", "./model"),
        ("notes: 50%.txt", "./notes%3A%2050%25.txt"),
    ]


def test_a_fine_tuning_run_has_labels_in_place_of_pieces(tmp_path):
    rows = [
        {"step": step, "loss": 2 - step / 200, "accuracy": step / 500, "learning_rate": 1e-3}
        for step in (100, 200)
    ]
    scores = {
        "accuracy": 0.5386,
        "accuracy_interval": [0.5179, 0.5592],
        "examples": 2228,
        "majority": 0.1346,
        "labels": ["a", "b"],
        "confusion": [[1, 2], [3, 4]],
    }
    settings = {"recipe": {"max_length": 64, "batch_size": 8, "total_steps": 200}, "labels": ["a"]}
    page = page_of(make_run(tmp_path / "run", rows, settings, scores, ended=True))
    assert tiles(page)["Answers, right"] == [
        "53.9\u00a0%",
        "95 %: 51.8 to 55.9\u00a0%",
        "40.4 points above most frequent label (13.5\u00a0%)",
    ]
    assert tiles(page)["Tokens seen"][0] == "102,400"
    charts = [chart.one("figcaption").text for chart in page.all("figure")]
    assert charts == ["Loss nats", "Answers, right %", "Learning rate "]
    assert titles(page) == ["Curves", "Held-out scores", "Settings", "Files"]
    assert "unigram" not in page.text


def test_a_run_without_anything_has_a_page_that_says_so(tmp_path):
    page = page_of(make_run(tmp_path / "run"))
    assert problems(page) == [
        "No interval of training has been logged yet, so there are no curves.",
        "There are no held-out scores, or not yet: they need --dev.",
    ]
    assert page.one("span", "state").text == "Stopped at step 0 of 1,000"
    assert titles(page) == ["Settings", "Files"]
    (tmp_path / "empty").mkdir()
    page = page_of(tmp_path / "empty")
    assert problems(page)[-1].startswith("A file must be there and readable. Received: ")
    assert page.one("span", "state").text == "Stopped at step 0"


def test_what_is_damaged_is_said_and_the_rest_is_shown(tmp_path):
    run = make_run(tmp_path / "run", metrics(300), scores=SCORES)
    whole = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    damaged = [b'{"step": 7\n', b"[]\n", b'{"step": "8"}\n', b"\xff\xfe\n", b'{"loss": 1}\n']
    lines = [*whole[:2], *damaged, *whole[2:], b'{"step": 350, "lo']
    (run / "metrics.jsonl").write_bytes(b"".join(lines))
    (run / "evaluation.json").write_text('{"mlm_loss": 4.')
    (run / "evaluations.jsonl").write_text('{"step": 100, "mlm_loss": NaN, "mlm_accuracy": 0.2}\n')
    page = page_of(run)
    assert problems(page) == [
        "metrics.jsonl: 6 lines are damaged and left out (line 3, 4, 5, 6, 7, ...).",
        "evaluations.jsonl: 1 value is not finite and left out.",
        *[text for text in problems(page) if "evaluation.json is damaged or cut off" in text],
    ]
    assert len(problems(page)) == 3
    assert tiles(page)["Steps"][0] == "300"
    assert tiles(page)["Masked pieces, right"] == ["20.0\u00a0%"]
    (run / "run.json").write_text("{")
    (run / "corpora.json").write_text('{"records": ["novels"]}')
    page = page_of(run)
    assert any("run.json is damaged or cut off" in text for text in problems(page))
    assert "corpora.json is damaged and left out." in problems(page)
    assert page.one("span", "state").text == "Stopped at step 300"


@pytest.mark.parametrize(
    "settings",
    [
        None,
        [],
        {"recipe": 3},
        {"recipe": {"total_steps": "many", "batch_size": 1e9}},
        {"records": [{}]},
    ],
)
def test_settings_of_an_unknown_form_are_no_obstacle(tmp_path, settings):
    page = page_of(make_run(tmp_path / "run", metrics(100), settings))
    assert page.one("span", "state").text == "Stopped at step 100"
    assert list(tiles(page)) == ["Steps"]


def test_numbers_of_any_size_can_be_drawn(tmp_path):
    rows = metrics(200)
    rows[0] |= {"loss": 1e308, "mlm_loss": 10**400, "learning_rate": -1e-300}
    rows[1] |= {"loss": float("inf"), "sop_accuracy": True, "tokens_per_second": 0}
    rows[2] |= {"mlm_accuracy": "0.5", "learning_rate": 5e-324}
    page = page_of(make_run(tmp_path / "run", rows))
    assert "Time in training" not in tiles(page)
    for polyline in page.all("polyline"):
        assert re.fullmatch(r"[\d., ]+", polyline.attributes["points"])


def test_a_page_needs_nothing_else_and_runs_nothing(finished):
    page = page_of(finished)
    for element in page.all():
        assert element.name not in ("script", "link", "img", "iframe", "object", "base", "form")
        for name, value in element.attributes.items():
            assert not name.startswith("on") and name not in ("src", "srcset", "style", "action")
            assert "://" not in value and "javascript:" not in value
            assert name != "href" or value.startswith("./")
    style = page.one("style").text
    assert "url(" not in style and "@import" not in style and "<" not in style
    [policy] = [
        meta.attributes["content"]
        for meta in page.all("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert page.one("html").attributes["lang"] == "en"
    for scheme in ("prefers-color-scheme: dark", "@media print", "max-width"):
        assert scheme in style


def test_one_page_has_one_text(finished):
    first = write_report(finished).read_bytes()
    assert write_report(finished).read_bytes() == first
    assert sorted(path.name for path in finished.iterdir() if path.name.startswith(".")) == []


def test_a_page_that_cannot_be_written_leaves_the_one_before(finished, monkeypatch):
    before = write_report(finished).read_bytes()
    write_lines(finished / "metrics.jsonl", metrics(500))

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(finished)
    assert (finished / "report.html").read_bytes() == before
    assert not [path for path in finished.iterdir() if path.name.startswith(".")]


def test_there_must_be_a_folder(tmp_path):
    with pytest.raises(ValueError, match="A run is a folder. Received: .*nothing, which is none"):
        write_report(tmp_path / "nothing")


NAUGHTY = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<!-- a comment",
    "&lt;b&gt; &#60;b&#62; &amp;",
    "]]><![CDATA[",
    "\u202ereversed\u202c \u200b\ufeff",
    "\x00\x07\x1b[31m\x7f\x85",
    "javascript:alert(1)",
    "https://example.com/x.js",
    "{{7*7}} ${7*7} %s %n",
    "ผู้ 田中 👾 עברית",
]


def shape(node):
    """The elements of a page without their texts and the values of their attributes."""
    children = [shape(child) for child in node.children if isinstance(child, Node)]
    return node.name, sorted(node.attributes), children


def naughty_run(folder, text):
    evaluation = {"step": 100, text: SCORES, text + "2": SCORES}
    return make_run(
        folder,
        metrics(200),
        {**SETTINGS, "config": {text: text, "labels": [text, 3]}, text: [{text: text}], "x": text},
        evaluations=[evaluation],
        events=[{"step": 100, "kind": text, "text": text}],
    )


def printable(text):
    """HTML has no control characters."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)


def assert_harmless(tmp_path, texts):
    plain = shape(page_of(naughty_run(tmp_path / "plain", "plain")))
    for number, text in enumerate(texts):
        page = page_of(naughty_run(tmp_path / str(number), text))
        assert shape(page) == plain, text
        events = rows_of(section(page, "Events").one("table"))
        assert events[1][3] == printable(text)
        assert [text.text for text in page.all("bdi")][0] == printable(text)


def test_no_text_of_a_run_can_become_markup(tmp_path):
    assert_harmless(tmp_path, NAUGHTY)


def test_none_of_the_naughty_strings_can_either(tmp_path, data_folder):
    strings = json.loads((data_folder / "robustness" / "blns.json").read_text())
    # One page for twenty, joined: each would take a second in all.
    groups = [" ".join(strings[start : start + 20]) for start in range(0, len(strings), 20)]
    assert_harmless(tmp_path, groups)


def test_the_name_of_a_folder_is_a_text_too(tmp_path):
    run = make_run(tmp_path / "<b>&quot;\udcff", metrics(100))
    page = read_page(write_report(run))
    assert page.one("h1").text == "<b>&quot;\ufffd"
