"""The classifier of ALBERT-base that is measured, with weights that are the same in every run."""

import numpy as np
import tensorflow as tf

from albert_keras import build_albert
from albert_keras.task_models import build_classifier

LABELS = ["no", "yes"]


def random_classifier(seed: int = 0) -> tf.keras.Model:
    """Weights as at the beginning of a training, whatever the version of Keras draws."""
    model = build_classifier(build_albert("base"), len(LABELS))
    draws = np.random.default_rng(seed)
    for matrix in (one for one in model.trainable_variables if one.shape.rank > 1):
        matrix.assign(draws.normal(0, 0.02, matrix.shape))
    return model
