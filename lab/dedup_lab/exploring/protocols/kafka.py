"""Kafka's producers: each sends a request again, on another connection, when the time of the first try is over."""

from collections.abc import Mapping, Sequence
from typing import Final

from dedup.experiment.dialects import DIALECTS
from dedup.experiment.endpoints import Endpoints
from dedup_lab.exploring.protocols.explored import Explored
from dedup_runners.interposer.protocols import Address


def existing(given: Sequence[Address], found: Endpoints) -> dict[str, str]:
    """Brokers by the addresses that were given."""
    return {"bootstrap": ",".join(map(str, given))}


def client_id(properties: Mapping[str, str], name: str) -> str:
    """A file may give one."""
    return properties.get("client.id", name)


LIBRDKAFKA: Final = Explored(
    name="Kafka",
    dialect=DIALECTS["kafka"],
    stepped={"batch.num.messages": "1", "linger.ms": "0"},
    impatient={"socket.timeout.ms": "1000", "api.version.request.timeout.ms": "1000"},
    existing=existing,
    client_id=client_id,
)
FRANZ_GO: Final = LIBRDKAFKA._replace(
    stepped={"ProducerLinger": "0s"},
    impatient={"ProduceRequestTimeout": "1s"},
)
"""It waits ten seconds more than that for an answer. Its batches may have 1 KiB at least, so messages may share one."""
JAVA: Final = LIBRDKAFKA._replace(
    stepped={"batch.size": "0", "linger.ms": "0"},
    impatient={"request.timeout.ms": "1000"},
)
