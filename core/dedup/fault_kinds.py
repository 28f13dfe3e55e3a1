"""The kinds of faults that an experiment can ask for: what is struck, how, and for how long.

A kind is a key of a fault, and its settings are the mapping below it. Most kinds work wherever brokers run. Two need
pods: deleting one, and cutting a broker off from the others, which takes a network of its own for each. What each kind
does, who must have seen it and how it is healed is told in docs/faults.md.
"""

from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from dedup.parts import Name, Part, check_one_of
from dedup.quantities import Seconds
from dedup.refusals import refusal

LATENCY_FAULT: Final = "latency"

Kind = Literal["killTCP", "dropTCP", "kill", "moveLeader", "podDelete", "partition"]


class Direction(StrEnum):
    """Which way bytes are lost between clients and brokers."""

    BOTH = "Both"
    TO_BROKERS = "ToBrokers"
    TO_CLIENTS = "ToClients"


class Victim(StrEnum):
    """Whose process is killed."""

    LEADER = "Leader"
    BOOKIE = "Bookie"


class Means(StrEnum):
    """What keeps packets from passing between brokers."""

    NET_FILTER = "NetFilter"
    NETWORK_POLICY = "NetworkPolicy"


class At(Part):
    """When a fault begins: when the producer's own counter passes this message."""

    message: int = Field(ge=1, description="the fault begins when this many messages were sent; at most the last")


class KillTCP(Part):
    """Reset every client connection to every broker, over and over, for a time."""

    target: Literal["Clients"] = Field("Clients", description="the connections between clients and brokers")
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")


class DropTCP(Part):
    """Lose every byte between clients and brokers, one way or both, for a time, while the connections stay."""

    target: Literal["Clients"] = Field("Clients", description="the connections between clients and brokers")
    direction: Direction = Field(
        Direction.BOTH,
        description="ToBrokers loses what clients send, ToClients what brokers answer, Both is a black hole",
    )
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")


class Kill(Part):
    """SIGKILL the broker that leads the partition or owns the topic, or one of its bookies; start it again later."""

    target: Victim = Field(
        Victim.LEADER,
        description="the partition's leader or topic's owner; or a bookie that stores what is sent now (Pulsar)",
    )
    restart_after_s: Seconds = Field(
        alias="restartAfter", ge=0, le=3600, description="how long the process stays down, at most 1h"
    )


class MoveLeader(Part):
    """Move the partition's leader, or the topic's ownership, to another broker without any failure."""

    target: Literal["Leader"] = Field("Leader", description="the partition's leader, or the topic's owner")


class PodDelete(Part):
    """Delete the pod of the broker that leads the partition or owns the topic; its controller makes another."""

    target: Literal["Leader"] = Field("Leader", description="the partition's leader, or the topic's owner")
    grace_period_s: Seconds = Field(
        30.0, alias="gracePeriod", le=3600, description="how long the broker has to end by itself, at most 1h"
    )


class Partition(Part):
    """Cut the broker that leads the partition or owns the topic off from all other brokers, for a time."""

    target: Literal["Leader"] = Field("Leader", description="the partition's leader, or the topic's owner")
    by: Means = Field(
        description="NetFilter drops packets in the broker's pod and needs allowPrivilegedFaults; "
        "NetworkPolicy asks the cluster's network, which may not enforce it"
    )
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")


class Fault(Part):
    """One fault: when it begins, and exactly one kind of it."""

    name: Name = Field(description="what results call this fault; unique among the faults")
    at: At = Field(description="when it begins")
    kill_tcp: KillTCP | None = Field(None, alias="killTCP", description="reset the clients' connections")
    drop_tcp: DropTCP | None = Field(
        None, alias="dropTCP", description="lose bytes on the clients' connections, without a reset"
    )
    kill: Kill | None = Field(None, description="SIGKILL a broker or bookie and start it again later")
    move_leader: MoveLeader | None = Field(None, description="move the leadership without any failure; {} is enough")
    pod_delete: PodDelete | None = Field(None, description="delete a broker's pod (Kubernetes only)")
    partition: Partition | None = Field(None, description="cut a broker off from the others (Kubernetes only)")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        check_one_of(self, self._kinds, "a fault")
        if self.name == LATENCY_FAULT:
            raise refusal(
                "name", f'"{LATENCY_FAULT}"', "the system's own network latency has this name", "choose another"
            )
        return self

    @property
    def kind(self) -> Kind:
        return next(kind for kind, given in self._kinds.items() if given is not None)

    @property
    def lasts_s(self) -> float:
        """How long it stays before it is healed, in seconds."""
        timed = self.kill_tcp or self.drop_tcp or self.partition
        if timed is not None:
            return timed.duration_s
        if self.kill is not None:
            return self.kill.restart_after_s
        return self.pod_delete.grace_period_s if self.pod_delete is not None else 0.0

    @property
    def settings(self) -> dict[str, float | str]:
        """Its settings, under the names by which its injector writes them down."""
        if self.kill_tcp is not None:
            return {"duration_s": self.kill_tcp.duration_s}
        if self.drop_tcp is not None:
            return {"direction": self.drop_tcp.direction.value, "duration_s": self.drop_tcp.duration_s}
        if self.kill is not None:
            return {"restart_after_s": self.kill.restart_after_s}
        if self.pod_delete is not None:
            return {"grace_period_s": self.pod_delete.grace_period_s}
        if self.partition is not None:
            return {"by": self.partition.by.value, "duration_s": self.partition.duration_s}
        return {}

    @property
    def through_proxy(self) -> bool:
        """Whether it acts on the clients' connections, for which a proxy must stand in their path."""
        return self.kill_tcp is not None or self.drop_tcp is not None

    @property
    def needs_pods(self) -> bool:
        """Whether it can only be done to brokers that run in pods."""
        return self.pod_delete is not None or self.partition is not None

    @property
    def privileged(self) -> bool:
        """Whether it needs more than Pod Security's level *restricted* grants."""
        return self.partition is not None and self.partition.by is Means.NET_FILTER

    @property
    def by_policy(self) -> bool:
        """Whether it leaves an object of its own in the cluster until it is healed."""
        return self.partition is not None and self.partition.by is Means.NETWORK_POLICY

    @property
    def needs_bookies(self) -> bool:
        """Whether it strikes the storage that only Pulsar keeps apart from its brokers."""
        return self.kill is not None and self.kill.target is Victim.BOOKIE

    @property
    def _kinds(self) -> dict[Kind, Part | None]:
        return {
            "killTCP": self.kill_tcp,
            "dropTCP": self.drop_tcp,
            "kill": self.kill,
            "moveLeader": self.move_leader,
            "podDelete": self.pod_delete,
            "partition": self.partition,
        }
