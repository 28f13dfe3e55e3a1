"""Files: is each what its manifest recorded, and what rows does it hold?

A file is inspected where there is time for it, by whoever shares out the work: its bytes are counted and hashed, and of
a table its columns and groups of rows are looked up. So nobody reads a large history alone, and a damaged file is found
before anybody relies on its rows: it costs its own run the verdict, and no other.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from dedup.history.histories import damages_of
from dedup.history.stores import Place, parquet, place, reached
from dedup.wire.manifests import Manifest, Segment

DAMAGED: Final = (OSError, ValueError, IndexError, pa.ArrowException)
"""How it shows that the rows of a file cannot be read, of whatever kind the damage is."""


class File(NamedTuple):
    """One file of the manifest of a run, in numbers and texts that cross to any worker."""

    run: int
    folder: str
    path: str
    rows: int
    bytes: int
    sha256: str


class Inspected(NamedTuple):
    """What there is to say of a file: its damages or, if it is whole and a table, the rows of each of its groups."""

    file: File
    damages: tuple[str, ...]
    groups: tuple[int, ...] = ()


def damage(error: Exception) -> str:
    """What is wrong, in the first line of whoever found out."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def files_of(folders: Sequence[tuple[Place, Manifest]]) -> Iterator[File]:
    """All files that the manifests name; `run` is the index of the folder."""
    for run, (folder, manifest) in enumerate(folders):
        where = str(folder.absolute())  # workers stand elsewhere
        for segment in manifest.files:
            yield File(run, where, segment.path, segment.rows, segment.bytes, segment.sha256)


def inspect(file: File) -> Inspected:
    """Hold a file against what was recorded of it. EnvironmentError_ if its store is out of reach."""
    folder = place(file.folder)
    segment = Segment(path=file.path, rows=file.rows, bytes=file.bytes, sha256=file.sha256)
    with reached(folder):
        found = tuple(damages_of(folder, segment))
        if found or not file.path.endswith(".parquet"):
            return Inspected(file, found)
        with parquet(folder / file.path) as opened:
            metadata = opened.metadata
            return Inspected(file, (), tuple(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)))
