"""`dedup compare` reads from a real S3 (MinIO as a process), and tells a store that is away from an empty one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.comparing import kafka
from tests.lab.conftest import Command, one_line
from tests.lab.test_comparisons import OLD, finished
from tests.runners import minio
from tests.runners.minio import ObjectStore

from dedup.history.stores import Place, place

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

NIGHTLY = f"s3://{minio.BUCKET}/nightly"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with minio.served(tmp_path_factory.mktemp("minio") / "data") as running:
        for name, made, failed, day in (("monday", kafka(), 0, 1), ("tuesday", OLD, 6, 2)):
            folder = finished(tmp_path_factory.mktemp("results") / name, made, failed=failed, day=day)
            for file in ("summary.json", "experiment.json"):
                _put(place(f"{NIGHTLY}/{name}/{file}"), (folder / file).read_bytes())
        _put(place(f"{NIGHTLY}/wednesday/experiment.json"), b"{}")
        _put(place(f"{NIGHTLY}/monday/runs/kafka-dedup-001/attempt-1/chaos/cut/experiment.json"), b"{}")
        yield running


def _put(where: Place, content: bytes) -> None:
    where.write_bytes(content)


def test_prefixes_are_compared_as_folders_are(dedup: Command, store: ObjectStore, tmp_path: Path) -> None:
    said = dedup("compare", f"{NIGHTLY}/monday", f"now={NIGHTLY}/tuesday", "--fail-on", "worse", "--format", "markdown")
    assert said.code == 1
    assert "- what is compared: version: Kafka 4.3.1 (monday); Kafka 3.9.0 (now)" in said.out
    here = dedup("compare", finished(tmp_path / "here", day=3), f"{NIGHTLY}/tuesday", "--format", "markdown")
    assert here.code == 0 and "- worse: tuesday dedup: fail, and pass in here" in here.out


def test_a_trend_follows_a_prefix(dedup: Command, store: ObjectStore) -> None:
    said = dedup("compare", "--trend", NIGHTLY, "--format", "markdown")
    assert said.code == 0
    assert [line.split(" | ")[1] for line in said.out.splitlines() if line.startswith("| 2026")] == [
        "monday",
        "tuesday",
    ]
    assert one_line(said) == f"left out: {NIGHTLY}/wednesday is unfinished"


def test_what_is_not_there_is_no_result(dedup: Command, store: ObjectStore) -> None:
    for prefix in (f"{NIGHTLY}/sunday", "s3://no-such-bucket/at-all"):
        said = dedup("compare", f"{NIGHTLY}/monday", prefix)
        assert said.code == 4 and f"{prefix}: got no result of an experiment" in one_line(said)


def test_a_store_that_is_away_is_not_an_empty_one(
    dedup: Command, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    minio.forget()
    try:
        said = dedup("compare", f"{NIGHTLY}/monday", f"{NIGHTLY}/tuesday")
        assert said.code == 4 and "the store must answer" in one_line(said)
    finally:
        monkeypatch.undo()
        minio.forget()
