"""The programs that are measured: each judges the same run folders over and over, once for every line it gets.

    python bench/verify/contenders.py NAME FOLDER…

It answers each line with one of its own: the seconds it took, and what it found, so that whoever is quick because it is
wrong is found out. The first answer comes unasked: from the start of the process until then everything is cold. Imports
are a part of that, so each contender makes its own.
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

    yield lambda folders: _sum([oracle.judge(folder) for folder in folders])


@contextmanager
def here() -> Iterator[Contender]:
    """The local engine, whole verdict."""
    from dedup_spark import local

    def ask(folders: Folders) -> Found:
        report = local.verify(folders)
        return _sum(report.runs, report.problems)

    yield ask


@contextmanager
def on_spark(work: Callable[[Any, Folders], Found]) -> Iterator[Contender]:
    """Work in a Spark session that stays."""
    from dedup_spark.sessions import local_session

    with local_session() as session:
        yield partial(work, session)


def verdict(session: Any, folders: Folders) -> Found:
    """The whole verdict of all folders, in one job."""
    from dedup_spark import job
    from dedup_spark.evidence import open_folders

    opened, problems = open_folders(folders)
    runs, more = job.verify_in(session, opened)
    return _sum(runs, (*problems, *more))


def islands(session: Any, folders: Folders) -> Found:
    """What was read, reduced to islands; the number of its rows."""
    from dedup_spark.engine.chunks import chunks_of, ends_of
    from dedup_spark.engine.files import files_of, inspect
    from dedup_spark.engine.transactions import NONE
    from dedup_spark.evidence import open_folders
    from dedup_spark.job import SparkWorkers

    opened, _ = open_folders(folders)
    ends = {run: ends_of(manifest) for run, (_, manifest) in enumerate(opened)}
    received = [inspect(file) for file in files_of(opened) if file.path.startswith("received/")]
    with closing(SparkWorkers(session)) as workers:
        return {"rows": sum(note.rows for note in workers.reduce(chunks_of(received), ends, NONE))}


def window(session: Any, folders: Folders) -> Found:
    """duckdb/lag_first_seen.sql as Spark's own windows do it."""
    (folder,) = folders
    read = session.read.parquet(str(folder / "received"))
    query = (SCRIPTS / "lag_first_seen.sql").read_text().rstrip().rstrip(";")
    received = "read_parquet(getvariable('folder') || '/received/*.parquet')"
    return dict(session.sql(query.replace(received, "{received}"), received=read).first().asDict())


def _sum(runs: Sequence[Any], problems: Sequence[Any] = ()) -> Found:
    if problems:
        raise ValueError(f"{problems}")
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
