"""Whom a fault of one process strikes: the leader, or one of those on which it depends."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from pydantic import Field

from dedup.faults.kinds import A_BROKER, Choice, FaultKind, Need
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail


class Target(StrEnum):
    """Which process is struck."""

    LEADER = "Leader"
    BOOKIE = "Bookie"
    CONTROLLER = "Controller"
    ZOOKEEPER = "ZooKeeper"
    COORDINATOR = "TransactionCoordinator"


SESSION_S: Final = 6.0
"""How long the lab's sessions with controllers and with ZooKeeper outlast their last sign of life."""

Group = Literal["brokers", "bookies", "zookeepers"]
"""Which processes of a system one of its targets is among."""

MEANING: Final = (
    "the partition's leader or topic's owner; a bookie that stores what is sent now, or the ZooKeeper (Pulsar); or the "
    "active controller, or the coordinator of the producer's transactions (Kafka)"
)
WORDS: Final = {
    Target.LEADER: "the leader",
    Target.BOOKIE: "a bookie of the ledger",
    Target.CONTROLLER: "the active controller",
    Target.ZOOKEEPER: "the ZooKeeper",
    Target.COORDINATOR: "the transaction coordinator",
}
VICTIMS: Final = WORDS | {Target.LEADER: A_BROKER, Target.BOOKIE: "a bookie"}
GROUPS: Final[Mapping[Target, Group]] = MappingProxyType({Target.BOOKIE: "bookies", Target.ZOOKEEPER: "zookeepers"})
"""Those that are no brokers."""


_ONLY: Final = (
    (Target.BOOKIE, Need.BOOKIES, "Pulsar", "has bookies", "Kafka"),
    (Target.CONTROLLER, Need.KAFKA, "Kafka", "has controllers", "Pulsar"),
    (Target.ZOOKEEPER, Need.BOOKIES, "Pulsar", "has a ZooKeeper", "Kafka"),
    (Target.COORDINATOR, Need.KAFKA, "Kafka", "has a coordinator of its own for transactions", "Pulsar"),
)


def choices(key: str) -> tuple[Choice, ...]:
    """What each target of the kind with that key needs."""
    return (
        *(
            Choice(
                field="target",
                value=target,
                need=need,
                rule=f"system {{system}} is a {other}, and only a {own} {what}",
                todo=f"write Leader, or test the {own} by itself",
                said=f"one of the systems is a {other}, and only a {own} {what}; "
                f"write Leader as {key}.target, or test the {own} by itself",
            )
            for target, need, own, what, other in _ONLY
        ),
        *(
            Choice(
                field="target",
                value=target,
                need=Need.OWN_BOOKIES,
                rule=f"system {{system}} is there already, and nobody tells in which pod {which} is",
                todo="write Leader, or let the Pulsar be deployed",
                said=f"a Pulsar is there already, and nobody tells in which pod {which} is; "
                f"write Leader as {key}.target, or let the Pulsar be deployed",
            )
            for target, which in ((Target.BOOKIE, "a bookie"), (Target.ZOOKEEPER, "its ZooKeeper"))
        ),
        Choice(
            field="target",
            value=Target.ZOOKEEPER,
            need=Need.PROCESSES,
            rule="in a cluster a run is not told where the ZooKeeper is",
            todo="write Leader, or use `dedup run` on one machine",
            said=f"a run is not told where the ZooKeeper is; write Leader as {key}.target, or use `dedup run`",
        ),
        Choice(
            field="target",
            value=Target.COORDINATOR,
            need=Need.TRANSACTIONS,
            rule="without transactions nobody coordinates them, and those of a Pulsar have several coordinators",
            todo="write Leader, or give workload.transactions",
            said="without transactions nobody coordinates them; "
            f"write Leader as {key}.target, or give workload.transactions",
        ),
    )


class OfOneProcess(FaultKind):
    """What all kinds have in common that strike one process."""

    target: Target = Field(Target.LEADER, description=MEANING)

    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.LEADER, Noticed.BROKER})

    @property
    def group(self) -> str:
        return GROUPS.get(self.target, super().group)

    @property
    def victim(self) -> str:
        return VICTIMS[self.target]


def victim(shown: Detail) -> str:
    """Whom a fault has struck, by its target's witness; as `FaultKind.victim` says it."""
    return VICTIMS[target(shown)]


def target(shown: Detail) -> Target:
    """Which target it was that a fault has struck, by its witness."""
    if shown.ensemble is not None:
        return Target.BOOKIE
    if shown.zookeeper is not None:
        return Target.ZOOKEEPER
    if shown.coordinator is not None:
        return Target.COORDINATOR
    return Target.LEADER if shown.controller is None else Target.CONTROLLER
