"""From run folders to pieces: segments are shared out in chunks, each is read where it lies, only islands travel.

Spark never sees a row: a task gets the path of a segment and a range of its row groups, reads them with Arrow and
returns their islands. So a hundred million rows cost what their islands cost, and no character of a path means
anything to Spark.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr
from pyspark.sql.pandas.functions import arrow_udf

from dedup.histories import segments
from dedup_spark import islands

KINDS: Final = {"sent": islands.SENT, "outcomes": islands.TOLD, "received": islands.READ}
CHUNK_ROWS: Final = 1 << 19
CHUNKS_A_TASK: Final = 8
Chunk = tuple[int, str, int, int, int]
"""run, path, first and last row group, kind"""


def chunks_of(folders: Sequence[Path]) -> list[Chunk]:
    """What there is to read in run folders, in portions of about CHUNK_ROWS rows; `run` is the index of the folder."""
    return [
        (run, str(path.resolve()), first, final, kind)
        for run, folder in enumerate(folders)
        for table, kind in KINDS.items()
        for path in segments(folder, table)
        for first, final in _row_groups(path)
    ]


def _row_groups(path: Path) -> Iterator[tuple[int, int]]:
    metadata = pq.read_metadata(path)
    first = rows = 0
    for group in range(metadata.num_row_groups):
        rows += metadata.row_group(group).num_rows
        if rows >= CHUNK_ROWS or group == metadata.num_row_groups - 1:
            yield first, group
            first, rows = group + 1, 0


def find_islands(spark: SparkSession, chunks: Sequence[Chunk], *, alone: bool = False) -> DataFrame:
    """The islands in chunks; `alone`: every row an island of its own."""
    # The kind of function is in its type hints; the stubs know only the older form, about which Spark warns.
    # Not deterministic to Spark, so that it neither repeats nor moves the function.
    find = arrow_udf(islands.find, islands.ddl(islands.ISLAND)).asNondeterministic()  # type: ignore[call-overload]
    listed = spark.createDataFrame(
        [(*chunk, alone) for chunk in chunks], "run int, path string, first int, final int, kind int, alone boolean"
    )
    tasks = max(spark.sparkContext.defaultParallelism, len(chunks) // CHUNKS_A_TASK)
    found = listed.repartition(tasks).select(
        "run", find(*map(col, ("path", "first", "final", "kind", "alone"))).alias("found")
    )
    return found.selectExpr("run", _rows_of("found", islands.ISLAND))


def cut_pieces(spark: SparkSession, chunks: Sequence[Chunk], suspects: Sequence[int]) -> DataFrame:
    """The pieces of all runs, from the view `islands`; every row of the runs in `suspects` is a piece of its own."""
    cut = arrow_udf(islands.cut, islands.ddl(islands.PIECE))  # type: ignore[call-overload]
    trusted = spark.table("islands").where(~col("run").isin(list(suspects))) if suspects else spark.table("islands")
    groups = trusted.groupBy("run", "stream", expr(f"value DIV {islands.BUCKET}")).agg(
        cut(*map(col, islands.ISLAND)).alias("parts")
    )
    pieces = groups.select("run", "parts").selectExpr("run", _rows_of("parts", islands.PIECE))
    if not suspects:
        return pieces
    rows = find_islands(spark, [chunk for chunk in chunks if chunk[0] in set(suspects)], alone=True)
    single = ["run", *islands.ROW, "length", "0L AS offset", "entry AS final_entry", "batch AS final_batch"]
    return pieces.unionAll(rows.selectExpr(*single))


def _rows_of(arrays: str, columns: Sequence[str]) -> str:
    return f"inline(arrays_zip({', '.join(f'{arrays}.{name}' for name in columns)}))"
