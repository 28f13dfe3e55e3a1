"""What buildah makes of the same files is the same, whenever they were written."""

import os
from pathlib import Path

import pytest
from testbed.cluster import reproducible
from testbed.cluster.buildah import Buildah
from testbed.cluster.images import Image
from testbed.cluster.parts import Tree


@pytest.mark.cluster
def test_buildah_gives_the_same_files_the_same_digest_whenever_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image of no base, so that it costs seconds: what is tried is the time, in layers and in the image's record."""
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    code = tmp_path / "code"
    code.mkdir()
    (code / "main.py").write_text("print('one')\n")
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text(f"FROM scratch\nCOPY {str(code).removeprefix('/')} /code\nLABEL title=small\n")
    small = Image("small", "1", str(dockerfile), (Tree(str(code), str(code).removeprefix("/")),))
    builders = (Buildah(tmp_path / "first"), Later(tmp_path / "second", code / "main.py"))
    assert reproducible.twice(small, builders, tmp_path).complaints == ()


class Later(Buildah):
    """Builds from files that were written at another time."""

    def __init__(self, store: Path, file: Path) -> None:
        super().__init__(store)
        os.utime(file, (1, 1))
