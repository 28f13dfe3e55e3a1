"""Histories in an object store (MinIO as a process): judged where they lie, and the answer kept beside them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import History, golden_histories, write_history
from tests.runners import minio
from tests.runners.minio import ObjectStore
from tests.spark.test_job import assert_agree

from dedup.history.histories import MANIFEST, VERIFICATION, damages, read_manifest, run_folders
from dedup.history.stores import Place, below, fetched, place
from dedup_spark import evidence, job, local, oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

GOOD = History([(0, 1)], [(0, 1, 0, 0, 0, 0, 0)], [(0, 0, 0, 0, 0, 0, 1)])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with minio.served(tmp_path_factory.mktemp("minio") / "data") as running:
        yield running


@pytest.fixture
def root(store: ObjectStore, tmp_path: Path) -> Place:
    """A place of the test's own, in which nothing lies."""
    return place(f"s3://{minio.BUCKET}/{tmp_path.name}")


def put(folder: Path, where: Place) -> None:
    assert not isinstance(where, Path)
    where.fs.put(f"{folder}/", f"{where.path}/", recursive=True)


def test_what_is_found_in_a_store_is_what_is_found_in_a_folder(root: Place, tmp_path: Path) -> None:
    goldens = golden_histories()
    for number, golden in enumerate(goldens):
        write_history(tmp_path / f"runs/it's [{number}] 100% + {{a,b}}/attempt-1", golden.history)
    put(tmp_path, root)
    folders = run_folders(root)
    assert [str(folder).removeprefix(str(root)) for folder in folders] == [
        str(folder).removeprefix(str(tmp_path)) for folder in run_folders(tmp_path)
    ]
    report = local.verify(folders)
    assert (len(report.runs), report.problems) == (len(goldens), ())
    for folder, said in zip(folders, report.runs, strict=True):
        with fetched(folder) as copy:
            assert_agree(said, oracle.judge(copy).model_copy(update={"path": str(folder)}), str(folder))


def test_damages_are_seen_in_a_store(root: Place, tmp_path: Path) -> None:
    write_history(tmp_path, GOOD)
    put(tmp_path, root)
    assert damages(root, read_manifest(root)) == []
    changed = root / "sent/00000.parquet"
    content = changed.read_bytes()
    changed.write_bytes(content[:-1] + b"x")
    (root / "outcomes/00000.parquet").unlink()
    (root / "received/00001.parquet").write_bytes(content)
    assert damages(root, read_manifest(root)) == [
        "sent/00000.parquet: its bytes changed since the manifest was written",
        "outcomes/00000.parquet: missing",
        "received/00001.parquet: not named by the manifest",
    ]
    (root / "received/00001.parquet").unlink()
    (problem,) = local.verify([root]).problems
    assert problem.path == str(root)
    assert (
        "sent/00000.parquet: its bytes changed" in problem.error and "outcomes/00000.parquet: missing" in problem.error
    )


@pytest.mark.spark
def test_the_job_judges_all_below_a_root_and_keeps_what_it_said_beside_each(root: Place, tmp_path: Path) -> None:
    write_history(tmp_path / "runs/whole/attempt-1", GOOD)
    write_history(tmp_path / "runs/unfinished/attempt-1", GOOD)
    (tmp_path / "runs/unfinished/attempt-1" / MANIFEST).unlink()
    put(tmp_path, root)
    whole, unfinished = (root / f"runs/{name}/attempt-1" for name in ("whole", "unfinished"))
    output = root / "verification/spark.json"
    # In a process of its own: the Python workers of a session have the environment in which the first one began.
    words = ["--output", str(output), "--keep", "--cores", "2", str(root)]
    subprocess.run([sys.executable, "-m", "dedup_spark.job", *words], check=True, timeout=300)
    report = evidence.Report.model_validate_json(output.read_bytes())
    assert [run.path for run in report.runs] == [str(whole)]
    assert [problem.path for problem in report.problems] == [str(unfinished)]
    kept = json.loads((whole / VERIFICATION).read_bytes())
    assert kept == {"spark": report.runs[0].model_dump(mode="json"), "oracle": None, "problem": None}
    kept = json.loads((unfinished / VERIFICATION).read_bytes())
    assert kept["spark"] is None and "no manifest.json" in kept["problem"]


def test_a_store_that_does_not_open_leaves_no_report(
    root: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    minio.forget()
    assert job.main(["--output", str(tmp_path / "report.json"), str(root)]) == 4
    minio.forget()
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "AWS_SECRET_ACCESS_KEY" in said and "another" not in said
    assert list(tmp_path.iterdir()) == []


def test_nothing_lies_below_a_place_that_is_not_there(root: Place) -> None:
    assert below(root) == below(place("s3://no-such-bucket/at-all")) == []
    (problem,) = local.verify([root]).problems
    assert "no such folder" in problem.error
