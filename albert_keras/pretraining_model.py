"""PretrainingModel: a pretrainer with its loss, and the step that trains it."""

from collections.abc import Mapping

import tensorflow as tf

from albert_keras.backend import is_keras_3
from albert_keras.losses import pretraining_sums
from albert_keras.model import layers_of, pair_objective_of


def with_pretraining_loss(pretrainer: tf.keras.Model, micro_batches: int = 1) -> "PretrainingModel":
    """A model that takes whole pretraining batches, for `compile` and `fit`.

    It shares the weights of `pretrainer`. `compile` needs the optimizer only; see
    `PretrainingModel`.

    Args:
        pretrainer: a model of `build_pretrainer`.
        micro_batches: int > 0, parts that a step cuts the rows of a replica into, one after the
            other: the gradient is that of the whole, the memory that of a part. Default 1.

    Raises:
        ValueError: `pretrainer` lacks masked positions or one of the two logits, or a number below
            1.

    Example:

    >>> from albert_keras import Lamb, build_albert, build_pretrainer
    >>> model = with_pretraining_loss(build_pretrainer(build_albert("tiny")), micro_batches=4)
    >>> model.compile(Lamb(1e-3))
    >>> [metric.name for metric in model.metrics][:3]
    ['mlm_loss', 'mlm_accuracy', 'sop_loss']
    """
    names = [*pretrainer.input, *pretrainer.output]
    if not {"masked_positions", "mlm_logits", "sop_logits"} <= set(names):
        raise ValueError(
            "A pretrainer takes masked_positions and gives mlm_logits and sop_logits. Received: a "
            f"model of {', '.join(names)}. Use one of build_pretrainer."
        )
    if micro_batches < 1:
        raise ValueError(f"`micro_batches` must be at least 1. Received: {micro_batches}.")
    return PretrainingModel(pretrainer, micro_batches)


