"""The Spark job and the local engine against the oracle on golden histories; and the job as a program."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from py4j.protocol import Py4JError
from tests.builders import Golden, History, golden_histories, write_history
from tests.spark.conftest import Judge
from tests.spark.generated import history_of

from dedup.errors import EnvironmentError_
from dedup.history.histories import VERIFICATION
from dedup.judgement.anomalies import Verification
from dedup_spark import evidence, job, local, local_job, oracle, programs, sessions


def assert_agree(said: Verification, naive: Verification, what: str) -> None:
    """Field by field, so that a difference is named; and then to the byte. The oracle makes no findings."""
    apart = {"engine", "findings"}
    for name in sorted(set(Verification.model_fields) - apart):
        assert (what, name, getattr(said, name)) == (what, name, getattr(naive, name))
    assert said.model_dump_json(exclude=apart) == naive.model_dump_json(exclude=apart)


@pytest.mark.spark
@pytest.mark.smoke
def test_agrees_with_the_oracle_on_golden_histories(spark_judges: Judge, tmp_path: Path) -> None:
    goldens = golden_histories()
    folders = [tmp_path / f"it's [{golden.name}] 100% + {{a,b}}" for golden in goldens]
    for golden, folder in zip(goldens, folders, strict=True):
        write_history(folder, golden.history)
    verifications, problems = spark_judges(folders)
    assert problems == []
    assert [verification.path for verification in verifications] == [str(folder) for folder in folders]
    for golden, folder, verification in zip(goldens, folders, verifications, strict=True):
        assert verification.engine == "spark"
        assert_agree(verification, oracle.judge(folder), golden.name)


@pytest.mark.parametrize("golden", golden_histories(), ids=lambda golden: golden.name)
def test_the_local_engine_agrees_with_the_oracle_on_golden_histories(golden: Golden, tmp_path: Path) -> None:
    write_history(tmp_path, golden.history, row_group_rows=2)
    report = local.verify([tmp_path], chunk_rows=1)
    assert (report.engine, report.problems) == ("local", ())
    assert_agree(report.runs[0], oracle.judge(tmp_path), golden.name)


@pytest.mark.spark
def test_more_jumps_than_are_listed_are_still_counted(spark_judges: Judge, tmp_path: Path) -> None:
    """12,000 messages in falling order: islands of length 1, and all but the last of a bucket of events named."""
    rows = [(i, 0, 0, i, 0, 0, 12_000 - i) for i in range(12_000)]
    history = History(sent=[(0, value) for value in range(1, 12_001)], received=rows)
    write_history(tmp_path / "run", history)
    (verification,), _ = spark_judges([tmp_path / "run"])
    assert (len(verification.events), verification.events_total) == (10_000, 12_000)
    assert_agree(verification, oracle.judge(tmp_path / "run"), "falling")


@pytest.mark.spark
def test_other_numbers_of_rows_than_the_manifest_says_are_a_problem(spark_judges: Judge, tmp_path: Path) -> None:
    """The bytes are those recorded, but the manifest promises two sends and the segment holds one."""
    history = History(sent=[(0, 1)], outcomes=[(0, 1, 0, 0, 0, 0, 0)], received=[(0, 0, 0, 0, 0, 0, 1)])
    for name in ("short", "whole"):
        manifest = write_history(tmp_path / name, history)
    files = [file.model_copy(update={"rows": 2}) if file.path.startswith("sent/") else file for file in manifest.files]
    producer = manifest.producer.model_copy(update={"sent": 2})
    promised = manifest.model_copy(update={"files": tuple(files), "producer": producer})
    (tmp_path / "short" / "manifest.json").write_text(promised.model_dump_json())
    verifications, problems = spark_judges([tmp_path / "short", tmp_path / "whole"])
    assert [verification.path for verification in verifications] == [str(tmp_path / "whole")]
    assert [problem.path for problem in problems] == [str(tmp_path / "short")]
    assert "sent/00000.parquet: 1 rows, 2 in the manifest" in problems[0].error


def test_a_damaged_folder_is_a_problem_of_its_own(tmp_path: Path) -> None:
    write_history(tmp_path / "whole", history_of(1))
    write_history(tmp_path / "damaged", History(sent=[(0, 1)]))
    segment = tmp_path / "damaged" / "sent" / "00000.parquet"
    segment.write_bytes(segment.read_bytes()[:-1])
    paths = [tmp_path / "whole", tmp_path / "damaged", tmp_path / "nowhere"]
    report = local.verify(paths)
    assert [run.path for run in report.runs] == [str(tmp_path / "whole")]
    problems = {problem.path: problem.error for problem in report.problems}
    assert problems.keys() == {str(tmp_path / "damaged"), str(tmp_path / "nowhere")}
    assert "sent/00000.parquet: " in problems[str(tmp_path / "damaged")]
    assert "no such folder" in problems[str(tmp_path / "nowhere")]


def test_the_report_is_written_whole_even_if_nothing_could_be_verified(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.json"
    assert job.main(["--output", str(output), str(tmp_path / "nowhere")]) == 0
    report = json.loads(output.read_text())
    assert report["engine"] == "spark" and report["runs"] == []
    assert report["problems"][0]["path"] == str(tmp_path / "nowhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.spark
def test_the_command_is_silent_and_leaves_only_its_report(tmp_path: Path) -> None:
    """A damaged folder does not spoil the whole one beside it, and the session's scratch folder is gone."""
    write_history(tmp_path / "whole", history_of(1))
    (tmp_path / "scratch").mkdir()
    output, paths = tmp_path / "report.json", [tmp_path / "whole", tmp_path / "nowhere"]
    done = subprocess.run(
        [sys.executable, "-m", "dedup_spark.job", "--output", output, "--cores", "2", *paths],
        env=os.environ | {"TMPDIR": str(tmp_path / "scratch")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    report = evidence.Report.model_validate_json(output.read_text())
    assert [problem.path for problem in report.problems] == [str(tmp_path / "nowhere")]
    assert_agree(report.runs[0], oracle.judge(tmp_path / "whole"), "whole")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_without_java_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EnvironmentError_, match="Java 17"):
        sessions.require_java()
    write_history(tmp_path / "run", history_of(1))
    assert job.main(["--output", str(tmp_path / "report.json"), str(tmp_path / "run")]) == 4
    said = capfd.readouterr().err
    assert "openjdk" in said and said.count("\n") == 1
    assert not (tmp_path / "report.json").exists()


class DeadFrame:
    """A frame of a JVM that has died: nobody listens any more."""

    def persist(self) -> "DeadFrame":
        return self

    def unpersist(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize("death", [Py4JError("Answer from Java side is empty"), ConnectionResetError(104, "reset")])
def test_when_the_jvm_dies_one_line_says_so(
    death: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Frames that can no longer be let go of do not hide what happened."""

    @contextmanager
    def session(cores: int | None) -> Iterator[Any]:
        yield SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))

    def inspect(workers: Any, *_: object) -> None:
        workers._keep(DeadFrame())
        raise death

    monkeypatch.setattr(job, "session", session)
    monkeypatch.setattr(job.SparkWorkers, "inspect", inspect)
    write_history(tmp_path / "run", history_of(1))
    assert job.main(["--output", str(tmp_path / "report.json"), str(tmp_path / "run")]) == 4
    said = capfd.readouterr().err
    assert "the verification job ended before its end" in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "An error occurred while calling o9.collectToPython.\n"
            ": org.apache.spark.SparkException: Job aborted: ExecutorLostFailure (executor 0 exited)\n"
            "\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages\n"
            "Caused by: java.io.IOException: gone",
            "org.apache.spark.SparkException: Job aborted: ExecutorLostFailure (executor 0 exited)",
        ),
        (
            "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
            "Traceback (most recent call last):\n"
            '  File "job.py", line 1, in each\n'
            "botocore.exceptions.EndpointConnectionError: Could not connect\n\n"
            "dedup.errors.EnvironmentError_: s3://b: got Could not connect; the store must answer; check it",
            "dedup.errors.EnvironmentError_: s3://b: got Could not connect; the store must answer; check it",
        ),
        ("\n  Answer from Java side is empty", "Answer from Java side is empty"),
        ("", ""),
    ],
)
def test_of_what_spark_says_the_line_that_tells_why_is_shown(said: str, why: str) -> None:
    assert job.reason(said) == why


def test_a_session_whose_jvm_has_died_ends_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(sessions, "require_java", lambda: None)
    monkeypatch.setattr(sessions, "_start", lambda scratch, cores: SimpleNamespace(stop=stop))
    with pytest.raises(ZeroDivisionError), sessions.local_session():
        raise ZeroDivisionError


def test_the_report_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there although the answers beside the histories were not, and the exit code said that there is none."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write_history(tmp_path / "run", history_of(1))
    output, command = tmp_path / "report.json", ["--keep", str(tmp_path / "run")]
    with monkeypatch.context() as patched:
        patched.setattr(programs, "keep", full)
        assert local_job.main(["--output", str(output), *command]) == 4
    assert not output.exists()
    assert local_job.main(["--output", str(output), *command]) == 0
    assert output.exists() and (tmp_path / "run" / VERIFICATION).exists()


def test_a_report_that_cannot_be_written_is_an_error_and_no_fail(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert job.main(["--output", str(tmp_path / "no" / "report.json"), str(tmp_path / "nowhere")]) == 4
    said = capfd.readouterr().err
    assert "FileNotFoundError" in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "WARN Utils: careful\n"
            "Exception in thread \"main\" java.lang.ExceptionInInitializerError\n"
            "\tat org.apache.spark.SparkConf.<init>(SparkConf.scala:71)\n"
            "Caused by: java.io.UncheckedIOException: it\n"
            "\tat x.y(Z.java:1)\n"
            "Caused by: java.net.UnknownHostException: laptop: Name or service not known\n"
            "\tat java.base/java.net.Inet6AddressImpl.lookupAllHostAddr(Native Method)\n"
            "\t... 17 more\n",
            "java.net.UnknownHostException: laptop: Name or service not known",
        ),
        (
            'Exception in thread "main" java.lang.UnsupportedClassVersionError: class file version 61.0\n'
            "\tat java.lang.ClassLoader.defineClass1(Native Method)\n\t... 3 more\n",
            "java.lang.UnsupportedClassVersionError: class file version 61.0",
        ),
        ("Error: no JVM can be made.\n\t... 3 more", "Error: no JVM can be made."),
        ("", ""),
    ],
)  # fmt: skip
def test_of_what_java_says_the_root_cause_is_quoted(said: str, why: str) -> None:
    assert sessions.root_cause(said) == why


NAMELESS: Final = "nameless.invalid"
UNBOUND: Final = """
import os, sys
from types import SimpleNamespace
from dedup_spark import sessions

class Unbound(sessions.SparkSession.Builder):
    def getOrCreate(self):
        del os.environ["SPARK_LOCAL_IP"], os.environ["SPARK_LOCAL_HOSTNAME"]
        return super().getOrCreate()

sessions.SparkSession = SimpleNamespace(Builder=Unbound)
sys.exit(sessions.main())
"""
"""A session whose Spark is not told an address, and so asks for the machine's own name."""


@pytest.fixture(scope="module")
def nameless() -> Callable[..., tuple[int, str]]:
    """Runs Python on a machine whose name does not resolve (a UTS namespace): its exit code and standard error.

    Without root a user namespace gives the right to have one, where the kernel lets users make them.
    """
    ways = (["unshare", "--uts"], ["unshare", "--map-root-user", "--uts"])
    permitted = [way for way in ways if shutil.which(way[0]) and _succeeds([*way, "hostname", NAMELESS])]
    if not permitted:
        pytest.skip("another name for this machine needs a UTS namespace (unshare; root on Linux, or user namespaces)")

    def run(folder: Path, *arguments: object) -> tuple[int, str]:
        done = subprocess.run(
            [
                *permitted[0],
                "sh",
                "-c",
                f'hostname {NAMELESS} && exec "$@"',
                "sh",
                sys.executable,
                *map(str, arguments),
            ],
            env=os.environ | {"TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return done.returncode, done.stderr

    return run


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.spark
def test_spark_starts_where_the_machines_own_name_does_not_resolve(
    nameless: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """In a namespace, so that the machine keeps its name."""
    assert nameless(tmp_path, "-m", "dedup_spark.sessions") == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_its_twin_that_asks_for_that_name_does_not_start_and_says_why(
    nameless: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """The JVM itself says so: the root cause is quoted in the last line, and the whole log is above it."""
    code, said = nameless(tmp_path, "-c", UNBOUND)
    *log, last = said.strip().splitlines()
    assert code == 4
    assert last.startswith(f"Spark: got java.net.UnknownHostException: {NAMELESS}: "), said
    assert any(line.lstrip().startswith("... ") for line in log), "the stack is there to its end"
    assert any(line.startswith("Caused by: java.net.UnknownHostException") for line in log), said
    assert list(tmp_path.iterdir()) == []
