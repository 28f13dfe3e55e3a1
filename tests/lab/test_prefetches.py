"""While the first system is tested the jars of the others are fetched; an experiment of one system fetches nothing."""

import hashlib
import os
import sys
from pathlib import Path

import pytest
from tests.core.evidences import experiment
from tests.lab import harness

from dedup_lab import children, prefetches
from dedup_lab.prefetches import Prefetch
from dedup_lab.systems import jars

CONTENT = b"a jar, as far as checksums are concerned"
LINE = f"org.example:thing:1.2 sha256={hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The command lines of the processes that were started, with an empty cache."""
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    found: list[list[str]] = []
    monkeypatch.setattr(
        children.Children, "start", lambda _self, _name, argv, _log, **_environment: found.append(list(argv))
    )
    return found


def test_what_later_systems_lack_is_fetched_beside_the_first(started: list[list[str]], tmp_path: Path) -> None:
    both = harness.experiment(harness.document("kafka-vs-pulsar"))
    later = both.spec.systems[1]
    with Prefetch(both, tmp_path / "logs"):
        assert [argv[-1] for argv in started] == [f"{later.kind}:{later.version}"]


def test_what_is_there_or_is_the_first_is_not(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Prefetch(experiment(), tmp_path / "logs"):
        assert not started
    monkeypatch.setattr(jars, "missing", lambda *_: [])
    with Prefetch(harness.experiment(harness.document("kafka-vs-pulsar")), tmp_path / "logs"):
        assert not started


def test_what_cannot_be_fetched_is_said_and_the_rest_is_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "nice", lambda _by: 0)
    monkeypatch.setattr(sys, "argv", ["prefetches", "kafka:0.1", "pulsar:4.2.4"])
    real = jars.fetch_missing
    monkeypatch.setattr(
        jars, "fetch_missing", lambda system, version: [] if system == "pulsar" else real(system, version)
    )
    assert prefetches.main() == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("kafka.version: got 0.1;") and said[1:] == ["pulsar:4.2.4: 0 jars fetched"]


def test_a_jar_that_another_process_has_fetched_meanwhile_is_not_fetched_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "_download", lambda *_: pytest.fail("it is there"))
    (tmp_path / "kafka-9.9.txt").write_text(LINE + "\n")
    (jar,) = jars.missing("kafka", "9.9", tmp_path)
    place = tmp_path / "cache" / "jars" / jar.path
    place.parent.mkdir(parents=True)
    place.write_bytes(CONTENT)
    jars.fetch(tmp_path / "cache" / "jars", jar)
    assert jars.missing("kafka", "9.9", tmp_path) == []
