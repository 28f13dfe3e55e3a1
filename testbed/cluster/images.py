"""The images of the test cluster, as OCI archives in the user's cache: `python -m testbed.cluster.images`.

Ours come from the project's Dockerfile; only their base is another, this machine's own Debian,
since a test must not need a registry. The broker images stand in for apache/kafka and apachepulsar/pulsar, which come
from one too. An image is known by what goes into it: the digest of its parts, of its Dockerfile and of the image below
it names its archive, so that an archive that is there is the right one and nothing is looked at but files. Otherwise
buildah builds it (without a daemon, and with root's rights only to change its root folder), reusing every layer
that did not change.
"""

import argparse
import hashlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from dedup.errors import DedupError, EnvironmentError_
from dedup_lab.caches import Progress, remove_stale, root, silent
from dedup_lab.systems import debezium
from testbed.cluster import client_programs
from testbed.cluster.binaries import HELM, TOXIPROXY, alone
from testbed.cluster.buildah import Buildah
from testbed.cluster.oci_archives import keep
from testbed.cluster.parts import ALWAYS, Debian, GoFile, GoProgram, Jars, Part, Postgres, Tree
from testbed.cluster.processes import CHECKOUT

OURS: Final = "testbed/images"


@dataclass(frozen=True)
class Image:
    """One image: its name, the Dockerfile (and target in it) that makes it, what it is made of, and what lies below."""

    name: str
    tag: str
    dockerfile: str
    parts: tuple[Part, ...]
    base: "Image | None" = None
    target: str | None = None

    @property
    def reference(self) -> str:
        """Its name in a pod's spec."""
        return f"localhost/{self.name}:{self.tag}"

    def digest(self) -> str:
        """What it is, in 16 hexadecimal digits."""
        below = self.base.digest() if self.base else ""
        said = [self.reference, str(self.target), below, Tree(self.dockerfile).identity()]
        return hashlib.sha256("\n".join([*said, *(part.identity() for part in self.parts)]).encode()).hexdigest()[:16]


def _ours(name: str, *parts: Part) -> Image:
    return Image(f"dedup-{name}", "dev", "Dockerfile", (Tree("core/dedup"), *parts), BASE, target=name)


def _broker(system: str, version: str, *files: str) -> Image:
    folder = f"{OURS}/{system}"
    common = (Jars("jars", system, version), Tree("lab/dedup_lab/systems/log4j2.properties", "log4j2.properties"))
    scripts = tuple(Tree(f"{folder}/{file}", file) for file in files)
    return Image(f"dedup-test-{system}", version, f"{folder}/Dockerfile", (*common, *scripts), JAVA)


PAUSE: Final = Image("dedup-test-pause", "1", f"{OURS}/pause/Dockerfile", (GoFile("pause", f"{OURS}/pause/pause.go"),))
BASE: Final = Image(
    "dedup-test-base",
    "1",
    f"{OURS}/base/Dockerfile",
    (Debian("root.tar", ("ca-certificates", "python3", "python3-venv")),),
)
JAVA: Final = Image("dedup-test-java", "1", "Dockerfile", (), BASE, target="java")
KAFKA: Final = _broker("kafka", "4.3.1", "run-class.sh", "tools-log4j2.properties")
PULSAR: Final = _broker("pulsar", "4.2.4", "pulsar.sh")
CONNECT: Final = Image(
    "dedup-test-connect",
    debezium.VERSION,
    f"{OURS}/connect/Dockerfile",
    (
        Jars("jars", "debezium", debezium.VERSION),
        Tree("lab/dedup_lab/systems/log4j2.properties", "log4j2.properties"),
        Tree(f"{OURS}/connect/connect-standalone.sh", "connect-standalone.sh"),
    ),
    JAVA,
)
POSTGRES: Final = Image("dedup-test-postgres", "18", f"{OURS}/postgres/Dockerfile", (Postgres("postgres"),), BASE)
OPERATOR: Final = _ours(
    "operator",
    Tree("operator/dedup_operator"),
    Tree("charts/kafka"),
    Tree("charts/pulsar"),
    Tree("charts/strimzi-kafka"),
    Tree("requirements-operator.lock"),
    GoProgram("build/parts/operator/helm", HELM),
)
RUNNER: Final = _ours(
    "runner",
    Tree("runners/dedup_runners"),
    Tree("requirements-runner.lock"),
    Tree("lab/dedup_lab/systems/locks/psycopg.lock"),
    GoProgram("build/parts/runner/toxiproxy-server", TOXIPROXY),
    client_programs.Function(),
)
CLIENTS: Final = _ours(
    "clients",
    Tree("runners/dedup_runners"),
    Tree("requirements-runner.lock"),
    *client_programs.parts(),
)
SPARK: Final = _ours(
    "spark",
    Tree("report/dedup_report"),
    Tree("spark/dedup_spark"),
    Tree("spark/entrypoint.sh"),
    Tree("requirements-spark.lock"),
)
PUBLISHED: Final = (OPERATOR, RUNNER, CLIENTS, SPARK)
BESIDE: Final = (POSTGRES, CONNECT)
"""What charts/kafka starts beside the brokers for a service."""
ALL: Final = (PAUSE, KAFKA, PULSAR, *BESIDE, *PUBLISHED)


