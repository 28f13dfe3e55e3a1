"""The clients that can be explored, one record each: their protocol, their settings, and how brokers are named."""

from collections.abc import Mapping
from typing import Final

from dedup.experiment.clients import CLIENTS, Library
from dedup.experiment.systems import Protocol
from dedup_lab.exploring.protocols import kafka, pulsar
from dedup_lab.exploring.protocols.explored import Explored

EXPLORED: Final[Mapping[Library, Explored]] = {
    "confluent-kafka": kafka.LIBRDKAFKA,
    "kafka-java": kafka.JAVA,
    "franz-go": kafka.FRANZ_GO,
    "pulsar-client": pulsar.CPP,
    "pulsar-java": pulsar.JAVA,
}
"""By library."""
FIRST: Final[Mapping[Protocol, Library]] = {"kafka": "confluent-kafka", "pulsar": "pulsar-client"}
"""The library with which brokers are explored that a URL names."""


def words() -> str:
    """What can be explored, in words."""
    return ", or ".join(
        f"one {EXPLORED[first].name} system, with {_either(protocol)}" for protocol, first in FIRST.items()
    )


def _either(protocol: Protocol) -> str:
    *most, last = (library for library in EXPLORED if CLIENTS[library].protocol == protocol)
    return f"{', '.join(most)} or {last}"
