"""`partition`: the leader's broker is cut off from all other brokers for a time."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from dedup.faults.kinds import Choice, Docs, FaultKind, Need, Platform, Right
from dedup.quantities import Seconds
from dedup.wire.clients import Noticed


class Means(StrEnum):
    """What blocks packets between brokers."""

    NET_FILTER = "NetFilter"
    NETWORK_POLICY = "NetworkPolicy"


class Partition(FaultKind):
    """Cut the broker that leads the partition or owns the topic off from all other brokers, for a time."""

    target: Literal["Leader"] = Field("Leader", description="the partition's leader, or the topic's owner")
    by: Means = Field(
        description="NetFilter drops packets in the broker's pod and needs allowPrivilegedFaults; "
        "NetworkPolicy asks the cluster's network, which may not enforce it"
    )
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")

    key = "partition"
    summary = "cut a broker off from the others (Kubernetes only)"
    lasting = "duration_s"
    platforms = (Platform.PODS,)
    must_last = True
    choices = (
        Choice(
            field="by",
            value=Means.NETWORK_POLICY,
            need=Need.POLICIES,
            rule="system {system} is Strimzi's, whose own policies let brokers be reached, and policies add up",
            todo="write NetFilter (with spec.allowPrivilegedFaults), or take deploy.chart out",
            said="Strimzi's own policies let brokers be reached, and policies add up; "
            "write NetFilter as partition.by, or take deploy.chart out",
            rights=(Right("networking.k8s.io", "networkpolicies", ("get", "create", "delete"), by_name=False),),
        ),
        Choice(
            field="by",
            value=Means.NET_FILTER,
            need=Need.PRIVILEGE,
            rule="it adds a container with NET_ADMIN to a broker's pod",
            todo="set spec.allowPrivilegedFaults: true, or use NetworkPolicy",
            said="a partition by NetFilter adds a container with NET_ADMIN to a broker's pod; "
            "set spec.allowPrivilegedFaults: true, or use NetworkPolicy",
            rights=(Right("", "pods/ephemeralcontainers", ("patch",), by_name=True),),
        ),
    )
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.LEADER})
    docs = Docs(
        action="`NetFilter`: nftables rules in the leader's pod drop packets from and to the other brokers and "
        "bookies; `NetworkPolicy`: a policy that allows its connections to all other pods",
        ends="after `duration`",
        target_witness="`NetFilter`: packets that the kernel counted as dropped; `NetworkPolicy`: a shell in the "
        "broker's container could connect to each of the others before, and to none after; either way when it begins "
        "and when it ends (the kernel's counters outlive the rules' effect, so they count only while its set still "
        "lists the others)",
        undone_by="`NetFilter`: the kernel, since each member of the set that is dropped expires by itself; "
        "`NetworkPolicy`: a Job that removes what is past the deadline in its annotation, and the run's pod owns the "
        "policy",
        details="A partition cuts off the leader's own side only where both ends are brokers or bookies: clients, "
        "ZooKeeper and the tester still reach it. The container that drops packets is added to every broker while "
        "the fault is armed, since the future leader is not known yet; Kubernetes cannot remove it, so it sleeps until "
        "its time is over. A namespace whose Pod Security level is not *privileged* refuses it; the message is the "
        "API server's, the fault is not armed, and the run is an error. A network that does not enforce policies "
        "leaves every connection open: the fault reports `no_effect`, and the run is inconclusive. If pods are "
        "missing, or do not consent, the fault is not armed either.",
    )

    @property
    def words(self) -> str:
        return f"cut the leader off for {self.duration_s:g} s, by {self.by}"
