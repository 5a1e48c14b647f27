"""The checkpoint folder: the Hugging Face layout, written and read strictly."""

from albert_keras.checkpoints.folder import find_checkpoint, load_albert, load_head, save_albert

__all__ = ["find_checkpoint", "load_albert", "load_head", "save_albert"]
