"""SavedModels that take raw strings, and the proof that they answer."""

from .ask import ask
from .saved_model import export_classifier

__all__ = ["ask", "export_classifier"]
