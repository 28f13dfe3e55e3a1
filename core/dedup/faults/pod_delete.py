"""`podDelete`: the pod of the leader's broker is deleted, and its controller makes another."""

from typing import Literal

from pydantic import Field

from dedup.faults.kinds import Docs, FaultKind, Platform, Right
from dedup.quantities import Seconds
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail


class PodDelete(FaultKind):
    """Delete the pod of the broker that leads the partition or owns the topic; its controller makes another."""

    target: Literal["Leader"] = Field("Leader", description="the partition's leader, or the topic's owner")
    grace_period_s: Seconds = Field(
        30.0, alias="gracePeriod", le=3600, description="how long the broker has to end by itself, at most 1h"
    )

    key = "podDelete"
    on_consent = True
    replaces_pod = True
    summary = "delete a broker's pod (Kubernetes only)"
    lasting = "grace_period_s"
    platforms = (Platform.PODS,)
    rights = (Right("", "pods", ("delete",), by_name=True),)
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.LEADER})
    docs = Docs(
        action="deletion of the pod by its name",
        ends="when another pod of that name runs the broker",
        target_witness="the pod with that UID is gone, or its broker's container has ended",
        undone_by="the pod's controller, which makes a new pod at once",
        details="A deleted pod of a broker without a volume loses its data; the other replicas have it. A broker "
        "that has time hands its leadership over before it ends: at this first sign the producer records its counters, "
        "and the end of the pod is the proof. A `gracePeriod` of `0s` is one second: with none the API server "
        "deletes the pod object at once, and the end of its containers cannot be observed.",
    )

    @property
    def words(self) -> str:
        return f"delete the leader's pod, which has {self.grace_period_s:g} s to end"

    @classmethod
    def ends_life(cls, shown: Detail) -> bool:
        return True
