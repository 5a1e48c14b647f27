"""Refuses a Keras that computes with something else than TensorFlow."""

import os


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
