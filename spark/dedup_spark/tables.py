"""From run folders to the frames that the rules read: rows tagged by run, then islands, then pieces.

Spark learns a row's run from its folder's name: links `run=0`, `run=1`, … to the tables of the run folders are laid
into the scratch folder, so that any number of runs is one table, and no character of a user's path means anything to
Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf

from dedup.histories import SCHEMAS, TABLES
from dedup_spark import islands, rules

_SPARK_TYPES: Final = {pa.int8(): t.ByteType(), pa.int32(): t.IntegerType(), pa.int64(): t.LongType()}


def read_tables(spark: SparkSession, scratch: Path, folders: Sequence[Path]) -> None:
    """Name the views `sent`, `outcomes` and `received`: the rows of all folders, `run` their index in `folders`."""
    for table in TABLES:
        base = scratch / table
        base.mkdir()
        for run, folder in enumerate(folders):
            rows = folder / table
            if rows.is_dir():
                (base / f"run={run}").symlink_to(rows.resolve())
        fields = [t.StructField(field.name, _SPARK_TYPES[field.type]) for field in SCHEMAS[table]]
        schema = t.StructType([*fields, t.StructField("run", t.IntegerType())])
        spark.read.schema(schema).parquet(str(base)).createOrReplaceTempView(table)


def find_islands(spark: SparkSession) -> DataFrame:
    """The islands of all tables. Not deterministic to Spark, so that it neither repeats nor moves the function."""
    # The kind of function is in its type hints; the stubs know only the older form, about which Spark warns.
    find = arrow_udf(islands.islands, islands.ISLAND).asNondeterministic()  # type: ignore[call-overload]
    rows = spark.sql(rules.ROWS)
    found = rows.select("*", find(*(F.col(name) for name in islands.ROW)).alias("island"))
    bucket = F.expr(f"value DIV {islands.BUCKET}").alias("bucket")
    return found.where("island IS NOT NULL").select(*islands.ROW, "island.*", bucket)


def cut_pieces(spark: SparkSession, suspects: Sequence[int]) -> DataFrame:
    """The pieces of all runs; every row of the runs in `suspects` is a piece of its own."""
    listed = ", ".join(map(str, suspects)) or "NULL"
    whole = spark.sql(f"SELECT * FROM islands WHERE coalesce(run NOT IN ({listed}), true)")
    cut = arrow_udf(islands.pieces, islands.PIECES)  # type: ignore[call-overload]
    groups = whole.groupBy("run", "stream", "bucket").agg(cut(*map(F.col, islands.ISLAND_COLUMNS)).alias("cut"))
    names = ", ".join(f"cut.{name}" for name in islands.PIECE_COLUMNS)
    pieces = groups.selectExpr("run", "stream", f"inline(arrays_zip({names}))")
    alone = spark.sql(rules.ROW_BY_ROW.format(runs=listed)).select(*pieces.columns)
    return pieces.unionAll(alone) if suspects else pieces
