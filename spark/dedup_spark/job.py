"""The verification job: any number of run folders in, one exact verdict's worth of evidence each out.

    python -m dedup_spark.job --output FILE [--cores N] PATH…

It writes {"engine": "spark", "runs": [Verification…], "problems": [{"path", "error"}…]}. A folder that is no evidence
(no valid manifest, a segment missing or changed, rows that are not what was recorded) becomes a problem and never
spoils the others. All other folders are verified together: their rows are tagged with the number of their run, so that
one pass over the data judges all of them. The rules are in dedup_spark/rules.py.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedup.anomalies import MAX_EVENTS, MAX_WITNESSES, Counts, OrderEvent, Verification, Witness
from dedup.errors import EXIT_ERROR, DedupError, PlatformError
from dedup.histories import TABLES
from dedup.manifests import Manifest
from dedup.orphans import leave_with_parent
from dedup_spark import rules
from dedup_spark.evidence import Problem, Report, damaged, whole_folders, write_report
from dedup_spark.sessions import local_session
from dedup_spark.tables import chunks_of, cut_pieces, find_islands

ENGINE: Final = "spark"
Rows = dict[int, list[dict[str, Any]]]
"""The rows of a result by run."""


def verify(folders: Sequence[Path], cores: int | None = None) -> Report:
    """Verify run folders in a session of its own; runs and problems are in the order of `folders`."""
    whole, problems = whole_folders(folders)
    if not whole:
        return Report(engine=ENGINE, problems=tuple(problems))
    try:
        with local_session(cores) as spark:
            runs, more = verify_in(spark, whole)
    except (PySparkException, Py4JError) as error:
        raise PlatformError(
            where="Spark",
            got=next(iter(str(error).splitlines()), type(error).__name__)[:300],
            rule="the verification job ended before its end",
            todo="free disk space or memory if it lacked any, and verify again: the histories are untouched",
        ) from error
    return Report(engine=ENGINE, runs=tuple(runs), problems=(*problems, *more))


def verify_in(
    spark: SparkSession, folders: Sequence[tuple[Path, Manifest]]
) -> tuple[list[Verification], list[Problem]]:
    """Verify whole folders in an existing session.

    A folder of which Spark read other numbers of rows than its manifest says becomes a problem.
    """
    partitions = 2 * spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    chunks = chunks_of([folder for folder, _ in folders])
    _name_extents(spark, [manifest for _, manifest in folders])
    with ExitStack() as kept:
        _keep(kept, "islands", find_islands(spark, chunks))
        rows = _by_run(spark.sql(rules.ROWS_READ))
        suspects = [row["run"] for row in spark.sql(rules.SUSPECT).collect()]
        _keep(kept, "pieces", cut_pieces(spark, chunks, suspects))
        _keep(kept, "marked", spark.sql(rules.MARKED.format(partitions=partitions)))
        _keep(kept, "values_", spark.sql(rules.VALUES.format(partitions=partitions)))
        results = _results(spark)
    runs, problems = [], []
    for run, (folder, manifest) in enumerate(folders):
        found = _miscounts(manifest, rows[run])
        if found:
            problems.append(Problem(path=str(folder), error=str(damaged(folder, found))))
        else:
            runs.append(_verification(str(folder), {name: result[run] for name, result in results.items()}))
    return runs, problems


def _keep(kept: ExitStack, name: str, frame: DataFrame) -> None:
    """Name a frame that several statements read, and hold it in memory or on disk until `kept` closes."""
    frame.persist().createOrReplaceTempView(name)
    kept.callback(frame.unpersist)


def _name_extents(spark: SparkSession, manifests: Sequence[Manifest]) -> None:
    extents = [
        (run, end.partition, ledger, entries)
        for run, manifest in enumerate(manifests)
        for end in manifest.consumer.end
        for ledger, entries in end.extents
    ]
    spark.createDataFrame(extents, "run int, partition int, ledger long, end long").createOrReplaceTempView("extents")


def _results(spark: SparkSession) -> dict[str, Rows]:
    """The rows of every named result by run."""
    results: dict[str, Rows] = {
        "counts of values": _by_run(spark.sql(rules.COUNTS_OF_VALUES)),
        "counts of marked": _by_run(spark.sql(rules.COUNTS_OF_MARKED)),
        "events": _by_run(spark.sql(rules.EVENTS.format(most=MAX_EVENTS))),
        "blocks": _by_run(spark.sql(rules.BLOCKS)),
        "gaps": _by_run(spark.sql(rules.GAPS.format(most=MAX_WITNESSES))),
        "witnesses": _by_run(spark.sql(rules.WITNESSES.format(most=MAX_WITNESSES))),
        "copies": defaultdict(list),
    }
    chosen = [(run, row["stream"], row["value"]) for run, rows in results["witnesses"].items() for row in rows]
    if chosen:
        spark.createDataFrame(chosen, "run int, stream int, value long").createOrReplaceTempView("witnesses")
        results["copies"] = _by_run(spark.sql(rules.COPIES.format(most=MAX_WITNESSES)))
    return results


def _by_run(frame: DataFrame) -> Rows:
    """A bounded result's rows by run; a run without rows has an empty list."""
    rows: Rows = defaultdict(list)
    for row in frame.collect():
        values = row.asDict()
        rows[values.pop("run")].append(values)
    return rows


