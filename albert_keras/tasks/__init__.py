"""What a model is trained for: data, head, score and recipe of one task together in one file."""
