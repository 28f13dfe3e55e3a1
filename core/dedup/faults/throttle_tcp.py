"""`throttleTCP`: what clients send passes slowly, for a time, while the connections stay."""

from typing import Final, Literal

from pydantic import Field, model_validator

from dedup.faults.kinds import EVERYWHERE, Docs, FaultKind
from dedup.quantities import Seconds, format_duration
from dedup.refusals import refusal
from dedup.wire.clients import Noticed

LOOK_S: Final = 0.5
"""How long the question of one look takes at that rate."""
LOOKS: Final = 2
KILOBYTE: Final = 1000


class ThrottleTCP(FaultKind):
    """Let every connection carry only so many bytes a second from clients to brokers, for a time."""

    target: Literal["Clients"] = Field("Clients", description="the connections between clients and brokers")
    rate: int = Field(
        alias="kilobytesPerSecond", ge=1, le=2000, description="of 1,000 bytes each, on every connection; at most 2000"
    )
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")

    key = "throttleTCP"
    summary = "limit the bandwidth of the clients' connections"
    must_last, effect = True, "slow"
    lasting = "duration_s"
    through_proxy = True
    on_existing = EVERYWHERE
    of_one_broker = False
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.ERROR})
    docs = Docs(
        action="Toxiproxy's `bandwidth` at every broker, on what flows to the brokers",
        ends="after `duration`, while no broker is paused: what one does not take within 5 s then, Toxiproxy gives up",
        target_witness="a question of so many bytes that it takes half a second at that rate takes so much longer than "
        "a short one on the clients' path, to brokers that answer sooner on the tester's path, when it begins and when "
        "it ends",
        undone_by="a small program that removes the toxics",
        details="What is sent waits before the proxy, so a small rate is a delay that grows. It counts only if "
        "clients notice it: if messages wait longer than the client waits for a reply (`socket.timeout.ms` of "
        "librdkafka, `request.timeout.ms` in Java) it sends them again.",
    )

    @model_validator(mode="after")
    def _time_to_look(self) -> "ThrottleTCP":
        if self.duration_s < (least := 2 * LOOKS * LOOK_S):
            rule = "the rate is measured when it begins and when it ends"
            raise refusal(
                "duration", format_duration(self.duration_s), rule, f"write at least {format_duration(least)}"
            )
        return self

    @property
    def words(self) -> str:
        return f"let clients send {self.rate:,} kB a second on each connection for {self.duration_s:g} s"
