"""The site of the documentation has every public name and builds without a warning."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

import albert_keras
from albert_keras import analysis, export
from tests.markdown_blocks import ROOT

API = ROOT / "docs" / "api"


def test_every_public_name_is_on_a_page():
    pages = "".join(page.read_text() for page in API.glob("*.md"))
    there = set(re.findall(r"^\.\. (?:auto|py:)\w+:: (\S+)", pages, re.MULTILINE))
    for module in (albert_keras, export, analysis):
        public = set(getattr(module, "__all__", ())) - {"__version__"}
        assert {f"{module.__name__}.{name}" for name in public} <= there


def test_the_site_builds_without_a_warning(tmp_path):
    for name in ("sphinx", "myst_parser", "furo"):
        if importlib.util.find_spec(name) is None:
            pytest.skip("pip install '.[docs]' to run this test")
    built = subprocess.run(
        [sys.executable, *f"-m sphinx -W --keep-going --quiet -c docs . {tmp_path}".split()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "docs" / "api" / "layers.html").read_text()
    assert "albert_keras.NgramMaskedLM" in page and "Input shape" in page
