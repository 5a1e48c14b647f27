"""SavedModels that take raw strings, and the proof that they answer."""

from .saved_model import export_classifier

__all__ = ["export_classifier"]