def _miscounts(manifest: Manifest, rows: list[dict[str, Any]]) -> list[str]:
    read = {TABLES[row["kind"]]: row["rows"] for row in rows}
    return [
        f"{table}: Spark read {read.get(table, 0)} rows, {manifest.rows(table)} in the manifest"
        for table in TABLES
        if read.get(table, 0) != manifest.rows(table)
    ]


def _verification(path: str, results: dict[str, list[dict[str, Any]]]) -> Verification:
    numbers: dict[str, int] = {}
    for row in (*results["counts of values"], *results["counts of marked"]):
        numbers |= row
    counts = Counts(**numbers)
    copies: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for row in results["copies"]:
        copies[row["stream"], row["value"]].append(row["position"])
    jumps = (counts.jump_forward, counts.jump_backward, counts.duplicate_jump_forward, counts.duplicate_jump_backward)
    return Verification(
        path=path,
        engine=ENGINE,
        counts=counts,
        events=tuple(OrderEvent(**row) for row in results["events"]),
        events_total=sum(jumps),
        witnesses=tuple(
            Witness(**row, positions=tuple(copies[row["stream"], row["value"]])) for row in results["witnesses"]
        ),
        block_lengths={row["length"]: row["blocks"] for row in results["blocks"]},
        gaps=tuple(_gap_texts(results["gaps"])),
    )


def _gap_texts(gaps: list[dict[str, Any]]) -> Iterator[str]:
    for gap in gaps:
        where = f"partition {gap['partition']}, ledger {gap['ledger']}"
        if gap["kind"] == rules.GAP_OF_ENTRIES:
            yield f"{where}: entries {gap['first']} to {gap['final']} were not read"
        else:
            yield f"{where}, entry {gap['entry']}: batch indexes {gap['first']} to {gap['final']} were not read"
    more = gaps[0]["total"] - len(gaps) if gaps else 0
    if more:
        yield f"and {more} more"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line, and the main file of a SparkApplication. Exit code 0: the report is written."""
    parser = argparse.ArgumentParser(prog="python -m dedup_spark.job", description="Verify run folders with Spark.")
    parser.add_argument("--output", type=Path, required=True, help="the report, JSON; written whole or not at all")
    parser.add_argument("--cores", type=int, default=None, help="how many cores to use (default: all)")
    parser.add_argument("path", type=Path, nargs="+", help="a run folder")
    asked = parser.parse_args(arguments)
    leave_with_parent()
    try:
        write_report(verify(asked.path, asked.cores), asked.output)
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
