"""Exactly once, end to end: S2's patterns of a service with a payment, a row and an event, killed at each of its steps.

The parts are real: Kafka, PostgreSQL, an HTTP server that takes payments, and Debezium in Kafka Connect. `patterns` has
the order of steps of each pattern, and what follows of it; `services` is one life of the service; `runs` makes a run
and counts its effects; `pages` writes docs/exactly-once.md.
"""
