"""Lamb, which ALBERT was trained with, and AdamW."""

import re

import tensorflow as tf

from albert_keras.backend import is_keras_3, path_of
from albert_keras.schedule import WarmupLinearDecay
from albert_keras.xla_kernel import xla_kernel

EXCLUDED = ("LayerNorm", "layer_norm", "bias", "gamma$", "beta$")


class _OptimizerOfEitherKeras(tf.keras.optimizers.Optimizer):
    """What the two Kerases ask of an optimizer differently, in one place."""

    def __init__(self, learning_rate, **kwargs):
        if isinstance(learning_rate, int):
            learning_rate = float(learning_rate)
        if is_keras_3():
            super().__init__(learning_rate, **kwargs)
        else:
            super().__init__(**kwargs)
            self._learning_rate = self._build_learning_rate(learning_rate)

    def add_slot(self, variable, name):
        """A zero-filled variable like `variable`, kept and saved with the optimizer."""
        if is_keras_3():
            return self.add_variable_from_reference(variable, name=name)
        return self.add_variable_from_reference(variable, variable_name=name)

    def index_of(self, variable):
        """The place of `variable` in the list that `build` got."""
        if is_keras_3():
            return self._get_variable_index(variable)
        return self._index_dict[self._var_key(variable)]

    def update_step(self, gradient, variable, learning_rate=None):
        # Keras 3 hands the rate over, Keras 2 keeps it.
        rate = self.learning_rate if learning_rate is None else learning_rate
        self.step(gradient, variable, tf.cast(tf.convert_to_tensor(rate), variable.dtype))

    def get_config(self):
        config = super().get_config()
        if not is_keras_3():
            rate = self._learning_rate
            schedules = tf.keras.optimizers.schedules
            if isinstance(rate, schedules.LearningRateSchedule):
                config["learning_rate"] = schedules.serialize(rate)
            else:
                config["learning_rate"] = float(rate.numpy())
        return config


def trust_ratio(weights: tf.Tensor, update: tf.Tensor) -> tf.Tensor:
    """|weights| / |update|, and 1 where either is 0."""
    weights, update = tf.norm(weights), tf.norm(update)
    return tf.where((weights > 0) & (update > 0), tf.math.divide_no_nan(weights, update), 1.0)


def lamb_update(
    weights, gradient, m, v, rate, m_correction, v_correction, *, beta_1, beta_2, epsilon,
    weight_decay, adapt
):  # fmt: skip
    """The rule of `Lamb` for one variable: its new weights, m and v, or the old ones where the
    gradient is not finite."""
    before = weights, m, v
    m = m + (1 - beta_1) * (gradient - m)
    v = v + (1 - beta_2) * (tf.square(gradient) - v)
    update = (m / m_correction) / (tf.sqrt(v / v_correction) + epsilon) + weight_decay * weights
    if adapt:
        rate = rate * trust_ratio(weights, update)
    finite = tf.reduce_all(tf.math.is_finite(gradient))
    after = weights - rate * update, m, v
    return tuple(tf.where(finite, new, old) for new, old in zip(after, before, strict=True))


