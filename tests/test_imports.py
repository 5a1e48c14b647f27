"""Imports point one way, and importing does nothing."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "albert_keras"

# Who may import whom, in the order of the tree. A room may always import from itself; a name
# stands for everything under it; a module that is not listed here fails the test below.
MAY_IMPORT = {
    "new_folder": ["lock"],
    "new_file": [],
    "json_file": ["new_file"],
    "served_folder": [],
    "lock": [],
    "backend": [],
    "differences": [],
    # Begins a run without TensorFlow, up to the question which Keras this is.
    "run_folder": ["json_file", "lock", "new_folder", "backend", "differences"],
    "config": [],
    "recipes": [],
    "masking": ["recipes"],
    "xla_kernel": [],
    "schedule": [],
    "optimizers": ["xla_kernel", "schedule", "backend"],
    "layers": ["masking", "backend", "xla_kernel"],
    "losses": [],
    "text": ["new_file", "json_file"],
    "model": ["config", "layers"],
    "pretraining_model": ["losses", "model", "backend"],
    "distillation": ["model"],
    "distilled_model": ["distillation", "model", "pretraining_model"],
    "answerable_span_head": ["layers"],
    "task_models": ["answerable_span_head", "model", "layers"],
    "span_training": ["model", "task_models"],
    "rebuilding": ["config", "layers", "model", "backend"],
    "reshaping": ["config", "model", "rebuilding"],
    "growing": ["config", "model", "rebuilding", "reshaping"],
    # The SOP label is defined once, beside the head whose columns it numbers.
    "data": ["text", "masking", "new_folder", "json_file", "differences", "layers.sop_head"],
    # Finds it without TensorFlow.
    "checkpoint_folder": ["json_file", "run_folder", "text.tokenizer_folder"],
    "checkpoints": [
        "checkpoint_folder",
        *("config", "model", "task_models", "reshaping", "layers", "losses", "text"),
        *("new_folder", "json_file"),
    ],
    # Takes a compiled model and a dataset: it knows neither models nor tasks.
    "training": ["new_file", "run_folder", "backend"],
    # The page of a run, of any task.
    "report": ["model", "layers.sop_head", "run_folder", "text", "new_file", "json_file", "lock"],
    "tasks": [
        *("config", "recipes", "model", "layers", "losses", "optimizers", "text", "data"),
        *("pretraining_model", "rebuilding", "growing", "checkpoints", "run_folder", "report"),
        *("task_models", "span_training", "distillation", "distilled_model", "checkpoint_folder"),
        *("training", "masking", "new_file", "new_folder", "json_file"),
    ],
    "analysis": [
        *("config", "model", "layers", "text", "data", "checkpoints", "run_folder", "json_file"),
        *("served_folder", "checkpoint_folder", "rebuilding", "recipes", "report", "new_file"),
        # What `measuring` runs.
        *("pretraining_model", "optimizers"),
    ],
    # Its self-check compares with what evaluation answers.
    "export": [
        *("config", "model", "layers", "text", "answerable_span_head", "checkpoints", "tasks"),
        *("new_file", "new_folder", "json_file", "served_folder"),
    ],
}
# These speak for the whole library: the list of public names, and the command line.
FREE = {"", "cli"}


def modules():
    """Pairs of a module's name under albert_keras ("" for the package itself) and its file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path != PACKAGE / "export" / "__init__.py":
            yield dotted(path.relative_to(PACKAGE)), path
    for path in sorted((ROOT / "export").rglob("*.py")):
        yield dotted(Path("export") / path.relative_to(ROOT / "export")), path


def dotted(path):
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(module, path):
    """Pairs of (name under albert_keras, whether a function does it) for each import of ours."""
    tree = ast.parse(path.read_text())
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = ["albert_keras", *package.split(".")] if package else ["albert_keras"]
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "albert_keras":
                yield name.partition(".")[2], id(node) in inside


def under(name, room):
    return name == room or name.startswith(room + ".")


MODULES = list(modules())


@pytest.mark.parametrize(
    "module,path", MODULES, ids=[name or "albert_keras" for name, _ in MODULES]
)
def test_imports_follow_the_order_of_the_tree(module, path):
    room = module.split(".")[0]
    if room in FREE:
        return
    assert room in MAY_IMPORT, f"{module}: say in MAY_IMPORT what this new room may import"
    for name, _ in imports(module, path):
        if name in ("", "__version__"):
            continue
        allowed = [room, *MAY_IMPORT[room]]
        assert any(under(name, other) for other in allowed), f"{module} imports {name}"


def test_only_the_command_line_imports_export_and_only_when_a_command_runs():
    for module, path in MODULES:
        for name, in_function in imports(module, path):
            if under(name, "export") and not under(module, "export"):
                assert under(module, "cli") and in_function, f"{module} imports {name}"


def test_examples_and_benchmarks_import_public_names_only():
    for path in [*(ROOT / "examples").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]:
        for name, _ in imports("", path):
            assert not any(part.startswith("_") for part in name.split(".")), f"{path}: {name}"


def run_in_a_clean_interpreter(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_CURRENT_TEST", None)
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_importing_the_library_loads_no_command_line_and_no_extras():
    loaded = run_in_a_clean_interpreter(
        "import tensorflow, sys; before = set(sys.modules); from albert_keras import *;"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    ).split()
    heavy = {"typer", "rich", "sklearn", "scipy", "matplotlib", "pandas", "torch", "transformers"}
    assert "albert_keras" in loaded and not heavy & set(loaded)


def test_the_command_line_starts_without_tensorflow():
    # It must choose the Keras first, and `--help` should not take seconds.
    loaded = run_in_a_clean_interpreter("import sys, albert_keras.cli; print(*sys.modules)").split()
    assert not {"tensorflow", "keras", "tf_keras"} & set(loaded)


def test_importing_the_library_touches_no_device_and_sets_up_no_logging():
    output = run_in_a_clean_interpreter(
        "import logging, tensorflow as tf;"
        "handlers, level = list(logging.root.handlers), logging.root.level;"
        "from albert_keras import *;"
        "assert (list(logging.root.handlers), logging.root.level) == (handlers, level);"
        # TensorFlow refuses this once it has looked for devices.
        "tf.config.threading.set_inter_op_parallelism_threads(1);"
        "print('untouched')"
    )
    assert output == "untouched\n"
