"""Recipes: the paper's table, typed a second time, and steps for epochs and shares."""

import dataclasses
import doctest

import pytest

from albert_keras.tasks import finetuning_recipe
from albert_keras.tasks.finetuning_recipe import FROM_MNLI, RECIPES, FinetuningRecipe

# ALBERT, Table 14: hyperparameters for ALBERT in downstream tasks.
TABLE_14 = """
                LR     BSZ  ALBERT DR  Classifier DR     TS    WS  MSL
CoLA        1.00E-05    16     0            0.1        5336   320  512
STS         2.00E-05    16     0            0.1        3598   214  512
SST-2       1.00E-05    32     0            0.1       20935  1256  512
MNLI        3.00E-05   128     0            0.1       10000  1000  512
QNLI        1.00E-05    32     0            0.1       33112  1986  512
QQP         5.00E-05   128     0.1          0.1       14000  1000  512
RTE         3.00E-05    32     0.1          0.1         800   200  512
MRPC        2.00E-05    32     0            0.1         800   200  512
WNLI        2.00E-05    16     0.1          0.1        2000   250  512
SQuAD-v1.1  5.00E-05    48     0            0.1        3649   365  384
SQuAD-v2.0  3.00E-05    48     0            0.1        8144   814  512
RACE        2.00E-05    32     0.1          0.1       12000  1000  512
"""
OUR_NAMES = {"sts": "sts-b", "squad-v1.1": "squad1-paper", "squad-v2.0": "squad2-paper"}

# The original's run_glue.sh: task, warm-up, rate, steps, steps between checkpoints, batch.
RUN_GLUE = """
SST-2 1256 1e-5 20935 100 32
MNLI 1000 3e-5 10000 100 128
CoLA 320 1e-5 5336 100 16
QNLI 1986 1e-5 33112 200 32
QQP 1000 5e-5 14000 100 128
RTE 200 3e-5 800 100 32
STS-B 214 2e-5 3598 100 16
MRPC 200 2e-5 800 100 32
"""


def test_the_example_runs():
    assert not doctest.testmod(finetuning_recipe).failed


def test_the_paper_s_recipes_are_its_table():
    seen = set()
    for line in TABLE_14.strip().splitlines()[1:]:
        task, *cells = line.split()
        rate, batch, dropout, classifier_dropout, steps, warmup, length = map(float, cells)
        name = OUR_NAMES.get(task.lower(), task.lower())
        recipe = RECIPES[name]
        assert (
            *(recipe.learning_rate, recipe.batch_size, recipe.dropout, recipe.classifier_dropout),
            *(recipe.total_steps, recipe.warmup, recipe.max_length),
        ) == (rate, batch, dropout, classifier_dropout, steps, warmup, length), task
        assert recipe.steps(examples=999) == (steps, warmup)
        assert recipe.clip_norm == 1.0 and recipe.optimizer == "adamw"
        seen.add(name)
    assert len(seen) == 12 and set(RECIPES) - seen == {"squad1", "squad2", "race-v2"}


def test_checkpoints_are_as_often_as_in_the_original_code():
    for line in RUN_GLUE.strip().splitlines():
        task, warmup, rate, steps, every, batch = line.split()
        recipe = RECIPES[task.lower()]
        assert (recipe.warmup, recipe.learning_rate, recipe.total_steps) == (
            *(int(warmup), float(rate), int(steps)),
        )
        assert (recipe.checkpoint_every, recipe.batch_size) == (int(every), int(batch))


def test_race_of_version_2_has_half_the_rate_and_no_dropout_and_is_the_same_else():
    changed = {"learning_rate": 1e-5, "dropout": 0.0}
    assert RECIPES["race-v2"] == dataclasses.replace(RECIPES["race"], **changed)
    assert RECIPES["race-v2"] != RECIPES["race"]


def test_squad_is_trained_by_the_best_public_recipe():
    assert RECIPES["squad1"] == RECIPES["squad2"]
    recipe = RECIPES["squad2"]
    assert (recipe.learning_rate, recipe.epochs, recipe.batch_size) == (2e-5, 3, 48)
    assert (recipe.warmup, recipe.clip_norm, recipe.max_length) == (0.1, 0.1, 512)
    assert recipe.total_steps is None


def test_the_tasks_that_start_from_mnli_have_recipes():
    assert sorted(FROM_MNLI) == ["mrpc", "rte", "sts-b"] and set(FROM_MNLI) <= set(RECIPES)


def test_epochs_and_shares_are_those_of_the_paper_s_squad():
    # SQuAD has 87,599 questions of training in version 1.1 and 130,319 in 2.0.
    two = FinetuningRecipe(batch_size=48, epochs=2, warmup=0.1)
    three = FinetuningRecipe(batch_size=48, epochs=3, warmup=0.1)
    assert two.steps(examples=87_599) == (3649, 365)
    assert three.steps(examples=130_319) == (8144, 814)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"epochs": 1, "warmup": 0}, (31, 0)),
        ({"epochs": 0.001, "warmup": 0}, (1, 0)),
        ({"epochs": 2, "warmup": 5}, (62, 5)),
        ({"total_steps": 40, "warmup": 0.25}, (40, 10)),
        ({"total_steps": 40, "warmup": 40}, (40, 40)),
    ],
)
def test_steps_follow_from_the_examples_or_are_given(given, expected):
    found = FinetuningRecipe(batch_size=32, **given).steps(examples=1000)
    assert found == expected and all(type(number) is int for number in found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either `total_steps` or `epochs`. Received: None and None"),
        ({"total_steps": 10, "epochs": 1}, "Received: 10 and 1"),
        ({"epochs": 1, "warmup": -0.1}, "`warmup` must be.* Received: -0.1"),
        ({"epochs": 1, "warmup": float("nan")}, "`warmup` must be.* Received: nan"),
        ({"total_steps": 10, "warmup": 11}, "`warmup` must be.* Received: 11, and 10"),
    ],
)
def test_a_recipe_that_no_run_can_follow_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        FinetuningRecipe(**given)
