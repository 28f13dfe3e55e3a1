"""Findings in an object store (MinIO as a process): the same tables as in a folder, and earlier ones replaced."""

from pathlib import Path

import pytest
from tests.builders import write_history
from tests.runners import minio
from tests.spark.test_findings import assert_findings, with_faults

from dedup.errors import SpecificationError
from dedup.history.stores import place
from dedup_spark import local

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def test_findings_go_to_a_store_as_they_go_to_a_folder(tmp_path: Path) -> None:
    """Twice, into the same place: of the second time other rows, and none of the first."""
    with minio.served(tmp_path / "minio"):
        root = place(f"s3://{minio.BUCKET}/some/where")
        for seeds in (range(9), range(9, 12)):
            folders = [tmp_path / str(seed) for seed in seeds]
            for seed, folder in zip(seeds, folders, strict=True):
                history, faults = with_faults(seed)
                write_history(folder, history, row_group_rows=7, faults=faults)
            report = local.verify(folders, chunk_rows=1, findings=root / "findings")
            assert report.problems == ()
            copy = tmp_path / f"copy-{seeds[0]}"
            assert not isinstance(root, Path)
            root.fs.get(f"{root.path}/findings/", f"{copy}/", recursive=True)
            assert_findings(copy, folders, list(report.runs))
        (root / "notes.txt").write_text("mine")
        with pytest.raises(SpecificationError, match="a folder that holds"):
            local.verify([tmp_path / "1"], findings=root)
