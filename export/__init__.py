"""SavedModels that take raw strings, and the proof that they answer."""

import importlib

from .served_model import ServedModel

__all__ = ["ServedModel", "export_saved_model"]


def __getattr__(name):
    # When it is first used (PEP 562): it loads Keras and the models, which asking does not need.
    if name != "export_saved_model":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.saved_model").export_saved_model
