"""Brokers as lists of jars: every file that a version of Kafka or Pulsar needs, by coordinate and checksum.

Maven resolves a broker's dependencies, and its answer may change from one day to the next. So it is asked once, by
`python -m dedup_lab.systems.lock SYSTEM VERSION`, and `locks/` keeps the answer as a list. The lab fetches only that
list, in parallel and without Maven, into a cache shared by all labs. A jar enters the cache by a rename after its
checksum was verified, so two labs that start at the same time cannot harm each other. Every start verifies the
checksums again, because a damaged jar would make another broker than the one under test.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tenacity
from jgo.config import GlobalSettings
from jgo.maven import MavenContext

from dedup.errors import EnvironmentError_, SpecificationError
from dedup_lab.caches import Progress, remove_stale, root, silent

LOCKS = Path(__file__).parent / "locks"
FETCHERS = 12
ATTEMPTS = 4
REQUEST_TIMEOUT_S = 60
_LINE = re.compile(
    r"(?P<group>[\w.-]+):(?P<artifact>[\w.-]+):(?P<version>[\w.-]+)(:(?P<classifier>[\w.-]+))?"
    r" sha256=(?P<sha256>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class Jar:
    """One line of a lock: a Maven coordinate and the sha256 (hex) of the file it names."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """`group:artifact:version[:classifier]`, as the lock writes it."""
        return ":".join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)

    @property
    def path(self) -> Path:
        """Where the file lies in a Maven repository, and in ours."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        folder = Path(*self.group.split("."), self.artifact, self.version)
        return folder / f"{self.artifact}-{self.version}{suffix}.jar"


def locked_versions(system: str, locks: Path = LOCKS) -> list[str]:
    """The versions of `system` ("kafka", "pulsar") that have a lock, in order."""
    return sorted(path.stem.removeprefix(f"{system}-") for path in locks.glob(f"{system}-[0-9]*.txt"))


def read_lock(system: str, version: str, locks: Path = LOCKS) -> list[Jar]:
    """The jars of one version, in class path order. SpecificationError when there is no lock, or it cannot be read."""
    known = locked_versions(system, locks)
    if version not in known:
        raise SpecificationError(
            where=f"{system}.version",
            got=version,
            rule=f"the local lab has a jar list for {system} {', '.join(known) or '(none)'}",
            todo=f"take one of these, or make a list: `python -m dedup_lab.systems.lock {system} {version}` (Maven)",
        )
    path = locks / f"{system}-{version}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_jar(path, number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]


def _jar(path: Path, number: int, line: str) -> Jar:
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise SpecificationError(
            where=f"{path.name}:{number}",
            got=repr(line[:80]),
            rule="a line of a lock is `group:artifact:version[:classifier] sha256=<64 hex digits>`",
            todo="make the list again with `python -m dedup_lab.systems.lock`",
        )
    return Jar(**{name: value or "" for name, value in match.groupdict().items()})


def classpath(system: str, version: str, *, progress: Progress = silent, locks: Path = LOCKS) -> str:
    """Java's class path of one version, every jar present and its checksum right; missing jars are fetched.

    Raises SpecificationError (no lock) or EnvironmentError_ (a jar cannot be fetched, or is not what the lock says: it
    is deleted, so that the next start fetches it again).
    """
    jars = read_lock(system, version, locks)
    store = root() / "jars"
    fetched = set(fetch_missing(system, version, progress=progress, locks=locks))
    _each(
        f"check {system} {version}",
        [jar for jar in jars if jar not in fetched],
        lambda jar: check(jar, store / jar.path),
        os.cpu_count() or 1,
        progress,
    )
    return os.pathsep.join(str(store / jar.path) for jar in jars)


def missing(system: str, version: str, locks: Path = LOCKS) -> list[Jar]:
    """The jars of one version that the cache does not hold."""
    return [jar for jar in read_lock(system, version, locks) if not (root() / "jars" / jar.path).exists()]


def fetch_missing(system: str, version: str, *, progress: Progress = silent, locks: Path = LOCKS) -> list[Jar]:
    """Fetch the jars of one version that the cache does not hold, and return them; errors as of `classpath`."""
    if found := missing(system, version, locks):
        remove_stale(root() / "incoming", "*")
        _each(f"fetch {system} {version}", found, partial(fetch, root() / "jars"), FETCHERS, progress)
    return found


def _each(what: str, jars: list[Jar], act: Callable[[Jar], None], threads: int, progress: Progress) -> None:
    with ThreadPoolExecutor(threads, thread_name_prefix="jars") as pool:
        futures = [pool.submit(act, jar) for jar in jars]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                progress(what, done, len(jars))
        finally:
            for future in futures:
                future.cancel()


def check(jar: Jar, path: Path) -> None:
    """Compare the file's checksum with the lock's. A wrong file is deleted and EnvironmentError_ names it."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found == jar.sha256:
        return
    path.unlink(missing_ok=True)
    raise EnvironmentError_(
        where=jar.coordinate,
        got=f"a jar with sha256 {found[:16]}… ({path})",
        rule=f"the lock says {jar.sha256[:16]}…",
        todo="it was deleted: run the same command again to fetch it; if it comes back wrong, "
        "a proxy or mirror between this machine and its Maven repository alters files",
    )


def fetch(store: Path, jar: Jar) -> None:
    """Fetch one jar into `store`: downloaded beside it, checked, then renamed into place.

    Nothing is fetched if another process has put it there meanwhile.
    """
    if (store / jar.path).exists():
        return
    incoming = store.parent / "incoming"
    incoming.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=incoming))
    try:
        downloaded = _download(jar, folder)
        check(jar, downloaded)
        place = store / jar.path
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(downloaded, place)
    except OSError as error:
        raise _unfetched(jar, str(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _download(jar: Jar, folder: Path) -> Path:
    # The user's own jgo settings may name a mirror; without any, jgo asks Maven Central.
    repositories = GlobalSettings.load().repositories or None

    def attempt() -> Path:
        shutil.rmtree(folder, ignore_errors=True)  # a partial download must not be taken for the file
        context = MavenContext(repo_cache=folder, remote_repos=repositories, timeout=REQUEST_TIMEOUT_S)
        component = context.project(jar.group, jar.artifact).at_version(jar.version)
        return Path(component.artifact(classifier=jar.classifier).resolve())

    retry = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_exponential_jitter(multiplier=0.5, max=8),
        reraise=True,
    )
    try:
        return retry(attempt)
    except (OSError, RuntimeError) as error:  # requests' errors are OSErrors; jgo's own are RuntimeErrors
        raise _unfetched(jar, str(error)) from error


def _unfetched(jar: Jar, got: str) -> EnvironmentError_:
    return EnvironmentError_(
        where=jar.coordinate,
        got=got.splitlines()[0][:200] if got else "no answer",
        rule="every jar of the lock must be fetched once",
        todo="check the network, the proxy (HTTPS_PROXY), the certificates (REQUESTS_CA_BUNDLE) and the disk, "
        "then run again",
    )
