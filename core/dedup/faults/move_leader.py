"""`moveLeader`: another broker becomes the leader or owner, without any failure."""

from typing import Literal

from pydantic import Field

from dedup.faults.kinds import EVERYWHERE, Docs, FaultKind
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail


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

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """A move to where it was is none."""
        same = shown.moved_from is not None and shown.moved_from == shown.moved_to
        return f"broker {shown.moved_to} leads as before" if same else ""
