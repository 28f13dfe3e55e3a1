"""`moveLeader`: another broker becomes the leader or owner, without any failure."""

from typing import Literal

from pydantic import Field

from dedup.faults.kinds import EVERYWHERE, Docs, FaultKind
from dedup.wire.clients import Noticed


class MoveLeader(FaultKind):
    """Move the partition's leader, or the topic's ownership, to another broker without any failure."""

    target: Literal["Leader"] = Field("Leader", description="the partition's leader, or the topic's owner")

    key = "moveLeader"
    summary = "move the leadership without any failure; {} is enough"
    on_existing = EVERYWHERE
    in_every_digest = True
    notices = frozenset({Noticed.RETRY, Noticed.LEADER})
    docs = Docs(
        action="reassignment and preferred election (Kafka), unload of the topic's bundle to another broker (Pulsar)",
        ends="at once",
        target_witness="the leader or owner before and after differ",
        undone_by="nothing: there is nothing to undo",
    )

    @property
    def words(self) -> str:
        return "move the leader"
