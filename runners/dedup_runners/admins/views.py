"""What each Kafka broker believes of the cluster, asked of that broker itself.

Brokers learn of each other's coming and going one after the other. A cluster is whole again only when *every* broker
says so: a client may ask any of them. So health is judged from all views together, not from one.

The same holds for who leads a partition. A leader that was replaced and does not know it yet goes on calling itself
one, and its end is not the partition's end. So a leader counts when all brokers name it, with the same leader epoch,
and it is asked for the end with that epoch: it refuses (KIP-320) if its own is another.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup_runners.admins import HEALTH_TIMEOUT_S
from dedup_runners.admins.wire import Line, Reader, string

_METADATA: Final = 3
_METADATA_VERSION: Final = 7
_LIST_OFFSETS: Final = 2
_LIST_OFFSETS_VERSION: Final = 4
_LATEST: Final = -1
UNKNOWN_TOPIC: Final = 3


class Partition(NamedTuple):
    """Who leads since which epoch, who holds copies, and whose are complete. Broker ids; no leader is "-1"."""

    leader: str
    replicas: tuple[str, ...]
    in_sync: tuple[str, ...]
    epoch: int = -1


class View(NamedTuple):
    """One broker's word: who is registered and alive, with addresses, and a topic's partitions (`error` 0: known)."""

    brokers: dict[str, tuple[str, int]]
    error: int
    partitions: dict[int, Partition]

    def lack(self, expected: set[str], topic: str | None) -> str | None:
        """What is missing to a whole cluster, in words; None if nothing is."""
        if missing := sorted(expected - self.brokers.keys()):
            return f"broker {', '.join(missing)} is not registered"
        if topic is None:
            return None
        if self.error or not self.partitions:
            return f"{topic}: Kafka error {self.error}" + (" (no such topic)" if self.error == UNKNOWN_TOPIC else "")
        for number, partition in sorted(self.partitions.items()):
            if partition.leader not in self.brokers:
                return f"{topic}/{number} has no leader"
            if behind := sorted(set(partition.replicas) - set(partition.in_sync)):
                return f"{topic}/{number}: replica {', '.join(behind)} is not in sync"
        return None


def view(address: tuple[str, int], topic: str | None, security: Security = OPEN) -> View:
    """The view of the broker at `address`. OSError or PlatformError if it does not answer."""
    wanted = struct.pack(">i", 0) if topic is None else struct.pack(">i", 1) + string(topic)
    with Line(address, HEALTH_TIMEOUT_S, security) as line:
        return parse(line.ask(_METADATA, _METADATA_VERSION, wanted + b"\0"))


def agreed(views: Sequence[View], topic: str) -> dict[int, Partition]:
    """Who leads each partition, by the word of all brokers; PlatformError if they do not say the same."""
    for each in views:
        if each.error or not each.partitions:
            raise _undecided(topic, f"Kafka error {each.error} from one of the brokers")
    first = views[0].partitions
    if any(each.partitions.keys() != first.keys() for each in views):
        raise _undecided(topic, "another number of partitions from each broker")
    for number, partition in sorted(first.items()):
        said = {(each.partitions[number].leader, each.partitions[number].epoch) for each in views}
        if len(said) > 1:
            words = ", ".join(f"{leader} since epoch {epoch}" for leader, epoch in sorted(said))
            raise _undecided(f"{topic}/{number}", f"leaders {words}")
        if any(partition.leader not in each.brokers for each in views):
            raise _undecided(f"{topic}/{number}", "no leader")
    return first


def end_offset(leader: tuple[str, int], topic: str, partition: int, epoch: int, security: Security = OPEN) -> int:
    """The partition's high watermark, which only its leader knows: everything below is replicated and readable.

    OSError or PlatformError if the broker at `leader` does not lead it in this epoch or does not answer. Nothing is
    cached here: a client library that asks with an old leader epoch is refused after every move.
    """
    body = struct.pack(">ibi", -1, 0, 1) + string(topic) + struct.pack(">iiiq", 1, partition, epoch, _LATEST)
    with Line(leader, security=security) as line:
        answer = line.ask(_LIST_OFFSETS, _LIST_OFFSETS_VERSION, body)
    answer.take("i")  # throttle time
    answer.take("i")  # one topic
    answer.string()
    answer.take("i")  # one partition
    answer.take("i")
    if error := answer.take("h"):
        raise PlatformError(
            where=f"the end of {topic}/{partition}",
            got=f"Kafka error {error}",
            rule="its leader tells its end",
            todo="error 3, 6, 74 or 76: the leader moved, ask again; else look into the broker's log",
        )
    answer.take("q")  # timestamp
    return answer.take("q")


def _undecided(where: str, got: str) -> PlatformError:
    return PlatformError(
        where=where,
        got=got,
        rule="a partition has one leader, and all brokers name it with the same epoch",
        todo="wait until all brokers know of the last election",
    )


def parse(reader: Reader) -> View:
    """A Metadata response, version 7."""
    reader.take("i")  # throttle time
    brokers = dict(reader.array(lambda: _broker(reader)))
    reader.string()  # cluster id
    reader.take("i")  # controller
    topics = reader.array(lambda: _topic(reader))
    error, partitions = topics[0] if topics else (0, {})
    return View(brokers, error, partitions)


def _broker(reader: Reader) -> tuple[str, tuple[str, int]]:
    name, host, port = str(reader.take("i")), reader.string(), reader.take("i")
    reader.string()  # rack
    return name, (host, port)


def _topic(reader: Reader) -> tuple[int, dict[int, Partition]]:
    error = reader.take("h")
    reader.string()  # name
    reader.take("b")  # internal
    return error, dict(reader.array(lambda: _partition(reader)))


def _partition(reader: Reader) -> tuple[int, Partition]:
    reader.take("h")  # error; a missing leader shows in the leader itself
    number, leader, epoch = reader.take("i"), str(reader.take("i")), reader.take("i")
    replicas = reader.array(lambda: str(reader.take("i")))
    in_sync = reader.array(lambda: str(reader.take("i")))
    reader.array(lambda: reader.take("i"))  # replicas that are offline
    return number, Partition(leader, tuple(replicas), tuple(in_sync), epoch)