class Builder(Protocol):
    """Who turns a Dockerfile and a folder into an image, and an image into an archive."""

    def has(self, stored: str) -> bool:
        """Whether it keeps an image of that name."""

    def build(self, dockerfile: Path, context: Path, stored: str, *, base: str | None, target: str | None) -> None:
        """Build a Dockerfile (one target of it, `base` for its ARG BASE) and keep the image. Raises DedupError."""

    def export(self, stored: str, reference: str, archive: Path) -> None:
        """Write a kept image into an OCI archive, under the name that pods call it by. Raises DedupError."""


def archive(image: Image, progress: Progress = silent, builder: Builder | None = None) -> Path:
    """The OCI archive of an image, built first if need be. Raises DedupError."""
    folder = root() / "kubernetes" / "images"
    digest = image.digest()
    path = folder / f"{image.name}-{digest}.tar"
    if not path.exists():
        with alone(folder):
            if not path.exists():
                progress(f"build {image.reference}", 0, 1)
                write(builder or Buildah(), image, path, progress)
                progress(f"build {image.reference}", 1, 1)
    keep(path, f"{image.name}-*.tar")
    return path


def write(builder: Builder, image: Image, path: Path, progress: Progress = silent) -> None:
    """Have an image's archive written by a builder, which builds it first unless it keeps it. Raises DedupError."""
    stored = _build(builder, image, image.digest(), progress)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as new:
        whole = Path(new, path.name)
        builder.export(stored, image.reference, whole)
        os.replace(whole, path)


def _build(builder: Builder, image: Image, digest: str, progress: Progress) -> str:
    """Have an image kept by the builder, and before it the one below; the name of what is kept says its content."""
    stored = f"localhost/{image.name}:{digest}"
    if builder.has(stored):
        return stored
    base = _build(builder, image.base, image.base.digest(), progress) if image.base else None
    remove_stale(root(), ".context-*")
    with tempfile.TemporaryDirectory(dir=root(), prefix=".context-") as name:
        context = Path(name)
        put(image.parts, context, progress)
        if image.digest() != digest:
            raise EnvironmentError_(
                where=image.reference,
                got="files that changed while they were gathered",
                rule="an image is what its digest says",
                todo="run again",
            )
        builder.build(CHECKOUT / image.dockerfile, context, stored, base=base, target=image.target)
    return stored


def put(parts: tuple[Part, ...], folder: Path, progress: Progress = silent) -> None:
    """Put parts into a folder that an image can be built from; other files there stay as they are."""
    for part in parts:
        part.put(folder / part.place, progress)
    for top in {Path(part.place).parts[0] for part in parts}:
        for each, _, _ in os.walk(folder / top):
            os.utime(each, ALWAYS)


def main() -> int:
    """Build archives and print their sizes, or gather what Docker needs; the exit code is 0, or 4 with one line."""
    parser = argparse.ArgumentParser(prog="python -m testbed.cluster.images", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as dedup-runner; all when none is given")
    parser.add_argument(
        "--parts", action="store_true", help="put the programs and jars of our images under build/parts"
    )
    asked = parser.parse_args()
    try:
        if asked.parts:
            gathered = tuple(
                part for image in PUBLISHED for part in image.parts if part.place.startswith("build/parts")
            )
            put(gathered, CHECKOUT, _say)
            print(f"{len(gathered)} parts are in build/parts")
            return 0
        for image in ALL:
            if not asked.names or image.name in asked.names:
                begun = time.monotonic()
                path = archive(image, _say)
                size = path.stat().st_size / 1e6
                print(f"{image.reference:35} {size:6.0f} MB {time.monotonic() - begun:7.1f} s  {path}", flush=True)
    except DedupError as error:
        print(error, file=sys.stderr)
        return 4
    return 0


def _say(what: str, done: int, total: int) -> None:
    if done == 0 and total:
        print(f"{what} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
