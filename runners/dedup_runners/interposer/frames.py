"""Frames of a byte stream: in both protocols a frame begins with its length, four bytes, the highest first."""

from collections.abc import Iterator
from typing import Final

from dedup_runners.interposer.protocols import Unreadable

LENGTH_BYTES: Final = 4
LONGEST_BYTES: Final = 256 << 20
"""Longer than any frame of the systems' defaults (Kafka: 100 MiB). What is longer is another protocol, or TLS."""


class Splitter:
    """Cuts one direction of a connection into frames, each with its length in front."""

    def __init__(self, protocol: str, longest_bytes: int = LONGEST_BYTES) -> None:
        self._protocol, self._longest = protocol, longest_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are whole now; Unreadable if a length cannot be one."""
        self._rest += data
        while len(self._rest) >= LENGTH_BYTES:
            size = int.from_bytes(self._rest[:LENGTH_BYTES], "big")
            if size > self._longest:
                raise Unreadable(
                    where=f"a connection that should speak {self._protocol}",
                    got=f"the bytes {bytes(self._rest[:8]).hex(' ')}, which announce a frame of {size:,} bytes",
                    rule=f"a frame has at most {self._longest:,} bytes",
                    todo=f"see that the address is a plaintext listener of {self._protocol}, and no other protocol",
                )
            if len(self._rest) < LENGTH_BYTES + size:
                return
            frame = bytes(self._rest[: LENGTH_BYTES + size])
            del self._rest[: LENGTH_BYTES + size]
            yield frame
