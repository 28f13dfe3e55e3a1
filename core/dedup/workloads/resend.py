"""`resend`: the application sends a message again when its future has failed.

A future that fails by a time-out says nothing of what the broker has stored. The client's own retries have the sequence
of the message, so a broker that deduplicates knows them. What the application sends again is a new message, unless it
can give it its old sequence, as it can in Pulsar, and sends it to the same partition.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from dedup.quantities import Seconds
from dedup.wire.manifests import Manifest
from dedup.workloads.kinds import CLOSED, Impossible, Shape, WorkloadKind, broken_sessions, homes_of


class Numbering(StrEnum):
    """Which sequence a message has that is sent again."""

    SAME = "Same"
    NEW = "New"


class Destination(StrEnum):
    """Which partition a message goes to that is sent again."""

    SAME = "Same"
    OTHER = "Other"


class Resend(WorkloadKind):
    """The application sends again what has failed."""

    delivery_timeout_s: Annotated[Seconds, Field(gt=0, le=600)] = Field(
        2.0,
        alias="deliveryTimeout",
        description="how long the client tries to send one message, until its future fails",
    )
    sequence: Numbering = Field(
        Numbering.NEW, description="New, or Same (Pulsar): the message is given its old sequence id"
    )
    partition: Destination = Field(
        Destination.SAME, description="Same, or Other: what is sent again goes to the next partition"
    )

    key = "resend"
    in_every_digest = True
    summary = "the application sends again what has failed"
    varies = ("sequence", "partition")
    cause = "copied_by_resend"
    words = "by the application's resend"

    @property
    def tried_for_s(self) -> float:
        return self.delivery_timeout_s

    def resent_partitions(self, partitions: int) -> tuple[int, ...] | None:
        homes = homes_of(partitions)
        return (*homes[1:], homes[0]) if self.partition is Destination.OTHER else None

    def impossible(self, shape: Shape) -> Impossible | None:
        if self.partition is Destination.OTHER and self.sequence is Numbering.SAME:
            return Impossible(
                "resend.sequence",
                Numbering.SAME,
                "each partition has sequences of its own, and another partition does not know this one's",
                "write New, or send to the same partition",
            )
        if self.partition is Destination.OTHER and shape.partitions < 2:
            return Impossible(
                "resend.partition",
                Destination.OTHER,
                "the topic has one partition, and there is no other",
                "ask for workload.partitions of 2 or more",
            )
        return None

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        if self.sequence is Numbering.SAME and protocol == "kafka":
            return Impossible(
                "resend.sequence",
                Numbering.SAME,
                "Kafka's producer numbers its messages itself, so what is sent again has a new sequence",
                "write New, or test the Pulsar by itself",
            )
        if self.sequence is Numbering.SAME and properties.get("batching_enabled", "true").lower() != "false":
            return Impossible(
                "resend.sequence",
                Numbering.SAME,
                "a broker judges a batch by one sequence id, and what is sent again is in other batches than before",
                'write New, or give client.properties batching_enabled: "false"',
            )
        return super().impossible_with(protocol, library, properties, is_program=is_program)

    def broken(self, manifest: Manifest) -> Iterator[str]:
        yield from broken_sessions(manifest, (CLOSED,))

    def untested(self, manifest: Manifest) -> Iterator[str]:
        if manifest.producer.sent <= manifest.messages:
            yield "no future failed, so the application sent nothing again"
        elif not manifest.producer.unknown:
            yield "every send that failed was refused before it left the client, so nothing could be stored twice"
