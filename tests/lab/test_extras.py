"""Who installed the extra `verify` alone judges histories, and is told what to install for everything else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.lab import harness
from tests.lab.finished import finish
from tests.lab.test_comparisons import OLD, finished

BEYOND: Final = {
    *("chaoslib", "chaosk8s", "confluent_kafka", "httpx", "jgo", "kafka", "kopf", "kubernetes", "prometheus_client"),
    *("jinja2", "matplotlib", "psutil", "pulsar", "py4j", "pyspark", "tenacity"),
}
"""The packages that the extra `verify` does not bring."""

WITHOUT: Final = """\
import importlib.machinery, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {beyond}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
from dedup_lab import cli
cli.main()
"""


def dedup(*arguments: object) -> tuple[int, str, str]:
    """The command on a machine without these packages."""
    program = WITHOUT.format(beyond=BEYOND)
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    folder = tmp_path / "pair"
    folder.mkdir()
    (folder / "sent.csv").write_text("value,outcome\n1,ok\n2,ok\n")
    (folder / "received.csv").write_text("partition,position,value\n0,0,1\n0,1,2\n")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_a_csv_pair_is_judged(engine: str, pair: Path) -> None:
    code, out, err = dedup("verify", pair, "--engine", engine, "--trust-csv", "--format", "json")
    assert (code, json.loads(out)["verdict"]) == (0, "pass"), err


@pytest.mark.long
def test_results_are_compared(tmp_path: Path) -> None:
    new, old = finished(tmp_path / "new"), finished(tmp_path / "old", OLD, day=2)
    code, out, err = dedup("compare", new, old, "--format", "json")
    assert (code, json.loads(out)["worse"]) == (0, []), err


@pytest.mark.parametrize("command", ["run", "plan"])
def test_what_needs_more_says_what_to_install(command: str, tmp_path: Path) -> None:
    code, _, err = dedup(command, harness.write(harness.document("kafka-kill-tcp"), tmp_path))
    assert (code, len(err.splitlines())) == (4, 1), err
    assert f"error dedup {command}: got no Python package " in err
    assert "pip install 'dedup[lab]'" in err


@pytest.mark.long
def test_who_cannot_draw_gets_what_needs_no_drawing_and_is_told_what_to_install(tmp_path: Path) -> None:
    folder = finish(tmp_path / "results").root
    code, _, err = dedup("report", folder, "--junit", tmp_path / "junit.xml", "--markdown", tmp_path / "summary.md")
    assert (code, len(err.splitlines())) == (4, 1), err
    assert "error dedup report: got no Python package " in err and "pip install 'dedup[lab]'" in err
    assert (tmp_path / "junit.xml").exists() and (tmp_path / "summary.md").exists()
    assert not (folder / "report.html").exists()
