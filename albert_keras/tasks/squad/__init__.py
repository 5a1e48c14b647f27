"""Question answering as SQuAD has it: its files, windows over contexts, answers, official score."""
