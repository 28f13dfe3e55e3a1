"""Findings: the results on parts of a history, in numbers that can be added up.

Each task judges a range of values, or of blocks, of some runs, independently of the others. So its result on a run is
sums of counts, the first events, and the lowest witnesses: they add up to the same totals, however the work was
distributed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dedup.judgement.anomalies import MAX_EVENTS, MAX_WITNESSES, OrderEvent, Verification, Witness
from dedup.judgement.counts import JUMP_COUNTS, Counts
from dedup.judgement.findings import BLOCK, MAX_TELLING, RANGES, Block, Leap, Overview, Range, Sum, Window
from dedup_spark.engine.columns import Columns, firsts, groups, joined, size, taken
from dedup_spark.engine.positions import GAP, OF_ENTRIES, lowest

EVENT: Final = ("arrival", "jump", "partition", "stream", "last", "value")
PLACE: Final = ("ledger", "entry", "batch")
JUMP: Final = ("run", *EVENT, *PLACE, "windows")
"""An event, its position, and the faults during which its message was under way."""

TOGETHER: Final = ("run", "kind", "partition", "stream", "shift", "first_shift")
"""The columns that are equal in all pieces of a stretch (stretches.py). `kind`: an index of KINDS; ranges have
partition 0."""

STRETCH: Final = (*TOGETHER, "value", "length", *PLACE, *(f"first_{name}" for name in PLACE), "windows")
"""A stretch: the position of its first message, and (for a block) of that message's first copy; faults as in JUMP."""

KINDS: Final = (BLOCK, *RANGES)
JUMPS: Final = tuple(JUMP_COUNTS.values())
"""An event's `jump` is the index."""

Message = tuple[int, int]
"""stream, value"""


@dataclass
class Findings:
    """The result of some tasks on one run; `rows`: how many of each kind were judged.

    `gaps`: the lowest, and how many there are. `torn`: an acknowledged message of a batch was not read at its place.
    `sums`: of each kind of finding its "rows", its "messages", and how many of these were under way during each fault,
    by number, or "outside". `jumps`: the few widest; `stretches`: the few longest. `sent`: the lowest and the highest
    value of each stream, which no task knows alone.
    """

    rows: Counter[int] = field(default_factory=Counter)
    numbers: Counter[str] = field(default_factory=Counter)
    events: Columns = field(default_factory=lambda: joined((), EVENT))
    witnesses: dict[str, dict[Message, tuple[str, ...]]] = field(default_factory=dict)
    blocks: Counter[int] = field(default_factory=Counter)
    distances: Counter[int] = field(default_factory=Counter)
    sums: Counter[tuple[str, str | int]] = field(default_factory=Counter)
    jumps: Columns = field(default_factory=lambda: joined((), JUMP))
    stretches: Columns = field(default_factory=lambda: joined((), STRETCH))
    gaps: tuple[Columns, int] = field(default_factory=lambda: (joined((), GAP), 0))
    torn: bool = False
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)
    hanging: list[str] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        """Add another task's findings on the same run."""
        self.rows += other.rows
        self.numbers += other.numbers
        self.blocks += other.blocks
        self.distances += other.distances
        self.sums += other.sums
        self.jumps = widest(joined((self.jumps, other.jumps), JUMP))
        self.stretches = longest(joined((self.stretches, other.stretches), STRETCH))
        self.torn |= other.torn
        self.gaps = lowest(joined((self.gaps[0], other.gaps[0]), GAP))[0], self.gaps[1] + other.gaps[1]
        self.events = earliest(joined((self.events, other.events), EVENT))
        for anomaly, messages in other.witnesses.items():
            known = self.witnesses.get(anomaly, {}) | messages
            self.witnesses[anomaly] = {message: known[message] for message in sorted(known)[:MAX_WITNESSES]}

    def verification(self, path: str, engine: str, windows: Sequence[Window]) -> Verification:
        """The engine's answer on the run."""
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
            copies_during={
                window.fault: self.sums["values_with_duplicates", number] for number, window in enumerate(windows)
            },
            sent=dict(sorted(self.sent.items())),
            gaps=tuple(_gap_texts(*self.gaps)),
            hanging=tuple(_at_most(self.hanging)),
            findings=self._overview(windows),
        )

    def _overview(self, windows: Sequence[Window]) -> Overview:
        faults = [window.fault for window in windows]
        kinds = [kind for kind in (*JUMP_COUNTS, *KINDS) if self.sums[kind, "rows"]]
        blocks = self.stretches["kind"] == 0
        return Overview(
            windows=tuple(windows),
            sums=tuple(
                Sum(
                    kind=kind,
                    rows=self.sums[kind, "rows"],
                    messages=self.sums[kind, "messages"],
                    during={fault: self.sums[kind, number] for number, fault in enumerate(faults)},
                    outside=self.sums[kind, "outside"],
                )
                for kind in kinds
            ),
            block_distances=dict(sorted(self.distances.items())),
            blocks=tuple(_blocks(taken(self.stretches, blocks), faults)),
            jumps=tuple(_leaps(self.jumps, faults)),
            ranges=tuple(_ranges(taken(self.stretches, ~blocks), faults)),
        )


