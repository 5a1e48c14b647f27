"""The page of a run: what was trained, how it went, and what the model guesses."""
