"""Kafka's producer, of librdkafka: it sends a request again when its socket's time is over."""

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


KAFKA: Final = Explored(
    name="Kafka",
    dialect=DIALECTS["kafka"],
    library="confluent-kafka",
    stepped={"batch.num.messages": "1", "linger.ms": "0"},
    impatient={"socket.timeout.ms": "1000", "api.version.request.timeout.ms": "1000"},
    existing=existing,
    client_id=client_id,
)