def gather(findings: dict[int, Findings], found: Mapping[int, Findings]) -> None:
    """Add another task's findings, run by run."""
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


def widest(jumps: Columns) -> Columns:
    """The widest jumps of one run, and of equal ones the first."""
    width = np.abs(jumps["value"] - jumps["last"])
    if len(width) > MAX_TELLING:
        wide = width >= np.partition(width, -MAX_TELLING)[-MAX_TELLING]
        jumps, width = taken(jumps, wide), width[wide]
    order = np.lexsort((jumps["arrival"], -width))
    return taken(jumps, order[:MAX_TELLING])


def longest(stretches: Columns) -> Columns:
    """The longest stretches of each kind in one run, and of equal ones the lowest."""
    keys = [stretches[name] for name in ("shift", "value", "stream", "partition")]
    order = np.lexsort([*keys, -stretches["length"], stretches["kind"]])
    kind = stretches["kind"][order]
    rank = np.arange(len(kind)) - np.searchsorted(kind, kind)
    return taken(stretches, order[rank < MAX_TELLING])


def count_sums(findings: Mapping[int, Findings], kind: str, found: Columns) -> None:
    """Add up messages by run and by fault; `found` has run, length and windows."""
    order = np.lexsort((found["windows"], found["run"]))
    run, windows = found["run"][order], found["windows"][order]
    for alike in groups(firsts(run, windows)):
        messages = int(found["length"][order[alike]].sum())
        sums, bits = findings[int(run[alike.start])].sums, int(windows[alike.start])
        sums[kind, "messages"] += messages
        if not bits:
            sums[kind, "outside"] += messages
        for number in numbers_of(bits):
            sums[kind, number] += messages


def numbers_of(bits: int) -> list[int]:
    """The numbers of the faults whose bit is set."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def _listed(found: Columns, faults: Sequence[str]) -> Iterator[tuple[dict[str, int], str, tuple[str, ...]]]:
    """Of each row its numbers, its position, and the faults by name."""
    for values in zip(*(found[name].tolist() for name in found), strict=True):
        row = dict(zip(found, values, strict=True))
        yield row, _position(row, ""), tuple(faults[number] for number in numbers_of(row["windows"]))


def _position(row: Mapping[str, int], which: str) -> str:
    return ":".join(str(row[which + name]) for name in PLACE)


def _blocks(found: Columns, faults: Sequence[str]) -> Iterator[Block]:
    for row, position, during in _listed(found, faults):
        yield Block(
            **{name: row[name] for name in ("partition", "stream", "value", "length")},
            distance=row["shift"] - row["first_shift"],
            position=position,
            first_position=_position(row, "first_"),
            during=during,
        )


def _leaps(found: Columns, faults: Sequence[str]) -> Iterator[Leap]:
    for row, position, during in _listed(found, faults):
        names = ("partition", "stream", "last", "value", "arrival")
        yield Leap(
            **{name: row[name] for name in names}, jump=JUMPS[row["jump"]].value, position=position, during=during
        )


def _ranges(found: Columns, faults: Sequence[str]) -> Iterator[Range]:
    for row, _, during in _listed(found, faults):
        names = ("stream", "value", "length")
        yield Range(**{name: row[name] for name in names}, anomaly=KINDS[row["kind"]], during=during)


def _at_most(texts: Sequence[str]) -> list[str]:
    """The first few, and how many more."""
    more = len(texts) - MAX_WITNESSES
    return [*texts[:MAX_WITNESSES], *([f"and {more} more"] if more > 0 else [])]


def _gap_texts(gaps: Columns, total: int) -> Iterator[str]:
    for partition, ledger, entry, _, kind, first, final in zip(*(gaps[name].tolist() for name in GAP), strict=True):
        where = f"partition {partition}, ledger {ledger}"
        if kind == OF_ENTRIES:
            yield f"{where}: entries {first} to {final} were not read"
        else:
            yield f"{where}, entry {entry}: batch indexes {first} to {final} were not read"
    if total > MAX_WITNESSES:
        yield f"and {total - MAX_WITNESSES} more"
