"""Clients that are programs, as the image of them has them: a folder for each version, with what starts it.

`LIBRARY-VERSION/start` takes the arguments that the program takes (docs/write-a-client.md). Of a client for Python only
this is a part: the Dockerfile installs the library, by its lock, for the Python of the image.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dedup.experiment.assignments import PROGRAMS
from dedup.experiment.clients import CLIENTS, Client, Library
from dedup_lab.caches import Progress
from dedup_lab.clients import BUILDERS, franz_go, kafka_java, pulsar_function, pulsar_java
from dedup_lab.clients.jvm import COMPILER, FLAGS, SHARED
from dedup_runners.clients import serving
from testbed.cluster.parts import ALWAYS, Jars, Part, Tree, link
from testbed.cluster.processes import CHECKOUT

FOLDER: Final = "build/parts/clients"
LOCKS: Final = "lab/dedup_lab/clients/locks"
JAVA: Final[Mapping[Library, Path]] = {
    kafka_java.NAME: kafka_java.SOURCE,
    pulsar_java.NAME: pulsar_java.SOURCE,
}


@dataclass(frozen=True)
class JavaClient:
    """A client that runs on the Java virtual machine: its classes, its jars, and their start."""

    library: Library
    version: str

    @property
    def place(self) -> str:
        return f"{FOLDER}/{self.library}-{self.version}"

    def identity(self) -> str:
        locked = Jars(self.place, self.library, self.version).identity()
        return "\n".join([*_contents((*SHARED, JAVA[self.library])), COMPILER, *FLAGS, _START, locked])

    def put(self, target: Path, progress: Progress) -> None:
        path = BUILDERS[self.library](self.version, progress).environment["CLASSPATH"]
        classes, *needed = map(Path, path.split(os.pathsep))
        for each in sorted(each for each in classes.rglob("*") if each.is_file()):
            link(each, target / "classes" / each.relative_to(classes))
        for each in needed:
            link(each, target / "jars" / each.name)
        places = ":".join(["$here/classes", *(f"$here/jars/{each.name}" for each in needed)])
        _write(target, ["java", *FLAGS, "-cp", f'"{places}"', JAVA[self.library].stem])


@dataclass(frozen=True)
class GoClient:
    """franz-go: its start is the program."""

    version: str

    @property
    def place(self) -> str:
        return f"{FOLDER}/{franz_go.NAME}-{self.version}"

    def identity(self) -> str:
        return "\n".join([self.place, *_contents(franz_go.sources(self.version))])

    def put(self, target: Path, progress: Progress) -> None:
        link(Path(BUILDERS[franz_go.NAME](self.version, progress).argv[0]), target / "start")


@dataclass(frozen=True)
class PythonClient:
    """The start of a version of a client for Python. The Dockerfile installs that version beside it."""

    library: Library
    version: str

    @property
    def place(self) -> str:
        return f"{FOLDER}/{self.library}-{self.version}"

    def identity(self) -> str:
        return f"{self.place} {_START} {serving.__name__}"

    def put(self, target: Path, progress: Progress) -> None:
        _write(target, ["python", "-P", "-m", serving.__name__, self.library, self.version, '"$here/site"'])


@dataclass(frozen=True)
class Function:
    """The function of `consumer.function`, a jar."""

    place: str = f"build/parts/functions/{pulsar_function.PACKAGE}"

    def identity(self) -> str:
        return "\n".join([self.place, COMPILER, *_contents((pulsar_function.SOURCE,))])

    def put(self, target: Path, progress: Progress) -> None:
        link(pulsar_function.package(progress), target, copy=True)


def parts() -> tuple[Part, ...]:
    """All that the image of programs has besides our code."""
    return (Tree(LOCKS), *(part for client in CLIENTS.values() for part in _parts(client)))


def _parts(client: Client) -> Iterator[Part]:
    for version in client.versions:
        if client.library in JAVA:
            yield JavaClient(client.library, version)
        elif client.is_installed:
            yield PythonClient(client.library, version)
        else:
            assert client.library == franz_go.NAME, f"{client.library} has no part in the image of programs"
            yield GoClient(version)


_START: Final = f'#!/bin/sh\nhere={PROGRAMS}/{{name}}\nexec {{command}} "$@"\n'


def _write(target: Path, command: Sequence[str]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    start = target / "start"
    start.unlink(missing_ok=True)
    start.write_text(_START.format(name=target.name, command=" ".join(command)), encoding="utf-8")
    start.chmod(0o755)
    os.utime(start, ALWAYS)


def _contents(sources: Sequence[Path]) -> Iterator[str]:
    for source in sources:
        yield Tree(str(source.relative_to(CHECKOUT))).identity()
