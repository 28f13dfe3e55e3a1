"""What a runner writes down: rows of history, lines of events, and what of a topic was read."""