# For a large variable, one pass over memory in place of two dozen; for a small one, compiling would
# take longer than it saves.
FUSED_FROM = 1 << 16
_fused_lamb_update = xla_kernel(lamb_update)


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class Lamb(_OptimizerOfEitherKeras):
    """LAMB: Adam's direction for each variable, scaled to a share of the variable's own norm.

        m = beta_1 m + (1 - beta_1) g          v = beta_2 v + (1 - beta_2) g^2
        u = m / (sqrt(v) + epsilon) + weight_decay w
        w = w - learning_rate * |w| / |u| * u

    Variables whose path matches `exclude` have no weight decay and no `|w| / |u|`; that ratio
    is also 1 where either norm is 0. With `bias_correction`, m and v are divided by 1 - beta^t
    before u, which is the paper's Algorithm 2 and tensorflow-addons' LAMB; the released ALBERT
    code has no correction, and that is the default here.

    `tf.keras.optimizers.Lamb` of Keras 3 is another rule: its weight decay is outside the ratio,
    and it adapts every variable.

    Gradients are clipped to a global norm as the original does. Keras 2 clips after the replicas'
    gradients are summed; Keras 3 clips each replica's before. A variable whose gradient is not
    finite stays as it is, with its m and v; clipping makes all gradients NaN where one is not
    finite.

    Args:
        learning_rate: float or a schedule. Default 1e-3; ALBERT used a peak of 1.76e-3 with
            batches of 4,096.
        beta_1: float in [0, 1), decay of the first moment. Default 0.9.
        beta_2: float in [0, 1), decay of the second moment. Default 0.999.
        epsilon: float > 0. Default 1e-6.
        weight_decay: float >= 0. Default 0.01.
        exclude: regular expressions, searched in a variable's whole path such as
            "encoder/attention_0/LayerNorm/gamma". Default: biases and normalisation weights.
        bias_correction: bool. Default False.
        global_clipnorm: float > 0, or None for no clipping. Default 1.0.
        **kwargs: what `tf.keras.optimizers.Optimizer` takes besides.

    Raises:
        ValueError: a number outside these ranges.

    Example:

    >>> weights = tf.Variable([3.0, 4.0], name="kernel")
    >>> optimizer = Lamb(learning_rate=0.1, weight_decay=0.0)
    >>> _ = optimizer.apply_gradients([(tf.constant([1.0, 1.0]), weights)])
    >>> weights.numpy().round(3)  # moved by a tenth of its norm, 5
    array([2.646, 3.646], dtype=float32)

    Reference:
        Large Batch Optimization for Deep Learning, Algorithm 2, https://arxiv.org/abs/1904.00962
    """

    def __init__(
        self,
        learning_rate=1e-3,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        weight_decay=0.01,
        exclude=EXCLUDED,
        bias_correction=False,
        global_clipnorm=1.0,
        name="Lamb",
        **kwargs,
    ):
        super().__init__(
            learning_rate,
            global_clipnorm=global_clipnorm,
            name=name,
            # The base class's own weight decay stays off: it is outside the ratio.
            **{**kwargs, "weight_decay": None},
        )
        if not (0 <= beta_1 < 1 and 0 <= beta_2 < 1 and epsilon > 0 and weight_decay >= 0):
            raise ValueError(
                "Lamb needs betas in [0, 1), epsilon above 0 and weight_decay of at least 0. "
                f"Received: beta_1 {beta_1}, beta_2 {beta_2}, epsilon {epsilon}, weight_decay "
                f"{weight_decay}."
            )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.decay_in_ratio = weight_decay
        self.exclude = tuple(exclude)
        self.bias_correction = bias_correction

    layer_adaptation = True

    def build(self, variables):
        if hasattr(self, "momentums"):
            return
        super().build(variables)
        self.momentums = [self.add_slot(variable, "momentum") for variable in variables]
        self.velocities = [self.add_slot(variable, "velocity") for variable in variables]
        self.excluded = tuple(self.excludes(path_of(variable)) for variable in variables)
        self._built = True  # Keras 2 asks for it before it sets or loads the slots

    def excludes(self, path):
        """Whether the variable of this path has neither weight decay nor adaptation."""
        return any(re.search(pattern, path) for pattern in self.exclude)

    def step(self, gradient, variable, rate):
        index = self.index_of(variable)
        momentum, velocity = self.momentums[index], self.velocities[index]
        excluded = self.excluded[index]
        update = lamb_update if variable.shape.num_elements() < FUSED_FROM else _fused_lamb_update
        weights, m, v = update(
            tf.convert_to_tensor(variable),
            # A sparse gradient becomes dense: the norms need every row.
            tf.cast(tf.convert_to_tensor(gradient), variable.dtype),
            tf.convert_to_tensor(momentum),
            tf.convert_to_tensor(velocity),
            rate,
            self._correction(self.beta_1, variable.dtype),
            self._correction(self.beta_2, variable.dtype),
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            weight_decay=0.0 if excluded else self.decay_in_ratio,
            adapt=self.layer_adaptation and not excluded,
        )
        variable.assign(weights)
        momentum.assign(m)
        velocity.assign(v)

    def get_config(self):
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "weight_decay": self.decay_in_ratio,
            "exclude": list(self.exclude),
            "bias_correction": self.bias_correction,
        }

    def _correction(self, beta, dtype):
        if not self.bias_correction:
            return tf.ones([], dtype)
        return 1 - tf.pow(tf.constant(beta, dtype), tf.cast(self.iterations, dtype) + 1)


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class AdamW(Lamb):
    """Adam with decoupled weight decay: `Lamb` without `|w| / |u|`, and with bias correction.

        m = beta_1 m + (1 - beta_1) g          v = beta_2 v + (1 - beta_2) g^2
        u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon) + weight_decay w
        w = w - learning_rate * u

    `tf.keras.optimizers.AdamW` is the same rule, but it names what has no decay by parts of names
    that differ between the Kerases, and it has no way to leave a step out.

    Args:
        learning_rate, beta_1, beta_2, epsilon, weight_decay, exclude, global_clipnorm: see `Lamb`.

    Example:

    >>> weights = tf.Variable([3.0, 4.0], name="kernel")
    >>> optimizer = AdamW(learning_rate=0.1, weight_decay=0.0)
    >>> _ = optimizer.apply_gradients([(tf.constant([1.0, 1.0]), weights)])
    >>> weights.numpy().round(3)  # the first step is of the size of the rate
    array([2.9, 3.9], dtype=float32)

    Reference:
        Decoupled Weight Decay Regularization, Algorithm 2, https://arxiv.org/abs/1711.05101
    """

    layer_adaptation = False

    def __init__(self, learning_rate=1e-3, bias_correction=True, name="AdamW", **kwargs):
        super().__init__(learning_rate, bias_correction=bias_correction, name=name, **kwargs)


OPTIMIZERS = {"lamb": Lamb, "adamw": AdamW}


def optimizer_named(
    name: str,
    peak: float,
    warmup_steps: int,
    total_steps: int,
    decay: str = "from_start",
    clip_norm: float = 1.0,
) -> tf.keras.optimizers.Optimizer:
    """An optimizer with linear warm-up and decay, weight decay 0.01 and clipping.

    Args:
        name: "lamb" or "adamw".
        peak: float > 0, the highest learning rate.
        warmup_steps, total_steps, decay: see `WarmupLinearDecay`.
        clip_norm: float > 0, the global norm that gradients are clipped to. Default 1.0.

    Raises:
        ValueError: an unknown name.
    """
    schedule = WarmupLinearDecay(peak, warmup_steps, total_steps, decay)
    if name in OPTIMIZERS:
        return OPTIMIZERS[name](schedule, global_clipnorm=clip_norm)
    raise ValueError(f"An optimizer is one of {', '.join(OPTIMIZERS)}. Received: {name!r}.")
