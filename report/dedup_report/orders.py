"""In which order a run's messages arrived: counted into the cells of a grid, however many they are.

The columns of the grid are places in the order of arrival, its rows are values. Two numbers are kept of each cell:
first readings, and copies (messages whose value had been read before). So every message is in the picture, of 10^3 as
of 10^8, and a single copy colours its cell. Nothing is sampled. Jumps are the judges' own (the table of findings); they
are drawn one by one as long as they can be told apart, and above that by columns, with their number.

The counts of the grid do not replace the judges': `extra_copies` leaves out what was read at the same position again
(`re_reads`), so that copies here are both together. The page compares them.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from dedup.history.histories import segments
from dedup.history.stores import Place, parquet
from dedup.judgement.anomalies import Verification
from dedup.judgement.counts import JUMP_COUNTS, Counts, Jump
from dedup.wire.manifests import Manifest

BATCH: Final = 1 << 18
MOST_SEEN: Final = 1 << 28
"""Of more values it is not told which were read before: a byte is kept of each."""
FINDINGS: Final = ("verification/findings", "findings")
"""Where the tables of findings lie: of `dedup run`, and of an experiment in a cluster."""
MOST_JUMPS: Final = 400
"""Above this number jumps are drawn by columns."""

KINDS: Final = tuple(Jump)

Cells = npt.NDArray[np.int64]


class Grid(NamedTuple):
    """Messages by place of arrival (columns) and value (rows, the lowest first)."""

    first: Cells
    copies: Cells
    arrivals: int
    top: int
    """The highest value that was to be sent in a stream; the grid ends there."""
    outside: int
    """Messages with other values: they were never to be sent, and have no row."""
    told: bool
    """Whether copies were told from first readings."""


class Jumps(NamedTuple):
    """The jumps of a run in the order of arrival: where they happened, and from which value to which."""

    kinds: npt.NDArray[np.int8]
    """Indices into KINDS."""
    arrivals: Cells
    lasts: Cells
    values: Cells
    total: int
    """How many there were; more than are listed here if the table of findings is missing."""

    def of(self, *kinds: Jump) -> "Jumps":
        chosen = np.isin(self.kinds, [KINDS.index(kind) for kind in kinds])
        return Jumps(self.kinds[chosen], self.arrivals[chosen], self.lasts[chosen], self.values[chosen], self.total)


def grid_of(folder: Place, manifest: Manifest, columns: int, rows: int) -> Grid:
    """The grid of a run; it reads two columns of `received`, a batch at a time."""
    arrivals, streams = manifest.consumer.received, manifest.streams
    top = max(1, *(manifest.planned(stream) for stream in range(streams)))
    told = streams * top <= MOST_SEEN
    seen = np.zeros(streams * top if told else 0, np.bool_)
    first, copies = np.zeros(columns * rows, np.int64), np.zeros(columns * rows, np.int64)
    outside = place = 0
    for stream, value in _received(folder):
        at = np.arange(place, place + len(value))
        place += len(value)
        inside = (value >= 1) & (value <= top) & (stream >= 0) & (stream < streams)
        if not inside.all():
            outside += int(len(value) - inside.sum())
            stream, value, at = stream[inside], value[inside], at[inside]
        column = np.minimum(at * columns // max(arrivals, 1), columns - 1)
        cell = (value - 1) * rows // top * columns + column
        again = _again(stream * top + value - 1, seen) if told else np.zeros(len(value), np.bool_)
        first += np.bincount(cell[~again], minlength=columns * rows)
        copies += np.bincount(cell[again], minlength=columns * rows)
    shape = (rows, columns)
    return Grid(first.reshape(shape), copies.reshape(shape), arrivals, top, outside, told)


def _received(folder: Place) -> Iterator[tuple[Cells, Cells]]:
    for path in segments(folder, "received"):
        with parquet(path) as file:
            for rows in file.iter_batches(BATCH, columns=["stream", "value"]):
                yield rows.column("stream").to_numpy().astype(np.int64), rows.column("value").to_numpy()


def _again(keys: Cells, seen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the messages were read before, in this batch or an earlier one; they are `seen` from now on."""
    again = seen[keys]
    seen[keys] = True
    if len(keys) > 1 and not np.all(keys[1:] > keys[:-1]):
        order = np.argsort(keys, kind="stable")
        same = keys[order[1:]] == keys[order[:-1]]
        again[order[1:][same]] = True
    return again


def jumps_of(root: Place, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Jumps] | None:
    """The jumps of these attempts (run, number) from the table of findings; None if there is no whole one here."""
    folder = next((root / name for name in FINDINGS if (root / name / "findings.json").is_file()), None)
    if folder is None:
        return None
    listed: dict[tuple[str, int], list[tuple[Cells, ...]]] = {each: [] for each in attempts}
    for rows in _rows(folder / "jumps", sorted({run_id for run_id, _ in listed})):
        for (run_id, number), parts in listed.items():
            own = pc.and_(pc.equal(rows["run_id"], run_id), pc.ends_with(rows["path"], f"/attempt-{number}"))
            if (found := rows.filter(own)).num_rows:
                kinds = pc.index_in(found["jump"], pa.array([kind.value for kind in KINDS])).to_numpy()
                parts.append((kinds, *(found[name].to_numpy() for name in ("arrival", "last", "value"))))
    return {each: _in_order(parts) for each, parts in listed.items()}


def _rows(folder: Place, runs: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of the table of jumps; a run without one has no part of it, and where no run has one there is no table."""
    if folder.is_dir():
        columns = ["path", "run_id", "jump", "arrival", "last", "value"]
        at = {"source": folder} if isinstance(folder, Path) else {"source": folder.path, "filesystem": folder.fs}
        yield from ds.dataset(**at, format="parquet").to_batches(
            columns=columns, filter=pc.field("run_id").isin(runs), batch_size=BATCH
        )


def _in_order(parts: Sequence[tuple[Cells, ...]]) -> Jumps:
    if not parts:
        return Jumps(np.empty(0, np.int8), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), 0)
    kinds, arrivals, lasts, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(arrivals, kind="stable")
    return Jumps(kinds[order].astype(np.int8), arrivals[order], lasts[order], values[order], len(order))


def jumps_said(answer: Verification) -> Jumps:
    """The jumps that a judge lists, where there is no table: the first ones."""
    rows = [(KINDS.index(each.jump), each.arrival, each.last, each.value) for each in answer.events]
    kinds, arrivals, lasts, values = np.array(rows, np.int64).reshape(-1, 4).T
    return Jumps(kinds.astype(np.int8), arrivals, lasts, values, answer.events_total)


def differs(grid: Grid, jumps: Jumps | None, counts: Counts) -> str | None:
    """How the picture and the judges' counts differ, in words; None if they agree."""
    drawn, counted = int(grid.copies.sum()), counts.extra_copies + counts.re_reads
    if grid.told and not grid.outside and drawn != counted:
        return f"{drawn:,} copies are drawn, and the judges count {counted:,}: this is not the history that was judged"
    counted = sum(getattr(counts, name) for name in JUMP_COUNTS)
    if jumps is not None and jumps.total != counted:
        return f"{jumps.total:,} jumps are listed, and the judges count {counted:,}: these are not the judges' findings"
    return None
