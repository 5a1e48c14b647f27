"""The committed vocabulary of 400 pieces as a tokenizer, its normalisation baked once a process."""

import functools
from pathlib import Path

from albert_keras.text.tokenizer import Tokenizer

VOCAB_SIZE = 400


@functools.cache
def small_tokenizer(lowercase: bool = True) -> Tokenizer:
    path = Path(__file__).parent / "vocabularies" / "tiny.model"  # made by make_tiny.py beside it
    return Tokenizer.load(path, lowercase=lowercase)
