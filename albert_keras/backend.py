"""Which Keras this is, what the two name differently, and which backend neither may have."""

import os
from typing import Any


def refuse_other_backends() -> None:
    """Raises ImportError when KERAS_BACKEND names another backend for the Keras in use.

    Asked when a public name is first used or the layers are imported, not when the package is: by
    then the command line has chosen Keras 2, which has no other backend and reads no such variable.
    """
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    legacy = os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True")
    if backend != "tensorflow" and not legacy:
        raise ImportError(
            f"albert_keras runs on TensorFlow. Received: KERAS_BACKEND={backend}. Unset it, or set "
            "TF_USE_LEGACY_KERAS=1 to use Keras 2, before importing albert_keras."
        )


def is_keras_3() -> bool:
    """Whether `tf.keras` is Keras 3. Imports TensorFlow, after which that is settled."""
    import tensorflow as tf

    return hasattr(tf.keras, "ops")


def path_of(variable: Any) -> str:
    """The variable's full path, such as "encoder/ffn_0/LayerNorm/gamma", on either Keras."""
    return getattr(variable, "path", variable.name).removesuffix(":0")
