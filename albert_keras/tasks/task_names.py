"""The names of the tasks that a model can be fine-tuned on; without TensorFlow."""

from albert_keras.tasks.glue import GLUE_TASKS

SQUAD = ("squad1", "squad2")
RACE = "race"
# The user's own labels, and numbers.
CLASSIFY, REGRESS = "classify", "regress"
# The diagnostics of GLUE are only predicted.
TRAINED = (
    *(CLASSIFY, REGRESS),
    *(name for name, task in GLUE_TASKS.items() if task.model_task is None),
    *(*SQUAD, RACE),
)
PREDICTED = (*TRAINED, *(name for name in GLUE_TASKS if name not in TRAINED))
# What a regression's one logit is called, where a classifier has the names of its labels.
NUMBER = "number"
