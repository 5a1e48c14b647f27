"""The checkpoint folder: the Hugging Face layout, written and read strictly."""

from albert_keras.checkpoint_folder import find_checkpoint
from albert_keras.checkpoints.folder import load_albert, load_head, save_albert

__all__ = ["find_checkpoint", "load_albert", "load_head", "save_albert"]
