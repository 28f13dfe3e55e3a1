"""What is said of a fault: by its injector, by its watchdog, and to the producer.

One program writes lines without this module: the watchdog, which may need nothing but the standard library. A test
holds its lines against these records.
"""

from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from dedup.wire.lines import Event


class FaultEvent(StrEnum):
    """All that is said of faults; what each means: docs/faults.md."""

    ARMED = "armed"
    TRIGGERED = "triggered"
    NOT_INJECTED = "not_injected"
    INJECTING = "injecting"
    INJECTED = "injected"
    REPEATING = "repeating"
    REPEATED = "repeated"
    CUT = "cut"
    NO_EFFECT = "no_effect"
    EFFECT = "effect"
    NOTICED = "noticed"
    RESTARTED = "restarted"
    OVER = "over"
    PRODUCER_LOST = "producer_lost"
    PING_FAILED = "ping_failed"
    CLEARED = "cleared"
    GONE = "gone"
    HEALED = "healed"
    HEAL_FAILED = "heal_failed"
    HEALED_BY_WATCHDOG = "healed_by_watchdog"
    WATCHDOG_FAILED = "watchdog_failed"


COUNTED: Final = (FaultEvent.INJECTING, FaultEvent.INJECTED, FaultEvent.REPEATING, FaultEvent.REPEATED)
"""At these the producer counts what is in flight to what is struck."""
PRODUCER_GONE: Final = "producer gone"
NEVER_TRIGGERED: Final = "never triggered"


class Detail(BaseModel):
    """What is said with an event: all that anybody interprets, and whatever else a kind of fault has to say.

    The target's witness and the injector's word in a manifest are put together from details, and read as one.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    reason: str = Field("", description="of not_injected, no_effect and the watchdog's: why")
    error: str = ""
    actual: int | None = Field(None, description="triggered: how many messages were sent by then")
    latency_ms: float | None = Field(None, description="injecting: the latency of the link that is asked for")
    partition: int | None = Field(None, description="to the producer: whose messages in flight count; None: of all")
    witness: dict[str, Any] = Field(default_factory=dict, description="injected: the target's own signs")
    strike: int | None = Field(None, description="repeating, repeated: which strike of the fault, from 2")
    touched: list[str] = Field(default_factory=list, description="injected: who was hit")
    leader: str | None = Field(None, description="injected: who led the topic then")
    at_end: list[str] = Field(default_factory=list, description="effect: who showed it just before the end")
    producer_finished: bool = Field(False, description="over: the producer ended in order")
    round_trips_ms: dict[str, float] = Field(default_factory=dict, description="over: of a ping to each broker")
    ensemble: list[str] | None = Field(None, description="a witness: the bookies that stored what was sent")
    controller: str | None = Field(
        None, description="a witness: who was the active controller, where that one is struck"
    )
    zookeeper: str | None = Field(None, description="a witness: which ZooKeeper brokers were connected to")
    coordinator: str | None = Field(
        None, description="a witness: who coordinated the producer's transactions, where that one is struck"
    )
    connections_gone: dict[str, int] | None = Field(None, description="a witness: how many each broker has lost")
    exit_code: int | None = Field(None, description="a witness: of the process that was killed; 137: SIGKILL")
    packets_dropped: int | None = Field(None, description="a witness: how many the kernel has counted")
    free_bytes: int | None = Field(None, description="a witness: how much was free on the disk that was filled")
    state: str | None = Field(None, description="a witness: the process's, as the kernel has it; T: stopped")
    moved_from: str | None = Field(None, description="a witness: who led before")
    moved_to: str | None = Field(None, description="a witness: who leads since")
    container: str | None = Field(None, description="a witness: the life that was ended, in a pod")
    pid: int | None = Field(None, description="a witness: the life that was ended, on this machine")
    lives: list[str] = Field(default_factory=list, description="a witness: all lives that were ended, if several were")
    ended: int = Field(
        0,
        description="a witness: how many brokers ended meanwhile, where it is not known whom an experiment struck",
    )
    over: "Detail | None" = Field(None, description="the injector's word: what was said with that event")
    probe: str = Field("", description="a witness: which probe of a user's experiment was out of its tolerance")
    frame: str = Field("", description="a witness: what was done to which frame, in words")
    refused: str = Field("", description="effect: why what was struck can have had no effect, in words")
    passed: int | None = Field(None, description="effect: how many messages the interposer saw on their way")
    not_injected: str = Field("", description="the injector's word: why it did not strike, or in vain")

    def said(self) -> dict[str, Any]:
        """What is set, to be written."""
        return self.model_dump(mode="json", exclude_unset=True)


class FaultLine(Event):
    """One line, from the injector or the watchdog of a fault, or from the injector to the producer."""

    FILE: ClassVar = "faults.jsonl"

    fault: str
    monotonic_ns: int
    detail: Detail = Detail()
