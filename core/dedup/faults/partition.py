"""`partition`: the leader's broker is cut off from all other brokers, or from its clients, for a time."""

from enum import StrEnum
from types import MappingProxyType
from typing import Literal, Self

from pydantic import Field, model_validator

from dedup.faults.kinds import Choice, Docs, FaultKind, Need, Right
from dedup.quantities import Seconds
from dedup.refusals import refusal
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail


class Means(StrEnum):
    """What blocks packets between brokers."""

    NET_FILTER = "NetFilter"
    NETWORK_POLICY = "NetworkPolicy"


class Between(StrEnum):
    """From whom the leader is cut off."""

    BROKERS = "Brokers"
    CLIENTS = "Clients"


class Way(StrEnum):
    """Which way packets are lost, seen from the leader."""

    BOTH = "Both"
    TO_LEADER = "ToLeader"
    FROM_LEADER = "FromLeader"


_WAYS = {Way.BOTH: "", Way.TO_LEADER: ", for what it is sent", Way.FROM_LEADER: ", for what it sends"}


class Partition(FaultKind):
    """Cut the broker that leads the partition or owns the topic off from the others or from clients, for a time."""

    target: Literal["Leader"] = Field("Leader", description="the partition's leader, or the topic's owner")
    by: Means = Field(
        description="NetFilter drops packets in the kernel and needs allowPrivilegedFaults; "
        "NetworkPolicy asks the cluster's network, which may not enforce it"
    )
    between: Between = Field(
        Between.BROKERS,
        description="Brokers cuts the leader off from the other brokers and bookies, Clients from clients under test",
    )
    direction: Way = Field(
        Way.BOTH,
        description="ToLeader loses what others send to the leader, FromLeader what it sends to them, Both is a cut",
    )
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")

    key = "partition"
    on_consent = True
    summary = "cut a broker off from the others, or from clients"
    lasting = "duration_s"
    own_networks = True
    newer = MappingProxyType({"between": Between.BROKERS.value, "direction": Way.BOTH.value})
    must_last = True
    choices = (
        Choice(
            field="by",
            value=Means.NETWORK_POLICY,
            need=Need.POLICIES,
            rule="policies of others (Strimzi's, a chart's, an owner's) are for brokers of {system}; policies add up, "
            "so ours would cut nothing off, or open what an owner has closed",
            todo="write NetFilter (with spec.allowPrivilegedFaults), or take deploy out",
            said="policies of others (Strimzi's, a chart's, an owner's) are for brokers of a system that has deploy; "
            "policies add up, so ours would cut nothing off, or open what an owner has closed; "
            "write NetFilter as partition.by, or take deploy out",
            rights=(Right("networking.k8s.io", "networkpolicies", ("get", "create", "delete"), by_name=False),),
        ),
        Choice(
            field="by",
            value=Means.NET_FILTER,
            need=Need.PRIVILEGE,
            rule="in a cluster it adds a container with NET_ADMIN to a broker's pod",
            todo="set spec.allowPrivilegedFaults: true, or use NetworkPolicy",
            said="a partition by NetFilter adds a container with NET_ADMIN to a broker's pod; "
            "set spec.allowPrivilegedFaults: true, or use NetworkPolicy",
            rights=(Right("", "pods/ephemeralcontainers", ("patch",), by_name=True),),
        ),
        Choice(
            field="between",
            value=Between.CLIENTS,
            need=Need.PROCESSES,
            rule="a client's pod is not known before it runs",
            todo="write Brokers, or a dropTCP, or use `dedup run` on one machine",
            said="a client's pod is not known before it runs; write Brokers as partition.between, or a dropTCP, or use "
            "`dedup run` on one machine",
        ),
    )
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.LEADER})
    docs = Docs(
        action="`NetFilter`: nftables rules drop packets from and to the other brokers and bookies; `NetworkPolicy`: a "
        "policy that allows the leader's connections to all other pods",
        ends="after `duration`",
        target_witness="`NetFilter`: packets that the kernel counted as dropped; `NetworkPolicy`: a shell in the "
        "broker's container could connect to each of the others before, and to none after; either way when it begins "
        "and when it ends (the kernel's counters outlive the rules' effect, so they count only while its set still "
        "lists the others)",
        undone_by="`NetFilter`: the kernel, since each member of the set that is dropped expires by itself; "
        "`NetworkPolicy`: a Job that removes what is past the deadline in its annotation, and the run's pod owns the "
        "policy",
        details="A partition cuts off the leader's own side only where both ends are brokers or bookies: clients, "
        "ZooKeeper and the tester still reach it. With `between: Clients` it is the other way round: what goes "
        "between the leader's port for clients and them (or the proxy in their path) is lost, and the brokers reach "
        "each other. In pods the container that drops packets is added to every broker while "
        "the fault is armed, since the future leader is not known yet; Kubernetes cannot remove it, so it sleeps until "
        "its time is over. Brokers of a Pulsar that is there already tell which bookies there are; the hosts in their "
        "ids say where. A broker of Pulsar waits for bookies that do not answer, and its clients wait with it: if none "
        "of them notices the cut, the run is inconclusive. A namespace whose Pod Security level is not "
        "*privileged* refuses it; the message is the "
        "API server's, the fault is not armed, and the run is an error. A network that does not enforce policies "
        "leaves every connection open: the fault reports `no_effect`, and the run is inconclusive. So it is where a "
        "network keeps the connections that stand and refuses new ones only: the brokers need none, and no client "
        "notices anything. If pods are missing, or do not consent, the fault is not armed either. On one machine "
        "`dedup run` moves itself, and all that it starts, into a user and a network namespace, without root, where "
        "each broker, bookie and ZooKeeper has a network of its own; packets are dropped where these meet. Such an "
        "experiment reaches nothing outside. It needs Linux with `unshare` and `nsenter` (util-linux) and a kernel "
        "that lets users make namespaces; `dedup plan` says if this machine does not.",
    )

    @model_validator(mode="after")
    def _policies_are_of_connections(self) -> Self:
        if self.by is Means.NETWORK_POLICY and self.direction is not Way.BOTH:
            rule = "a NetworkPolicy is about connections, not about packets of one direction"
            raise refusal("direction", self.direction.value, rule, "write NetFilter as by, or Both")
        return self

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """A cut that has lost nothing cut nobody off."""
        return "the kernel has dropped no packet" if shown.packets_dropped == 0 else ""

    @property
    def words(self) -> str:
        whom = "" if self.between is Between.BROKERS else " from clients"
        return f"cut the leader off{whom} for {self.duration_s:g} s, by {self.by}{_WAYS[self.direction]}"
