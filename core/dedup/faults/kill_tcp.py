"""`killTCP`: every client connection to every broker is reset, over and over, for a time."""

from typing import Literal

from pydantic import Field

from dedup.faults.kinds import EVERYWHERE, Docs, FaultKind
from dedup.quantities import Seconds
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail


class KillTCP(FaultKind):
    """Reset every client connection to every broker, over and over, for a time."""

    target: Literal["Clients"] = Field("Clients", description="the connections between clients and brokers")
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")

    key = "killTCP"
    summary = "reset the clients' connections"
    lasting = "duration_s"
    through_proxy = True
    on_existing = EVERYWHERE
    in_every_digest = True
    of_one_broker = False
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY})
    docs = Docs(
        action="Toxiproxy's `reset_peer` at every broker, in pulses",
        ends="after `duration`",
        target_witness="connections that the broker held and has lost, from the kernel's table of connections",
        undone_by="a small program that removes the toxic",
        details="Toxiproxy resets a connection only when the next bytes pass it. So a pulse lasts until every "
        "connection that it found is gone, and 250 ms at most: an idle one is never reset. Between two pulses lies a "
        "pause of 100 ms or five times the link's latency, whichever is longer: long enough to connect and to send "
        "again what is then cut off again.",
    )

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """A leader of which not one connection is gone was not cut off."""
        lost = (shown.connections_gone or {}).get(shown.leader or "")
        return f"broker {shown.leader}, which led the topic, has lost no connection" if lost == 0 else ""

    @property
    def words(self) -> str:
        return f"reset all client connections for {self.duration_s:g} s"
