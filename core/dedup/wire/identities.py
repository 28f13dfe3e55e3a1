"""Who a system is that was there before, as its round trip leaves word of it in the pod's status for the operator.

A Kafka is its cluster's id, which brokers tell, whatever address they are asked at. A Pulsar tells none, but the ids
of its brokers, which are their addresses among each other: two that share a broker are one. The addresses of brokers
are those to which the hosts that they advertise lead.
"""

from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from dedup.errors import PlatformError

MARK: Final = "system: "
LONGEST: Final = 4000
"""Bytes; Kubernetes keeps 4,096 of a container's last word."""


class Identity(BaseModel):
    """Who it is, and where its brokers are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = ""
    """A Kafka's cluster id; empty: the system has none, and its brokers are who it is."""
    brokers: dict[str, list[str]] = {}
    """By a broker's id: addresses (IP). Empty if there are too many to be told."""

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if not self.names:
            raise ValueError("an identity names a cluster, or brokers")
        return self

    @property
    def names(self) -> list[str]:
        """All by which it is known: two identities with a common name are one system."""
        return [self.cluster] if self.cluster else sorted(self.brokers)

    def word(self) -> str:
        """As one line that fits; PlatformError if it would not say who the system is."""
        said = f"{MARK}{self.model_dump_json()}"
        if len(said.encode()) <= LONGEST:
            return said
        if self.cluster:
            return f"{MARK}{Identity(cluster=self.cluster).model_dump_json()}"
        raise PlatformError(
            where="the system's brokers",
            got=f"{len(self.brokers)}, whose ids do not fit into {LONGEST} bytes",
            rule="a system without an id is known by its brokers, so that two experiments never test one at once",
            todo="test a system with fewer brokers",
        )


def identity_in(word: str) -> Identity | None:
    """What a round trip has left; None if that is no such word."""
    if not word.startswith(MARK):
        return None
    try:
        return Identity.model_validate_json(word.removeprefix(MARK))
    except ValidationError:
        return None
