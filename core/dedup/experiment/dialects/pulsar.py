"""Pulsar's commands, by their names in PulsarApi.proto.

A client has no time-out after which it sends a message again: it does so when its connection has ended, and all that
was not acknowledged. A broker gives a producer's name to another connection only when it has closed the first.
"""

from typing import Final

from dedup.experiment.dialects.dialect import Dialect

PULSAR: Final = Dialect(
    carrier="SEND",
    opening="CONNECT",
    logins=frozenset({"AUTH_RESPONSE"}),
    by_timers={"PING": "the client sends it by a timer", "PONG": "the client is asked for it by a timer"},
    later={"CONNECT": "how many brokers own a topic's partitions is chance"},
    returns_by="PRODUCER",
    parting=frozenset({"CLOSE_PRODUCER"}),
    waits=True,
)
