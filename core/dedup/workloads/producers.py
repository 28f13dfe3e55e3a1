"""`producers`: several producers side by side, each with an identity and streams of its own.

Brokers deduplicate by producer: Kafka by producer id, Pulsar by name. One producer alone shows nothing of how they keep
several apart, whose messages alternate in a partition, and whose retries arrive among those of the others. A stream has
one writer, so each producer has a stream of its own in every partition.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import Field

from dedup.wire.manifests import Manifest
from dedup.workloads.kinds import CLOSED, MOST_STREAMS, Impossible, Shape, WorkloadKind, broken_sessions, homes_of

MOST_PRODUCERS: Final = 64
"""Each is a client with threads and connections of its own, in one process."""


class Producers(WorkloadKind):
    """So many producers send side by side."""

    count: int = Field(ge=2, le=MOST_PRODUCERS, description="how many; each has a rising sequence in every partition")

    key = "producers"
    summary = "several producers send side by side, each with a name and sequences of its own"
    cause = "copied_by_retry"
    words = "by the client's retry"

    def impossible(self, shape: Shape) -> Impossible | None:
        streams = self.streams(shape.partitions)
        if streams > min(MOST_STREAMS, shape.messages):
            few = (
                f"there are {shape.messages:,} messages"
                if streams <= MOST_STREAMS
                else f"at most {MOST_STREAMS:,} can be"
            )
            return Impossible(
                "producers.count",
                str(self.count),
                f"with {shape.partitions} partition(s) that makes {streams:,} sequences, and {few}",
                "ask for fewer producers or partitions, or send more",
            )
        if self.count > shape.in_flight:
            return Impossible(
                "producers.count",
                str(self.count),
                f"workload.inFlight is {shape.in_flight}, shared by all, and each producer needs one",
                "ask for fewer producers, or let more be in flight",
            )
        return None

    def streams(self, partitions: int) -> int:
        """One a partition, of each producer."""
        return partitions * self.count

    def homes(self, library: str, properties: Mapping[str, str], partitions: int) -> tuple[int, ...]:
        """The partition of each stream: first all those of the first producer."""
        return homes_of(partitions) * self.count

    def broken(self, manifest: Manifest) -> Iterator[str]:
        yield from broken_sessions(manifest, (CLOSED,) * self.count)
        names = {session.identity for session in manifest.producer.sessions}
        if len(names) < len(manifest.producer.sessions):
            yield f"its {len(manifest.producer.sessions)} producers had {len(names)} name(s)"

    def untested(self, manifest: Manifest) -> Iterator[str]:
        yield from ()
