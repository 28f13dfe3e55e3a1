"""What a judge reports of one history: counts, the order events, and witnesses.

Three judges fill in these same models (the Spark job, the same method in one process, and the naive oracle), so that
their answers can be compared field by field: a disagreement is an error of the tester, never a finding on a broker.
What each count means: dedup/judgement/counts.py.
"""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from dedup.judgement.counts import Counts, Jump
from dedup.judgement.findings import Overview

MAX_EVENTS: Final = 10_000
MAX_WITNESSES: Final = 10


class Engine(StrEnum):
    """The judges. The oracle shares no code with the other two, so it checks them."""

    SPARK = "spark"
    ORACLE = "oracle"
    LOCAL = "local"


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
    """One value that shows an anomaly, and where it was read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    anomaly: str = Field(description="the name of the count it belongs to")
    stream: int
    value: int
    positions: tuple[str, ...] = Field(
        (), description="partition/ledger:entry:batch of each copy, by partition and there in arrival order"
    )


class Verification(BaseModel):
    """The answer of one judge on one run folder."""

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
        description="by fault: how many of values_with_duplicates were under way during it (dedup.judgement.findings)",
    )
    sent: dict[int, tuple[int, int]] | None = Field(
        None, description="stream -> the lowest and the highest value that was sent; None: the judge does not say"
    )
    gaps: tuple[str, ...] = Field((), description="positions that must exist and were not read: the tester's error")
    hanging: tuple[str, ...] = Field(
        (),
        description=f"the transactions of `hanging_transaction`, by partition and offset, {MAX_WITNESSES} at most and "
        "how many more",
    )
    findings: Overview | None = Field(None, description="what lies behind the counts; the oracle makes none")
