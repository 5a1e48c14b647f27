"""Checkout-only stand-in, never packaged: `setup.cfg` installs `export/` as this."""

import importlib
from pathlib import Path

__path__ = [str(Path(__file__).parents[2] / "export")]

from albert_keras.export.served_model import ServedModel  # noqa: E402

__all__ = ["ServedModel", "export_saved_model"]


def __getattr__(name):
    if name != "export_saved_model":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.saved_model").export_saved_model
