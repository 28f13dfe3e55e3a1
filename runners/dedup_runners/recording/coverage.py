"""What of a topic was read, and which entries below its end were not.

A reader that was given everything has read one run of entries in each ledger, from 0 to the end (Kafka: one ledger,
whose entries are offsets). A *hole* is what is missing. It can be the reader's failure or the broker's. So a second
reader is asked for it (`undeliverable` of `dedup_runners.admins`): the broker cannot deliver what neither can get, if
both get the entries before and after.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import numpy as np

from dedup.wire.manifests import EndPosition
from dedup_runners.admins import Hole
from dedup_runners.clients import Rows

MAX_RUNS: Final = 100_000
"""A reader that jumps more often than that is not followed any more: nothing is said of its holes."""


class Coverage:
    """The entries that were read, as runs: (first, last) by partition and ledger."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._count = 0

    def add(self, rows: Rows) -> None:
        """Take note of these rows, in the order in which they were delivered."""
        for partition in np.unique(rows.partitions).tolist():
            mine = rows.partitions == partition
            ledgers, entries = rows.ledgers[mine], rows.entries[mine]
            steps = np.diff(entries)
            breaks = np.flatnonzero((steps < 0) | (steps > 1) | (np.diff(ledgers) != 0))
            starts, ends = [0, *(breaks + 1).tolist()], [*breaks.tolist(), len(entries) - 1]
            for start, end in zip(starts, ends, strict=True):
                self._add((partition, int(ledgers[start])), int(entries[start]), int(entries[end]))

    def _add(self, place: tuple[int, int], first: int, last: int) -> None:
        runs = self._runs.setdefault(place, [])
        if runs and runs[-1][0] <= first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
        elif self._count < MAX_RUNS:
            runs.append((first, last))
            self._count += 1

    @property
    def gave_up(self) -> bool:
        """Whether the reader could not be followed."""
        return self._count >= MAX_RUNS

    def holes(self, end: tuple[EndPosition, ...]) -> list[Hole]:
        """What was not read of what lies below `end`, in order; none if the reader could not be followed."""
        return [] if self.gave_up else [hole for each in end for hole in self._holes(each)]

    def stops(self, end: tuple[EndPosition, ...]) -> list[tuple[EndPosition, int, int]]:
        """Where reading stands in each partition that was not read to its `end`: the (ledger, entry) to come next."""
        found = []
        for each in end:
            unread = [
                hole for hole in self._holes(each) if all(near < (hole.ledger, hole.first) for near in hole.neighbours)
            ]
            if unread:
                found.append((each, unread[0].ledger, unread[0].first))
        return found

    def _holes(self, end: EndPosition) -> Iterator[Hole]:
        missing: list[tuple[int, int, int]] = []
        read: list[tuple[int, int]] = []
        for ledger, entries in sorted(end.extents):
            next_entry = 0
            for first, last in sorted(self._runs.get((end.partition, ledger), ())):
                if first > next_entry and next_entry < entries:
                    missing.append((ledger, next_entry, min(first, entries) - 1))
                read += [(ledger, first), (ledger, last)]
                next_entry = max(next_entry, last + 1)
            if next_entry < entries:
                missing.append((ledger, next_entry, entries - 1))
        read.sort()
        for ledger, first, last in missing:
            before, after = bisect_left(read, (ledger, first)), bisect_right(read, (ledger, last))
            yield Hole(
                end.partition, ledger, first, last, (*read[max(before - 1, 0) : before], *read[after : after + 1])
            )
