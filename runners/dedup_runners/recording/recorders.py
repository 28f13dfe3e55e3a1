"""The recorder: history rows go in by the chunk, closed Parquet segments come out, memory stays flat.

The hot loop of a client must not wait for a disk, and must not hold a history in memory. So it hands over whole numpy
arrays; one background thread gathers them into row groups and writes Parquet (which releases the interpreter's lock).
The queue between the two holds a bounded number of rows: when the disk is too slow the client waits, and memory does
not grow. A segment is closed every so many rows or seconds: flushed to the disk, renamed from `NNNNN.parquet.open`,
and only then counted, with its checksum. A crash therefore loses at most the open segment of each table, which stays
behind under its `.open` name and makes the run incomplete.

Some rows must be on the disk before something else happens: what is about to be sent is written ahead of the send, so
that nothing that a dead producer sent is unknown. `write_ahead` makes such rows a closed segment, and `await_ahead`
returns when it is one.

If writing fails (a full disk), the thread stops, what was closed stays, and the next call raises that error.
"""

import os
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.errors import EnvironmentError_
from dedup.history.histories import CLOCK, OPEN_SUFFIX, SCHEMA_VERSION, parquet_writer, schemas, sha256_of
from dedup.wire.manifests import Segment
from dedup_runners.recording.journals import unwritable
from dedup_runners.waiting import too_long

Columns = tuple[Any, ...]
"""One array a column of the table's schema, all of one length."""

ROWS_A_SEGMENT: Final = 1 << 20
ROWS_A_GROUP: Final = 1 << 17
SEGMENT_S: Final = 5.0
ROWS_QUEUED: Final = 1 << 19
CLOSE_TIMEOUT_S: Final = 120.0
CLOCK_INTERVAL_NS: Final = 10_000_000
CLOCK_INTERVAL_ROWS: Final = 10_000


class Recorder:
    """Writes the tables of one run's folder in the background.

    `write` may be called from any thread. `close` must be called once; it returns every segment in order.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rows_a_segment: int = ROWS_A_SEGMENT,
        segment_s: float = SEGMENT_S,
        version: int = SCHEMA_VERSION,
    ) -> None:
        self._folder, self._rows_a_segment, self._segment_s = folder, rows_a_segment, segment_s
        self._schemas = schemas(version)
        self._tables: dict[str, _Table] = {}
        self._queue: deque[tuple[str, Any, bool]] = deque()
        self._queued_rows = 0
        self._ahead_asked = self._ahead_written = 0
        self._changed = threading.Condition()
        self._closing = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def write(self, table: str, columns: Columns) -> None:
        """Hand over rows. Waits while the queue is full; raises EnvironmentError_ once writing has failed."""
        rows = len(columns[0])
        if rows == 0:
            return
        with self._changed:
            while self._queued_rows >= ROWS_QUEUED and self._error is None:
                self._changed.wait(1.0)
            if self._error is not None:
                raise self._failure()
            self._queue.append((table, columns, False))
            self._queued_rows += rows
            self._changed.notify_all()

    def write_ahead(self, table: str, pieces: Iterable[Columns]) -> int:
        """Hand over rows that become a closed segment by themselves; a number for `await_ahead`. Does not wait.

        The pieces are made in the background, one row group each. Only one call at a time may be unwritten.
        """
        with self._changed:
            self._queue.append((table, pieces, True))
            self._ahead_asked += 1
            self._changed.notify_all()
            return self._ahead_asked

    def await_ahead(self, number: int) -> None:
        """Return when that segment is on the disk; raises EnvironmentError_ once writing has failed."""
        with self._changed:
            while self._ahead_written < number and self._error is None:
                self._changed.wait(1.0)
            if self._error is not None:
                raise self._failure()

    def close(self) -> tuple[Segment, ...]:
        """Write what is queued, close every segment; raises EnvironmentError_ if anything could not be written."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._error is not None:
            raise self._failure()
        if self._thread.is_alive():
            raise too_long(f"{self._folder}: the history's last segments reach the disk", CLOSE_TIMEOUT_S)
        return tuple(segment for name in sorted(self._tables) for segment in self._tables[name].segments)

    def _run(self) -> None:
        try:
            while (item := self._next()) is not None:
                for name, rows, ahead in item:
                    if name not in self._tables:
                        self._tables[name] = _Table(self._folder, name, self._rows_a_segment, self._schemas[name])
                    if ahead:
                        self._add_ahead(self._tables[name], rows)
                    else:
                        self._tables[name].add(rows)
                for table in self._tables.values():
                    table.rotate(older_than_s=self._segment_s)
            for table in self._tables.values():
                table.rotate(older_than_s=0)
        except Exception as error:  # whatever it is, the client must hear of it
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _add_ahead(self, table: "_Table", pieces: Iterable[Columns]) -> None:
        for piece in pieces:
            table.add(piece)
        table.rotate(older_than_s=0)
        with self._changed:
            self._ahead_written += 1
            self._changed.notify_all()

    def _next(self) -> list[tuple[str, Any, bool]] | None:
        with self._changed:
            while not self._queue and not self._closing:
                if not self._changed.wait(self._segment_s):
                    return []
            if not self._queue:
                return None
            items = list(self._queue)
            self._queue.clear()
            self._queued_rows = 0
            self._changed.notify_all()
            return items

    def _failure(self) -> EnvironmentError_:
        assert self._error is not None
        return unwritable(self._folder, self._error)


