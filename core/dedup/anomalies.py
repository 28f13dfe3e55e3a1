"""What a judge reports of one history: counts, the order events, and witnesses.

Three judges fill in these same models (the Spark job, the same method in one process, and the naive oracle), so that
their answers can be compared field by field: a disagreement is an error of the tester, never a finding on a broker.
The meaning of every count is design.md §6; the names of the four jumps are Jack Vanlightly's (S0).
"""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from dedup.findings import Overview

MAX_EVENTS: Final = 10_000
MAX_WITNESSES: Final = 10


class Engine(StrEnum):
    """The judges. The oracle shares no code with the other two, so that it is a check of them."""

    SPARK = "spark"
    ORACLE = "oracle"
    LOCAL = "local"


class Jump(StrEnum):
    """How a message departs from "one more than the one before it" in its partition and stream."""

    FORWARD = "JF"
    BACKWARD = "JB"
    DUPLICATE_FORWARD = "DJF"
    DUPLICATE_BACKWARD = "DJB"


class Counts(BaseModel):
    """The numbers of one run. Values are counted by distinct (stream, value), rows by row (design.md §6)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    send: int = Field(0, description="distinct values sent")
    ack: int = Field(0, description="positive plus negative acknowledgements; unknown outcomes are neither")
    positive_ack: int = Field(0, description="values whose outcome is ok")
    negative_ack: int = Field(0, description="values whose outcome is fail: provably never left the client")
    unknown: int = Field(0, description="values sent whose outcome is neither ok nor fail, or that have no outcome")
    received: int = Field(0, description="rows read, re-reads dropped")
    not_received: int = Field(0, description="values acknowledged ok and never read: lost")
    received_no_ack: int = Field(0, description="values read exactly once whose outcome is not ok (phantoms included)")
    values_with_duplicates: int = Field(0, description="values read more than once over all partitions")
    extra_copies: int = Field(0, description="rows beyond the first of each value")
    phantom: int = Field(0, description="distinct values read and never sent")
    failed_but_received: int = Field(0, description="values whose outcome is fail and that were read")
    ack_mismatch: int = Field(0, description="values read, but not at the position that was acknowledged")
    misplaced: int = Field(0, description="values read in another partition than the one that their stream is sent to")
    jump_forward: int = 0
    jump_backward: int = 0
    duplicate_jump_forward: int = 0
    duplicate_jump_backward: int = 0
    re_reads: int = Field(0, description="identical (partition, position, stream, value) rows, dropped before counting")
    position_conflicts: int = Field(0, description="positions at which two messages were read: the tester's error")
    position_falls: int = Field(
        0, description="rows read below the position read just before in their partition: the reader's error"
    )
    outcomes_missing: int = Field(0, description="values sent for which no outcome was recorded")
    outcomes_unsent: int = Field(0, description="outcomes of values that were never sent: the tester's error")


class OrderEvent(BaseModel):
    """One jump: in `partition`, `value` of `stream` came right after `last`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    jump: Jump
    partition: int
    stream: int
    last: int
    value: int
    arrival: int


class Witness(BaseModel):
    """One value that shows an anomaly, with where it was read and what the client was told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    anomaly: str = Field(description="the name of the count it belongs to")
    stream: int
    value: int
    positions: tuple[str, ...] = Field(
        (), description="partition/ledger:entry:batch of each copy, by partition and there in arrival order"
    )


class Verification(BaseModel):
    """Everything one judge says of one run folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    engine: str
    counts: Counts
    events: tuple[OrderEvent, ...] = Field((), description=f"jumps in arrival order, the first {MAX_EVENTS:,}")
    events_total: int = 0
    witnesses: tuple[Witness, ...] = Field((), description=f"at most {MAX_WITNESSES} an anomaly, lowest value first")
    block_lengths: dict[int, int] = Field(
        default_factory=dict, description="duplicate blocks by length in values: length -> how many"
    )
    copies_during: dict[str, int] = Field(
        default_factory=dict,
        description="by fault: how many of values_with_duplicates were under way during it (dedup.findings)",
    )
    sent: dict[int, tuple[int, int]] | None = Field(
        None, description="stream -> the lowest and the highest value that was sent; None: the judge does not say"
    )
    gaps: tuple[str, ...] = Field((), description="positions that must exist and were not read: the tester's error")
    findings: Overview | None = Field(None, description="what lies behind the counts; the oracle makes none")
