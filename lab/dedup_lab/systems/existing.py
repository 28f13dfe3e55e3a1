"""A system that is there already: nothing of it is started, and nothing of ours is left on it.

Clients are led to it through doors of this machine for the whole experiment (`dedup_runners.doors`): an interposer that
disturbs nothing, and behind it Toxiproxy, if faults or a latency are to act on connections.

All names that are made begin with one that nobody else has. It is kept in the results folder: whoever resumes after a
crash removes what that has left.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from dedup.errors import DedupError, PlatformError
from dedup.experiment.endpoints import OURS, OURS_ALONE, Broker, Endpoints, Security, asked_at
from dedup.experiment.spec import System
from dedup_lab.caches import Progress
from dedup_lab.systems import labs, toxiproxy
from dedup_lab.systems.jvms import with_another_try
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import free
from dedup_lab.targets import reached
from dedup_runners import admins
from dedup_runners.admins import removals
from dedup_runners.admins.discoveries import discovered
from dedup_runners.chaos.sites.outside import Outside
from dedup_runners.chaos.sites.protocol import Site
from dedup_runners.doors import Doors, address, advertised, proxy_of

PROVISION_S: Final = 5.0
NAMES: Final = "names"
"""The file, among the system's logs, with what all names of ours begin with."""
FOUND_S: Final = 10.0
ROUND_TRIP_S: Final = 60.0


class ExistingSystem:
    """One that is reached through an interposer; `close` removes everything that was made on it, whoever made it."""

    def __init__(self, system: System, security: Security, logs: Path, note: Callable[[str], None]) -> None:
        self._name, self._note = system.name, note
        self._direct = _found(asked(system, security, names_in(logs)))
        self._lab: Lab | None = None
        self._ports: list[int] = []
        self._doors: Doors | None = None
        self.endpoints = self._direct
        self.admin = admins.connect(self._direct)
        self.beside = None
        """What a service needs is started with the brokers, so that there is none."""
        self.site: Site = Outside(self._direct.model_copy(update={"brokers": []}))

    def open(self, proxied: bool, logs: Path, progress: Progress) -> None:
        """Lead clients through the interposer, and have a message make the way and back. Closed if it cannot be had."""
        try:
            removals.remove(self._direct)
            self.admin.round_trip(ROUND_TRIP_S)
            brokers = advertised(self._direct)
            url = self._proxied(brokers, logs, progress) if proxied else None
            self._interpose(brokers, url)
            self.admin.round_trip(ROUND_TRIP_S)
        except BaseException:
            self.close()
            raise

    def dead(self) -> str | None:
        """What the interposer could not do or understand, or that the proxy died; the brokers are not ours to watch."""
        if self._doors is not None and self._doors.problems:
            return f"the interposer: {'; '.join(self._doors.problems)}"
        try:
            if self._lab is not None:
                self._lab.check()
        except PlatformError as error:
            return str(error)
        return None

    def close(self) -> None:
        with ExitStack() as leaving:  # whatever fails, the rest is done
            leaving.callback(self.admin.close)
            leaving.callback(self._remove)
            if self._lab is not None:
                leaving.callback(self._lab.close)
            if self._doors is not None:
                leaving.callback(self._doors.close)
            leaving.callback(self.site.close)

    def _remove(self) -> None:
        try:
            removals.remove(self._direct)
        except DedupError as error:
            self._note(f"{self._name}: {error}")

    def _proxied(self, brokers: Sequence[Broker], logs: Path, progress: Progress) -> str:
        """Start Toxiproxy with a proxy to each broker, whose port it is given then; the URL of its interface."""
        self._lab = lab = labs.create(logs)

        def start() -> str:
            ports = free(len(brokers))
            proxies = {
                proxy_of(number): (port, str(address(broker)))
                for number, (port, broker) in enumerate(zip(ports, brokers, strict=True))
            }
            url = toxiproxy.start(lab, proxies, progress)
            self._ports = ports
            return url

        return with_another_try(lab, start)

    def _interpose(self, brokers: Sequence[Broker], url: str | None) -> None:
        self._doors = doors = Doors(self._direct, brokers, self._ports, url)
        self.endpoints = doors.endpoints
        self.admin.close()
        self.admin = admins.connect(self.endpoints)
        self.site = doors.site()


def start(
    system: System, security: Security, *, proxied: bool, logs: Path, note: Callable[[str], None], progress: Progress
) -> ExistingSystem:
    """Find the system and lead clients to it. A DedupError says in one line what made that impossible."""
    found = ExistingSystem(system, security, logs, note)
    found.open(proxied, logs, progress)
    return found


def names_in(logs: Path) -> str:
    """What all names of this execution begin with: as it was, if it is resumed."""
    path = logs / NAMES
    with suppress(FileNotFoundError):
        if OURS_ALONE.fullmatch(kept := path.read_text().strip()):
            return kept
    logs.mkdir(parents=True, exist_ok=True)
    names = f"{OURS}-run-{secrets.token_hex(4)}"
    path.write_text(f"{names}\n")
    return names


def asked(system: System, security: Security, names: str) -> Endpoints:
    """Where the system is asked who its brokers are."""
    assert system.existing is not None
    found = asked_at(system.protocol, system.existing, security, f"{names}-")
    return found.model_copy(update={"names": names})


def _found(endpoints: Endpoints) -> Endpoints:
    return reached(discovered(endpoints, FOUND_S))
