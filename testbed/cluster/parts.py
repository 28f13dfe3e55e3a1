"""What images are made of: files of this checkout, programs built with Go, jars, and a Debian.

A part has its identity before it exists (`identity`: a change of it is a change of the image) and puts itself into the
folder from which an image is built (`put`), made first if need be. Whatever is heavy lies in the cache and is linked,
not copied. What is copied gets the same time everywhere, so that the same content is the same layer whenever it is
built.
"""

import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from dedup.errors import EnvironmentError_
from dedup_lab.caches import Progress, remove_stale, root
from dedup_lab.systems import jars, packages
from testbed.cluster import binaries
from testbed.cluster.processes import AGAIN, CHECKOUT, run

DEBOOTSTRAP_TIMEOUT_S: Final = 900.0
GO_TIMEOUT_S: Final = 900.0
ALWAYS: Final = (0.0, 0.0)
"""The time of every file and folder that is copied."""
DATED: Final = {"SOURCE_DATE_EPOCH": f"{ALWAYS[0]:.0f}"}
"""What tells programs the time to write into files; by it Python knows the source of a compiled module by content."""
# Files of no use in a container: dpkg does not unpack them there, and the base does not have them either.
UNREAD: Final = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
# What debootstrap leaves behind. Each machine has its own sources for apt, name and resolver; ldconfig notes inodes.
LEFTOVERS: Final = (
    "/var/cache/apt/*",
    "/var/cache/ldconfig/*",
    "/var/lib/apt/lists/*",
    "/var/log/*",
    "/etc/apt/sources.list",
    "/etc/hostname",
    "/etc/resolv.conf",
)


class Part(Protocol):
    """One thing in the folder that an image is built from; `place` is its path there."""

    @property
    def place(self) -> str: ...

    def identity(self) -> str:
        """What it is, in words that differ when it differs; known before it is made."""

    def put(self, target: Path, progress: Progress) -> None:
        """Make it appear at `target`. Raises DedupError."""


@dataclass(frozen=True)
class Tree:
    """A file or a folder of the checkout, at its own path unless `at` says where."""

    source: str
    at: str = ""

    @property
    def place(self) -> str:
        return self.at or self.source

    def identity(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for path in _files(CHECKOUT / self.source):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            yield f"{self.place} {path.relative_to(CHECKOUT / self.source)} {os.access(path, os.X_OK)} {content}"

    def put(self, target: Path, progress: Progress) -> None:
        source = CHECKOUT / self.source
        for path in _files(source):
            link(path, target / path.relative_to(source), copy=True)


@dataclass(frozen=True)
class GoProgram:
    """A program of `tools/`."""

    place: str
    program: binaries.Program

    def identity(self) -> str:
        return f"{self.place} {self.program.path.parent.name}"

    def put(self, target: Path, progress: Progress) -> None:
        link(binaries.find(self.program, progress), target)


@dataclass(frozen=True)
class GoFile:
    """A program of our own that is one Go file and nothing else."""

    place: str
    source: str

    def identity(self) -> str:
        return Tree(self.source, self.place).identity()

    def put(self, target: Path, progress: Progress) -> None:
        command = [binaries.go(), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), self.source]
        settings = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
        target.parent.mkdir(parents=True, exist_ok=True)
        run(command, settings, GO_TIMEOUT_S, "the test cluster's own programs are built by Go 1.24 or newer")


@dataclass(frozen=True)
class Jars:
    """The jars of one of dedup_lab's locks, side by side in a folder."""

    place: str
    system: str
    version: str

    def identity(self) -> str:
        locked = (jar.coordinate + jar.sha256 for jar in jars.read_lock(self.system, self.version))
        return f"{self.place} {hashlib.sha256(''.join(locked).encode()).hexdigest()}"

    def put(self, target: Path, progress: Progress) -> None:
        paths = [Path(each) for each in jars.classpath(self.system, self.version, progress=progress).split(os.pathsep)]
        assert len({path.name for path in paths}) == len(paths), f"two jars of {self.system} have one name"
        for path in paths:
            link(path, target / path.name)


