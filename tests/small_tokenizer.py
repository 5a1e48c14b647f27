"""A vocabulary of 300 pieces, trained once a process on the text of this project's licence."""

import functools
from pathlib import Path

from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.vocabulary import train_vocabulary

VOCAB_SIZE = 300


@functools.cache
def small_tokenizer(lowercase: bool = True) -> Tokenizer:
    lines = (Path(__file__).parents[1] / "LICENSE").read_text().splitlines()
    return Tokenizer(train_vocabulary(lines, VOCAB_SIZE, lowercase=lowercase), lowercase=lowercase)
