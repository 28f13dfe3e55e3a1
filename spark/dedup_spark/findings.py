"""Findings: what parts of a history showed, in numbers that can be added up.

Each part of the work judges a range of values, or of blocks, of some runs and knows nothing of the others. So what it
finds of a run is a sum of counts, the first events, and the lowest witnesses: things that stay what they are, however
the work was shared out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dedup.anomalies import MAX_EVENTS, MAX_WITNESSES, Counts, Jump, OrderEvent, Verification, Witness
from dedup_spark.columns import Columns, joined, size, taken
from dedup_spark.positions import GAP, OF_ENTRIES, lowest

EVENT: Final = ("arrival", "jump", "partition", "stream", "last", "value")
JUMPS: Final = tuple(Jump)
JUMP_COUNTS: Final = ("jump_forward", "jump_backward", "duplicate_jump_forward", "duplicate_jump_backward")
"""The counts of JUMPS, in its order; an event's `jump` is the index."""

Message = tuple[int, int]
"""stream, value"""


@dataclass
class Findings:
    """What some of the work found out about one run; `rows`: of each kind, how many were judged.

    `gaps`: the lowest, and how many there are. `torn`: an acknowledged message of a batch was not read at its place.
    """

    rows: Counter[int] = field(default_factory=Counter)
    numbers: Counter[str] = field(default_factory=Counter)
    events: Columns = field(default_factory=lambda: joined((), EVENT))
    witnesses: dict[str, dict[Message, tuple[str, ...]]] = field(default_factory=dict)
    blocks: Counter[int] = field(default_factory=Counter)
    gaps: tuple[Columns, int] = field(default_factory=lambda: (joined((), GAP), 0))
    torn: bool = False

    def add(self, other: "Findings") -> None:
        """Take in what another part of the work found out about the same run."""
        self.rows += other.rows
        self.numbers += other.numbers
        self.blocks += other.blocks
        self.torn |= other.torn
        self.gaps = lowest(joined((self.gaps[0], other.gaps[0]), GAP))[0], self.gaps[1] + other.gaps[1]
        self.events = earliest(joined((self.events, other.events), EVENT))
        for anomaly, messages in other.witnesses.items():
            known = self.witnesses.get(anomaly, {}) | messages
            self.witnesses[anomaly] = {message: known[message] for message in sorted(known)[:MAX_WITNESSES]}

    def verification(self, path: str, engine: str) -> Verification:
        """What the engine says of the run."""
        events = zip(*(self.events[name].tolist() for name in EVENT), strict=True)
        named = (dict(zip(EVENT, event, strict=True)) for event in events)
        return Verification(
            path=path,
            engine=engine,
            counts=Counts(**self.numbers),
            events=tuple(OrderEvent(**event | {"jump": JUMPS[event["jump"]]}) for event in named),
            events_total=sum(self.numbers[name] for name in JUMP_COUNTS),
            witnesses=tuple(
                Witness(anomaly=anomaly, stream=stream, value=value, positions=positions)
                for anomaly, messages in sorted(self.witnesses.items())
                for (stream, value), positions in messages.items()
            ),
            block_lengths=dict(sorted(self.blocks.items())),
            gaps=tuple(_gap_texts(*self.gaps)),
        )


def gather(findings: dict[int, Findings], found: Mapping[int, Findings]) -> None:
    """Take in, run by run, what another part of the work found out."""
    for run, part in found.items():
        findings.setdefault(run, Findings()).add(part)


def earliest(events: Columns) -> Columns:
    """The first MAX_EVENTS events by arrival."""
    if size(events) <= MAX_EVENTS:
        order = np.argsort(events["arrival"])
    else:
        order = np.argpartition(events["arrival"], MAX_EVENTS)[:MAX_EVENTS]
        order = order[np.argsort(events["arrival"][order])]
    return taken(events, order)


def _gap_texts(gaps: Columns, total: int) -> Iterator[str]:
    for partition, ledger, entry, _, kind, first, final in zip(*(gaps[name].tolist() for name in GAP), strict=True):
        where = f"partition {partition}, ledger {ledger}"
        if kind == OF_ENTRIES:
            yield f"{where}: entries {first} to {final} were not read"
        else:
            yield f"{where}, entry {entry}: batch indexes {first} to {final} were not read"
    if total > MAX_WITNESSES:
        yield f"and {total - MAX_WITNESSES} more"
