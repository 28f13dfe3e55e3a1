"""What each Kafka broker believes of the cluster, asked of that broker itself.

Brokers learn of each other's coming and going one after the other. A cluster is whole again only when *every* broker
says so: a client may ask any of them. So health is judged from all views together, not from one.

The same holds for who leads a partition. A leader that was replaced and does not know it yet goes on calling itself
one, and its end is not the partition's end. So a leader counts when all brokers name it, with the same leader epoch,
and it is asked for the end with that epoch: it refuses (KIP-320) if its own is another.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, DescribeQuorumRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup_runners.admins import HEALTH_TIMEOUT_S
from dedup_runners.admins.wire import CLIENT, TIMEOUT_S, Line

_LATEST: Final = -1
UNKNOWN_TOPIC: Final = 3
QUORUM: Final = "__cluster_metadata"
"""The topic of KRaft's own log, whose leader is the active controller."""


class Partition(NamedTuple):
    """Who leads since which epoch, who holds copies, and whose are complete. Broker ids; no leader is "-1"."""

    leader: str
    replicas: tuple[str, ...]
    in_sync: tuple[str, ...]
    epoch: int = -1


class View(NamedTuple):
    """One broker's word: who is registered and alive, with addresses, and a topic's partitions (`error` 0: known).

    `controller` is who takes requests to the controller.
    """

    brokers: dict[str, tuple[str, int]]
    error: int
    partitions: dict[int, Partition]
    controller: str = "-1"
    cluster: str = ""
    """The cluster's id."""

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
    topics = [] if topic is None else [MetadataRequest.MetadataRequestTopic(name=topic)]
    with Line(address, HEALTH_TIMEOUT_S, security) as line:
        said = line.ask(MetadataRequest(version=7, topics=topics, allow_auto_topic_creation=False))
    brokers = {str(each.node_id): (each.host, each.port) for each in said.brokers}
    found = said.topics[0] if said.topics else None
    partitions = {each.partition_index: _partition(each) for each in found.partitions} if found else {}
    return View(brokers, found.error_code if found else 0, partitions, str(said.controller_id), said.cluster_id or "")


def active_controller(address: tuple[str, int], security: Security = OPEN) -> str | None:
    """The leader of KRaft's quorum, by the broker at `address`; None if it does not answer or knows none.

    What Metadata calls the controller is any broker.
    """
    asked = DescribeQuorumRequest.TopicData
    part = asked.PartitionData(version=0, partition_index=0)
    request = DescribeQuorumRequest(version=0, topics=[asked(version=0, topic_name=QUORUM, partitions=[part])])
    try:
        with Line(address, HEALTH_TIMEOUT_S, security) as line:
            said = line.ask(request)
    except (OSError, PlatformError):
        return None
    leaders = [part.leader_id for topic in said.topics or () for part in topic.partitions if not part.error_code]
    return str(leaders[0]) if leaders and leaders[0] >= 0 else None


def transaction_coordinator(address: tuple[str, int], transactional_id: str, security: Security = OPEN) -> str | None:
    """The leader of that partition of __transaction_state, by the broker at `address`; None if it knows none."""
    request = FindCoordinatorRequest(version=1, key=transactional_id, key_type=CoordinatorType.TRANSACTION.value)
    try:
        with Line(address, HEALTH_TIMEOUT_S, security) as line:
            said = line.ask(request)
    except (OSError, PlatformError):
        return None
    return str(said.node_id) if not said.error_code and said.node_id >= 0 else None


def _partition(said: Any) -> Partition:
    replicas, in_sync = (tuple(map(str, each)) for each in (said.replica_nodes, said.isr_nodes))
    return Partition(str(said.leader_id), replicas, in_sync, said.leader_epoch)


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


def end_offset(
    leader: tuple[str, int],
    topic: str,
    partition: int,
    epoch: int,
    security: Security = OPEN,
    *,
    stable: bool = False,
) -> int:
    """The partition's high watermark, which only its leader knows: everything below is replicated and readable.

    `stable`: its last stable offset, up to which every transaction has ended.

    OSError or PlatformError if the broker at `leader` does not lead it in this epoch or does not answer. Nothing is
    cached here: a client library that asks with an old leader epoch is refused after every move.
    """
    asked = ListOffsetsRequest.ListOffsetsTopic
    place = asked.ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=_LATEST)
    request = ListOffsetsRequest(
        version=4, replica_id=CLIENT, isolation_level=int(stable), topics=[asked(name=topic, partitions=[place])]
    )
    with Line(leader, security=security) as line:
        (answer,) = line.ask(request).topics[0].partitions
    if answer.error_code:
        raise PlatformError(
            where=f"the end of {topic}/{partition}",
            got=f"Kafka error {answer.error_code}",
            rule="its leader tells its end",
            todo="error 3, 6, 74 or 76: the leader moved, ask again; else look into the broker's log",
        )
    return int(answer.offset)


def reassign(
    controller: tuple[str, int], topic: str, partition: int, replicas: Sequence[str], security: Security = OPEN
) -> int:
    """Ask for this assignment; Kafka's error, 0 if it was accepted. OSError or PlatformError without an answer."""
    asked = AlterPartitionReassignmentsRequest.ReassignableTopic
    place = asked.ReassignablePartition(partition_index=partition, replicas=[int(each) for each in replicas])
    request = AlterPartitionReassignmentsRequest(
        version=0, timeout_ms=int(TIMEOUT_S * 1000), topics=[asked(name=topic, partitions=[place])]
    )
    with Line(controller, security=security) as line:
        answer = line.ask(request)
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


def _undecided(where: str, got: str) -> PlatformError:
    return PlatformError(
        where=where,
        got=got,
        rule="a partition has one leader, and all brokers name it with the same epoch",
        todo="wait until all brokers know of the last election",
    )
