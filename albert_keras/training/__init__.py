"""`loop.train`: a run that can be stopped at any moment, watched, and gone on with exactly."""
