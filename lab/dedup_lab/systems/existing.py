"""A system that is there already: nothing of it is started, and nothing of ours is left on it.

Its brokers advertise addresses that know nothing of us, perhaps behind TLS. So an interposer stands in the clients'
path for the whole experiment: it gives each broker a port of this machine, exchanges the addresses that brokers tell,
and speaks TLS. It disturbs nothing. If faults or a latency are to act on connections, Toxiproxy stands behind it:

    client -- plaintext, this machine -- interposer -- TLS -- Toxiproxy -- broker

All names that are made begin with one that nobody else has. It is kept in the results folder: whoever resumes after a
crash removes what that has left.
"""

import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dedup.errors import DedupError, PlatformError
from dedup.experiment.endpoints import OURS, OURS_ALONE, Broker, Endpoints, Security, asked_at
from dedup.experiment.spec import System
from dedup_lab.caches import Progress
from dedup_lab.systems import labs, toxiproxy
from dedup_lab.systems.jvms import with_free_ports
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import free
from dedup_lab.targets import reached
from dedup_runners import admins, credentials
from dedup_runners.admins import removals
from dedup_runners.admins.discoveries import discovered
from dedup_runners.chaos import sockets
from dedup_runners.chaos.sites.interposed import Interposed
from dedup_runners.chaos.sites.outside import Outside
from dedup_runners.chaos.sites.protocol import Site
from dedup_runners.interposer.protocols import Address
from dedup_runners.interposer.proxies import LOOPBACK, Interposer
from dedup_runners.interposer.speeches import SPEECHES

PROVISION_S: Final = 5.0
SESSION: Final = "clients"
NAMES: Final = "names"
"""The file, among the system's logs, with what all names of ours begin with."""
FOUND_S: Final = 10.0
ROUND_TRIP_S: Final = 60.0


class ExistingSystem:
    """One that is reached through an interposer; `close` removes everything that was made on it, whoever made it."""

    def __init__(self, system: System, security: Security, logs: Path, note: Callable[[str], None]) -> None:
        self._name, self._note = system.name, note
        self._protocol = SPEECHES[system.protocol]
        self._direct = _found(asked(system, security, names_in(logs)))
        self._lab: Lab | None = None
        self._ports: list[int] = []
        self._interposer: Interposer | None = None
        self.endpoints = self._direct
        self.admin = admins.connect(self._direct)
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
        if self._interposer is not None and self._interposer.problems:
            return f"the interposer: {'; '.join(self._interposer.problems)}"
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
            if self._interposer is not None:
                leaving.callback(self._interposer.close)
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
                proxy_of(number): (port, str(_address(broker)))
                for number, (port, broker) in enumerate(zip(ports, brokers, strict=True))
            }
            url = toxiproxy.start(lab, proxies, progress)
            self._ports = ports
            return url

        return with_free_ports(lab, start)

    def _interpose(self, brokers: Sequence[Broker], url: str | None) -> None:
        security, addresses = self._direct.security, [_address(broker) for broker in brokers]
        routes = {each: Address(LOOPBACK, port) for each, port in zip(addresses, self._ports, strict=False)}
        self._interposer = interposer = Interposer(
            self._protocol.speech(),
            tls=credentials.tls(security),
            routes=routes,
            recorded=False,
            # A certificate is shown for whoever comes: that is us alone. Other log-ins are the clients' own.
            admits=sockets.of_our_user if security.certificate is not None else _everyone,
        )
        doors = interposer.bootstrap(SESSION, addresses)
        given = interposer.bootstrap(SESSION, entrances(self._direct, brokers))
        self.endpoints = self._direct.model_copy(
            update={
                "client_bootstrap": self._protocol.bootstrap(dict.fromkeys(given)),
                "direct_bootstrap": ",".join(map(str, addresses)),
                "client_security": security.behind_tls,
                "toxiproxy_url": url,
                "brokers": [
                    broker.model_copy(update={"door": door.port, **self._behind(number)})
                    for number, (broker, door) in enumerate(zip(brokers, doors, strict=True))
                ],
            }
        )
        self.admin.close()
        self.admin = admins.connect(self.endpoints)
        self.site = Interposed(self.endpoints, lambda: interposer.connections(SESSION))

    def _behind(self, number: int) -> dict[str, object]:
        """The broker's proxy, if there are any."""
        return {"proxy": proxy_of(number), "proxy_port": self._ports[number]} if self._ports else {}


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


def advertised(direct: Endpoints) -> list[Broker]:
    """The brokers with the addresses that they give to clients; those of a Pulsar are in its answers to lookups."""
    if direct.system != "pulsar":
        return direct.brokers
    from dedup_runners.admins.pulsar import probe_topic
    from dedup_runners.admins.rest import client_url

    found = []
    for number, broker in enumerate(direct.brokers):
        parts = urlsplit(client_url(direct, probe_topic(direct, number)))
        found.append(broker.model_copy(update={"host": parts.hostname, "client_port": parts.port}))
    if len({(each.host, each.client_port) for each in found}) < len(found):
        raise PlatformError(
            where="the brokers' addresses",
            got=", ".join(f"{each.host}:{each.client_port}" for each in found),
            rule="each broker gives clients an address of its own, by which its connections are told from others'",
            todo="try again, for a topic may have moved meanwhile; name listeners that lead to single brokers",
        )
    return found


def entrances(direct: Endpoints, brokers: Sequence[Broker]) -> list[Address]:
    """The brokers that clients ask first: of a Kafka all, of a Pulsar those given, by the names that they advertise."""
    if direct.system != "pulsar":
        return [_address(broker) for broker in brokers]
    known = {place: _address(broker) for broker in brokers for place in _places(_address(broker))}
    given = SPEECHES[direct.system].brokers(f"pulsar://{direct.client_bootstrap.rpartition('://')[2]}")
    return [next((known[place] for place in _places(each) if place in known), each) for each in given]


def _everyone(client: tuple[str, int], door: tuple[str, int]) -> bool:
    return True


def proxy_of(number: int) -> str:
    """The name of a broker's proxy."""
    return f"broker-{number}"


def _address(broker: Broker) -> Address:
    assert broker.host is not None
    return Address(broker.host, broker.client_port)


def _places(address: Address) -> list[tuple[str, int]]:
    """Where an address leads; nowhere, if nobody knows its name."""
    with suppress(OSError):
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        return [(str(each[4][0]), address.port) for each in found]
    return []


def _found(endpoints: Endpoints) -> Endpoints:
    return reached(discovered(endpoints, FOUND_S))
