"""`albert-keras inspect` of presets, runs and checkpoints: what they cost."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from albert_keras import build_albert, build_pretrainer, save_albert
from albert_keras.analysis import Setting, bert_of, costs_of
from albert_keras.analysis.cost_tables import matched_by_time, measured_tables
from albert_keras.analysis.measuring import Measured
from albert_keras.config import PRESETS, config_from
from albert_keras.run_folder import begin_run

ROOT = Path(__file__).resolve().parents[1]
TINY = f"{build_albert('tiny').count_params():,}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def runs(monkeypatch):
    """What would be measured, in place of measuring it: a second for each layer."""
    asked = []

    def measured(config, setting, *, training):
        asked.append((config, setting, training))
        return Measured(float(config.num_hidden_layers), 2_000_000, 3_000_000, 4e9)

    monkeypatch.setattr("albert_keras.analysis.cost_tables.measured", measured)
    monkeypatch.setattr("albert_keras.analysis.cost_tables.available_bytes", lambda: None)
    return asked


def rows_of(out):
    """Values by the name of their row, the first one of a name that several tables have."""
    rows = [line.split("\t") for line in out.splitlines()]
    return {name: values for name, *values in reversed(rows)}


def test_a_preset_is_shown_beside_its_bert(here, albert_keras):
    code, out, err = albert_keras("inspect", "base", "--length", 512, "--batch", 4)
    rows = rows_of(out)
    assert (code, err) == (0, "") and rows["parameters by part"] == ["base", "BERT of its L and H"]
    assert rows["with the heads of pretraining"] == ["11,813,810", "109,705,010"]
    costs = costs_of(PRESETS["base"], Setting(4, 512))
    assert rows["step"][0] == f"{costs.training_row_flops / 512 / 1e6:,.1f}"
    assert rows["gradients to all-reduce, a step"] == ["47.3", "438.8"]
    assert rows["bert-large"] == ["1.00", "1.0"] and rows["base"][1] == "5.6"


def test_a_bert_stands_alone(here, albert_keras):
    code, out, _ = albert_keras("inspect", "bert-base")
    assert code == 0 and rows_of(out)["parameters by part"] == ["bert-base"]


def test_settings_change_what_it_costs(here, albert_keras):
    _, out, _ = albert_keras(
        "inspect", "base", "--set", "sharing=ffn", "--policy", "mixed_bfloat16"
    )
    assert rows_of(out)["attention"] != rows_of(albert_keras("inspect", "base")[1])["attention"]
    assert "32 x 128, mixed_bfloat16" in out


def test_a_checkpoint_shows_what_it_holds_and_what_it_costs(here, albert_keras):
    save_albert(build_pretrainer(build_albert("tiny", sharing="ffn")), "saved")
    code, out, err = albert_keras("inspect", "saved", "--match-flops", "tiny", "--steps", 10)
    rows = rows_of(out)
    assert (code, err) == (0, "") and rows["kind"] == ["albert_pretrainer"]
    whole = sum(
        costs_of(config_from("tiny", {"sharing": "ffn"}), Setting(length=64)).parameters.values()
    )
    assert rows["parameters"] == [f"{whole:,}"]
    assert rows["with the heads of pretraining"][0] == f"{whole:,}"
    # Sharing changes no FLOPs.
    assert rows["10 of saved"] == ["10", "10"] == rows["10 of tiny"]


def test_a_run_that_goes_on_shows_its_costs_as_well(here, albert_keras):
    settings = {
        "recipe": {"total_steps": 4, "batch_size": 2},
        "config": PRESETS["tiny"].to_dict(),
    }
    begin_run("run", settings)
    code, out, _ = albert_keras("inspect", "run")
    assert code == 0 and rows_of(out)["steps done"] == ["0 of 4"]
    assert rows_of(out)["encoder"][0] == TINY


def test_a_folder_goes_before_the_preset_of_its_name(here, albert_keras):
    save_albert(build_albert("tiny"), "base")
    code, out, err = albert_keras("inspect", "base")
    assert code == 0 and rows_of(out)["encoder"][0] == TINY
    assert "note: base is also a preset; this is the folder" in err


def test_equal_steps_by_flops_and_by_time(here, albert_keras, runs):
    code, out, _ = albert_keras(
        *("inspect", "base", "--match-flops", "bert-base", "--match-time", "large"),
        *("--steps", 1000),
    )
    rows = rows_of(out)
    one, other = (costs_of(PRESETS[name]).training_row_flops for name in ("base", "bert-base"))
    assert code == 0
    assert rows["1,000 of bert-base"] == [f"{round(1000 * other / one):,}", "1,000"]
    # Twelve layers, and twenty-four of a second each.
    assert rows["1,000 of large"] == ["2,000", "1,000"]
    in_turn = [(PRESETS["base"], True), (PRESETS["large"], True)]
    assert [(config, training) for config, _, training in runs] == 3 * in_turn


def test_steps_of_equal_time_have_the_spread_of_the_rounds(monkeypatch):
    seconds = iter([1.0, 2.0, 3.0, 2.0, 1.0, 4.0])  # ratios of 1/2, 3/2 and 1/4

    def measured(config, setting, *, training):
        return Measured(next(seconds), 2_000_000, 3_000_000, 4e9)

    monkeypatch.setattr("albert_keras.analysis.cost_tables.measured", measured)
    models = {name: PRESETS[name] for name in ("tiny", "small")}
    table = matched_by_time(models, Setting(length=16), 100)
    assert table.rows[0] == ["100 of tiny", "100", "50 (25 to 150)"]
    assert table.rows[1] == ["100 of small", "200 (67 to 400)", "100"]


def test_what_memory_does_not_suffice_for_is_not_matched_by_time(monkeypatch, runs):
    monkeypatch.setattr("albert_keras.analysis.cost_tables.available_bytes", lambda: 10**6)
    with pytest.raises(ValueError, match="fit into memory to be run. Received: base, .* of 1.0"):
        matched_by_time({name: PRESETS[name] for name in ("base", "large")}, Setting(), 100)
    assert not runs


def test_a_changed_preset_is_another_model(here, albert_keras):
    changed = ("--set", "num_hidden_layers=24")
    code, out, _ = albert_keras("inspect", "base", *changed, "--match-flops", "base")
    rows = rows_of(out)
    deep = dataclasses.replace(PRESETS["base"], num_hidden_layers=24)
    ratio = costs_of(deep).training_row_flops / costs_of(PRESETS["base"]).training_row_flops
    assert code == 0
    assert rows["125,000 of base num_hidden_layers=24"][1] == f"{round(125_000 * ratio):,}"


def test_measured_stands_beside_predicted(here, albert_keras, runs):
    code, out, _ = albert_keras("inspect", "tiny", "--measure", "--length", 16, "--batch", 2)
    assert code == 0
    tiny = PRESETS["tiny"]
    assert [(config, training) for config, _, training in runs] == [
        (config, training) for config in (tiny, bert_of(tiny)) for training in (True, False)
    ]
    assert out.count("predicted\tmeasured\tratio") == 4
    assert "pieces a second" in out and "peak of the process, MB\t\t3.0" in out


def test_what_memory_does_not_suffice_for_is_not_run(monkeypatch, runs):
    monkeypatch.setattr("albert_keras.analysis.cost_tables.available_bytes", lambda: 10**6)
    tables = list(measured_tables({"base": PRESETS["base"]}, Setting()))
    assert not runs and all(table.rows[0][2] == "not run" for table in tables)


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["bas"], "a preset: base, large, .* Received: bas, which does not exist"),
        (["base", "--tokenize", "x"], "--tokenize needs a vocabulary. Received: base"),
        (["base", "--set", "num_layers=3"], "did you mean 'num_hidden_layers'"),
        (["base", "--length", "513"], "--length must be at most the model's 512 positions"),
        (["base", "--match-flops", "base"], "with another model. Received: base with itself"),
        (["base", "--match-time", "none"], "Received: none, which does not exist"),
        (["base", "--steps", "9"], "--steps is of --match-flops and --match-time. Received: 9"),
        (["folder", "--set", "hidden_size=2"], "--set is for presets. Received: .* folder"),
    ],
)
def test_mistakes_are_refused_without_tensorflow(here, arguments, words):
    (here / "folder").mkdir()
    code = (
        "import sys, albert_keras.cli\n"
        "try: albert_keras.cli.main()\n"
        "except SystemExit as stop: print(stop.code, 'tensorflow' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, "inspect", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert process.stdout == "2 False\n"
    assert re.search(words, " ".join(process.stderr.split())), process.stderr


def test_a_vocabulary_costs_nothing(here, albert_keras):
    (here / "empty").mkdir()
    code, _, err = albert_keras("inspect", "empty", "--measure")
    assert code == 2 and "Costs are of a model. Received: empty, which has none" in err
