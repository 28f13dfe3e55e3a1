"""Pulsar's producers: each sends again when a connection has ended. No time-out is to be shortened."""

from collections.abc import Mapping, Sequence
from typing import Final

from dedup.experiment.dialects import DIALECTS
from dedup.experiment.endpoints import Endpoints
from dedup_lab.exploring.protocols.explored import Explored
from dedup_runners.interposer.protocols import Address
from dedup_runners.interposer.speeches import SPEECHES


def existing(given: Sequence[Address], found: Endpoints) -> dict[str, str]:
    """Brokers by the addresses that were given, and their admin interface. TLS is no part of it: the ground has it."""
    url = found.admin_urls[0].replace("https:", "http:")
    return {"serviceUrl": SPEECHES["pulsar"].bootstrap(given), "adminUrl": url}


def nameless(properties: Mapping[str, str], name: str) -> None:
    """A client says no name."""


CPP: Final = Explored(
    name="Pulsar",
    dialect=DIALECTS["pulsar"],
    stepped={"batching_enabled": "false"},
    impatient={},
    existing=existing,
    client_id=nameless,
)
JAVA: Final = CPP._replace(stepped={"batchingEnabled": "false"})
