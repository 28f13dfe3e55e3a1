"""Two builds of one image are compared as a registry would see them: equal, or the files that differ are named."""

import tarfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from testbed.cluster import oci_archives, reproducible
from testbed.cluster.images import OPERATOR, Image
from testbed.cluster.oci_archives import PlainImage
from testbed.cluster.reproducible import Built


class PlainBuilder:
    """Builds an image of one file by Python alone; what it holds is this builder's."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def has(self, stored: str) -> bool:
        return False

    def build(self, dockerfile: Path, context: Path, stored: str, *, base: str | None, target: str | None) -> None:
        assert dockerfile.exists()

    def export(self, stored: str, reference: str, archive: Path) -> None:
        program = archive.with_name("program")
        program.write_bytes(self._content)
        made = oci_archives.archive(PlainImage(reference, {"/bin/hello": program}, ("/bin/hello",)))
        archive.write_bytes(made.read_bytes())


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return Image("hello", "1", "Dockerfile", ())


def test_two_builds_of_the_same_content_are_equal(image: Image, tmp_path: Path) -> None:
    outcome = reproducible.twice(image, (PlainBuilder(b"hello"), PlainBuilder(b"hello")), tmp_path)
    assert outcome.complaints == ()
    assert outcome.first.size > 0 and outcome.first.digest.startswith("sha256:")


def test_two_builds_that_differ_are_told_with_the_file_that_does(image: Image, tmp_path: Path) -> None:
    outcome = reproducible.twice(image, (PlainBuilder(b"hello"), PlainBuilder(b"hallo")), tmp_path)
    first, second = outcome.complaints
    assert first.startswith(f"hello-0.tar: got {outcome.first.digest}, then sha256:")
    assert second == "layer 0: 1 files differ: bin/hello"


@pytest.mark.parametrize(("over", "said"), [(0, []), (1, ["got 150.0 MB of compressed layers; at most 150 MB"])])
def test_an_image_has_the_size_that_is_promised_or_it_is_told(over: int, said: list[str]) -> None:
    size = reproducible.BOUNDS[OPERATOR.name] + over
    complaints = list(reproducible.too_large(OPERATOR.name, Built(Path("some.tar"), "sha256:0", (), size)))
    assert len(complaints) == len(said) and all(part in each for part, each in zip(said, complaints, strict=True))
    assert not list(reproducible.too_large("dedup-spark", Built(Path("some.tar"), "sha256:0", (), size))), "no promise"


def test_layers_are_read_however_they_are_packed(tmp_path: Path) -> None:
    plain = BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as layer:
        layer.addfile(tarfile.TarInfo("file"))
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(plain.getvalue()) + packer.flush()
    read = [
        reproducible.files(BytesIO(blob), f"{reproducible.TAR}{end}")
        for blob, end in ((plain.getvalue(), ""), (packed, "+gzip"))
    ]
    assert read[0] == read[1] and list(read[0]) == ["file"]
