"""The protocols that the interposer speaks, and what a program must know of them to stand between.

A protocol's module is loaded when it is asked for: it needs the protocol's library.
"""

import importlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dedup.experiment.systems import Protocol
from dedup_runners.addresses import apart
from dedup_runners.interposer.protocols import Address, Speech


class Known(NamedTuple):
    """One protocol: its module and class, the request that carries messages, and how a bootstrap address begins."""

    module: str
    name: str
    carrier: str
    scheme: str

    def speech(self) -> Speech:
        """The protocol, for one interposer."""
        found: Speech = getattr(importlib.import_module(self.module), self.name)()
        return found

    def brokers(self, bootstrap: str) -> list[Address]:
        """The addresses in a client's bootstrap."""
        return [Address(*apart(each)) for each in bootstrap.removeprefix(self.scheme).split(",")]

    def bootstrap(self, doors: Iterable[Address]) -> str:
        """The bootstrap that tells a client of these addresses."""
        return self.scheme + ",".join(map(str, doors))


SPEECHES: Final[Mapping[Protocol, Known]] = {
    "kafka": Known("dedup_runners.interposer.kafka", "Kafka", "Produce", ""),
    "pulsar": Known("dedup_runners.interposer.pulsar", "Pulsar", "SEND", "pulsar://"),
}
