# Each target works from nothing: .venv is made when it is missing.
PYTHON ?= python3
BIN := .venv/bin
MINUTES ?=
NAMES ?=
# Processes that test, a file of tests each at a time. Each takes a core and 2 GB.
JOBS ?= 2

export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo test lint docs bench parity parity-model-garden tpu-lowering kill-and-resume clean

.venv/installed: setup.cfg pyproject.toml
	@echo "Installing into .venv, which takes a minute or two ..."
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --quiet --editable '.[dev,docs,tasks,plots,serve,edge]'
	touch $@

# Raw text to a served answer, on the documentation installed with Python. MINUTES=60 trains longer.
demo: .venv/installed
	$(BIN)/python -m examples.demo $(if $(MINUTES),--minutes $(MINUTES))

# The whole suite on Keras 2, then the part that must hold on Keras 3 as well.
test: .venv/installed
	TF_USE_LEGACY_KERAS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile
	TF_USE_LEGACY_KERAS=0 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m both_kerases

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The site of the documentation, build/docs/index.html. A warning is an error.
docs: .venv/installed
	$(BIN)/python -m sphinx -W --keep-going --quiet -c docs . build/docs

# Every measurement, about an hour on two quiet cores, and docs/benchmarks.md; goes on where it was
# stopped. NAMES="depth scaling" runs these alone, beside the peers where they are installed.
# ALBERT_KERAS_DATA is the folder of the tests.
bench: .venv/installed $(if $(NAMES),,.venv-parity/installed)
	$(BIN)/python -m benchmarks $(NAMES)

# Against the other implementations themselves, in an environment of their own (3.4 GB): the
# fixtures of tests/goldens are made again and compared, what we save is loaded and run in torch, and
# the example of a reference is converted against. With ALBERT_KERAS_DATA, the folder of the tests,
# every text in it is tokenized as the original does.
# torch's own index has builds for the CPU alone; those of PyPI bring CUDA on Linux.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.venv-parity/installed: setup.cfg
	test -x .venv-parity/bin/python || $(PYTHON) -m venv .venv-parity
	.venv-parity/bin/python -m pip install --quiet --quiet --extra-index-url $(TORCH_INDEX) \
		--editable '.[parity]'
	touch $@

# Folders whose numbers in transformers `convert --report` must agree with.
REPORTED := huggingface_tiny huggingface_question_answering_tiny huggingface_multiple_choice_tiny

parity: .venv-parity/installed
	.venv-parity/bin/python -m tests.parity.remake huggingface_shapes huggingface_tiny \
		huggingface_heads_tiny huggingface_bert_tiny keras_hub_tiny
	.venv-parity/bin/python -m tests.parity.from_pretrained
	set -e; made=$$(mktemp -d); trap 'rm -r "$$made"' EXIT; for name in $(REPORTED); do \
		.venv-parity/bin/python examples/reference_from_transformers.py tests/goldens/$$name \
			$$made/$$name.npz --length 16; \
		.venv-parity/bin/albert-keras convert tests/goldens/$$name $$made/$$name \
			--report $$made/$$name.npz; \
	done
ifdef ALBERT_KERAS_DATA
	.venv-parity/bin/python -m tests.parity.all_text $(ALBERT_KERAS_DATA) \
		$(ALBERT_KERAS_DATA)/vocabulary/30k-clean.model
endif

# TF Model Garden needs TensorFlow 2.20 and an environment to itself. The extra `model-garden` brings
# 126 packages; these few are enough for what its script imports.
.venv-model-garden/installed:
	test -x .venv-model-garden/bin/python || $(PYTHON) -m venv .venv-model-garden
	.venv-model-garden/bin/python -m pip install --quiet --quiet 'tensorflow==2.20.*' \
		'tf-keras==2.20.*' scipy gin-config safetensors
	.venv-model-garden/bin/python -m pip install --quiet --quiet --no-deps \
		tf-models-official==2.20.0
	touch $@

parity-model-garden: .venv-model-garden/installed
	.venv-model-garden/bin/python -m tests.parity.remake model_garden_tiny

# The TPU's own kernels on a machine without one. Exact versions: see examples/pretrain_tpu.py.
.venv-tpu/installed: setup.cfg
	test -x .venv-tpu/bin/python || $(PYTHON) -m venv .venv-tpu
	.venv-tpu/bin/python -m pip install --quiet --quiet tensorflow-tpu==2.20.0 libtpu==0.0.14
	.venv-tpu/bin/python -m pip install --quiet --quiet --no-deps tf_keras==2.20.1 \
		tensorflow-text==2.20.1 --editable .
	.venv-tpu/bin/python -m pip install --quiet --quiet sentencepiece safetensors typer rich
	touch $@

tpu-lowering: .venv-tpu/installed
	.venv-tpu/bin/python -m tests.tpu.lower_with_tpu_kernels

# A pretraining that is killed twenty times at random, beside one that is not: the same bits.
kill-and-resume: .venv/installed
	$(BIN)/python -m tests.kill_and_resume --kills 20 -- --micro-batches 2

clean:
	rm -rf .venv .venv-parity .venv-model-garden .venv-tpu build dist *.egg-info demo
