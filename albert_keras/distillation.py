"""Distillation: a teacher's answers, and its layers, as what a student learns beside the labels.

Reference:
    Hinton et al. 2015, https://arxiv.org/abs/1503.02531; Sanh et al. 2019 (DistilBERT),
    https://arxiv.org/abs/1910.01108; Jiao et al. 2020 (TinyBERT), https://arxiv.org/abs/1909.10351
"""

import dataclasses
from typing import Any

import tensorflow as tf

from albert_keras.model import config_of, layers_of

# The output of a model that `with_hidden_states` has made.
HIDDEN = "hidden_states"


def soft_divergence(teacher: tf.Tensor, student: tf.Tensor, temperature: float) -> tf.Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)) in nats, float32 `(...)`.

    By T^2 its gradient stays as large as that of hard labels, whatever T is.

    Args:
        teacher, student: logits, float `(..., C)`.
        temperature: float in (0, 100], T. Above it, T^2 makes the rounding of float32 visible.

    Example:

    >>> teacher, student = tf.constant([[2.0, 0.0]]), tf.constant([[0.0, 2.0]])
    >>> soft_divergence(teacher, student, temperature=2.0).numpy().round(3)
    array([1.848], dtype=float32)

    Reference:
        Hinton et al. 2015, section 2
    """
    teacher, student = (tf.cast(logits, tf.float32) / temperature for logits in (teacher, student))
    probabilities = tf.nn.softmax(teacher)
    cross, entropy = (
        tf.nn.softmax_cross_entropy_with_logits(probabilities, logits)
        for logits in (student, teacher)
    )
    return temperature**2 * (cross - entropy)


def hidden_error(teacher: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
    """The mean squared difference of each token's hidden states, float32 `(B, S)`.

    Args:
        teacher, student: float `(B, K, S, H)`, the outputs of K layers.

    Reference:
        Jiao et al. 2020, equation 8
    """
    difference = tf.cast(teacher, tf.float32) - tf.cast(student, tf.float32)
    return tf.reduce_mean(tf.square(difference), axis=[1, 3])


def taught_layers(student_layers: int, teacher_layers: int) -> list[int]:
    """The teacher's layer for each of a student's; 0 is the embeddings, of both.

    >>> taught_layers(4, 12)
    [0, 3, 6, 9, 12]

    Reference:
        Jiao et al. 2020, section 4.1, the uniform mapping
    """
    return [round(layer * teacher_layers / student_layers) for layer in range(student_layers + 1)]


@dataclasses.dataclass(frozen=True)
class Distillation:
    """A teacher, and how a student learns from it.

        loss = (1 - weight) * loss of the labels + weight * loss of the teacher's answers
               + hidden_weight * error of the hidden states

    Keras and tf.train.Checkpoint do not look into this object: a student that has it still counts,
    trains and saves its own weights alone.

    Args:
        teacher: a pretrainer or a task's model; to compare hidden states, with an encoder that
            gives all layers (`load_albert(folder, output_all_layers=True)`).
        sha256: of the teacher's weights, by which a resumed run knows it again.
        labels: of a teacher that is a classifier, in the order of its logits. Default None.
        temperature: float in (0, 100], T of `soft_divergence`. Default 2.
        weight: float in [0, 1], of the teacher's answers. Default 0.5.
        hidden_weight: float >= 0. Default 0: hidden states are not compared.

    Raises:
        ValueError: a number out of range.
    """

    teacher: tf.keras.Model
    sha256: str
    labels: list[str] | None = None
    temperature: float = 2.0
    weight: float = 0.5
    hidden_weight: float = 0.0

    def __post_init__(self):
        for name, rule, holds in (
            ("temperature", "above 0 and at most 100", 0 < self.temperature <= 100),
            ("weight", "in [0, 1]", 0 <= self.weight <= 1),
            ("hidden_weight", "at least 0", 0 <= self.hidden_weight < float("inf")),
        ):
            if not holds:
                raise ValueError(f"`{name}` must be {rule}. Received: {getattr(self, name)}.")

    def settings(self) -> dict[str, Any]:
        """What decides a run's result, as JSON can hold it."""
        names = ("sha256", "temperature", "weight", "hidden_weight")
        return {name: getattr(self, name) for name in names}

    def student_outputs(self, student: tf.keras.Model) -> dict[str, tf.Tensor]:
        """The student's outputs, and where hidden states are compared those of all its layers, in
        the teacher's width: by a projection, where they differ, that belongs to no student."""
        if not self.hidden_weight:
            return dict(student.output)
        layers = range(config_of(student).num_hidden_layers + 1)
        hidden = _hidden_states(student, list(layers))
        width = config_of(self.teacher).hidden_size
        if width != config_of(student).hidden_size:
            hidden = tf.keras.layers.Dense(width, dtype="float32", name="projection")(hidden)
        return {**student.output, HIDDEN: hidden}

    def teacher_for(
        self, student: tf.keras.Model, teacher: tf.keras.Model | None = None
    ) -> tf.keras.Model:
        """The teacher with the hidden states that the student's are compared with.

        Args:
            teacher: another model of its weights, such as one that is told the gold starts.
        """
        teacher = self.teacher if teacher is None else teacher
        teacher.trainable = False
        if not self.hidden_weight:
            return teacher
        sizes = (config_of(model).num_hidden_layers for model in (student, teacher))
        hidden = _hidden_states(teacher, taught_layers(*sizes))
        return tf.keras.Model(teacher.input, {**teacher.output, HIDDEN: hidden})


def _hidden_states(model, layers):
    """Symbolic `(B, K, S, H)`."""
    if any(isinstance(layer, tf.keras.Model) for layer in model.layers):
        raise ValueError(
            "Hidden states are those of layers that a model has as its own. Received: "
            f"{model.name}, whose encoder is one layer. Distil its logits alone (hidden_weight 0)."
        )
    outputs = layers_of(model)["encoder"].output
    if not isinstance(outputs, list):
        raise ValueError(
            "Hidden states are compared between encoders that give all layers. Received: "
            f"{model.name} without. Build or load it with output_all_layers=True."
        )
    return _Stacked(layers)(outputs)


class _Stacked(tf.keras.layers.Layer):
    """The chosen ones of L + 1 layers' outputs `(B, S, H)` as `(B, K, S, H)`."""

    def __init__(self, layers):
        super().__init__(name="stacked_layers")
        self.chosen = layers

    def call(self, outputs):
        return tf.stack([outputs[layer] for layer in self.chosen], axis=1)
