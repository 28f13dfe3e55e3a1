"""How long outcomes took: a histogram for each second of a run, counted by whole drains.

A producer client takes chunks and returns outcomes by drains, so single messages have no times, and none are made up.
A message is taken to be handed over at the last moment at which it provably had not been (`sent`), and to have its
outcome when the drain that brings it is recorded (`ended`). So a latency is never too small; it is too large by at most
the time between two notes of the sender and the time between two drains (docs/history.md).

All outcomes of a drain came at one time, and all messages between two notes of the sender left at one. So of each
message only the note before it is looked for, in one call a drain, and a logarithm is taken once a note. Several
producers side by side are as many senders, each with notes of its own: messages of one are handed over in their order,
those of all are not.

Buckets divide each power of two into 128: the width of a bucket is at most 0.8 % of its lower bound. Shorter than a
microsecond and longer than four hours are counted as those.
"""

import threading
from array import array
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.history.histories import LATENCY, OPEN_SUFFIX, parquet_writer
from dedup.history.latencies import NAME
from dedup_runners.clients import Outcome, Outcomes, numbers_of
from dedup_runners.recording.journals import unwritable

Int64s = npt.NDArray[np.int64]

BITS: Final = 7
_SHIFT: Final = 52 - BITS  # of a double's mantissa, which has 52 bits
SHORTEST_NS: Final = 1 << 10
LONGEST_NS: Final = (1 << 44) - 1
SECOND_NS: Final = 1_000_000_000


def _codes(latency_ns: Any) -> Int64s:
    """The bucket of each latency: exponent and first bits of the mantissa of a double are a floating logarithm."""
    clipped = np.clip(latency_ns, SHORTEST_NS, LONGEST_NS).astype(np.float64)
    return np.asarray(clipped.view(np.int64) >> _SHIFT, np.int64)


_FIRST: Final = int(_codes(np.array([SHORTEST_NS]))[0])
BUCKETS: Final = int(_codes(np.array([LONGEST_NS]))[0]) - _FIRST + 1


def bounds_ns(buckets: Any) -> tuple[Int64s, Int64s]:
    """The shortest and the longest latency that each of these buckets counts, in nanoseconds."""
    codes = np.asarray(buckets, np.int64) + _FIRST
    lower, above = ((codes + step << _SHIFT).view(np.float64) for step in (0, 1))
    return np.ceil(lower).astype(np.int64), np.ceil(above).astype(np.int64) - 1


class _Notes:
    """What one sender noted: when so many of its messages had been handed over."""

    def __init__(self) -> None:
        self._sent, self._at_ns = np.zeros(1 << 10, np.int64), np.zeros(1 << 10, np.int64)
        self._count = 0

    def add(self, sent: int, monotonic_ns: int) -> None:
        if self._count and self._sent[self._count - 1] == sent:
            self._count -= 1
        if self._count == len(self._sent):
            self._sent, self._at_ns = (
                np.concatenate([each, np.zeros_like(each)]) for each in (self._sent, self._at_ns)
            )
        self._sent[self._count], self._at_ns[self._count] = sent, monotonic_ns
        self._count += 1

    def before(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """The times of some notes, and before how many of these messages each was the last one."""
        sent = self._sent[: self._count]
        first = max(int(np.searchsorted(sent, numbers.min(), "right")) - 1, 0)
        last = max(int(np.searchsorted(sent, numbers.max(), "right")), first + 1)
        parts = np.bincount(np.searchsorted(sent[first + 1 : last], numbers, "right"), minlength=last - first)
        return self._at_ns[first:last], parts


class Latencies:
    """Counts how long messages of one run took, by second of their outcome, outcome and bucket.

    One thread calls `sent` and `ended`; any may call `total`. It takes 16 bytes a note, and a few kilobytes a second.
    """

    def __init__(self, streams: int, senders: int = 1) -> None:
        """`streams`: of each sender; those of sender n begin at n times so many."""
        self._streams, self._began_ns = streams, 0
        self._notes = [_Notes() for _ in range(senders)]
        self._noted = False
        self._second = 0
        self._counts = np.zeros((len(Outcome), BUCKETS), np.int64)
        self._acknowledged, self._sum_ns = np.zeros(BUCKETS, np.int64), 0
        self._counting = threading.Lock()
        self._rows = array("q")

    def sent(self, sent: int, monotonic_ns: int, sender: int = 0) -> None:
        """At this time exactly the first `sent` messages of the sender's plan had been handed over."""
        if not self._noted:
            self._noted, self._began_ns = True, monotonic_ns
        self._notes[sender].add(sent, monotonic_ns)

    def ended(self, outcomes: Outcomes, monotonic_ns: int) -> None:
        """These messages had their outcome at this time."""
        second = (monotonic_ns - self._began_ns) // SECOND_NS
        if second != self._second:
            self._keep()
            self._second = second
        numbers = numbers_of(outcomes, self._streams)
        if len(self._notes) == 1:
            self._of_sender(0, numbers, outcomes.outcomes, monotonic_ns)
            return
        senders = outcomes.streams // self._streams
        for sender in np.unique(senders).tolist():
            own = senders == sender
            self._of_sender(sender, numbers[own] - sender * self._streams, outcomes.outcomes[own], monotonic_ns)

    def _of_sender(self, sender: int, numbers: Int64s, outcomes: npt.NDArray[np.int8], monotonic_ns: int) -> None:
        if not outcomes.any():
            self._count(Outcome.OK, sender, numbers, monotonic_ns)
            return
        for outcome in Outcome:
            self._count(outcome, sender, numbers[outcomes == outcome], monotonic_ns)

    def _count(self, outcome: Outcome, sender: int, numbers: Int64s, monotonic_ns: int) -> None:
        if not len(numbers):
            return
        handed_over_ns, parts = self._notes[sender].before(numbers)
        latencies = monotonic_ns - handed_over_ns
        found = np.bincount(_codes(latencies) - _FIRST, parts, BUCKETS).astype(np.int64)
        self._counts[outcome] += found
        if outcome is Outcome.OK:
            with self._counting:
                self._acknowledged += found
                self._sum_ns += int(latencies @ parts)

    def total(self) -> tuple[Int64s, int]:
        """How many acknowledgements each bucket has so far, and the sum of their latencies in nanoseconds."""
        with self._counting:
            return self._acknowledged.copy(), self._sum_ns

    def save(self, folder: Path) -> None:
        """Write `latency.parquet`; EnvironmentError_ like the recorder if that cannot be."""
        self._keep()
        second, outcome, bucket, count = np.array(self._rows, np.int64).reshape(-1, 4).T
        columns = (second, outcome, *bounds_ns(bucket), count)
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, LATENCY, strict=True)]
        path = folder / NAME
        opened = path.with_name(NAME + OPEN_SUFFIX)
        try:
            with parquet_writer(opened, LATENCY) as writer:
                writer.write_table(pa.Table.from_arrays(arrays, schema=LATENCY))
            opened.rename(path)
        except (OSError, pa.ArrowException) as error:
            raise unwritable(folder, error) from None

    def _keep(self) -> None:
        """Make rows of what was counted in the second that is over."""
        outcome, bucket = np.nonzero(self._counts)
        second = np.full(len(bucket), self._second, np.int64)
        rows = np.stack([second, outcome, bucket, self._counts[outcome, bucket]], axis=1)
        self._rows.frombytes(np.ascontiguousarray(rows, np.int64).tobytes())
        self._counts[:] = 0
