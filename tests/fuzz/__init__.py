"""Experiments that nobody would write, and histories that were damaged, by the hundred thousand: `make fuzz`."""
