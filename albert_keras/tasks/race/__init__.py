"""RACE and other multiple choice: its files, its rows, its score."""
