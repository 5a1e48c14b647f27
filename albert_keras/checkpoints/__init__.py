"""Checkpoints: the folder in the Hugging Face layout, and the formats of others."""

import importlib

# Imported when they are first used: the layout of a file can be told without TensorFlow.
__all__ = ["load_albert", "load_config", "load_head", "save_albert"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.folder"), name)
