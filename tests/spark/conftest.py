"""One Spark session for the whole room: a JVM takes longer to start than all the histories take to judge."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dedup.anomalies import Verification
from dedup_spark.evidence import Problem, whole_folders
from dedup_spark.job import verify_in
from dedup_spark.sessions import local_session

Judge = Callable[[list[Path]], tuple[list[Verification], list[Problem]]]


@pytest.fixture(scope="session")
def spark_judges() -> Iterator[Judge]:
    """Verifies folders in the shared session; all of them must be whole."""
    with local_session(2) as spark:

        def judge(folders: list[Path]) -> tuple[list[Verification], list[Problem]]:
            whole, problems = whole_folders(folders)
            assert not problems
            return verify_in(spark, whole)

        yield judge
