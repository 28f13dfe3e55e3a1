"""A chart as a package whose defaults name a release's own images: the same files make the same bytes.

In the repository the defaults are the images that tests build (`localhost/…:dev`). A package says the registry, the
version and, if they are known, the digests, so that an installation needs no values for that. `helm package`
would write the time of the day into it.
"""

import gzip
import io
import os
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dedup.errors import SpecificationError

CHARTS: Final = ("dedup-operator", "kafka", "pulsar", "strimzi-kafka")
REGISTRY: Final = "localhost"
TAG: Final = "dev"
_IMAGE: Final = re.compile(rf"(repository: (?:{REGISTRY}/)?)(dedup-[a-z]+)(,\s*|\n\s+)tag: {TAG}\b")
_PREFIX: Final = re.compile(rf"^registry: {REGISTRY}$", re.MULTILINE)
MODE: Final = 0o644


def released(values: str, registry: str, version: str, digests: Mapping[str, str]) -> str:
    """A chart's values.yaml with the images of a release. SpecificationError if it names one as no chart does."""

    def named(match: re.Match[str]) -> str:
        before, name, between = match.groups()
        tag = f"{version}@{digests[name]}" if name in digests else version
        return f"{before.replace(REGISTRY, registry)}{name}{between}tag: {tag}"

    said = _PREFIX.sub(f"registry: {registry}", _IMAGE.sub(named, values))
    left = [line.strip() for line in said.splitlines() if re.search(rf"{REGISTRY}\b|tag: {TAG}\b", line)]
    if left or said == values:
        raise SpecificationError(
            where="values.yaml",
            got=left[0] if left else "no image of ours",
            rule="a package names the images of its release, and no others of ours",
            todo="name each as `repository: dedup-…` with `tag: dev` behind it",
        )
    return said


def package(source: Path, folder: Path, *, registry: str, version: str, digests: Mapping[str, str], time: int) -> Path:
    """Write a chart's package, every file of it of one time (seconds since 1970), and return its path."""
    name = source.name
    path = folder / f"{name}-{version}.tgz"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as chart,
    ):
        for each in sorted(each for each in source.rglob("*") if each.is_file() and not each.name.startswith(".")):
            content = each.read_bytes()
            if each == source / "values.yaml":
                content = released(content.decode(), registry, version, digests).encode()
            member = tarfile.TarInfo(f"{name}/{each.relative_to(source)}")
            member.size, member.mode, member.mtime = len(content), MODE, time
            chart.addfile(member, io.BytesIO(content))
    os.utime(path, (time, time))  # `helm push` writes it into what it pushes
    return path
