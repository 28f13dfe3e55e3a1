"""Container images made of files, by nothing but Python: for programs that need no operating system around them.

An image is three kinds of blobs, each named by its own SHA-256. A *layer* is a tar file of files. A *config* says what
to run, as whom, and which layers make the file system. A *manifest* names the config and the layers. An OCI archive is
a tar file of these blobs and an index that gives the manifest a name; any container runtime imports it.

A Go program that is linked statically needs one layer with one file in it. If it needs another image around it, that
image's layers come first and are named only: they are not in the archive, and the other image must be imported
first.

The same files make the same bytes, so a runtime that has an image knows it again.
"""

import hashlib
import io
import json
import os
import platform
import tarfile
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dedup_lab.caches import STALE_S, root

OCI: Final = "application/vnd.oci.image"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
MODE: Final = 0o755
KEPT_ARCHIVES: Final = 3
NOBODY: Final = "65534:65534"


@dataclass(frozen=True)
class PlainImage:
    """An image: its name, the files that are put into it, what it runs, and as whom.

    `files` are paths in the image and the files of this machine that come there; `links` are paths in the image and
    where they lead. `base` is the archive of the image whose layers, environment and working folder it starts from.
    """

    name: str
    files: Mapping[str, Path]
    entrypoint: tuple[str, ...]
    user: str = NOBODY
    links: Mapping[str, str] = field(default_factory=dict)
    base: Path | None = None


def archive(image: PlainImage) -> Path:
    """The image's archive in the cache, written first if its files have changed."""
    name = image.name.rpartition("/")[2].replace(":", "-")
    path = root() / "kubernetes" / "images" / f"{name}-{_state(image)}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as folder:
            _write(image, Path(folder))
            os.replace(Path(folder, "archive"), path)
    keep(path, f"{name}-*.tar")
    return path


def keep(archive: Path, pattern: str) -> None:
    """Note that an archive is in use; of those by this pattern, delete what long was not, but for a few."""
    os.utime(archive)
    used = {}
    for each in archive.parent.glob(pattern):
        with suppress(FileNotFoundError):  # another process has just deleted it
            used[each] = each.stat().st_mtime
    for each in sorted(used, key=lambda each: used[each], reverse=True)[KEPT_ARCHIVES:]:
        if time.time() - used[each] > STALE_S:
            each.unlink(missing_ok=True)


def _state(image: PlainImage) -> str:
    """What identifies a state of an image: its description, the size and age of its files, how it is made.

    Of an archive below, its name is enough: there, too, another content has another name.
    """
    stats = [(status.st_size, status.st_mtime_ns) for status in (source.stat() for source in image.files.values())]
    made = Path(__file__).read_text(encoding="utf-8")
    return hashlib.sha256(repr((image, stats, made)).encode()).hexdigest()[:12]


def _write(image: PlainImage, folder: Path) -> None:
    layer = _layer(image, folder / "layer")
    config, layers = _base(image.base) if image.base else ({"rootfs": {"type": "layers", "diff_ids": []}}, [])
    config |= {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    config["rootfs"]["diff_ids"] += [layer["digest"]]  # a layer that is not compressed is named as its content is
    config["config"] = {**config.get("config", {}), "User": image.user, "Entrypoint": list(image.entrypoint), "Cmd": []}
    config.pop("history", None)
    blobs = {"config": _json(config)}
    media_type = f"{OCI}.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": _descriptor(f"{OCI}.config.v1+json", blobs["config"]),
        "layers": [*layers, layer],
    }
    blobs["manifest"] = _json(manifest)
    named = _descriptor(media_type, blobs["manifest"])
    named["annotations"] = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name}
    with tarfile.open(folder / "archive", "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": [named]}))
        for blob in blobs.values():
            _add(archive, _blob(_digest(blob)), blob)
        _add_file(archive, _blob(layer["digest"]), folder / "layer")


def _layer(image: PlainImage, path: Path) -> dict[str, Any]:
    """Write the layer of an image's own files; its descriptor."""
    with tarfile.open(path, "w") as layer:
        for name, source in sorted(image.files.items()):
            _add_file(layer, name, source)
        for name, target in sorted(image.links.items()):
            member = _member(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            layer.addfile(member)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"mediaType": f"{OCI}.layer.v1.tar", "digest": f"sha256:{digest}", "size": path.stat().st_size}


def _base(archive: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The config of the image in another archive, and the descriptors of its layers."""
    with tarfile.open(archive) as opened:

        def read(name: str) -> Any:
            file = opened.extractfile(name)
            assert file is not None, f"{name} is a file in every OCI archive"
            return json.load(file)

        (named,) = read("index.json")["manifests"]
        manifest = read(_blob(named["digest"]))
        return read(_blob(manifest["config"]["digest"])), manifest["layers"]


def _member(name: str) -> tarfile.TarInfo:
    """Root's, and of no particular time."""
    member = tarfile.TarInfo(name.removeprefix("/"))
    member.mode = MODE
    return member


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = _member(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _add_file(archive: tarfile.TarFile, name: str, source: Path) -> None:
    member = _member(name)
    member.size = source.stat().st_size
    with source.open("rb") as file:
        archive.addfile(member, file)


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
