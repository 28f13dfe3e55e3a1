"""The verification job: it reads any number of run folders and returns the evidence for a verdict on each.

    python -m dedup_spark.job --output FILE [--keep] [--findings FOLDER] [--cores N] PATH…

What the options mean, and what is written: dedup_spark/programs.py. All folders are verified together, in one pass
(dedup_spark/judging.py).

The same file is the main file of a SparkApplication: if spark-submit has started it, the session is spark-submit's.

Spark distributes the work, sorts and spills: its workers run the same functions as the local engine, on tables of whole
numbers. Every table that a worker returns has one more column, `note`: a few rows hold the results for the driver,
and only these return to it.
"""

import functools
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from dedup.errors import PlatformError
from dedup.history.stores import Place
from dedup.judgement.anomalies import Engine, Verification
from dedup.process.orphans import leave_with_parent
from dedup.wire.manifests import Manifest
from dedup_spark import judging
from dedup_spark.engine import rereads, stretches, tails, values
from dedup_spark.engine.borders import Carry
from dedup_spark.engine.chunks import CHUNK_ROWS, Chunk, Note, reduce, row_columns
from dedup_spark.engine.columns import Columns, firsts, joined, size, taken
from dedup_spark.engine.files import File, Inspected, inspect
from dedup_spark.engine.findings import STRETCH, TOGETHER, Findings, gather
from dedup_spark.engine.islands import BUCKET, DISPUTED, ISLAND, READ
from dedup_spark.engine.positions import Ends
from dedup_spark.engine.tables import Part, Tables, close, tables_in
from dedup_spark.engine.transactions import Known
from dedup_spark.evidence import Problem, Report, open_folders
from dedup_spark.programs import carry_out, parser_of
from dedup_spark.sessions import GONE, session

ITEMS_A_TASK: Final = 32
TASKS_A_CORE: Final = 16
GROUPED_ROWS: Final = 1 << 18
"""A worker judges so many rows at once, and as many more as belong to the same group."""

Item = TypeVar("Item", File, Chunk)
Batches = Iterator[pa.RecordBatch]
Output = tuple[Columns, Sequence[object]]
"""A worker's output: rows, and its notes for the driver."""

Work = Callable[[Iterator[Columns]], Iterator[Output]]
"""A worker's function on portions of its rows; each portion holds whole groups."""


def verify(folders: Sequence[Place], cores: int | None = None, findings: Place | None = None) -> Report:
    """Verify run folders in spark-submit's session, else in one of its own; each folder is in `runs` or `problems`.

    `findings`: a folder for the tables of findings, of its own.
    """
    opened, problems = open_folders(folders)
    if not opened:
        close(tables_in(findings, (), ()), ())  # those of another verification do not stay
        return Report(engine=Engine.SPARK, problems=tuple(problems))
    try:
        with session(cores) as spark:
            runs, more = verify_in(spark, opened, findings=findings)
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise PlatformError(
            where="Spark",
            got=reason(str(error)) or type(error).__name__,
            rule="the verification job ended before its end",
            todo="free disk space or memory if it lacked any, and verify again: the histories are untouched",
        ) from error
    return Report(engine=Engine.SPARK, runs=tuple(runs), problems=(*problems, *more))


def reason(message: str) -> str:
    """The line of Spark's message that has the reason: our own error if there is one, else the first error."""
    named = re.findall(r"^(?:: )?((?:\w+\.)*\w+(?:Error_?|Exception): \S.*)", message, re.MULTILINE)
    ours = [line for line in named if line.startswith("dedup.")]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next(iter((*ours, *named, *lines)), "")[:300]


def verify_in(
    spark: SparkSession,
    folders: Sequence[tuple[Place, Manifest]],
    chunk_rows: int = CHUNK_ROWS,
    findings: Place | None = None,
) -> tuple[list[Verification], list[Problem]]:
    """Verify folders in an existing session."""
    with closing(SparkWorkers(spark)) as workers:
        return judging.verify(folders, workers, chunk_rows, findings)


