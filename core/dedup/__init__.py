"""The domain: what an experiment is, what a history is, and what can be concluded from a history.

Everything here is pure: no brokers, no cluster, no Spark. Every other room imports this one; it imports none of them.
"""

__version__ = "0.1.0"
"""The version of all rooms, as in pyproject.toml. Images hold the rooms as plain files, without package metadata."""
