"""The parts of the judge: from rows to counts and findings, chunk by chunk."""