@dataclass(frozen=True)
class Postgres:
    """PostgreSQL's programs, of the package that the lab has them from, with their libraries at the same places."""

    place: str

    def identity(self) -> str:
        content = b"".join(each.read_bytes() for each in packages.LISTS)
        return f"{self.place} {packages.SERVER} {hashlib.sha256(content).hexdigest()}"

    def put(self, target: Path, progress: Progress) -> None:
        folder, programs = packages.folder(), packages.SERVER.parent
        for part in (programs / "bin", programs / "lib", programs / "share", f"{programs.parts[0]}.libs"):
            for path in _files(folder / part):
                link(path, target / path.relative_to(folder), copy=True)


@dataclass(frozen=True)
class Debian:
    """A root file system as a tar file: this machine's own Debian or Ubuntu, from this machine's own mirror."""

    place: str
    packages: tuple[str, ...]

    def identity(self) -> str:
        release = _release()
        return f"{self.place} {release['ID']} {release['VERSION_CODENAME']} {self.packages} {UNREAD} {LEFTOVERS}"

    def put(self, target: Path, progress: Progress) -> None:
        AGAIN(self._made, target, progress)

    def _made(self, target: Path, progress: Progress) -> None:
        suite = _release()["VERSION_CODENAME"]
        progress(f"debootstrap {suite}", 0, 1)
        remove_stale(root(), ".debian-*")
        with tempfile.TemporaryDirectory(dir=root(), prefix=".debian-") as name:
            folder = Path(name, "root")
            wanted = ",".join(self.packages)
            command = ["debootstrap", "--variant=minbase", f"--include={wanted}", suite, str(folder), mirror(suite)]
            rule = "the base of the test cluster's images is this machine's own Debian"
            run(command, DATED, DEBOOTSTRAP_TIMEOUT_S, rule)
            rules = "".join(f"path-exclude={pattern}\n" for pattern in UNREAD)
            (folder / "etc/dpkg/dpkg.cfg.d/unread").write_text(rules, encoding="utf-8")
            without = [f"--exclude=.{pattern}" for pattern in (*UNREAD, *LEFTOVERS)]
            same = ["--numeric-owner", "--sort=name", f"--mtime=@{ALWAYS[0]:.0f}"]
            tar = ["tar", "--create", "--file", str(target), *same, *without, "--directory", str(folder)]
            run([*tar, "."], {}, DEBOOTSTRAP_TIMEOUT_S, "the base is packed into one file")
        progress(f"debootstrap {suite}", 1, 1)


def mirror(suite: str) -> str:
    """The address from which this machine's apt takes `suite`. EnvironmentError_ when it takes it from nowhere."""
    form = "$(RELEASE) $(COMPONENT) $(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    lines = run(command, {}, 60.0, "the base comes from where this machine's own packages come from").splitlines()
    found = [line.split(" ", 2)[2] for line in lines if line.startswith(f"{suite} main ")]
    if not found:
        raise EnvironmentError_(
            where="apt-get indextargets",
            got=f"nothing for {suite} main",
            rule="the base comes from where this machine's own packages come from",
            todo=f"give apt a source for {suite} main",
        )
    return found[0]


def _release() -> dict[str, str]:
    """The identity of this machine's system. EnvironmentError_ unless it has a code name, as Debian and Ubuntu do."""
    release = platform.freedesktop_os_release()
    if "VERSION_CODENAME" not in release:
        raise EnvironmentError_(
            where="os-release",
            got=release.get("PRETTY_NAME", "no name"),
            rule="the base of the test cluster's images is this machine's own Debian or Ubuntu",
            todo="run on one of these, or name a cluster that has the images in DEDUP_TEST_KUBECONFIG",
        )
    return release


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    return sorted(path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def link(source: Path, target: Path, *, copy: bool = False) -> None:
    """The file at a second place: linked where the disk allows it, so that gigabytes cost nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)  # never write into a file that may be the cache's
    if not copy:
        try:
            os.link(source, target)
            return
        except OSError:  # another disk
            pass
    shutil.copy(source, target)
    os.utime(target, ALWAYS)
