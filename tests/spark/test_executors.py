"""Under spark-submit, as in a SparkApplication: executors are processes of their own, and one of them dies.

Spark's `local-cluster` starts real executors on this machine. As soon as Python works in one of them, it is killed: its
tasks and all islands that it held are gone. Spark does them again elsewhere, and the report is what it would have been;
or, where it may not, there is none.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from tests.builders import History, write_history
from tests.spark.test_job import assert_agree

from dedup_runners.waiting import until
from dedup_spark import evidence, job, oracle

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1000)]

BOUND_S = 400.0
VALUES = range(1, 2_001)
HISTORY = History(
    sent=[(0, value) for value in VALUES],
    outcomes=[(0, value, 0, 0, 0, value - 1, 0) for value in VALUES],
    received=[(value - 1, 0, 0, value - 1, 0, 0, value) for value in VALUES] + [(2_000, 0, 0, 2_000, 0, 0, 5)],
)
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


@contextmanager
def submitted(folder: Path, output: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
    """The job under spark-submit, with two executors of one core; nothing of it is left afterwards."""
    pyspark = find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None
    (home := output.parent / "scratch").mkdir()  # executors write into a folder of their own there
    for part in Path(pyspark.origin).parent.iterdir():
        (home / part.name).symlink_to(part)
    settings = [word for item in (SETTINGS | more).items() for word in ("--conf", "=".join(item))]
    master = ["--master", "local-cluster[2,1,512]"]
    where = {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(home)}
    submit = subprocess.Popen(
        [home / "bin/spark-submit", *master, *settings, job.__file__, "--output", output, folder],
        env=os.environ | where | {"PYSPARK_PYTHON": sys.executable},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with submit:
        try:
            yield submit
        finally:
            if submit.poll() is None:
                parent = psutil.Process(submit.pid)
                for process in [*parent.children(recursive=True), parent]:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()


def kill_one_at_work(submit: subprocess.Popen[str]) -> None:
    """SIGKILL the first executor that has started a Python."""

    def found() -> psutil.Process | None:
        assert submit.poll() is None, submit.communicate()[0]
        return next(at_work(submit), None)

    executor = until(found, BOUND_S, "an executor at work", 0.02)
    assert executor is not None
    executor.kill()


def killed_all_along(submit: subprocess.Popen[str]) -> str:
    """SIGKILL every executor that has started a Python, until the job has ended; what it said.

    One kill alone may fall between two tasks, and costs nothing then.
    """
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(submit.communicate, timeout=BOUND_S)
        while not wait([said], timeout=0.02).done:
            for executor in at_work(submit):
                with suppress(psutil.NoSuchProcess):
                    executor.kill()
        return said.result()[0]


def at_work(submit: subprocess.Popen[str]) -> Iterator[psutil.Process]:
    """The executors that have started a Python."""
    with suppress(psutil.NoSuchProcess):
        for each in psutil.Process(submit.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()) and each.children():
                    yield each


def test_what_an_executor_held_is_done_again_when_it_dies(tmp_path: Path) -> None:
    write_history(tmp_path / "run", HISTORY, row_group_rows=100)
    with submitted(tmp_path / "run", tmp_path / "report.json") as submit:
        kill_one_at_work(submit)
        said = submit.communicate(timeout=BOUND_S)[0]
    assert submit.returncode == 0, said
    report = evidence.Report.model_validate_json((tmp_path / "report.json").read_bytes())
    assert report.problems == ()
    assert_agree(report.runs[0], oracle.judge(tmp_path / "run"), "an executor died")


def test_there_is_no_report_if_it_may_not_be_done_again(tmp_path: Path) -> None:
    write_history(tmp_path / "run", HISTORY)
    with submitted(tmp_path / "run", tmp_path / "report.json", **{"spark.task.maxFailures": "1"}) as submit:
        said = killed_all_along(submit)
    assert submit.returncode == 4, said
    assert "the verification job ended before its end" in said
    assert not (tmp_path / "report.json").exists()
