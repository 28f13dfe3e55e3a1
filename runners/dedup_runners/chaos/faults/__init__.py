"""The kinds of faults as they are done: one module for each kind of `dedup.faults.registry`, with the same name."""