class PretrainingModel(tf.keras.Model):
    """A pretrainer whose `fit` takes the batches of `pretraining_batches`.

    loss = mean of the masked tokens' cross-entropy + mean of the pairs' cross-entropy. A mean is
    over the weights of the whole batch, on all replicas and in all micro-batches together, and 0
    where those are all 0; so a step does the same, however its batch is divided. (The original
    divides by the weights of each core, plus 1e-5.)

    A gradient that is not finite anywhere is made NaN everywhere. `Lamb` and `AdamW` then leave
    weights and moments as they were, and the step counts as skipped; other optimizers would write
    NaN into every weight.

    Metrics since the last reset: `mlm_loss` and `sop_loss` in nats, `mlm_accuracy` and
    `sop_accuracy` in [0, 1], weighted means over the steps that were not skipped; and
    `skipped_steps`. The pair's are named by the objective of the pretrainer's head, `nsp_loss`;
    with "none" there are none. The logs have `loss`, the sum of the losses, as well.

    Batches: the pretrainer's inputs, and
        masked_ids: int32 `(B, M)`, the pieces that were hidden.
        masked_weights: float32 `(B, M)`, 1 for a prediction and 0 for an unused slot.
        sop_labels: int32 `(B,)`, the column that is right.
        sop_weights: float32 `(B,)`, 0 for a row that is no example of a pair.

    Reference:
        ALBERT, section 3.1, https://arxiv.org/abs/1909.11942
    """

    def __init__(
        self,
        pretrainer: tf.keras.Model,
        micro_batches: int,
        outputs: Mapping[str, tf.Tensor] | None = None,
    ):
        super().__init__(
            inputs=pretrainer.input,
            outputs=pretrainer.output if outputs is None else outputs,
            name="albert_pretraining",
        )
        self.micro_batches = micro_batches
        self.objective = pair_objective_of(pretrainer)
        self.means = [tf.keras.metrics.Mean(name=name) for name in _places(self.objective)]
        self.skipped_steps = tf.keras.metrics.Sum(name="skipped_steps")
        # Every replica logs the numbers of the whole batch; Keras 2 would add them up.
        self.distribute_reduction_method = "first"

    @property
    def places(self) -> dict[str, tuple[int, int]]:
        """Row and column of each mean, by its name, in a batch's sums."""
        return _places(self.objective)

    @property
    def shares(self) -> list[float]:
        """The share in the loss of each row of a batch's sums."""
        return [1.0, 1.0]

    @property
    def metrics(self):
        return [*self.means, self.skipped_steps]

    @property
    def trained_variables(self) -> list[tf.Variable]:
        """The trainable variables that the objective reaches.

        With "none" these are not those of the pooler and the pair head: weight decay alone would
        shrink them.
        """
        if self.objective != "none":
            return self.trainable_variables
        layers = layers_of(self)
        unreached = {id(weight) for name in ("pooler", "sop") for weight in layers[name].weights}
        return [weight for weight in self.trainable_variables if id(weight) not in unreached]

    def train_step(self, batch):
        variables = self.trained_variables
        totals = _over_replicas(self._total_weights(batch))
        if self.micro_batches == 1:
            gradients, sums = self._gradients(batch, totals, variables)
        else:
            gradients, sums = self._accumulated(batch, totals, variables)
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(part)) for part in gradients])
        skipped = _over_replicas(1.0 - tf.cast(finite, tf.float32)) > 0
        gradients = [tf.where(skipped, tf.constant(float("nan"), g.dtype), g) for g in gradients]
        if is_keras_3():
            gradients = self._clipped_sums(gradients)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return self._logs(sums, skipped)

    def test_step(self, batch):
        return self._logs(self._sums(batch, training=False), tf.constant(False))

    def get_config(self):
        raise NotImplementedError(
            "A PretrainingModel is for training. Save the pretrainer, whose weights it shares."
        )

    def _sums(self, batch, training):
        outputs = self({name: batch[name] for name in self.input}, training=training)
        return self._sums_of(outputs, batch)

    def _sums_of(self, outputs, batch):
        return pretraining_sums(outputs, batch)

    def _total_weights(self, batch):
        return tf.stack([tf.reduce_sum(batch[f"{name}_weights"]) for name in ("masked", "sop")])

    def _gradients(self, batch, totals, variables):
        """The gradients of this part's share of the loss, and its sums."""
        optimizer = self.optimizer
        with tf.GradientTape() as tape:
            sums = self._sums(batch, training=True)
            loss = tf.reduce_sum(self.shares * tf.math.divide_no_nan(sums[:, 0], totals))
            # A policy of float16 wraps the optimizer in one that scales the loss.
            if hasattr(optimizer, "get_scaled_loss"):  # Keras 2
                loss = optimizer.get_scaled_loss(loss)
            elif hasattr(optimizer, "scale_loss"):  # Keras 3, which unscales in apply_gradients
                loss = optimizer.scale_loss(loss)
        gradients = [tf.convert_to_tensor(part) for part in tape.gradient(loss, variables)]
        if hasattr(optimizer, "get_unscaled_gradients"):
            gradients = optimizer.get_unscaled_gradients(gradients)
        return gradients, sums

    def _accumulated(self, batch, totals, variables):
        """As `_gradients`, summed over the micro-batches, which are computed one by one."""
        parts = {name: _cut(values, self.micro_batches) for name, values in batch.items()}

        def add(number, gradients, sums):
            part = {name: values[number] for name, values in parts.items()}
            more, more_sums = self._gradients(part, totals, variables)
            gradients = [sum_ + one for sum_, one in zip(gradients, more, strict=True)]
            return number + 1, gradients, sums + more_sums

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
        _, gradients, sums = tf.while_loop(
            lambda number, *_: number < self.micro_batches,
            add,
            [0, zeros, tf.zeros([len(self.shares), 3])],
            maximum_iterations=self.micro_batches,
            parallel_iterations=1,
        )
        return gradients, sums

    def _clipped_sums(self, gradients):
        """Shares of a clipped gradient, which the optimizer adds up and need not clip.

        Keras 3 clips what each replica has; it is the sum that has the norm.
        """
        optimizer = self.optimizer
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas == 1 or hasattr(optimizer, "inner_optimizer"):  # whose gradients are scaled
            return gradients
        gradients = _over_replicas(gradients)
        if optimizer.global_clipnorm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, optimizer.global_clipnorm)
        return [gradient / replicas for gradient in gradients]

    def _logs(self, sums, skipped):
        sums = _over_replicas(sums)
        for metric in self.means:
            row, column = self.places[metric.name]
            # A skipped step's sums may be NaN, which a weight of 0 would not keep out.
            value = tf.where(skipped, 0.0, tf.math.divide_no_nan(sums[row, column], sums[row, 2]))
            metric.update_state(value, tf.where(skipped, 0.0, sums[row, 2]))
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        self.skipped_steps.update_state(tf.cast(skipped, tf.float32) / replicas)
        logs = {metric.name: metric.result() for metric in self.metrics}
        if is_keras_3():  # a replica's own sum, and Keras 2 adds up those of all
            logs["skipped_steps"] *= replicas
        loss = tf.add_n([value for name, value in logs.items() if name.endswith("_loss")])
        return {"loss": loss, **logs}


def _places(objective):
    places = {"mlm_loss": (0, 0), "mlm_accuracy": (0, 1)}
    if objective != "none":
        places |= {f"{objective}_loss": (1, 0), f"{objective}_accuracy": (1, 1)}
    return places


def _over_replicas(values):
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)


def _cut(values, parts):
    """`(B, ...)` as `(parts, B / parts, ...)`."""
    rows = values.shape[0]
    if rows is not None and rows % parts:
        raise ValueError(
            "`micro_batches` must divide the rows of a replica. Received: "
            f"{parts} and {rows} rows. Change one of them."
        )
    return tf.reshape(values, [parts, -1 if rows is None else rows // parts, *values.shape[1:]])
