"""The resource DedupExperiment, made from the models: its schema, and rules in CEL."""
