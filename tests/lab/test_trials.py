"""Spark is tried before the first run, beside the brokers' start; what it lacks ends the experiment at once."""

import os
from pathlib import Path

import pytest
from tests.lab import harness
from tests.lab.conftest import Command

from dedup.errors import PlatformError
from dedup.experiment.stages import Observation, Stage, Status, Task
from dedup_lab import experiments
from dedup_lab.platform import LocalPlatform
from dedup_lab.results import create
from dedup_lab.trials import SparkTrial

SAID = 'Exception in thread "main" java.lang.Error\\nCaused by: java.net.UnknownHostException: laptop\\n\\t... 17 more'


@pytest.fixture
def broken_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that tells its version, and runs nothing."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then echo \'openjdk version "17.0.1"\' >&2; exit 0; fi\n'
        f"printf '{SAID}' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return program


def test_the_root_cause_is_quoted_and_the_whole_log_is_kept(broken_java: Path, tmp_path: Path) -> None:
    with SparkTrial(tmp_path / "verification") as trial, pytest.raises(PlatformError) as raised:
        trial.demand()
    log = tmp_path / "verification" / "spark-trial.log"
    assert str(log) in str(raised.value)
    assert "got java.net.UnknownHostException: laptop;" in str(raised.value)
    assert "17 more" not in str(raised.value)
    assert "... 17 more" in log.read_text()
    assert os.listdir(log.parent) == [log.name]


def test_an_experiment_ends_before_its_first_run_if_spark_does_not_start(
    broken_java: Path, dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Provisioned(LocalPlatform):
        """Whatever the tasks before a run, they are done."""

        def observe(self, task: Task, attempt: int) -> Observation:
            done = task.stage is Stage.PROVISION
            return Observation(status=Status.DONE if done else Status.ABSENT)

    monkeypatch.setattr(experiments, "LocalPlatform", Provisioned)
    path = harness.write(harness.document("kafka-kill-tcp"), tmp_path)
    said = dedup("run", path, "--runs", 1, "--out", tmp_path / "results")
    last = said.err.strip().splitlines()[-1]
    assert said.code == 4
    assert last.startswith("error Spark, tried before the first run: got exit code 4; ")
    assert "java.net.UnknownHostException: laptop" in last and "spark-trial.log" in last
    assert not (tmp_path / "results" / "runs").exists()


def test_what_comes_before_runs_is_called_before_each_and_before_nothing_else(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    experiment = harness.experiment(harness.document("kafka-kill-tcp"))
    results = create(tmp_path / "results", experiment)
    platform = LocalPlatform(experiment, results, harness.Quiet(), harness.nothing, before_runs=stop)
    try:
        with pytest.raises(Stop):
            platform.start(Task(Stage.PREPARE, "kafka", "kafka-dedup-001"), 1)
        platform.start(Task(Stage.VERIFY), 1)
    finally:
        platform.close()
