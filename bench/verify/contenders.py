"""The programs that are measured: each judges the same run folders over and over, once for every line it gets.

    python bench/verify/contenders.py NAME FOLDER…

It answers each line with one of its own: the seconds it took, and what it found, so that whoever is quick because it is
wrong is found out. The first answer comes unasked: from the start of the process until then everything is cold.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb

SCRIPTS: Final = Path(__file__).parent / "duckdb"

Folders = Sequence[Path]
Found = Mapping[str, int]
Contender = Callable[[Folders], Found]


@contextmanager
def in_duckdb(script: str) -> Iterator[Contender]:
    """A script of duckdb/, on one folder; nothing of an answer is kept for the next one."""
    query = (SCRIPTS / f"{script}.sql").read_text()

    def ask(folders: Folders) -> Found:
        with duckdb.connect() as database:
            database.execute(f"SET VARIABLE folder = '{folders[0]}'")
            answer = database.execute(query)
            names = [column[0] for column in answer.description]
            return dict(zip(names, answer.fetchall()[0], strict=True))

    yield ask


@contextmanager
def by_oracle() -> Iterator[Contender]:
    """The naive judge."""
    from dedup_spark import oracle

    yield lambda folders: _sum(oracle.judge(folder) for folder in folders)


@contextmanager
def here() -> Iterator[Contender]:
    """The local engine, whole verdict."""
    from dedup_spark import local

    yield lambda folders: _of(local.verify(folders))


@contextmanager
def on_spark(work: Callable[[Any, Folders], Found]) -> Iterator[Contender]:
    """Work in a Spark session that stays."""
    from dedup_spark.sessions import local_session

    with local_session() as session:
        yield partial(work, session)


def verdict(session: Any, folders: Folders) -> Found:
    """The whole verdict of all folders, in one job."""
    from dedup_spark import job
    from dedup_spark.evidence import whole_folders

    whole, problems = whole_folders(folders)
    runs, more = job.verify_in(session, whole)
    if problems or more:
        raise ValueError(f"{(*problems, *more)}")
    return _sum(runs)


def islands(session: Any, folders: Folders) -> Found:
    """What was read, reduced to islands: their number, and that of the rows in them."""
    from dedup.histories import read_manifest
    from dedup_spark.chunks import chunks_of, ends_of
    from dedup_spark.islands import READ
    from dedup_spark.job import SparkWorkers

    chunks = [chunk for chunk in chunks_of(folders) if chunk.kind == READ]
    ends = {run: ends_of(read_manifest(folder)) for run, folder in enumerate(folders)}
    with closing(SparkWorkers(session)) as workers:
        return {"rows": sum(note.rows for note in workers.reduce(chunks, ends))}


def window(session: Any, folders: Folders) -> Found:
    """duckdb/lag_first_seen.sql as Spark's own windows do it."""
    (folder,) = folders
    read = session.read.parquet(str(folder / "received"))
    query = (SCRIPTS / "lag_first_seen.sql").read_text().rstrip().rstrip(";")
    received = "read_parquet(getvariable('folder') || '/received/*.parquet')"
    return dict(session.sql(query.replace(received, "{received}"), received=read).first().asDict())


def _of(report: Any) -> Found:
    if report.problems:
        raise ValueError(f"{report.problems}")
    return _sum(report.runs)


def _sum(runs: Any) -> Found:
    counts = [run.counts.model_dump() for run in runs]
    return {name: sum(each[name] for each in counts) for name in counts[0]}


CONTENDERS: Final[Mapping[str, Any]] = {
    "DuckDB, lag": partial(in_duckdb, "lag"),
    "DuckDB, lag and first seen": partial(in_duckdb, "lag_first_seen"),
    "DuckDB, verdict": partial(in_duckdb, "verdict"),
    "Spark's windows": partial(on_spark, window),
    "oracle": by_oracle,
    "our local engine, verdict": here,
    "our Spark job, islands": partial(on_spark, islands),
    "our Spark job, verdict": partial(on_spark, verdict),
}


def main(name: str, *paths: str) -> None:
    folders = [Path(path) for path in paths]
    with CONTENDERS[name]() as contender:
        while True:
            began = time.perf_counter()
            found = contender(folders)
            print(json.dumps({"seconds": time.perf_counter() - began, "found": found}), flush=True)
            if not sys.stdin.readline():
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
