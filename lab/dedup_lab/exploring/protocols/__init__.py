"""The protocols that can be explored here, one record each: the client, its settings, and how brokers are named."""

from collections.abc import Mapping
from typing import Final

from dedup.experiment.systems import Protocol
from dedup_lab.exploring.protocols.explored import Explored
from dedup_lab.exploring.protocols.kafka import KAFKA
from dedup_lab.exploring.protocols.pulsar import PULSAR

EXPLORED: Final[Mapping[Protocol, Explored]] = {"kafka": KAFKA, "pulsar": PULSAR}


def words() -> str:
    """What can be explored, in words."""
    return " or ".join(f"one {each.name} system, with {each.library}" for each in EXPLORED.values())
