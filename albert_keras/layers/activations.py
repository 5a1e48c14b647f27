"""The activations of ALBERT and BERT, by the names that say which formula is meant.

"gelu" alone means the tanh form in Google's ALBERT code and the erf form at Hugging Face, and a
model trained with one is a little wrong with the other, so neither name is taken here.
"""

import difflib
import functools
from collections.abc import Callable

import tensorflow as tf

from albert_keras.layers.fused import fused


def gelu_tanh(x: tf.Tensor) -> tf.Tensor:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): Google's "gelu", Hugging Face's "gelu_new"."""
    return _in_float32(functools.partial(tf.nn.gelu, approximate=True), x)


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """x/2 (1 + erf(x / sqrt(2))): Hugging Face's "gelu"."""
    return _in_float32(functools.partial(tf.nn.gelu, approximate=False), x)


def _in_float32(function, x):
    # Rounded to 16 bits once and not after each of eight steps; a fused kernel is faster so, too.
    return tf.cast(function(tf.cast(x, tf.float32)), x.dtype)


def relu(x: tf.Tensor) -> tf.Tensor:
    """max(x, 0): Google's Chinese ALBERT models."""
    return tf.nn.relu(x)


ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
    "relu": relu,
    "tanh": tf.nn.tanh,
    "linear": tf.identity,
}


# One kernel each while training; see `fused`. What is absent here is one pass anyway.
_FUSED = {"gelu_tanh": fused(gelu_tanh), "gelu_erf": fused(gelu_erf)}


def fused_activation_named(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """The same function as `activation_named`, for use while training."""
    return _FUSED.get(name) or activation_named(name)


def activation_named(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """The function of an activation name; an unknown name is a `ValueError`."""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    if name in ("gelu", "gelu_new"):
        hint = (
            'Use "gelu_tanh" (Google\'s "gelu", Hugging Face\'s "gelu_new") or "gelu_erf" '
            '(Hugging Face\'s "gelu").'
        )
    else:
        close = difflib.get_close_matches(str(name), ACTIVATIONS, n=1)
        hint = f'Did you mean "{close[0]}"?' if close else "Use one of them."
    raise ValueError(
        f"An activation is one of {', '.join(ACTIVATIONS)}. Received: {name!r}. {hint}"
    )
