"""Where clients put a message that has a key: their own functions, written again from their descriptions.

A client takes a hash of the key modulo the number of partitions. Which hash is its business, and its default differs:
so two clients of one topic may put one key into two partitions. These functions share no code with the clients, and
take the key as bytes.

Sources: Kafka's `murmur2` with the sign bit taken away is that of its Java client, which librdkafka calls
`murmur2_random`; librdkafka's default, `consistent_random`, is CRC-32. pulsar-client's C++ library calls its default
*BoostHash*: `boost::hash` of a string (Boost 1.81 and later), of whose 64 bits it takes the lowest 31.

librdkafka's functions are its own, and its setting names them: what is named is the same in every version, or the keys
of everybody who upgrades would move. Boost's is named by nobody: a build of pulsar-client has that of the Boost it was
built with, and Boost has changed it before. So it is known only of the versions that were tried.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Final

Partitioner = Callable[[bytes, int], int]
"""The partition of a key that is not empty, of so many."""

_32: Final = (1 << 32) - 1
_64: Final = (1 << 64) - 1
_31: Final = (1 << 31) - 1


def crc32(key: bytes, partitions: int) -> int:
    """CRC-32, unsigned."""
    return zlib.crc32(key) % partitions


def murmur2(key: bytes, partitions: int) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, without its sign bit."""
    mixer, left = 0x5BD1E995, len(key)
    found = 0x9747B28C ^ left
    for at in range(0, left - left % 4, 4):
        word = int.from_bytes(key[at : at + 4], "little") * mixer & _32
        found = found * mixer & _32 ^ (word ^ word >> 24) * mixer & _32
    if rest := key[left - left % 4 :]:
        found = (found ^ int.from_bytes(rest, "little")) * mixer & _32
    found = (found ^ found >> 13) * mixer & _32
    return (found ^ found >> 15) % (1 << 31) % partitions


def fnv1a(key: bytes, partitions: int) -> int:
    """FNV-1a of 32 bits, taken for a signed number, without its sign."""
    found = 0x811C9DC5
    for each in key:
        found = (found ^ each) * 0x01000193 & _32
    return min(found, (1 << 32) - found) % partitions


def boost(key: bytes, partitions: int) -> int:
    """`boost::hash<std::string>` of 64 bits, of which the lowest 31 count."""
    step, factor = 0x9E3779B97F4A7C15, 0xDF442D22CE4859B9
    walk = _folded(step * factor)
    found, left = walk ^ len(key), key
    while len(left) >= 8:
        walk = walk + step & _64
        found ^= _folded((int.from_bytes(left[:8], "little") + walk & _64) * factor)
        left = left[8:]
    walk = walk + step & _64
    found ^= _folded((_tail(left) + walk & _64) * factor)
    found = _folded((found + walk & _64) * factor)
    return (found & _31) % partitions


def _folded(product: int) -> int:
    """The two halves of a product of 128 bits, one upon the other."""
    return product & _64 ^ product >> 64


def _tail(rest: bytes) -> int:
    """Up to seven bytes as a number."""
    size = len(rest)
    if size >= 4:
        return int.from_bytes(rest[-4:], "little") << (size - 4) * 8 | int.from_bytes(rest[:4], "little")
    if size:
        first, second = size - 1 & 2, size >> 1
        return rest[first] << first * 8 | rest[second] << second * 8 | rest[0]
    return 0


PARTITIONER: Final = "partitioner"
"""The setting by which a client is told its function."""
PARTITIONERS: Final[Mapping[str, Mapping[str, Partitioner]]] = {
    "confluent-kafka": {
        **dict.fromkeys(("consistent_random", "consistent"), crc32),
        **dict.fromkeys(("murmur2_random", "murmur2"), murmur2),
        **dict.fromkeys(("fnv1a_random", "fnv1a"), fnv1a),
    },
    "pulsar-client": {"": boost},
}
"""Of each client its functions, by the value of that setting; the first is its default."""

TRIED: Final[Mapping[str, tuple[str, ...]]] = {"pulsar-client": ("pulsar-client 3.13.0",)}
"""Of a client whose function depends on how it was built: the versions that were asked, as the client says them."""


def partitioner_of(library: str, properties: Mapping[str, str]) -> Partitioner | None:
    """Where the client puts keys with these settings; None if that is not known."""
    known = PARTITIONERS[library]
    return known.get(properties.get(PARTITIONER, next(iter(known))))
