"""Where keys go: the clients' functions, written again, beside what is published of them and what a client did."""

from typing import Final

import pytest

from dedup.workloads.keys import Keys, key_of
from dedup.workloads.partitioners import boost, crc32, fnv1a, murmur2, partitioner_of

ALL: Final = 1 << 31
"""So many partitions show the whole hash, without its sign."""

KEYS: Final = [b"x" * length for length in range(1, 40)]
BY_PULSAR: Final = "230121330323121033203022333301333002131"
"""Where pulsar-client 3.13.0 put these keys on a topic of Pulsar 4.2.4 with four partitions."""


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971), (b"abc", 479470107),
    ],
)  # fmt: skip
def test_kafkas_own_examples_of_murmur2(key: bytes, hashed: int) -> None:
    """From the tests of Kafka's Java client."""
    assert murmur2(key, ALL) == hashed & ALL - 1


def test_published_values_of_the_others() -> None:
    assert crc32(b"123456789", 1 << 32) == 0xCBF43926
    assert fnv1a(b"a", ALL) == (1 << 32) - 0xE40C292C
    assert fnv1a(b"foobar", ALL) == (1 << 32) - 0xBF9CF968


def test_pulsars_keys_are_where_pulsars_client_put_them() -> None:
    assert "".join(str(boost(key, 4)) for key in KEYS) == BY_PULSAR


def test_functions_differ_so_that_one_taken_for_another_is_seen() -> None:
    placed = [tuple(function(key_of(each), 3) for each in range(7)) for function in (crc32, murmur2, fnv1a, boost)]
    assert len({*placed}) == 4
    assert Keys(count=7).homes("confluent-kafka", {}, 3) == placed[0]
    assert Keys(count=7).homes("confluent-kafka", {"partitioner": "murmur2_random"}, 3) == placed[1]
    assert Keys(count=7).homes("pulsar-client", {}, 3) == placed[3]


def test_a_function_that_is_not_known_is_none() -> None:
    assert partitioner_of("confluent-kafka", {"partitioner": "random"}) is None
