"""The examples in docstrings run, on both Kerases."""

import doctest
import importlib
import pkgutil

import pytest

import albert_keras
from albert_keras import layers

pytestmark = pytest.mark.both_kerases

# Examples elsewhere need files of the reader's own.
MODULES = [
    *("albert_keras.config", "albert_keras.model", "albert_keras.task_models"),
    *("albert_keras.answerable_span_head", "albert_keras.span_training"),
    *("albert_keras.rebuilding", "albert_keras.reshaping", "albert_keras.growing"),
    *("albert_keras.pretraining_model", "albert_keras.optimizers", "albert_keras.masking"),
    *("albert_keras.distillation", "albert_keras.distilled_model"),
    *("albert_keras.schedule", "albert_keras.differences", "albert_keras.recipes"),
    *(f"albert_keras.analysis.{name}" for name in ("parameters", "flops", "costs", "comparing")),
    *("albert_keras.tasks.interval", "albert_keras.training.strategy", "albert_keras.xla_kernel"),
    *("albert_keras.report.figures", "albert_keras.report.markup"),
    *("albert_keras.tasks.squad.scoring", "albert_keras.tasks.squad.task"),
    *("albert_keras.tasks.race.task", "albert_keras.tasks.text_task"),
    "albert_keras.tasks.finetuning_recipe",
    *(f"albert_keras.layers.{module.name}" for module in pkgutil.iter_modules(layers.__path__)),
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    names = {public: getattr(albert_keras, public) for public in albert_keras.__all__}
    found = doctest.testmod(module, extraglobs=names)
    assert not found.failed


def test_every_layer_has_an_example():
    finder = doctest.DocTestFinder()
    for name in layers.__all__:
        layer = getattr(layers, name)
        if isinstance(layer, type):
            assert any(test.examples for test in finder.find(layer, name)), name
