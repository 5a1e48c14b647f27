"""Text to piece ids: vocabularies (train, import, normalise) and the tokenizer that uses them."""
