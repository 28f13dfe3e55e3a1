"""`dropTCP`: bytes between clients and brokers are lost for a time, while the connections stay."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from dedup.faults.kinds import EVERYWHERE, Docs, FaultKind
from dedup.quantities import Seconds
from dedup.wire.clients import Noticed


class Direction(StrEnum):
    """Which way bytes are lost between clients and brokers."""

    BOTH = "Both"
    TO_BROKERS = "ToBrokers"
    TO_CLIENTS = "ToClients"


class DropTCP(FaultKind):
    """Lose every byte between clients and brokers, one way or both, for a time, while the connections stay."""

    target: Literal["Clients"] = Field("Clients", description="the connections between clients and brokers")
    direction: Direction = Field(
        Direction.BOTH,
        description="ToBrokers loses what clients send, ToClients what brokers answer, Both is a black hole",
    )
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")

    key = "dropTCP"
    summary = "lose bytes on the clients' connections, without a reset"
    lasting = "duration_s"
    through_proxy = True
    on_existing = EVERYWHERE
    of_one_broker = False
    must_last = True
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.ERROR})
    docs = Docs(
        action="Toxiproxy's `timeout` with no time-out, on one stream or both, at every broker",
        ends="after `duration`",
        target_witness="silence: brokers that answer a ping on the tester's path and not on the clients', when it "
        "begins and when it ends",
        undone_by="a small program that removes the toxics",
        details="A stream with lost bytes cannot be used, so Toxiproxy closes the connections when it removes the "
        "toxic: clients that have not timed out notice it then. `ToBrokers` causes no duplicates, for lost messages "
        "were never stored; `ToClients` loses the acknowledgements of stored messages. A broker is silent if it does "
        "not answer within a second (half the duration if that is shorter, five times the link's latency if that is "
        "longer).",
    )

    @property
    def words(self) -> str:
        return f"lose all bytes ({self.direction}) for {self.duration_s:g} s"
