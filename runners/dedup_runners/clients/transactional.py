"""Clients that send in transactions: what they do beyond a producer, and which one an experiment names.

Only the call that ends a transaction, and returns without an error, settles what became of it. After an error that its
library calls fatal a client takes no further transaction; what became of the last one is unknown then.
"""

from collections.abc import Callable
from typing import Protocol

from dedup.wire.manifests import Asked, Ended
from dedup_runners.clients import Outcomes, ProducerClient, Witnesses
from dedup_runners.configs import ProducerConfig


class TransactionalClient(ProducerClient, Protocol):
    """One producer with a transactional id. One thread sends, begins and ends."""

    @property
    def failed(self) -> str:
        """Why the client takes no further transaction, in words; empty as long as it does."""

    @property
    def fenced(self) -> bool:
        """Whether that is because another instance has taken its place."""

    def begin(self) -> None:
        """Begin a transaction."""

    def settle(self) -> None:
        """Return when every message sent has its final outcome; bounded by the delivery timeout."""

    def end(self, asked: Asked, timeout_s: float) -> Ended:
        """Commit or abort; what became of it. A commit that cannot be is aborted instead."""


def make_transactional(
    config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: Witnesses
) -> TransactionalClient:
    """The client that the config names, a program if it has one; SpecificationError if it refuses its properties."""
    if config.program is not None:
        from dedup_runners.clients.transactional_programs import TransactionalProgram

        return TransactionalProgram(config, record, witnesses)
    from dedup_runners.clients.transactions import TransactionalProducer

    return TransactionalProducer(config, record, witnesses)