class SparkWorkers:
    """Holds the islands in Spark's memory, or on its disks."""

    name = Engine.SPARK.value

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._cores = spark.sparkContext.defaultParallelism
        self._kept: list[DataFrame] = []
        self._islands: list[DataFrame] = []

    def inspect(self, files: Sequence[File]) -> list[Inspected]:
        return _notes(self._shared_out(files, _inspect, ()))

    def reduce(self, chunks: Sequence[Chunk], ends: Mapping[int, Ends], known: Mapping[int, Known]) -> list[Note]:
        self._islands = [self._keep(self._shared_out(chunks, partial(_reduce, ends, known), ISLAND))]
        return _notes(self._islands[0])

    def clean(self, chunks: Sequence[Chunk], ends: Mapping[int, Ends]) -> list[Note]:
        others = ~(col("run").isin(sorted({chunk.run for chunk in chunks})) & (col("kind") == READ))
        self._islands = [islands.where(others) for islands in self._islands]
        rows = self._shared_out(chunks, _rows, rereads.ROW)
        places = ("run", "partition", "ledger", f"entry DIV {rereads.ENTRIES}")
        clean = self._keep(self._grouped(rows, rereads.ROW, places, partial(_clean, ends), ISLAND, ("entry",)))
        kept = clean.where(col("kind") == READ)
        again = self._keep(self._grouped(kept, rereads.ROW, ("run", "chunk"), _reduce_again, ISLAND))
        self._islands += [clean.where(col("kind") == DISPUTED), again]
        return _notes(clean) + _notes(again)

    def judge(self, carry: Carry, without: AbstractSet[int], tables: Tables) -> Iterator[tuple[int, Findings]]:
        islands = functools.reduce(DataFrame.unionAll, self._islands).where(~col("run").isin(list(without)))
        ranges = ("run", "stream", f"value DIV {BUCKET}")
        judged = self._keep(self._grouped(islands, ISLAND, ranges, partial(_judge, carry, tables), STRETCH))
        yield from _notes(judged)
        yield from _notes(self._grouped(judged, STRETCH, TOGETHER, partial(_put_together, tables), ()))

    def tails(self, runs: AbstractSet[int], ends: Mapping[int, Ends]) -> Iterator[tuple[int, Findings]]:
        islands = functools.reduce(DataFrame.unionAll, self._islands).where(col("run").isin(sorted(runs)))
        cut = map_in_arrow(islands.where("note IS NULL"), _on_rows(tails.by_entries), ISLAND)
        places = ("run", "partition", "ledger", f"entry DIV {rereads.ENTRIES}")
        yield from _notes(self._grouped(cut, ISLAND, places, partial(_find_tails, ends), ()))

    def close(self) -> None:
        """Release all tables that are kept."""
        for frame in self._kept:
            with suppress(*GONE):
                frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame)
        return frame.persist()

    def _shared_out(self, items: Sequence[Item], work: Callable[[Item], Output], made: Sequence[str]) -> DataFrame:
        """Do `work` on each item; every task knows its own items, so nothing has to be sorted first."""
        dealt = shares(items, self._cores)
        return map_in_arrow(self._spark.range(0, len(dealt), 1, len(dealt)), _on_each(dealt, work), made)

    def _grouped(
        self,
        frame: DataFrame,
        names: Sequence[str],
        keys: Sequence[str],
        work: Work,
        made: Sequence[str],
        within: Sequence[str] = (),
    ) -> DataFrame:
        """Group rows by `keys`, and do `work` on them, some whole groups at a time.

        `within`: columns that divide these groups into smaller ones.
        """
        keyed = [f"{key} AS key{number}" for number, key in enumerate(keys)]
        numbers = [f"key{number}" for number in range(len(keys))]
        rows = frame.where("note IS NULL").selectExpr(*names, *keyed)
        together = rows.repartition(2 * self._cores, *numbers).sortWithinPartitions(*numbers, *within)
        return map_in_arrow(together, _on_groups(work, [*numbers, *within]), made)


