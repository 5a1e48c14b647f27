"""What trains a student: a task's model, or a pretrainer, with the losses of a `Distillation`."""

from collections.abc import Callable, Mapping

import tensorflow as tf

from albert_keras.distillation import HIDDEN, Distillation, hidden_error, soft_divergence
from albert_keras.model import pair_objective_of
from albert_keras.pretraining_model import PretrainingModel

SoftLoss = Callable[[Mapping, Mapping, Mapping, float], tf.Tensor]


class DistilledModel(tf.keras.Model):
    """A task's model whose `compile` takes the task's losses and whose `fit` adds a teacher's.

    It shares the student's weights, and is for training alone. `loss` in its logs is the task's
    own, as without a teacher; beside it are `distillation`, the loss of the teacher's answers, and
    with hidden states `hidden_error`.

    Args:
        student: the model that `fit` would train without a teacher.
        distillation: how to learn; hidden states only where the encoder gives all layers.
        teacher: of the student's inputs and outputs, and of the weights of `distillation`.
        soft_loss: takes the targets, the outputs of teacher and student, and the temperature, and
            gives float32 `(B,)`.

    Example:

    >>> student, teacher = (build_classifier(build_albert("tiny"), 2) for _ in range(2))
    >>> def soft_loss(targets, teacher, student, temperature):
    ...     return soft_divergence(teacher["logits"], student["logits"], temperature)
    >>> model = DistilledModel(student, Distillation(teacher, sha256="..."), teacher, soft_loss)
    >>> loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    >>> model.compile("adam", loss={"logits": loss})
    """

    def __init__(
        self,
        student: tf.keras.Model,
        distillation: Distillation,
        teacher: tf.keras.Model,
        soft_loss: SoftLoss,
    ):
        super().__init__(
            inputs=student.input,
            outputs=distillation.student_outputs(student),
            name="albert_distillation",
        )
        # Of several outputs Keras would put the names before the metrics'.
        self.output_names = student.output_names
        self.distillation, self._soft_loss = distillation, soft_loss
        self._taught = _outputs_of(distillation.teacher_for(student, teacher))
        self._task_mean = tf.keras.metrics.Mean(name="task_loss")
        self._soft_mean = tf.keras.metrics.Mean(name="distillation")
        if distillation.hidden_weight:
            self._hidden_mean = tf.keras.metrics.Mean(name="hidden_error")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **options):
        chosen, taught = self.distillation, self._taught(x)
        outputs = _answers(y_pred)
        # Keras makes a replica's share of the mean over all of them.
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        task = replicas * super().compute_loss(x, y, outputs, sample_weight, **options)
        soft = tf.reduce_mean(self._soft_loss(y, taught, outputs, chosen.temperature))
        self._task_mean.update_state(task)
        self._soft_mean.update_state(soft)
        loss = (1 - chosen.weight) * task + chosen.weight * soft
        if chosen.hidden_weight:
            tokens = tf.cast(x["padding_mask"], tf.float32)
            error = tf.reduce_sum(tokens * hidden_error(taught[HIDDEN], y_pred[HIDDEN]))
            error /= tf.reduce_sum(tokens)
            self._hidden_mean.update_state(error)
            loss += chosen.hidden_weight * error
        return loss / replicas

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, _answers(y_pred), sample_weight)

    def train_step(self, batch):
        logs = super().train_step(batch)
        logs["loss"] = logs.pop("task_loss")  # Keras 2 has that there, Keras 3 the sum
        return logs

    def get_config(self):
        raise NotImplementedError("A DistilledModel is for training. Save the student.")


class DistilledPretraining(PretrainingModel):
    """A `PretrainingModel` with a teacher: of the masked words, of the pairs where both have the
    same objective, and of the hidden states where they are compared.

    A mean is over the weights of the whole batch, as those of the labels are. `loss` in the logs is
    that of the labels; beside it are `mlm_distillation`, `sop_distillation` (or nsp_) and
    `hidden_error`.

    Args:
        pretrainer: the student.
        distillation: its teacher is a model of `build_pretrainer` with an open axis of masked
            positions.
        micro_batches: see `with_pretraining_loss`.

    Example:

    >>> student, teacher = (
    ...     build_pretrainer(build_albert("tiny", sharing=sharing)) for sharing in ("all", "none")
    ... )
    >>> model = DistilledPretraining(student, Distillation(teacher, sha256="..."))
    >>> model.compile(Lamb(1e-3))
    >>> [metric.name for metric in model.metrics][-3:]
    ['mlm_distillation', 'sop_distillation', 'skipped_steps']

    Reference:
        Sanh et al. 2019, section 3, https://arxiv.org/abs/1910.01108
    """

    def __init__(
        self, pretrainer: tf.keras.Model, distillation: Distillation, micro_batches: int = 1
    ):
        super().__init__(pretrainer, micro_batches, distillation.student_outputs(pretrainer))
        self.distillation = distillation
        self._taught = _outputs_of(distillation.teacher_for(pretrainer))
        self._pairs = self.objective == pair_objective_of(distillation.teacher) != "none"
        more = list(self.places)[len(self.means) :]
        self.means = [*self.means, *(tf.keras.metrics.Mean(name=name) for name in more)]

    @property
    def places(self):
        places = {**super().places, "mlm_distillation": (2, 0)}
        if self._pairs:
            places[f"{self.objective}_distillation"] = 3, 0
        if self.distillation.hidden_weight:
            places["hidden_error"] = 4, 0
        return places

    @property
    def shares(self):
        words = self.distillation.weight
        pairs = words if self._pairs else 0.0
        return [1 - words, 1 - pairs, words, pairs, self.distillation.hidden_weight]

    def _total_weights(self, batch):
        labels = super()._total_weights(batch)
        tokens = tf.reduce_sum(tf.cast(batch["padding_mask"], tf.float32))
        return tf.concat([labels, labels, [tokens]], axis=0)

    def _sums_of(self, outputs, batch):
        taught, temperature = self._taught(batch), self.distillation.temperature

        def row(losses, weights):
            return tf.stack([tf.reduce_sum(weights * losses), 0.0, tf.reduce_sum(weights)])

        def soft(name, weights):
            return row(soft_divergence(taught[name], outputs[name], temperature), batch[weights])

        words, pairs, hidden = soft("mlm_logits", "masked_weights"), tf.zeros([3]), tf.zeros([3])
        if self._pairs:
            pairs = soft("sop_logits", "sop_weights")
        if HIDDEN in outputs:
            tokens = tf.cast(batch["padding_mask"], tf.float32)
            hidden = row(hidden_error(taught[HIDDEN], outputs[HIDDEN]), tokens)
        labels = super()._sums_of(outputs, batch)
        return tf.concat([labels, [words, pairs, hidden]], axis=0)


def _answers(outputs):
    return {name: value for name, value in outputs.items() if name != HIDDEN}


def _outputs_of(teacher):
    """A function from a batch's inputs to the teacher's outputs: a plain one, so that Keras does
    not count and save the teacher with the student."""

    def taught(inputs):
        outputs = teacher({name: inputs[name] for name in teacher.input}, training=False)
        return {name: tf.stop_gradient(value) for name, value in outputs.items()}

    return taught
