"""A system under test on this machine: its lab of processes, its endpoints, and an admin that can ask it things."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from dedup.endpoints import Endpoints
from dedup.errors import PlatformError
from dedup.experiments import System
from dedup_lab import kafka, labs, pulsar
from dedup_lab.labs import Lab
from dedup_runners.admins import Admin, connect
from dedup_runners.chaos import sites
from dedup_runners.chaos.sites import Site


class RunningSystem(NamedTuple):
    """A started system; `close` it and nothing is left but its logs."""

    lab: Lab
    endpoints: Endpoints
    admin: Admin
    site: Site

    @classmethod
    def start(cls, system: System, *, proxied: bool, logs: Path, note: Callable[[str], None]) -> Self:
        """Start the system's processes and return when a message was written and read back."""
        lab = labs.create(logs)
        seen: set[str] = set()

        def progress(what: str, done: int, total: int) -> None:
            if what not in seen:
                seen.add(what)
                note(f"{system.name}: {what}")

        try:
            module = kafka if system.kind == "kafka" else pulsar
            endpoints = module.start(lab, version=system.version, proxied=proxied, progress=progress)
            admin = connect(endpoints)
            warm_up(admin)
            return cls(lab, endpoints, admin, sites.connect(endpoints))
        except BaseException:
            lab.close()
            raise

    def dead(self) -> str | None:
        """The first process that died and will not come back, in words; None if all live or are held down."""
        try:
            self.lab.check()
        except PlatformError as error:
            return str(error)
        return None

    def close(self) -> None:
        self.site.close()
        self.admin.close()
        self.lab.close()


def warm_up(admin: Admin) -> None:
    """Make and remove a topic, so that the first run does not pay for what a broker loads when it is first asked."""
    topic = admin.topic_name("dedup-warm-up", deduplication=False)
    admin.create_topic(topic, partitions=1, deduplication=False)
    with suppress(PlatformError):  # it is in nobody's way
        admin.delete_topic(topic)