def shares(items: Sequence[Item], cores: int) -> list[Sequence[Item]]:
    """The items of each task: neighbours go to different tasks, and every core gets the same number of tasks."""
    tasks = cores * min(max(1, -(-len(items) // (ITEMS_A_TASK * cores))), TASKS_A_CORE)
    return [items[number::tasks] for number in range(tasks)]


def map_in_arrow(frame: DataFrame, work: Callable[[Batches], Batches], made: Sequence[str]) -> DataFrame:
    """DataFrame.mapInArrow without its needless check for pandas; returns whole numbers and notes."""
    schema = ", ".join([*(f"{name} long" for name in made), "note binary"])
    function = UserDefinedFunction(work, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns = function(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(columns._jc, False, None), frame.sparkSession)


def _notes(frame: DataFrame) -> list[Any]:
    """The workers' notes; computes the whole frame."""
    return [pickle.loads(row.note) for row in frame.where("note IS NOT NULL").select("note").collect()]


# What runs in Spark's Python workers.


def _on_each(shares: Sequence[Sequence[Item]], work: Callable[[Item], Output]) -> Callable[[Batches], Batches]:
    def each(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for item in shares[number]:
                    yield from _batches(*work(item))

    return each


def _on_rows(work: Callable[[Columns], Columns]) -> Callable[[Batches], Batches]:
    def each(batches: Batches) -> Batches:
        for batch in batches:
            yield from _batches(work({name: batch.column(name).to_numpy() for name in ISLAND}), [])

    return each


def _on_groups(work: Work, keys: Sequence[str]) -> Callable[[Batches], Batches]:
    def each(batches: Batches) -> Batches:
        for output in work(_whole_groups(batches, keys)):
            yield from _batches(*output)

    return each


def _whole_groups(batches: Batches, keys: Sequence[str]) -> Iterator[Columns]:
    """Sorted rows, GROUPED_ROWS and more at a time, never a part of a group."""
    held: list[Columns] = []
    rows, enough = 0, GROUPED_ROWS
    for batch in batches:
        held.append({name: batch.column(name).to_numpy() for name in batch.schema.names})
        rows += batch.num_rows
        if rows < enough:
            continue
        together = joined(held, batch.schema.names)
        last = int(np.flatnonzero(firsts(*(together[key] for key in keys)))[-1])
        if last:
            yield taken(together, slice(0, last))
        held = [taken(together, slice(last, rows))]
        rows -= last
        enough = max(GROUPED_ROWS, 2 * rows)
    if rows:
        yield joined(held, list(held[0]))


def _batches(columns: Columns, noted: Sequence[object]) -> Batches:
    """What a worker returns: its rows, and below them its notes."""
    rows, names = (size(columns) if columns else 0), list(columns)
    notes = [pickle.dumps(each) for each in noted]
    arrays = [pa.concat_arrays([pa.array(columns[name]), pa.nulls(len(notes), pa.int64())]) for name in names]
    arrays.append(pa.array([None] * rows + notes, pa.binary()))
    yield pa.RecordBatch.from_arrays(arrays, [*names, "note"])


def _inspect(file: File) -> Output:
    return {}, [inspect(file)]


def _reduce(ends: Mapping[int, Ends], known: Mapping[int, Known], chunk: Chunk) -> Output:
    found, note = reduce(chunk, ends, known)
    return found, [note]


def _rows(chunk: Chunk) -> Output:
    rows = row_columns(chunk)
    return {name: rows[name] for name in rereads.ROW}, []


def _clean(ends: Mapping[int, Ends], portions: Iterator[Columns]) -> Iterator[Output]:
    for rows in portions:
        kept, disputed, notes = rereads.clean(rows, ends)
        nothing = np.zeros(len(kept["run"]), np.int64)
        as_islands = dict.fromkeys(ISLAND, nothing) | {name: kept[name] for name in rereads.ROW}
        yield joined((as_islands | {"kind": nothing + READ}, disputed), ISLAND), notes


def _reduce_again(portions: Iterator[Columns]) -> Iterator[Output]:
    for rows in portions:
        rows = taken(rows, np.lexsort((rows["arrival"], rows["chunk"])))
        reduced = list(rereads.by_chunk({name: rows[name] for name in rereads.ROW}))
        yield joined((found for found, _ in reduced), ISLAND), [note for _, note in reduced]


def _judge(carry: Carry, tables: Tables, portions: Iterator[Columns]) -> Iterator[Output]:
    """Findings are returned at the end, once a run: every portion has events and witnesses, and few are kept."""
    findings: dict[int, Findings] = {}
    with _part(tables) as part:
        for islands in portions:
            found, pieces, jumps = values.judge({name: islands[name] for name in ISLAND}, carry)
            gather(findings, found)
            part.jumps(jumps)
            yield pieces, []
    yield joined((), STRETCH), list(findings.items())


def _put_together(tables: Tables, portions: Iterator[Columns]) -> Iterator[Output]:
    findings: dict[int, Findings] = {}
    with _part(tables) as part:
        for pieces in portions:
            together = stretches.put_together({name: pieces[name] for name in STRETCH})
            gather(findings, stretches.findings_of(pieces, together))
            part.stretches(together)
    yield {}, list(findings.items())


def _find_tails(ends: Mapping[int, Ends], portions: Iterator[Columns]) -> Iterator[Output]:
    findings: dict[int, Findings] = {}
    for islands in portions:
        gather(findings, tails.find(islands, ends))
    yield {}, list(findings.items())


def _part(tables: Tables) -> AbstractContextManager[Part]:
    """The tables' part of this task."""
    task = TaskContext.get()
    return tables.part(task.partitionId(), task.taskAttemptId()) if task else tables.part(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line, and the main file of a SparkApplication. Exit code 0: the report is written; else 4."""
    parser = parser_of("dedup_spark.job", "Verify run folders with Spark.")
    parser.add_argument("--cores", type=int, default=None, help="how many cores of this machine to use (default: all)")
    asked = parser.parse_args(arguments)
    leave_with_parent()
    return carry_out(asked, lambda folders, findings: verify(folders, asked.cores, findings))


if __name__ == "__main__":
    sys.exit(main())
