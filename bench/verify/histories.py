"""Histories to measure with: as S0's tests leave them, in shuffled blocks, or in no order at all.

A history is told by its *pieces*: series of values that rise by one, in the order in which a partition stored them.
S0's are a few long ones; a history at random is pieces of length 1. Rows are written from them as a run writes them
(segments of 2^20 rows, row groups of 2^17), straight from numpy, so that even 10^9 messages are made in minutes. What
was made once stays in the user's cache.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.history.histories import CLOCK, MANIFEST, SCHEMAS, TRANSACTIONS, parquet_writer, sha256_of
from dedup.wire.manifests import (
    Asked,
    ConsumerReport,
    Deduplication,
    Ended,
    EndPosition,
    Hole,
    Manifest,
    ProducerReport,
    Proof,
    Segment,
    Transactions,
)
from dedup_lab import caches

SEGMENT: Final = 1 << 20
GROUP: Final = 1 << 17
TENTH: Final = 10
"""Of so many transactions one is aborted."""
BLOCK: Final = 5_000
"""Messages in a window that is sent again, at most."""
EDITION: Final = 4
"""Another one, and every history in the cache is made anew."""

Values = npt.NDArray[np.int64]


class Pieces(NamedTuple):
    """What a partition stored: first value and length of each piece; its first `again` values were stored before."""

    first: Values
    length: Values
    again: Values


Maker = Callable[[int, int], Pieces]
"""Called with a number of messages and a seed."""


def s0_like(messages: int, seed: int, blocks: int = 12) -> Pieces:
    """A few windows, all in the first tenth, were stored again."""
    dice = np.random.default_rng(seed)
    cuts = np.sort(dice.integers(BLOCK, max(messages // 10, BLOCK + 1), size=blocks))
    again = np.concatenate(([0], dice.integers(1, BLOCK, size=blocks)))
    first = np.concatenate(([0], cuts)) - again + 1
    return Pieces(first, np.append(cuts, messages) - first + 1, again)


def shuffled(messages: int, seed: int, block: int = 1) -> Pieces:
    """Every value once, in blocks whose order means nothing; of blocks of one message nothing is left of any order."""
    first = np.random.default_rng(seed).permutation(-(-messages // block)) * block + 1
    return Pieces(first, np.minimum(block, messages + 1 - first), first * 0)


def cached(name: str, messages: int, made: Maker, seed: int = 1, streams: int = 1) -> Path:
    """The run folder of that name and size, which is made if it is not there yet."""
    kept = f"{name}-{messages}-{seed}{f'-{streams}' * (streams > 1)}"
    return _kept(kept, lambda half: write(half, messages, made(messages, seed), streams))


def in_transactions(messages: int, size: int) -> Path:
    """The run folder of so many messages in transactions of `size`, which is made if it is not there yet."""
    return _kept(f"transactions-{messages}-{size}", lambda half: write_transactions(half, messages, size))


def _kept(name: str, make: Callable[[Path], object]) -> Path:
    folder = caches.root() / "bench" / f"{name}-{EDITION}"
    if not folder.exists():
        half = folder.with_name(f"{folder.name}.{os.getpid()}")
        try:
            make(half)
            half.rename(folder)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return folder


def write(folder: Path, messages: int, stored: Pieces, streams: int = 1) -> Manifest:
    """A run folder in which values 1 … `messages` were sent and acknowledged, and read as they were `stored`.

    Of several streams, which take turns in the one partition, message m is value (m - 1) // streams + 1.
    """
    sent = _Table(folder, "sent", streams)
    outcomes = _Table(folder, "outcomes", streams)
    received = _Table(folder, "received", streams)
    for begin, values in _laid_out(stored.length, stored.first):
        rows = np.arange(begin, begin + len(values))
        received.write({"arrival": rows, "entry": rows, "value": values})
    begins = np.cumsum(stored.length) - stored.length
    order = np.argsort(stored.first + stored.again)
    new = (stored.length - stored.again)[order]
    for begin, entries in _laid_out(new, (begins + stored.again)[order]):
        values = np.arange(begin + 1, begin + len(entries) + 1)
        sent.write({"value": values})
        outcomes.write({"value": values, "entry": entries})
    end = EndPosition(partition=0, extents=((0, received.rows),))
    return _closed(folder, messages, (sent, outcomes, received), end, streams)


def write_transactions(folder: Path, messages: int, size: int) -> Manifest:
    """A run folder in which values 1 … `messages` were sent in transactions of `size`, every tenth of them aborted.

    Each transaction ends in a marker, so that entry v - 1 + t is value v of transaction t; a reader of committed
    messages read all that was not aborted. Markers and what was aborted are holes, with proof.
    """
    sent, outcomes, received = (_Table(folder, name, 1) for name in ("sent", "outcomes", "received"))
    number = np.arange(-(-messages // size))
    first, last = number * size + 1, np.minimum((number + 1) * size, messages)
    aborted = number % TENTH == TENTH - 1
    for begin in range(0, messages, SEGMENT):
        values = np.arange(begin, min(begin + SEGMENT, messages)) + 1
        of = (values - 1) // size
        entries = values - 1 + of
        sent.write({"value": values})
        outcomes.write({"value": values, "entry": entries})
        read = ~aborted[of]
        arrivals = received.rows + np.arange(np.count_nonzero(read))
        received.write({"arrival": arrivals, "entry": entries[read], "value": values[read]})
    table = _Table(folder, TRANSACTIONS, 1)
    asked = np.where(aborted, Asked.ABORT, Asked.COMMIT)
    outcome = np.where(aborted, Ended.ABORTED, Ended.COMMITTED)
    table.write({"number": number, "first": first, "last": last, "asked": asked, "outcome": outcome})
    holes = []
    for each in number.tolist():
        begin, marker = int(first[each] - 1 + each), int(last[each] + each)
        if aborted[each]:
            holes.append(Hole(ledger=0, first=begin, last=marker - 1, proof=Proof.ABORTED))
        holes.append(Hole(ledger=0, first=marker, last=marker, proof=Proof.MARKER))
    reach = messages + len(number)
    end = EndPosition(partition=0, extents=((0, reach),), holes=tuple(holes), stable=reach)
    return _closed(folder, messages, (sent, outcomes, received, table), end)


def _closed(folder: Path, messages: int, tables: Sequence["_Table"], end: EndPosition, streams: int = 1) -> Manifest:
    with parquet_writer(folder / "clock.parquet", CLOCK):
        pass
    files = {table.name: table.close() for table in tables}
    clock = _segment(folder, folder / "clock.parquet", 0)
    manifest = _manifest(messages, files, clock, end, streams)
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1))
    return manifest


def _laid_out(length: Values, first: Values) -> Iterator[tuple[int, Values]]:
    """Series of whole numbers end to end, a segment at a time, each with how many came before it."""
    ends = np.cumsum(length)
    total = int(ends[-1])
    for begin in range(0, total, SEGMENT):
        end = min(begin + SEGMENT, total)
        own = slice(int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(ends, end)) + 1)
        here = np.diff(np.minimum(ends[own], end), prepend=begin)
        yield begin, np.repeat((first + length - ends)[own], here) + np.arange(begin, end)


class _Table:
    """Closed segments of one table; columns that are not given are 0."""

    def __init__(self, folder: Path, name: str, streams: int) -> None:
        self._folder, self.name, self.rows, self._streams = folder, name, 0, streams
        self._held: list[pa.Table] = []
        self._segments: list[Segment] = []
        (folder / name).mkdir(parents=True)

    def write(self, columns: dict[str, Values]) -> None:
        schema, rows = SCHEMAS[self.name], len(next(iter(columns.values())))
        if self._streams > 1:
            value, stream = np.divmod(columns["value"] - 1, self._streams)
            columns = columns | {"value": value + 1, "stream": stream}
        nothing = np.zeros(rows, np.int64)
        arrays = [pa.array(columns.get(field.name, nothing).astype(field.type.to_pandas_dtype())) for field in schema]
        self._held.append(pa.Table.from_arrays(arrays, schema=schema))
        self.rows += rows
        while sum(table.num_rows for table in self._held) >= SEGMENT:
            self._write_segment()

    def close(self) -> tuple[Segment, ...]:
        if any(table.num_rows for table in self._held):
            self._write_segment()
        return tuple(self._segments)

    def _write_segment(self) -> None:
        held = pa.concat_tables(self._held)
        path = self._folder / self.name / f"{len(self._segments):05}.parquet"
        with parquet_writer(path, SCHEMAS[self.name]) as writer:
            writer.write_table(held.slice(0, SEGMENT).combine_chunks(), row_group_size=GROUP)
        self._segments.append(_segment(self._folder, path, min(SEGMENT, held.num_rows)))
        self._held = [held.slice(SEGMENT)]


def _segment(folder: Path, path: Path, rows: int) -> Segment:
    name = path.relative_to(folder).as_posix()
    return Segment(path=name, rows=rows, bytes=path.stat().st_size, sha256=sha256_of(path))


def _manifest(
    messages: int, files: dict[str, tuple[Segment, ...]], clock: Segment, end: EndPosition, streams: int
) -> Manifest:
    told = None
    if TRANSACTIONS in files:
        number = sum(segment.rows for segment in files[TRANSACTIONS])
        aborted = number // TENTH
        told = Transactions(rows=number, number=number, committed=number - aborted, aborted=aborted, unknown=0)
    producer = ProducerReport(
        complete=True,
        library="bench",
        library_version="0",
        effective_config={},
        sent=messages,
        ok=messages,
        fail=0,
        unknown=0,
        transactions=told,
        segments=(*files["sent"], *files["outcomes"], *files.get(TRANSACTIONS, ()), clock),
        first_send_ns=0,
        last_acknowledgement_ns=1,
    )
    consumer = ConsumerReport(
        complete=True,
        reached_end=True,
        library="bench",
        library_version="0",
        effective_config={},
        received=sum(segment.rows for segment in files["received"]),
        end=(end,),
        segments=files["received"],
    )
    return Manifest(
        experiment="bench",
        spec_digest="0" * 64,
        run_id="d-aaaaaaaaaa",
        attempt=1,
        system="kafka",
        kind="kafka",
        variant="dedup",
        run=1,
        seed=1,
        messages=messages,
        streams=streams,
        topic="t",
        versions={},
        producer=producer,
        consumer=consumer,
        deduplication=Deduplication(asked=True, in_force=True, proof="made by hand"),
        files=(*producer.segments, *consumer.segments),
    )
