"""Who a system is that was there before, as its round trip leaves word of it in the pod's status for the operator.

A Kafka is its cluster's id, which brokers tell, whatever address they are asked at. A Pulsar tells none: it is the
address of its REST interface. The addresses of its brokers are those to which the hosts that they advertise lead.
"""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MARK: Final = "system: "
LONGEST: Final = 4000
"""Bytes; Kubernetes keeps 4,096 of a container's last word."""


class Identity(BaseModel):
    """Who it is, and where its brokers are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = Field(min_length=1)
    brokers: dict[str, list[str]] = {}
    """By a broker's id: addresses (IP). Empty if there are too many to be told."""

    def word(self) -> str:
        """As one line that fits."""
        said = f"{MARK}{self.model_dump_json()}"
        return said if len(said.encode()) <= LONGEST else f"{MARK}{Identity(cluster=self.cluster).model_dump_json()}"


def identity_in(word: str) -> Identity | None:
    """What a round trip has left; None if that is no such word."""
    if not word.startswith(MARK):
        return None
    try:
        return Identity.model_validate_json(word.removeprefix(MARK))
    except ValidationError:
        return None
