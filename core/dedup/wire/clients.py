"""What a producer says while it runs: where it stands, and what its client notices; and what brokers say beside it."""

from enum import StrEnum
from typing import Any, ClassVar

from pydantic import Field

from dedup.wire.lines import Event, Line


class Milestone(StrEnum):
    """Where a producer stands: connected to a trigger, before its first message, at a trigger's message, at its end."""

    HELLO = "hello"
    START = "start"
    MESSAGE = "message"
    FINISHED = "finished"


class Metric(StrEnum):
    """What a runner counts for Prometheus, whose client adds `_total` to the names."""

    SENT = "dedup_messages_sent"
    ACKNOWLEDGED = "dedup_messages_acknowledged"
    RECEIVED = "dedup_messages_received"


class Push(Event):
    """A milestone as the chaos process of `fault` is told of it: at `message`, so many were sent and had an outcome."""

    fault: str | None = None
    message: int | None = None
    actual: int = 0
    acked: int = 0
    monotonic_ns: int = 0


class Mark(Event):
    """A stamp: how many messages were sent, and had an outcome, at a milestone or when an event of a fault was told."""

    FILE: ClassVar = "marks.jsonl"

    fault: str | None
    sent: int
    acked: int
    monotonic_ns: int
    requested: int | None = Field(None, description="the message at which the fault was to be triggered")
    detail: dict[str, Any] = Field(default_factory=dict, description="of the event")
    in_flight: int | None = Field(None, description="as in `FaultRecord`")


class Noticed(StrEnum):
    """A kind of disturbance. Each kind of fault declares which of them it can cause (`dedup.faults.kinds`)."""

    DISCONNECT = "disconnect"
    """A connection has ended."""
    RETRY = "retry"
    """A request was sent again, or a connection is made again."""
    LEADER = "leader"
    """Another broker leads; the line is of the one that led before."""
    ERROR = "error"
    """A message that was under way has failed, a request has got no answer in time, or the client has given up."""
    REFUSED = "refused"
    """The client itself did not accept a message, which never left it. No fault of ours does that."""
    BROKER = "broker"
    """A broker, as the client of a bookie, has noticed; an injector tells it."""


class Disturbance(Line):
    """What a client noticed. `since_ns`: when it looked before, if it sees only what happened between two looks."""

    FILE: ClassVar = "disturbances.jsonl"

    kind: str
    detail: str
    monotonic_ns: int
    broker: str | None = None
    since_ns: int | None = None


class Look(Line):
    """What brokers said of a topic's deduplication at one time."""

    FILE: ClassVar = "deduplication.jsonl"

    monotonic_ns: int
    statuses: dict[str, str]
