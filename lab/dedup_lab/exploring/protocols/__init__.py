"""The clients that can be explored, one record each: their protocol, their settings, and how brokers are named."""

from collections.abc import Mapping
from typing import Final

from dedup.experiment.clients import CLIENTS, Library
from dedup.experiment.systems import Protocol
from dedup_lab.exploring.protocols.explored import Explored
from dedup_lab.exploring.protocols.kafka import JAVA, LIBRDKAFKA
from dedup_lab.exploring.protocols.pulsar import PULSAR

EXPLORED: Final[Mapping[Library, Explored]] = {
    "confluent-kafka": LIBRDKAFKA,
    "kafka-java": JAVA,
    "pulsar-client": PULSAR,
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
    return " or ".join(library for library in EXPLORED if CLIENTS[library].protocol == protocol)
