# Each target works from nothing: .venv is made when it is missing.
PYTHON ?= python3
BIN := .venv/bin
MINUTES ?=

export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo test lint bench clean

.venv/installed: setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --quiet --editable '.[dev,tasks,plots]'
	touch $@

# Raw text to a served answer, on the documentation installed with Python. MINUTES=60 trains longer.
demo: .venv/installed
	$(BIN)/python -m examples.demo $(if $(MINUTES),--minutes $(MINUTES))

# The whole suite on Keras 2, then the part that must hold on Keras 3 as well.
test: .venv/installed
	TF_USE_LEGACY_KERAS=1 $(BIN)/python -m pytest
	TF_USE_LEGACY_KERAS=0 $(BIN)/python -m pytest -m both_kerases

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: .venv/installed
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist *.egg-info demo
