"""Chooses the Keras before TensorFlow is imported, and finds the optional data."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest  # noqa: E402


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of extra data (official vocabulary, goldens, corpora); its tests skip without it."""
    folder = os.environ.get("ALBERT_KERAS_DATA")
    if not folder:
        pytest.skip("set ALBERT_KERAS_DATA to the folder of extra test data to run this test")
    return Path(folder)


@pytest.fixture
def albert_keras(monkeypatch, capfd):
    """Runs a command in this process and gives its exit code, output and errors."""
    from albert_keras import cli

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["albert-keras", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        output = capfd.readouterr()
        return code, output.out, output.err

    return call


@pytest.fixture(scope="session")
def trained_on_the_paragraph():
    from tests import paragraph_model

    return paragraph_model.trained_on_the_paragraph()


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory):
    """The lines of metrics.jsonl and the final weights of a run that nothing stopped."""
    from tests import regression_run

    folder = tmp_path_factory.mktemp("runs") / "whole"
    reached, weights = regression_run.run(folder)
    assert reached == regression_run.STEPS
    return regression_run.lines(folder), weights
