"""`payload`: how large a message is.

Eight bytes name a message, and a test of duplicates needs no more. Real messages are larger, and so are the batches,
the buffers and the time on the way that a fault can hit. A larger message has the long form of `dedup.payloads`: its
identity, a checksum over all of it, and zeros for filler. With one damaged byte it is no message of this tool.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from dedup.payloads import PAYLOAD_BYTES, SEND_BYTES
from dedup.workloads.kinds import Impossible, Shape, WorkloadPart

MOST_BYTES: Final = 900_000
"""Brokers and clients take a message of a megabyte by default, with its key and headers."""
MOST_BYTES_IN_CHUNKS: Final = 20_000_000
"""Of a client that cuts a message into chunks, each of at most what its broker takes (Pulsar: 5 MiB)."""
CHUNKING: Final = "chunking_enabled"
"""The setting of pulsar-client with which it does so."""
MOST_BYTES_IN_FLIGHT: Final = 1 << 30
"""What is unacknowledged is held in memory, by the client."""


class Payload(WorkloadPart):
    """Messages are so large."""

    bytes: int = Field(
        ge=SEND_BYTES,
        le=MOST_BYTES_IN_CHUNKS,
        description=f"of each message, at least the {SEND_BYTES} that it needs with a checksum; the rest is zeros; "
        f"at most {MOST_BYTES:,}, or with pulsar-client's {CHUNKING} {MOST_BYTES_IN_CHUNKS:,}",
    )

    key = "payload"
    summary = f"how large a message is, {PAYLOAD_BYTES} bytes if left out"
    of_programs = f"sends messages of {PAYLOAD_BYTES} bytes"

    def impossible(self, shape: Shape) -> Impossible | None:
        if self.bytes * shape.in_flight <= MOST_BYTES_IN_FLIGHT:
            return None
        return Impossible(
            "payload.bytes",
            str(self.bytes),
            f"workload.inFlight lets the client hold {shape.in_flight:,} such messages, more than a gibibyte in memory",
            f"make them smaller, or inFlight at most {MOST_BYTES_IN_FLIGHT // self.bytes:,}",
        )

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        if self.bytes <= MOST_BYTES or properties.get(CHUNKING) == "true":
            return super().impossible_with(protocol, library, properties, is_program=is_program)
        return Impossible(
            "payload.bytes",
            str(self.bytes),
            f"brokers take messages of about a megabyte by default, here at most {MOST_BYTES:,} bytes",
            f'make them smaller, or have pulsar-client cut them (client.properties.{CHUNKING}: "true")',
        )
