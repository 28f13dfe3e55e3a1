"""`delayTCP`: what brokers answer comes late, for a time, while the connections stay."""

from typing import Final, Literal

from pydantic import Field, model_validator

from dedup.faults.kinds import EVERYWHERE, Docs, FaultKind
from dedup.quantities import Seconds, format_duration
from dedup.refusals import refusal
from dedup.wire.clients import Noticed

LOOKS: Final = 2
"""Each takes as long as the longest delay."""


class DelayTCP(FaultKind):
    """Delay every byte that brokers send to clients, for a time; with a jitter, by another time for each."""

    target: Literal["Clients"] = Field("Clients", description="the connections between clients and brokers")
    delay_s: Seconds = Field(alias="delay", gt=0, le=60, description="how late bytes come, at most 1m")
    jitter_s: Seconds = Field(
        0.0, alias="jitter", ge=0, le=60, description="so much more or less, by chance; less than `delay`"
    )
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600, description="how long, more than 0s and at most 1h")

    key = "delayTCP"
    summary = "delay what brokers answer, without a reset"
    lasting = "duration_s"
    through_proxy = True
    on_existing = EVERYWHERE
    of_one_broker = False
    must_last = True
    effect = "late"
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.ERROR})
    docs = Docs(
        action="Toxiproxy's `latency` at every broker, on what flows to the clients",
        ends="after `duration`",
        target_witness="pings on the clients' path that take at least `delay` less `jitter`, to brokers that answer "
        "sooner on the tester's path, when it begins and when it ends",
        undone_by="a small program that removes the toxics",
        details="A delay counts only if clients notice it: it must be longer than what they wait for a reply "
        "(`socket.timeout.ms` of librdkafka, `request.timeout.ms` in Java). Then they send again what a broker has "
        "stored. A delay that clients bear is `network.latency`, for a whole run. Toxiproxy keeps the order of bytes, "
        "so with a jitter a late byte holds back those behind it.",
    )

    @model_validator(mode="after")
    def _less_jitter_than_delay(self) -> "DelayTCP":
        if self.jitter_s >= self.delay_s:
            got, rule = format_duration(self.jitter_s), "a delay is the shortest that is left, and more than nothing"
            raise refusal("jitter", got, rule, f"write less than {format_duration(self.delay_s)}")
        if self.duration_s < (least := LOOKS * (self.delay_s + self.jitter_s)):
            got, rule = format_duration(self.duration_s), "late answers are looked at when it begins and when it ends"
            raise refusal("duration", got, rule, f"write at least {format_duration(least)}")
        return self

    @property
    def words(self) -> str:
        more = f", {self.jitter_s:g} s more or less" if self.jitter_s else ""
        return f"delay what brokers answer by {self.delay_s:g} s{more} for {self.duration_s:g} s"
