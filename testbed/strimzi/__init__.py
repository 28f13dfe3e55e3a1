"""Strimzi without its operator: the definitions of its kinds."""
