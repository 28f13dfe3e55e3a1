"""Findings: the details behind the counts of a history, anomaly by anomaly, and during which fault each occurred.

A count shows that 9,000 messages were stored twice. The findings show whether that was one block of 9,000 or 3,000 of
three, where each lies, and which fault was active. Three tables hold them all, row by row, as Parquet
(dedup_spark/engine/tables.py). An overview of each run holds their sums and the few longest.

A message is *under way* from its send to its last outcome. A finding occurred during a fault if one of its messages was
under way between injection and heal. A message that was never sent has no time.
"""

from collections.abc import Iterable
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from dedup.judgement.counts import COUNTS
from dedup.wire.manifests import Manifest

MAX_TELLING: Final = 5
MAX_WINDOWS: Final = 62
"""An island has a bit for each; an experiment has at most 16."""

BLOCK: Final = "duplicate_block"
RANGES: Final = tuple(
    name for name, each in COUNTS.items() if each.forbidden_by and not each.jump and each.noun == "value"
)
"""The counts of values, jumps apart, that an expectation can forbid: they are listed as ranges."""


class Found(BaseModel):
    """A part of the findings' JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Window(Found):
    """The time of a fault, on the producer's monotonic clock; `healed_ns` None: to the end."""

    fault: str
    injected_ns: int
    healed_ns: int | None


class Sum(Found):
    """All findings of one kind: a jump or an anomaly by the name of its count, or a duplicate block."""

    kind: str
    rows: int = Field(description="how many blocks, jumps or ranges")
    messages: int = Field(description="how many messages these are, copies of a copy counted again; a jump is one")
    during: dict[str, int] = Field(description="messages under way during each fault; during two faults: in both")
    outside: int = Field(description="messages under way during none, or never sent")


class Block(Found):
    """Consecutive messages of a partition and stream that were read there before."""

    partition: int
    stream: int
    value: int
    length: int
    distance: int = Field(description="from a message to its first copy, in messages of its partition and stream")
    position: str = Field(description="ledger:entry:batch of its first message")
    first_position: str = Field(description="the same, of that message's first copy")
    during: tuple[str, ...]


class Leap(Found):
    """A jump: `value` came right after `last`."""

    jump: str
    partition: int
    stream: int
    last: int
    value: int
    arrival: int
    position: str
    during: tuple[str, ...]


class Range(Found):
    """Values that rise by one and show the same anomaly."""

    anomaly: str
    stream: int
    value: int
    length: int
    during: tuple[str, ...]


class Overview(Found):
    """The findings of one run in short: sums, and the longest."""

    windows: tuple[Window, ...] = ()
    sums: tuple[Sum, ...] = ()
    block_distances: dict[int, int] = Field(
        default_factory=dict, description="blocks by distance, in bins that double: 2^k -> how many lie below 2^(k+1)"
    )
    blocks: tuple[Block, ...] = Field((), description=f"the longest, at most {MAX_TELLING}")
    jumps: tuple[Leap, ...] = Field((), description=f"the widest, at most {MAX_TELLING}")
    ranges: tuple[Range, ...] = Field((), description=f"the longest of each anomaly, at most {MAX_TELLING}")


class RunFindings(Overview):
    """The overview of one history, as the index of the tables of findings holds it."""

    path: str = Field(description="where the history lay when it was judged")
    block_lengths: dict[int, int] = Field(description="duplicate blocks by length in messages: length -> how many")


class Index(Found):
    """What `findings.json` holds: it is written last, so that with it the tables beside it are whole."""

    runs: tuple[RunFindings, ...]


def windows_of(manifest: Manifest) -> tuple[Window, ...]:
    """The times of the faults that were injected; a fault in force for the whole run has no time of its own."""
    return tuple(
        Window(fault=fault.name, injected_ns=fault.injected_ns, healed_ns=fault.healed_ns)
        for fault in manifest.faults
        if fault.injected_ns is not None and not fault.whole_run
    )[:MAX_WINDOWS]


def added(sums: Iterable[Sum]) -> tuple[Sum, ...]:
    """The findings of several runs, kind by kind, in the order in which they are first seen."""
    together: dict[str, Sum] = {}
    for each in sums:
        old = together.setdefault(each.kind, Sum(kind=each.kind, rows=0, messages=0, during={}, outside=0))
        together[each.kind] = Sum(
            kind=each.kind,
            rows=old.rows + each.rows,
            messages=old.messages + each.messages,
            during={name: old.during.get(name, 0) + each.during.get(name, 0) for name in old.during | each.during},
            outside=old.outside + each.outside,
        )
    return tuple(together.values())
