"""Checkpoints: the folder in the Hugging Face layout, and the formats of others."""

from albert_keras.checkpoints.folder import load_albert, load_head, save_albert

__all__ = ["load_albert", "load_head", "save_albert"]
