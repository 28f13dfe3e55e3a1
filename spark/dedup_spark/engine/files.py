"""Files: is each as its manifest recorded it, and which rows does it hold?

Workers inspect files in parallel: they count and hash the bytes, and look up the columns and row groups of a table. So
no single worker reads a large history alone, and a damaged file is found before its rows are used: only its own run
loses its verdict.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from dedup.history.histories import SCHEMA_VERSION, damages_of
from dedup.history.stores import Place, parquet, place, reached
from dedup.wire.manifests import Manifest, Segment

DAMAGED: Final = (OSError, ValueError, IndexError, pa.ArrowException)
"""The errors of a file whose rows cannot be read, for every kind of damage."""


class File(NamedTuple):
    """One file of the manifest of a run, in numbers and texts that cross to any worker."""

    run: int
    folder: str
    path: str
    rows: int
    bytes: int
    sha256: str
    version: int = SCHEMA_VERSION


class Inspected(NamedTuple):
    """The result for a file: its damages or, if it is an undamaged table, the rows of each of its row groups."""

    file: File
    damages: tuple[str, ...]
    groups: tuple[int, ...] = ()


def damage(error: Exception) -> str:
    """The first line of an error, or its type."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def files_of(folders: Sequence[tuple[Place, Manifest]]) -> Iterator[File]:
    """All files that the manifests name; `run` is the index of the folder."""
    for run, (folder, manifest) in enumerate(folders):
        where = str(folder.absolute())  # workers have another working directory
        for segment in manifest.files:
            recorded = segment.path, segment.rows, segment.bytes, segment.sha256
            yield File(run, where, *recorded, manifest.schema_version)


def inspect(file: File) -> Inspected:
    """Compare a file with its manifest's record. EnvironmentError_ if its store is out of reach."""
    folder = place(file.folder)
    segment = Segment(path=file.path, rows=file.rows, bytes=file.bytes, sha256=file.sha256)
    with reached(folder):
        found = tuple(damages_of(folder, segment, file.version))
        if found or not file.path.endswith(".parquet"):
            return Inspected(file, found)
        with parquet(folder / file.path) as opened:
            metadata = opened.metadata
            return Inspected(file, (), tuple(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)))
