"""Whom a fault of one process strikes: the leader, a bookie that stores what is sent, or the active controller."""

from enum import StrEnum
from typing import Final

from dedup.faults.kinds import A_BROKER, Choice, Need
from dedup.wire.faults import Detail


class Target(StrEnum):
    """Which process is struck."""

    LEADER = "Leader"
    BOOKIE = "Bookie"
    CONTROLLER = "Controller"


MEANING: Final = (
    "the partition's leader or topic's owner; a bookie that stores what is sent now (Pulsar); or the active controller "
    "(Kafka)"
)
WORDS: Final = {
    Target.LEADER: "the leader",
    Target.BOOKIE: "a bookie of the ledger",
    Target.CONTROLLER: "the active controller",
}
VICTIMS: Final = {Target.LEADER: A_BROKER, Target.BOOKIE: "a bookie", Target.CONTROLLER: "the active controller"}
_ONLY: Final = (
    (Target.BOOKIE, Need.BOOKIES, "Pulsar", "has bookies", "Kafka"),
    (Target.CONTROLLER, Need.KAFKA, "Kafka", "has controllers", "Pulsar"),
)


def choices(key: str) -> tuple[Choice, ...]:
    """What each target of the kind with that key needs."""
    return tuple(
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
    )


def victim(shown: Detail) -> str:
    """Whom a fault has struck, by its target's witness; as `FaultKind.victim` says it."""
    if shown.ensemble is not None:
        return VICTIMS[Target.BOOKIE]
    return VICTIMS[Target.LEADER if shown.controller is None else Target.CONTROLLER]
