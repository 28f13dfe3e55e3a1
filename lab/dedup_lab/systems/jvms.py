"""Runs Java programs of a system's class path under the lab's keepers; both systems use it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dedup.errors import PlatformError
from dedup_lab import java
from dedup_lab.caches import Progress
from dedup_lab.systems import jars
from dedup_lab.systems.keepers import Kept
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import TAKEN_SIGNS
from dedup_runners.waiting import until

ATTEMPTS = 4
LATE_SIGNS = ("KeeperErrorCode = ConnectionLoss",)
"""What the log of a broker says that ends since ZooKeeper did not answer it within its session: a busy machine."""
LOG_CONFIGURATION = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    f"-Dlog4j.configuration={Path(__file__).with_name('log4j1.properties').as_uri()}",  # Kafka before 4.0
)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Jvm:
    """A Java and a class path: what every process of one system has in common."""

    java: str
    classpath: str

    @classmethod
    def of(cls, system: str, version: str, progress: Progress) -> "Jvm":
        """Java found, jars fetched and checked. Raises DedupError (no Java, no lock, a broken jar)."""
        return cls(java.find(), jars.classpath(system, version, progress=progress))

    def start(self, lab: Lab, name: str, flags: Sequence[str], main: str, arguments: Sequence[str] = ()) -> Kept:
        """Start the class `main` under a keeper. The class path is in the environment, so `ps` stays readable.

        Libraries (RocksDB, zstd) unpack files into the lab's data, because a killed JVM deletes nothing.
        """
        temporary = f"-Djava.io.tmpdir={lab.data(f'{name}-temporary')}"
        common = [*LOG_CONFIGURATION, f"-Ddedup.process={name}", temporary]
        return lab.start(name, [self.java, *flags, *common, main, *arguments], {"CLASSPATH": self.classpath})


def wait_exit(kept: Kept, timeout_s: float) -> None:
    """Wait for a program that does one thing and ends; PlatformError unless it ends with exit code 0."""

    def ended() -> bool:
        status = kept.status()
        return status is not None and status.broken

    until(ended, timeout_s, f"{kept.program.name} ends")
    status = kept.status()
    if status is None or not status.exits or status.exits[-1].code != 0:
        kept.check()


def with_another_try(lab: Lab, start: Callable[[], _T]) -> _T:
    """Call `start`; when it failed by chance, stop everything and call it again.

    By chance: another program took one of its ports first, or a process came too late and ended.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return start()
        except PlatformError:
            if attempt == ATTEMPTS or not any(map(_failed_by_chance, lab.kept.values())):
                raise
            lab.stop()
    raise AssertionError("unreachable: the last attempt returns or raises")


def _failed_by_chance(kept: Kept) -> bool:
    if not kept.program.log.exists():
        return False
    status = kept.status()
    signs = (*TAKEN_SIGNS, *(LATE_SIGNS if status is not None and status.broken else ()))
    said = kept.program.log.read_text(errors="replace")
    return any(sign in said for sign in signs)