class _Table:
    """One table's segments: gathers rows to row groups, and closes a segment when it is long or old enough."""

    def __init__(self, folder: Path, name: str, rows_a_segment: int, schema: pa.Schema) -> None:
        self.segments: list[Segment] = []
        self._folder, self._name, self._rows_a_segment = folder, name, rows_a_segment
        self._schema = schema
        self._pending: list[Columns] = []
        self._pending_rows = self._rows = 0
        self._opened_s = time.monotonic()
        self._writer: pq.ParquetWriter | None = None
        (folder / name).mkdir(parents=True, exist_ok=True)

    def add(self, columns: Columns) -> None:
        if not self._rows and not self._pending:
            self._opened_s = time.monotonic()
        self._pending.append(columns)
        self._pending_rows += len(columns[0])
        if self._pending_rows >= ROWS_A_GROUP or self._rows + self._pending_rows >= self._rows_a_segment:
            self._write_group()
        if self._rows >= self._rows_a_segment:
            self._close()

    def rotate(self, older_than_s: float) -> None:
        if (self._rows or self._pending) and time.monotonic() - self._opened_s >= older_than_s:
            self._write_group()
            self._close()

    @property
    def _path(self) -> Path:
        return self._folder / self._name / f"{len(self.segments):05}.parquet"

    def _write_group(self) -> None:
        if not self._pending:
            return
        if self._writer is None:
            self._writer = parquet_writer(self._path.with_name(self._path.name + OPEN_SUFFIX), self._schema)
        arrays = [
            pa.array(np.concatenate(parts), type=field.type)
            for field, parts in zip(self._schema, zip(*self._pending, strict=True), strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows += self._pending_rows
        self._pending, self._pending_rows = [], 0

    def _close(self) -> None:
        assert self._writer is not None
        self._writer.close()
        path = self._path
        self.segments.append(close_segment(self._folder, path, self._rows))
        self._writer, self._rows = None, 0


class Clock:
    """Maps row numbers to monotonic time, sparsely: the first row, one every 10 ms or 10,000 rows, and the last.

    `tick` is called once a chunk, by one thread. The ticks lie in memory until `save`: at most 17 MB an hour.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._newest: dict[int, tuple[int, int]] = {}
        self._ticks = array("q")

    def tick(self, kind: int, index: int, monotonic_ns: int) -> None:
        """`index` rows of this kind were recorded by `monotonic_ns`."""
        last_index, last_ns = self._last.get(kind, (-CLOCK_INTERVAL_ROWS, 0))
        if index == last_index:
            return
        self._newest[kind] = (index, monotonic_ns)
        if monotonic_ns - last_ns >= CLOCK_INTERVAL_NS or index - last_index >= CLOCK_INTERVAL_ROWS:
            self._ticks.extend((kind, index, monotonic_ns))
            self._last[kind] = (index, monotonic_ns)

    def newest_ns(self, kind: int) -> int:
        """When the last row of this kind was recorded; 0 if there was none."""
        return self._newest.get(kind, (0, 0))[1]

    def save(self, folder: Path) -> Segment:
        """Write `clock.parquet`; raises EnvironmentError_ like the recorder if it cannot."""
        for kind, newest in self._newest.items():
            if newest != self._last[kind]:
                self._ticks.extend((kind, *newest))
        rows = np.array(self._ticks, np.int64).reshape(-1, 3)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        columns = [pa.array(column, type=field.type) for column, field in zip(rows.T, CLOCK, strict=True)]
        path = folder / "clock.parquet"
        try:
            with parquet_writer(path.with_name(path.name + OPEN_SUFFIX), CLOCK) as writer:
                writer.write_table(pa.Table.from_arrays(columns, schema=CLOCK))
            return close_segment(folder, path, len(rows))
        except (OSError, pa.ArrowException) as error:
            raise unwritable(folder, error) from None


def close_segment(folder: Path, path: Path, rows: int) -> Segment:
    """Make `path` final: what lies under its open name goes to the disk and takes the closed name."""
    opened = path.with_name(path.name + OPEN_SUFFIX)
    with opened.open("rb+") as file:
        os.fsync(file.fileno())
    size, digest = opened.stat().st_size, sha256_of(opened)
    opened.rename(path)
    return Segment(path=path.relative_to(folder).as_posix(), rows=rows, bytes=size, sha256=digest)
