"""What differs between clients when a producer is explored, besides their requests (dedup/experiment/dialects)."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dedup.experiment.dialects.dialect import Dialect
from dedup.experiment.endpoints import Endpoints
from dedup_runners.interposer.protocols import Address


class Explored(NamedTuple):
    """How a client is explored: in threads of this process; a thread starts the client if it is a program."""

    name: str
    """Of the protocol, in sentences."""
    dialect: Dialect
    stepped: Mapping[str, str]
    """Its settings with which a message is a batch of its own, so that each request is about one."""
    impatient: Mapping[str, str]
    """Its settings with which it asks again soon. A file may say otherwise."""
    existing: Callable[[Sequence[Address], Endpoints], dict[str, str]]
    """How an experiment names brokers that are there: those that were given, and all that was found of them."""
    client_id: Callable[[Mapping[str, str], str], str | None]
    """What the client calls itself, by its settings and the name of its run; None: it says no name."""
