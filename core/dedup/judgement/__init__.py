"""What may be concluded from counts and records: of a run, of an experiment. No input, no output."""
