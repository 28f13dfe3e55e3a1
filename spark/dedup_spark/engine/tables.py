"""The tables of findings: each worker writes its rows as it finds them; they are never collected in one place.

One folder holds the findings of all runs of a verification (dedup/judgement/findings.py). Each task writes at most one
part of each table, named after the task, so a task that is retried writes the same part again; on a disk a part gets
its name when it is complete. `findings.json` is written last: without it the folder is incomplete.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.errors import SpecificationError
from dedup.history.stores import Place, below, place, reached, write_whole
from dedup.judgement.anomalies import Verification
from dedup.judgement.findings import Index, RunFindings, Window
from dedup.process import machines
from dedup.wire.manifests import Manifest
from dedup_spark.engine.columns import Column, Columns, size, taken
from dedup_spark.engine.findings import JUMPS, KINDS, numbers_of
from dedup_spark.engine.stretches import distance

INDEX: Final = "findings.json"
OURS: Final = re.compile(r"findings\.json|(blocks|jumps|ranges)(/part-\d+\.parquet(\.\d+\.open)?)?")

_RUN: Final = [("path", pa.string()), ("run_id", pa.string())]
_PLACE: Final = [("ledger", pa.int64()), ("entry", pa.int64()), ("batch", pa.int32())]
_DURING: Final = [("during", pa.list_(pa.string()))]
TABLES: Final = {
    "blocks": pa.schema(
        [
            *_RUN,
            *(("partition", pa.int32()), ("stream", pa.int32()), ("value", pa.int64()), ("length", pa.int64())),
            ("distance", pa.int64()),
            *_PLACE,
            *((f"first_{name}", kind) for name, kind in _PLACE),
            *_DURING,
        ]
    ),
    "jumps": pa.schema(
        [
            *_RUN,
            *(("partition", pa.int32()), ("stream", pa.int32()), ("jump", pa.string())),
            *(("last", pa.int64()), ("value", pa.int64()), ("arrival", pa.int64())),
            *_PLACE,
            *_DURING,
        ]
    ),
    "ranges": pa.schema(
        [
            *_RUN,
            *(("anomaly", pa.string()), ("stream", pa.int32()), ("value", pa.int64()), ("length", pa.int64())),
            *_DURING,
        ]
    ),
}


class Named(NamedTuple):
    """The names of a run and its faults in the rows of the tables."""

    path: str
    run_id: str
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Tables:
    """Where findings go; `folder` None: nowhere."""

    folder: str | None = None
    runs: tuple[Named, ...] = ()

    @contextmanager
    def part(self, number: int, attempt: int = 0) -> Iterator["Part"]:
        """The part of the task of this number; a task that fails leaves none."""
        part = Part(self, number, attempt)
        try:
            yield part
            part.close()
        except BaseException:
            part.abandon()
            raise


def tables_in(
    folder: Place | None, runs: Sequence[tuple[Place, Manifest]], windows: Sequence[Sequence[Window]]
) -> Tables:
    """The tables of these runs in `folder`; earlier findings there are removed.

    SpecificationError if anything else lies there.
    """
    if folder is None:
        return Tables()
    with reached(folder):
        names = below(folder)
        if foreign := [name for name in names if not OURS.fullmatch(name)]:
            raise SpecificationError(
                where=f"--findings {folder}",
                got=f"a folder that holds {foreign[0]}",
                rule="findings need a folder of their own: its content is replaced",
                todo="name an empty or a new folder",
            )
        for name in sorted(names, key=lambda name: name != INDEX):
            if name not in TABLES:
                (folder / name).unlink()
    named = (
        Named(str(path), manifest.run_id, tuple(window.fault for window in own))
        for (path, manifest), own in zip(runs, windows, strict=True)
    )
    return Tables(str(folder.absolute()), tuple(named))


def close(tables: Tables, runs: Sequence[Verification]) -> None:
    """Write the index: with it the folder is whole."""
    if tables.folder is None:
        return
    overviews = tuple(
        RunFindings(path=run.path, block_lengths=run.block_lengths, **(dict(run.findings) if run.findings else {}))
        for run in runs
    )
    folder = place(tables.folder)
    with reached(folder), machines.at(f"--findings {folder}"):
        if isinstance(folder, Path):
            folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / INDEX, Index(runs=overviews).model_dump_json(indent=1))


@dataclass
class Part:
    """The part of one task: one file a table, opened with the first rows."""

    tables: Tables
    number: int
    attempt: int
    _open: dict[str, tuple[Any, pq.ParquetWriter]] = field(default_factory=dict)

    def jumps(self, found: Columns) -> None:
        """Rows of dedup_spark.engine.findings.JUMP."""
        self._write("jumps", found, {"jump": _words(JUMPS, found["jump"])})

    def stretches(self, found: Columns) -> None:
        """Rows of dedup_spark.engine.findings.STRETCH."""
        blocks, ranges = (taken(found, (found["kind"] == 0) == block) for block in (True, False))
        self._write("blocks", blocks | {"distance": distance(blocks)}, {})
        self._write("ranges", ranges, {"anomaly": _words(KINDS, ranges["kind"])})

    def close(self) -> None:
        for table, (file, writer) in self._open.items():
            opened, path = self._paths(table)
            with self._writing():
                writer.close()
                file.close()
                if isinstance(opened, Path):
                    opened.replace(str(path))

    def abandon(self) -> None:
        """Remove what was written; in a store it may stay, outside any index until the task is retried."""
        for table, (file, writer) in self._open.items():
            for each in (writer, file):
                with suppress(OSError):  # a full disk; the first error has reported it
                    each.close()
            writer.is_open = False  # or it is closed again when it is collected, and Python prints a traceback
            opened, _ = self._paths(table)
            if isinstance(opened, Path):
                opened.unlink(missing_ok=True)

    def _write(self, table: str, found: Columns, words: dict[str, pa.Array]) -> None:
        if self.tables.folder is None or not size(found):
            return
        with self._writing():
            if table not in self._open:
                opened, path = self._paths(table)
                if isinstance(path, Path):
                    path.parent.mkdir(parents=True, exist_ok=True)
                file = opened.open("wb")
                self._open[table] = file, pq.ParquetWriter(file, TABLES[table], compression="zstd")
        runs = self.tables.runs
        words = words | {
            "path": _words([run.path for run in runs], found["run"]),
            "run_id": _words([run.run_id for run in runs], found["run"]),
            "during": _during(runs, found["run"], found["windows"]),
        }
        arrays = [
            words[each.name] if each.name in words else pa.array(found[each.name]).cast(each.type)
            for each in TABLES[table]
        ]
        with self._writing():
            self._open[table][1].write_table(pa.Table.from_arrays(arrays, schema=TABLES[table]))

    def _writing(self) -> AbstractContextManager[None]:
        """Report errors of the disk as errors of the folder of findings."""
        return machines.at(f"--findings {self.tables.folder}")

    def _paths(self, table: str) -> tuple[Place, Place]:
        """The temporary and the final path of a part; in a store they are equal: an object appears when complete."""
        assert self.tables.folder is not None
        path = place(self.tables.folder) / table / f"part-{self.number:05}.parquet"
        if isinstance(path, Path):
            return path.with_name(f"{path.name}.{self.attempt}.open"), path
        return path, path


def _words(words: Sequence[str], numbers: Column) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(numbers))


def _during(runs: Sequence[Named], run: Column, windows: Column) -> pa.Array:
    """The faults of each row by name."""
    pairs, row = np.unique(np.stack((run, windows)), axis=1, return_inverse=True)
    names = [[runs[number].faults[fault] for fault in numbers_of(bits)] for number, bits in pairs.T.tolist()]
    return pa.array(names, pa.list_(pa.string())).take(pa.array(row.ravel()))
