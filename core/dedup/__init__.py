"""The domain: what an experiment is, what a history is, and what may be concluded from one.

Everything here is pure: no brokers, no cluster, no Spark. Every other room imports this one; it imports none of them.
"""

__version__ = "0.1.0"
"""Of all rooms, and pyproject.toml's. Images hold them as plain files, of which no installer knows a version."""
