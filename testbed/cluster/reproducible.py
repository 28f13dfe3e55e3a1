"""Images built twice from nothing, down to their Debian: equal to the byte, and no larger than promised?

`python -m testbed.cluster.reproducible [NAME ...]` builds each image in two stores that share nothing, and compares
what a registry would be given. Where two builds differ, it names the first files that do. What is the same in both by
design: the packages that the mirrors of apt and pip have at that time, and the programs under build/parts, which come
from the cache.
"""

import argparse
import hashlib
import json
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa

from dedup.errors import DedupError
from dedup_lab.caches import remove_stale, root
from testbed.cluster import images
from testbed.cluster.buildah import Buildah
from testbed.cluster.images import Builder, Image

MB: Final = 1_000_000
BOUNDS: Final = {images.OPERATOR.name: 150 * MB, images.RUNNER.name: 300 * MB}
"""How many bytes an image's compressed layers may have together."""
TAR: Final = "application/vnd.oci.image.layer.v1.tar"
PACKED: Final = {"": None, "+gzip": "gzip", "+zstd": "zstd"}
"""The ends of a layer's media type, and what pyarrow calls that compression."""
SHOWN: Final = 10
"""How many differences are named."""


@dataclass(frozen=True)
class Built:
    """What one build came to: the manifest's digest, the uncompressed layers' digests, and the compressed bytes."""

    archive: Path
    digest: str
    layers: tuple[str, ...]
    size: int


@dataclass(frozen=True)
class Outcome:
    """Two builds of one image, and what is wrong with them, in words: nothing, one hopes."""

    first: Built
    complaints: tuple[str, ...]


def read(archive: Path) -> Built:
    """What an OCI archive holds."""
    with tarfile.open(archive) as opened:
        (named,) = _json(opened, "index.json")["manifests"]
        manifest = _json(opened, _blob(named["digest"]))
        config = _json(opened, _blob(manifest["config"]["digest"]))
    size = sum(layer["size"] for layer in manifest["layers"])
    return Built(archive, named["digest"], tuple(config["rootfs"]["diff_ids"]), size)


def twice(image: Image, builders: tuple[Builder, Builder], folder: Path) -> Outcome:
    """Build an image by each of two builders, and compare. Raises DedupError when one cannot be built."""
    built = []
    for number, builder in enumerate(builders):
        archive = folder / f"{image.name}-{number}.tar"
        images.write(builder, image, archive)
        built.append(read(archive))
    first, second = built
    return Outcome(first, (*_differences(first, second), *too_large(image.name, first)))


def too_large(name: str, built: Built) -> Iterator[str]:
    """What is wrong with a build's size, in words: nothing, if it is as promised or nothing is."""
    bound = BOUNDS.get(name)
    if bound is not None and built.size > bound:
        yield f"{name}: got {built.size / MB:.1f} MB of compressed layers; at most {bound / MB:.0f} MB are promised"


def _differences(first: Built, second: Built) -> Iterator[str]:
    if first.digest == second.digest:
        return
    yield f"{first.archive.name}: got {first.digest}, then {second.digest}; two builds have one digest"
    if len(first.layers) != len(second.layers):
        yield f"{len(first.layers)} layers, then {len(second.layers)}"
        return
    for number, (one, other) in enumerate(zip(first.layers, second.layers, strict=True)):
        if one != other:
            ours, others = _layer(first.archive, number), _layer(second.archive, number)
            differing = sorted(name for name in ours.keys() | others.keys() if ours.get(name) != others.get(name))
            yield f"layer {number}: {len(differing)} files differ: {', '.join(differing[:SHOWN]) or 'only their order'}"


def _layer(archive: Path, number: int) -> dict[str, tuple[object, ...]]:
    with tarfile.open(archive) as opened:
        (named,) = _json(opened, "index.json")["manifests"]
        descriptor = _json(opened, _blob(named["digest"]))["layers"][number]
        blob = opened.extractfile(_blob(descriptor["digest"]))
        assert blob is not None, "a layer is a file in every OCI archive"
        return files(blob, descriptor["mediaType"])


def files(blob: IO[bytes], media_type: str) -> dict[str, tuple[object, ...]]:
    """Of each file of a layer what may differ: its kind, rights, owner, time, and content."""
    packed = PACKED[media_type.removeprefix(TAR)]
    plain: Any = pa.CompressedInputStream(blob, packed) if packed else blob
    with tarfile.open(fileobj=plain, mode="r|") as layer:
        return {each.name: _facts(layer, each) for each in layer}


def _facts(layer: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[object, ...]:
    content = layer.extractfile(member) if member.isfile() else None
    said = hashlib.sha256(content.read()).hexdigest() if content else member.linkname
    return member.type, member.mode, member.uid, member.gid, member.mtime, said


def _json(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    assert file is not None, f"{name} is a file in every OCI archive"
    return json.load(file)


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def main() -> int:
    """Build images twice and compare. The exit code: 0; 1 if one differs or is too large; 4 if one cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m testbed.cluster.reproducible", description=main.__doc__)
    known = {image.name: image for image in images.PUBLISHED}
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all when none is given")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - known.keys()):
        parser.error(f"got {', '.join(unknown)}; known are {', '.join(known)}")
    complaints: list[str] = []
    remove_stale(root(), ".twice-*")
    try:
        with tempfile.TemporaryDirectory(dir=root(), prefix=".twice-") as name:
            folder = Path(name)
            builders = (Buildah(folder / "first"), Buildah(folder / "second"))
            for image in [known[each] for each in asked.names or known]:
                complaints += _tried(image, builders, folder)
    except DedupError as error:
        print(error, file=sys.stderr)
        return 4
    for each in complaints:
        print(each, file=sys.stderr)
    return 1 if complaints else 0


def _tried(image: Image, builders: tuple[Builder, Builder], folder: Path) -> tuple[str, ...]:
    begun = time.monotonic()
    outcome = twice(image, builders, folder)
    first = outcome.first
    told = "equal twice" if not outcome.complaints else "NOT as promised"
    print(
        f"{image.name:16} {first.digest} {first.size / MB:6.1f} MB  {told}  {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    return outcome.complaints


if __name__ == "__main__":
    sys.exit(main())
