"""`keys`: messages have keys, and the client chooses the partition of each.

Without keys the producer names the partition of every message. An application names a key instead, and its client puts
all messages of a key into one partition, by a hash of the key. So order is kept within a key, and deduplication must
keep it there. Each key is a stream. The partition where it belongs is computed here, by the client's function
(partitioners.py), and what is read elsewhere is misplaced.
"""

from collections.abc import Mapping

from pydantic import Field

from dedup.workloads.kinds import MOST_STREAMS, Impossible, Shape, WorkloadPart
from dedup.workloads.partitioners import PARTITIONERS, partitioner_of


class Keys(WorkloadPart):
    """Each message has one of so many keys, in turn."""

    count: int = Field(
        ge=1, le=MOST_STREAMS, description="how many keys there are; each is a rising sequence of its own"
    )

    key = "keys"
    summary = "messages have keys, and the client chooses the partition of each"
    of_programs = "is told the partition of each message, and knows no keys"

    def impossible(self, shape: Shape) -> Impossible | None:
        if shape.kind:
            return Impossible(
                "keys",
                f"{shape.kind} beside it",
                f"with {shape.kind} the producer names the partition of each message",
                "keep one of them",
            )
        if self.count > shape.messages:
            return Impossible(
                "keys.count",
                str(self.count),
                f"there are {shape.messages} messages, and each key gets at least one",
                "send more or use fewer keys",
            )
        return None

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        if wrong := super().impossible_with(protocol, library, properties, is_program=is_program):
            return wrong
        if partitioner_of(library, properties) is None:
            known = ", ".join(PARTITIONERS[library])
            return Impossible(
                "keys",
                f"partitioner {properties['partitioner']}",
                f"it is not known where {library} puts a key with it; known are {known}",
                "write one of these, or take client.properties.partitioner out",
            )
        return None

    def streams(self, partitions: int) -> int:
        """One a key."""
        return self.count

    def homes(self, library: str, properties: Mapping[str, str], partitions: int) -> tuple[int, ...]:
        """The partition where the client must put each key, in the order of the keys."""
        function = partitioner_of(library, properties)
        assert function is not None
        return tuple(function(key_of(stream), partitions) for stream in range(self.count))


def key_of(stream: int) -> bytes:
    """The key of the messages of this stream."""
    return b"key-%d" % stream
