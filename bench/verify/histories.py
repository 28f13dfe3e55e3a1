"""Histories to measure with: as S0's tests leave them, in blocks that came again, or in no order at all.

Written as a run writes them (segments of 2^20 rows, row groups of 2^17), straight from numpy, so that even 10^9 rows
are made in minutes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.histories import CLOCK, MANIFEST, SCHEMAS, parquet_writer, sha256_of
from dedup.manifests import ConsumerReport, Deduplication, EndPosition, Manifest, ProducerReport, Segment

SEGMENT: Final = 1 << 20
GROUP: Final = 1 << 17
BLOCK: Final = 5_000
"""Messages in a window that is sent again."""

Values = npt.NDArray[np.int64]


def s0_like(messages: int, seed: int, blocks: int = 12) -> Iterator[Values]:
    """The values in the order of a partition: a few windows, all in the first tenth, were stored again."""
    dice = np.random.default_rng(seed)
    at = np.sort(dice.integers(BLOCK, max(messages // 10, BLOCK + 1), size=blocks))
    last = 0
    for cut in at.tolist():
        yield from _pieces(last + 1, cut)
        last = max(0, cut - int(dice.integers(1, BLOCK)))
    yield from _pieces(last + 1, messages)


def at_random(messages: int, seed: int) -> Iterator[Values]:
    """Every value once, in no order."""
    values = np.random.default_rng(seed).permutation(messages) + 1
    yield from (values[i : i + SEGMENT] for i in range(0, messages, SEGMENT))


def _pieces(first: int, final: int) -> Iterator[Values]:
    for begin in range(first, final + 1, SEGMENT):
        yield np.arange(begin, min(begin + SEGMENT, final + 1))


def write(folder: Path, messages: int, stored: Iterator[Values]) -> Manifest:
    """A run folder in which values 1 … `messages` were sent and acknowledged, and read as they were `stored`."""
    sent = _Table(folder, "sent")
    outcomes = _Table(folder, "outcomes")
    received = _Table(folder, "received")
    first_at = np.full(messages + 1, -1, np.int64)
    for values in stored:
        offset = np.arange(received.rows, received.rows + len(values))
        received.write({"arrival": offset, "entry": offset, "value": values})
        new = first_at[values] < 0
        first_at[values[new]] = offset[new]
    for values in _pieces(1, messages):
        sent.write({"value": values})
        outcomes.write({"value": values, "entry": first_at[values]})
    with parquet_writer(folder / "clock.parquet", CLOCK):
        pass
    files = {table.name: table.close() for table in (sent, outcomes, received)}
    clock = _segment(folder, folder / "clock.parquet", 0)
    manifest = _manifest(messages, received.rows, files, clock)
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1))
    return manifest


class _Table:
    """Closed segments of one table; columns that are not given are 0."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self.name, self.rows = folder, name, 0
        self._held: list[pa.Table] = []
        self._segments: list[Segment] = []
        (folder / name).mkdir(parents=True)

    def write(self, columns: dict[str, Values]) -> None:
        schema, rows = SCHEMAS[self.name], len(columns["value"])
        nothing = np.zeros(rows, np.int64)
        arrays = [pa.array(columns.get(field.name, nothing)).cast(field.type) for field in schema]
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


def _manifest(messages: int, received: int, files: dict[str, tuple[Segment, ...]], clock: Segment) -> Manifest:
    producer = ProducerReport(
        complete=True,
        library="bench",
        library_version="0",
        effective_config={},
        sent=messages,
        ok=messages,
        fail=0,
        unknown=0,
        segments=(*files["sent"], *files["outcomes"], clock),
        first_send_ns=0,
        last_acknowledgement_ns=1,
    )
    consumer = ConsumerReport(
        complete=True,
        reached_end=True,
        library="bench",
        library_version="0",
        effective_config={},
        received=received,
        end=(EndPosition(partition=0, extents=((0, received),)),),
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
        streams=1,
        topic="t",
        versions={},
        producer=producer,
        consumer=consumer,
        deduplication=Deduplication(asked=True, in_force=True, proof="made by hand"),
        files=(*producer.segments, *consumer.segments),
    )
