"""Ablations: the cells as data, what makes them comparable, and a miniature of a table."""

import csv
import json
import os
import signal
import time

import numpy as np
import pytest

from albert_keras import build_albert
from examples.ablations.__main__ import main
from examples.ablations.budget import matched_steps, step_flops
from examples.ablations.cells import BASE, TABLES, THREE, Cell, Table, cells_of
from examples.ablations.experiment import Experiment, prepare
from examples.ablations.measures import encoder_parameters, median_and_spread
from examples.ablations.running import Run, Worker, run_cells
from examples.ablations.tables import write_results
from tests.kill_and_resume import ROOT

pytest.importorskip("matplotlib", reason="the plots need the extra `plots`")


def test_the_tables_have_the_cells_of_the_paper_s():
    table3 = TABLES["table3"].rows.values()
    assert {(cell.sharing, cell.embedding_size) for cell in table3} == {
        (sharing, size) for sharing in ("all", "none") for size in (16, 32, 64, 128)
    }
    assert list(TABLES["table4"].rows) == [("all",), ("attention",), ("ffn",), ("none",)]
    groups = TABLES["groups"].rows
    pattern = groups["groups of 3",].config(100, 16).sharing_pattern
    assert pattern.attention == pattern.ffn == (0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3)
    pattern = groups["6 own then 6 shared",].config(100, 16).sharing_pattern
    assert pattern.attention == pattern.ffn == (0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6)
    assert [cell.objective for cell in TABLES["table5"].rows.values()] == ["none", "nsp", "sop"]
    assert {cell.dropout for cell in TABLES["table8"].rows.values()} == {0.0, 0.1}
    assert all(len(key) == len(table.columns) for table in TABLES.values() for key in table.rows)


def test_equal_cells_of_several_tables_are_one():
    of_each = [table.cells() for table in TABLES.values()]
    assert sum(BASE in cells for cells in of_each) == 4  # Tables 3, 4, 5 and 8
    assert sum(THREE in cells for cells in of_each) == 4  # and 3, 11, 12 and the groups
    cells = list(cells_of(list(TABLES)))
    assert len(cells) == len(set(cells)) == len({cell.name for cell in cells})
    assert set(cells) == {cell for one in of_each for cell in one}


def test_a_cell_stands_after_the_one_that_it_grows_from():
    cells = list(cells_of(["table13", "table11"]))
    for place, cell in enumerate(cells):
        assert cell.grown_from is None or cell.grown_from in cells[:place]
    (shares,) = (
        [one.share for one in cell.chain()]
        for cell in TABLES["table11"].rows.values()
        if cell.share < 1
    )
    assert shares == [0.25] * 4  # one budget for all depths together


def test_flops_of_a_step_are_those_counted_by_hand():
    config = Cell(hidden_size=32, embedding_size=8, num_hidden_layers=2).config(100, 16)
    row = 16 * 8 * 32  # projection
    row += 2 * 16 * 4 * 32 * 32  # queries, keys, values, outputs
    row += 2 * 2 * 16 * 16 * 32  # scores and their sums of values
    row += 2 * 16 * 2 * 32 * 128  # up and down
    row += 2 * (32 * 8 + 8 * 100)  # 15 % of 16 pieces are 2
    row += 32 * 32 + 32 * 2  # pooler and order
    assert step_flops(config, length=16, batch=4, mask_rate=0.15) == 3 * 2 * 4 * row


def test_sharing_changes_no_flops_and_depth_does(tmp_path):
    experiment = Experiment(tmp_path, match="flops", steps=1000)
    assert experiment.flops(Cell(sharing="none")) == experiment.flops(BASE)
    assert experiment.steps_of(BASE) == 1000
    double = Cell(num_hidden_layers=6)
    ratio = experiment.flops(double) / experiment.flops(BASE)
    assert 1.8 < ratio < 2  # the heads cost the same
    assert experiment.steps_of(double) == round(1000 / ratio)
    assert Experiment(tmp_path, steps=1000).steps_of(Cell(share=0.25)) == 250
    assert matched_steps(1000, 500, 200) == 400
    assert matched_steps(1, 500, 200) == 1


@pytest.mark.parametrize(
    "cell",
    [
        BASE,
        THREE,
        Cell(embedding_size=64, sharing="none", num_hidden_layers=3),
        Cell(sharing="ffn", num_hidden_layers=2),
        TABLES["groups"].rows["6 own then 6 shared",],
    ],
    ids=lambda cell: cell.name,
)
def test_parameters_are_those_of_the_model(cell):
    config = cell.config(200, 16)
    assert encoder_parameters(config) == build_albert(config).count_params()


def test_median_and_spread_are_numpys():
    values = np.random.default_rng(0).normal(size=6)
    assert median_and_spread(values) == (np.median(values), np.min(values), np.max(values))


