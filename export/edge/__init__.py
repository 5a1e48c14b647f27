"""Models for devices: the encoder with its head as one LiteRT or ONNX file, and the vocabulary."""

from .edge_folder import FORMATS, export_edge, load_edge

__all__ = ["FORMATS", "export_edge", "load_edge"]
