"""The local engine: the job's own functions in this process, without a JVM.

Spark takes longer to start than most histories take to verify. Here a few threads reduce chunks (reading Parquet and
sums over columns release Python's lock), and all islands are in memory: a history in order has a few thousand, a random
one as many as messages, at some 300 bytes each. For such a history use Spark, which spills.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from dedup.history.stores import Place
from dedup.judgement.anomalies import Engine
from dedup_spark import judging
from dedup_spark.engine import rereads, stretches, tails, values
from dedup_spark.engine.borders import Carry
from dedup_spark.engine.chunks import CHUNK_ROWS, Chunk, Note, reduce, row_columns
from dedup_spark.engine.columns import Columns, Mask, firsts, joined, taken
from dedup_spark.engine.files import File, Inspected, inspect
from dedup_spark.engine.findings import STRETCH, Findings
from dedup_spark.engine.islands import BUCKET, ISLAND, READ
from dedup_spark.engine.positions import Ends
from dedup_spark.engine.tables import Tables
from dedup_spark.engine.transactions import Known
from dedup_spark.evidence import Report, open_folders

PORTION: Final = 1 << 20
"""So many islands are judged at once, and as many more as belong to the same values."""


def verify(folders: Sequence[Place], chunk_rows: int = CHUNK_ROWS, findings: Place | None = None) -> Report:
    """Verify run folders in this process; runs and problems are in the order of `folders`.

    `findings`: a folder for the tables of findings, of its own.
    """
    opened, problems = open_folders(folders)
    runs, more = judging.verify(opened, LocalWorkers(), chunk_rows, findings)
    return Report(engine=Engine.LOCAL, runs=tuple(runs), problems=(*problems, *more))


class LocalWorkers:
    """Holds all islands in memory."""

    name = Engine.LOCAL.value

    def __init__(self) -> None:
        self._islands: list[Columns] = []
        self._threads = os.cpu_count() or 1

    def inspect(self, files: Sequence[File]) -> list[Inspected]:
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(inspect, files))

    def reduce(self, chunks: Sequence[Chunk], ends: Mapping[int, Ends], known: Mapping[int, Known]) -> list[Note]:
        with ThreadPoolExecutor(self._threads) as pool:
            reduced = list(pool.map(lambda chunk: reduce(chunk, ends, known), chunks))
        self._islands = [found for found, _ in reduced]
        return [note for _, note in reduced]

    def clean(self, chunks: Sequence[Chunk], ends: Mapping[int, Ends]) -> list[Note]:
        unclear, notes = {chunk.run for chunk in chunks}, []
        self._islands = [_without(found, unclear) for found in self._islands]
        for run in sorted(unclear):
            rows = joined((row_columns(chunk) for chunk in chunks if chunk.run == run), rereads.ROW)
            order = np.lexsort((rows["entry"], rows["ledger"], rows["partition"]))
            entry = firsts(*(rows[name][order] for name in ("partition", "ledger", "entry")))
            kept = np.zeros(len(order), dtype=bool)
            for part in _portions(entry, rereads.PORTION):
                clean, disputed, noted = rereads.clean(taken(rows, order[part]), ends)
                kept[clean["arrival"]] = True
                self._islands.append(disputed)
                notes += noted
            for found, note in rereads.by_chunk(rows, kept):
                self._islands.append(found)
                notes.append(note)
        return notes

    def judge(self, carry: Carry, without: AbstractSet[int], tables: Tables) -> Iterator[tuple[int, Findings]]:
        islands = joined(self._islands, ISLAND)
        islands = taken(islands, ~np.isin(islands["run"], list(without)))
        self._islands = [islands]
        bucket = islands["value"] // BUCKET
        order = np.lexsort((bucket, islands["stream"], islands["run"]))
        first = firsts(islands["run"][order], islands["stream"][order], bucket[order])
        found = []
        with tables.part(0) as part:
            for portion in _portions(first, PORTION):
                findings, pieces, jumps = values.judge(taken(islands, order[portion]), carry)
                yield from findings.items()
                found.append(pieces)
                part.jumps(jumps)
            pieces = joined(found, STRETCH)
            together = stretches.put_together(pieces)
            part.stretches(together)
        yield from stretches.findings_of(pieces, together).items()

    def tails(self, runs: AbstractSet[int], ends: Mapping[int, Ends]) -> Iterator[tuple[int, Findings]]:
        (islands,) = self._islands
        for run in sorted(runs):
            yield from tails.find(tails.by_entries(taken(islands, islands["run"] == run)), ends).items()


def _without(found: Columns, runs: AbstractSet[int]) -> Columns:
    return taken(found, ~((found["kind"] == READ) & np.isin(found["run"], list(runs))))


def _portions(first: Mask, rows: int) -> Iterator[slice]:
    """Slices of whole groups, of so many rows or little more."""
    starts = np.append(np.flatnonzero(first), len(first))
    begin = 0
    while begin < len(first):
        end = int(starts[min(int(np.searchsorted(starts, begin + rows)), len(starts) - 1)])
        yield slice(begin, end)
        begin = end
