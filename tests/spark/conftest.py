"""One Spark session for the whole room: a JVM takes longer to start than all the histories take to judge."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from dedup.judgement.anomalies import Verification
from dedup_spark.engine.chunks import CHUNK_ROWS
from dedup_spark.evidence import Problem, open_folders
from dedup_spark.job import verify_in
from dedup_spark.sessions import local_session


class Judge(Protocol):
    """Verifies folders in the shared session; all of them must be whole."""

    def __call__(
        self, folders: list[Path], chunk_rows: int = CHUNK_ROWS, findings: Path | None = None
    ) -> tuple[list[Verification], list[Problem]]: ...


@pytest.fixture(scope="session")
def spark_judges() -> Iterator[Judge]:
    with local_session(2) as spark:

        def judge(
            folders: list[Path], chunk_rows: int = CHUNK_ROWS, findings: Path | None = None
        ) -> tuple[list[Verification], list[Problem]]:
            opened, problems = open_folders(folders)
            assert not problems
            return verify_in(spark, opened, chunk_rows, findings)

        yield judge
