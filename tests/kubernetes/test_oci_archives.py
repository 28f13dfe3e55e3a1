"""An image made by Python alone: its parts fit together, and the same files make the same image."""

import hashlib
import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from testbed.cluster import oci_archives
from testbed.cluster.oci_archives import PlainImage


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of five bytes, and a cache that is empty."""
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "program"
    path.write_bytes(b"hello")
    return path


def hello(program: Path) -> PlainImage:
    return PlainImage("localhost/hello:1", {"/bin/hello": program}, ("/bin/hello",), links={"/bin/hi": "hello"})


def blobs(archive: Path) -> dict[str, bytes]:
    """Every blob by its digest, which it must bear rightly."""
    with tarfile.open(archive) as opened:
        contents = {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]
    found = {f"sha256:{name.rpartition('/')[2]}": blob for name, blob in contents.items() if name.startswith("blobs/")}
    assert all(digest == f"sha256:{hashlib.sha256(blob).hexdigest()}" for digest, blob in found.items())
    return found | {"index": contents["index.json"]}


def opened(archive: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, bytes]]:
    """The manifest, the config, and all blobs."""
    found = blobs(archive)
    (named,) = json.loads(found["index"])["manifests"]
    manifest = json.loads(found[named["digest"]])
    return manifest, json.loads(found[manifest["config"]["digest"]]), found


def test_an_image_holds_its_files_and_says_what_to_run(program: Path) -> None:
    manifest, config, found = opened(oci_archives.archive(hello(program)))
    (layer,) = manifest["layers"]
    with tarfile.open(fileobj=BytesIO(found[layer["digest"]])) as files:
        assert [(each.name, each.uid, each.mode, each.linkname) for each in files] == [
            ("bin/hello", 0, 0o755, ""),
            ("bin/hi", 0, 0o755, "hello"),
        ]
        assert files.extractfile("bin/hello").read() == b"hello"  # type: ignore[union-attr]
    assert layer["size"] == len(found[layer["digest"]])
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    assert config["config"] == {"User": "65534:65534", "Entrypoint": ["/bin/hello"], "Cmd": []}


def test_the_same_files_are_the_same_image_and_others_another(program: Path) -> None:
    first = oci_archives.archive(hello(program))
    before = first.read_bytes()
    assert oci_archives.archive(hello(program)) == first
    first.unlink()
    assert oci_archives.archive(hello(program)).read_bytes() == before, "to the byte, whenever it is made"
    program.write_bytes(b"hello!")
    assert oci_archives.archive(hello(program)) != first


def test_an_image_upon_another_names_its_layers_without_having_them(program: Path) -> None:
    base = oci_archives.archive(hello(program))
    upon = PlainImage("localhost/upon:1", {"/bin/more": program}, ("/bin/more",), user="185:0", base=base)
    below, _, _ = opened(base)
    manifest, config, found = opened(oci_archives.archive(upon))
    assert manifest["layers"][:-1] == below["layers"]
    assert below["layers"][0]["digest"] not in found
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
    assert (config["config"]["User"], config["config"]["Entrypoint"]) == ("185:0", ["/bin/more"])


def test_an_archive_that_somebody_else_deletes_meanwhile_is_no_error(tmp_path: Path) -> None:
    """Here it is a link that leads nowhere: listed, and not there."""
    archive = tmp_path / "x-new.tar"
    archive.touch()
    (tmp_path / "x-gone.tar").symlink_to(tmp_path / "nowhere")
    oci_archives.keep(archive, "x-*.tar")
    assert archive.exists()
