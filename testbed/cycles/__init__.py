"""Faults injected and healed again and again on real brokers, with their injectors killed in a random third."""
