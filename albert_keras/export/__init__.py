"""Checkout-only stand-in, never packaged: `setup.cfg` installs `export/` as this."""

from pathlib import Path

__path__ = [str(Path(__file__).parents[2] / "export")]

from albert_keras.export.ask import ask  # noqa: E402
from albert_keras.export.saved_model import export_classifier  # noqa: E402

__all__ = ["ask", "export_classifier"]