SHALLOW = Cell(hidden_size=32, embedding_size=8, num_hidden_layers=1)
DEEP = Cell(hidden_size=32, embedding_size=8, num_hidden_layers=2, grown_from=SHALLOW)
MINIATURE = Table("A miniature", ("L",), {("1",): SHALLOW, ("2",): DEEP}, "It has no such table.")
SMALL = {"steps": 12, "length": 32, "batch": 4, "vocab_size": 250}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with the text, and a whole experiment whose first run was killed on the way."""
    folder = tmp_path_factory.mktemp("ablations")
    text = folder / "text"
    text.mkdir()
    paragraphs = (ROOT / "LICENSE").read_text().split("\n\n")
    for part in range(2):
        lines = [" ".join(paragraph.split()) for paragraph in paragraphs[part::2]]
        (text / f"{part}.txt").write_text("\n\n".join(lines))
    experiment = Experiment(folder / "out", save_every=4, **SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        prepare(experiment, [text])
        worker = Worker(experiment, Run(SHALLOW, 0), threads=1)
        worker.advance()
        metrics = worker.folder / "run" / "metrics.jsonl"
        while worker.advance() is None and not (metrics.exists() and metrics.read_text()):
            time.sleep(0.01)
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        assert worker.advance() is False
        worker.close()
        assert run_cells(experiment, [SHALLOW, DEEP], [0], jobs=2, threads=1) == []
    return folder, experiment


def test_a_killed_run_goes_on_and_a_grown_one_starts_from_it(finished):
    _, experiment = finished
    first, second = (experiment.cell_folder(cell, 0) for cell in (SHALLOW, DEEP))
    log = (first / "log.txt").read_text()
    assert log.count("$ albert-keras pretrain") == 2 and log.count("--resume\n") == 1
    for folder in (first, second):
        lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [4, 8, 12]
    assert "num_hidden_layers 1 -> 2" in (second / "log.txt").read_text()
    result = json.loads((second / "result.json").read_text())
    assert (result["steps"], result["steps_in_all"]) == (12, 24)
    assert result["flops_in_all"] == 12 * (experiment.flops(SHALLOW) + experiment.flops(DEEP))


def test_what_is_finished_is_not_run_again(finished, capsys, monkeypatch):
    _, experiment = finished
    monkeypatch.setattr("subprocess.Popen", None)
    assert run_cells(experiment, [SHALLOW, DEEP], [0], jobs=1, threads=1) == []
    assert "2 runs finished before, 0 to do" in capsys.readouterr().out


def test_results_are_written_from_what_was_measured(finished, tmp_path, monkeypatch):
    _, experiment = finished
    monkeypatch.setitem(TABLES, "miniature", MINIATURE)
    write_results(experiment, ["miniature"], [0, 1], tmp_path)
    with (tmp_path / "miniature.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["L"], row["seed"]) for row in rows] == [("1", "0"), ("2", "0")]
    (scores,) = json.loads((experiment.cell_folder(DEEP, 0) / "scores.json").read_text()).values()
    assert float(rows[1]["mlm_loss"]) == scores["mlm_loss"]
    assert float(rows[1]["nsp_accuracy"]) == scores["nsp_accuracy"]
    page = (tmp_path / "ablations.md").read_text()
    assert "12 steps each" in page and f"| {scores['mlm_loss']:.3f} |" in page
    assert (tmp_path / "miniature.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"steps": 13}, "`experiment.steps` was 12, is 13"),
        ({"learning_rate": 1e-3}, "`experiment.learning_rate` was 0.002, is 0.001"),
        ({"vocab_size": 77}, "`vocab_size` was 250, is 77"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--results-only"]])
def test_other_settings_are_refused(finished, monkeypatch, capsys, more, changed, message):
    folder, experiment = finished
    monkeypatch.setitem(TABLES, "miniature", MINIATURE)
    flags = {f"--{name.replace('_', '-')}": str(value) for name, value in (SMALL | changed).items()}
    words = [*more, *(word for flag in flags.items() for word in flag)]
    with pytest.raises(SystemExit, match="2"):
        main(["miniature", "--text", str(folder / "text"), "--out", str(experiment.folder), *words])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "file"], "--out must be a folder"),
        (["--out", "new", "--results-only"], "--results-only needs what was trained"),
        (["--out", "new", "--batch", "0"], "--batch must be above 0"),
        (["--out", "new", "--learning-rate", "nan"], "--learning-rate must be above 0"),
        (["--out", "new", "--held-out", "text"], "0.txt, 1.txt for both"),
        (["--out", "new", "--held-out", "latin"], "latin/1.txt: 'utf-8' codec"),
        (
            ["--out", "new", "--task-train", "text/0.txt", "--task-dev", "text/1.txt"],
            "text/0.txt must have the columns text and label. Received: ['One.0']",
        ),
    ],
)
def test_mistakes_are_exit_code_2(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    for name, text in (("text", b"One."), ("latin", b"Caf\xe9.")):
        (tmp_path / name).mkdir()
        for part in (b"0", b"1"):
            (tmp_path / name / f"{part.decode()}.txt").write_bytes(text + part)
    (tmp_path / "latin" / "0.txt").unlink()
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="2"):
        main(["table5", "--text", "text", *words])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_stop_while_the_text_is_prepared_is_no_traceback(tmp_path, monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("examples.ablations.__main__.prepare", stopped)
    with pytest.raises(SystemExit, match="130"):
        main(["table5", "--text", str(tmp_path), "--out", str(tmp_path / "new")])
    assert "Repeat the command" in capsys.readouterr().err


def test_other_text_is_refused(finished, monkeypatch):
    folder, experiment = finished
    (folder / "more").mkdir(exist_ok=True)
    for name in ("0.txt", "1.txt"):
        (folder / "more" / name).write_text(f"Another text, {name}.\n")
    with pytest.raises(ValueError, match=r"`held_out\[0\].sha256` was"):
        prepare(experiment, [folder / "more"])


def test_a_single_file_of_text_is_refused(tmp_path):
    (tmp_path / "all.txt").write_text("One.\n")
    with pytest.raises(ValueError, match="at least two files"):
        prepare(Experiment(tmp_path / "out"), [tmp_path])
