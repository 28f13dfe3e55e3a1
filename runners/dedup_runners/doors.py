"""Clients are led to brokers that were there before: each broker gets a door, a port of this machine or of this pod.

Such brokers advertise addresses that know nothing of us, perhaps behind TLS. So an interposer stands in the clients'
path: it listens at the doors, exchanges the addresses that brokers tell, and speaks TLS. It disturbs nothing. If faults
or a latency are to act on connections, Toxiproxy stands behind it:

    client -- plaintext, loopback -- interposer -- TLS -- Toxiproxy -- broker

`dedup run` opens doors for a whole experiment, the conductor of a pod for its run.
"""

import socket
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Final
from urllib.parse import urlsplit

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup_runners import credentials
from dedup_runners.chaos import sockets
from dedup_runners.chaos.sites.interposed import Interposed
from dedup_runners.chaos.watchdog import Toxiproxy
from dedup_runners.closing import Closing
from dedup_runners.interposer.protocols import Address
from dedup_runners.interposer.proxies import LOOPBACK, Interposer
from dedup_runners.interposer.speeches import SPEECHES
from dedup_runners.waiting import until

SESSION: Final = "clients"
PROXY_STARTS_S: Final = 120.0


class Doors(Closing):
    """An interposer before the brokers of `direct`, of whom `brokers` says where they send clients (`advertised`).

    `ports`: of each broker's proxy, in the same order, if Toxiproxy (`toxiproxy_url`) stands behind; else none.
    """

    def __init__(
        self, direct: Endpoints, brokers: Sequence[Broker], ports: Sequence[int] = (), toxiproxy_url: str | None = None
    ) -> None:
        protocol, security = SPEECHES[direct.system], direct.security
        addresses = [address(broker) for broker in brokers]
        routes = {each: Address(LOOPBACK, port) for each, port in zip(addresses, ports, strict=False)}
        self._interposer = Interposer(
            protocol.speech(),
            tls=credentials.tls(security),
            routes=routes,
            recorded=False,
            # A certificate is shown for whoever comes: that is us alone. Other log-ins are the clients' own.
            admits=sockets.of_our_user if security.certificate is not None else _everyone,
        )
        doors = self._interposer.bootstrap(SESSION, addresses)
        given = self._interposer.bootstrap(SESSION, entrances(direct, brokers))
        behind = [{"proxy": proxy_of(number), "proxy_port": port} for number, port in enumerate(ports)]
        self.endpoints = direct.model_copy(
            update={
                "client_bootstrap": protocol.bootstrap(dict.fromkeys(given)),
                "direct_bootstrap": ",".join(map(str, addresses)),
                "client_security": security.behind_tls,
                "toxiproxy_url": toxiproxy_url,
                "brokers": [
                    broker.model_copy(update={"door": door.port, **(behind[number] if behind else {})})
                    for number, (broker, door) in enumerate(zip(brokers, doors, strict=True))
                ],
            }
        )
        """Where clients are led, and by what."""

    @property
    def problems(self) -> list[str]:
        """What could not be done or understood: each is a reason not to trust a run."""
        return self._interposer.problems

    def connections(self) -> int:
        """How many clients' connections are open on either side."""
        return self._interposer.connections(SESSION)

    def site(self) -> Interposed:
        """The brokers' surroundings, for whoever leads runs."""
        return Interposed(self.endpoints, self.connections)

    def close(self) -> None:
        self._interposer.close()


def proxies(url: str, brokers: Sequence[Broker]) -> list[int]:
    """Have the Toxiproxy at `url` make a proxy to where each broker sends clients; their ports, in the same order.

    PlatformError if it does not answer in time, or makes none.
    """
    with closing(Toxiproxy(url)) as toxiproxy:

        def answers() -> bool:
            with suppress(OSError):
                return bool(toxiproxy.call("GET", "/version"))
            return False

        until(answers, PROXY_STARTS_S, f"Toxiproxy answers at {url}")
        try:
            return [_proxy(toxiproxy, number, broker) for number, broker in enumerate(brokers)]
        except OSError as error:
            raise PlatformError(
                where=f"Toxiproxy at {url}",
                got=str(error),
                rule="it makes a proxy to each broker of a system that is there already",
                todo="read its log",
            ) from None


def lost_proxies(url: str, brokers: Sequence[Broker]) -> str | None:
    """What a Toxiproxy says that has not all of these brokers' proxies any more: it ended, or somebody spoilt it."""
    try:
        with closing(Toxiproxy(url)) as toxiproxy:
            found = toxiproxy.call("GET", "/proxies")
    except OSError as error:
        return f"Toxiproxy does not answer: {error}"
    assert isinstance(found, dict)
    lost = sorted(each.proxy for each in brokers if each.proxy is not None and each.proxy not in found)
    return f"Toxiproxy has lost {', '.join(lost)}: it ended meanwhile" if lost else None


def advertised(direct: Endpoints) -> list[Broker]:
    """The brokers with the addresses that they give to clients; those of a Pulsar are in its answers to lookups.

    A Pulsar is asked through the probe topics, which a round trip has made.
    """
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
        return [address(broker) for broker in brokers]
    known = {place: address(broker) for broker in brokers for place in _places(address(broker))}
    given = SPEECHES[direct.system].brokers(f"pulsar://{direct.client_bootstrap.rpartition('://')[2]}")
    return [next((known[place] for place in _places(each) if place in known), each) for each in given]


def proxy_of(number: int) -> str:
    """The name of a broker's proxy."""
    return f"broker-{number}"


def address(broker: Broker) -> Address:
    """Where the broker sends clients."""
    assert broker.host is not None
    return Address(broker.host, broker.client_port)


def _proxy(toxiproxy: Toxiproxy, number: int, broker: Broker) -> int:
    """Make one at a port that is free; which it is."""
    asked = {"name": proxy_of(number), "listen": f"{LOOPBACK}:0", "upstream": str(address(broker)), "enabled": True}
    made = toxiproxy.call("POST", "/proxies", asked)
    assert isinstance(made, Mapping)
    return int(str(made["listen"]).rpartition(":")[2])


def _everyone(client: tuple[str, int], door: tuple[str, int]) -> bool:
    return True


def _places(where: Address) -> list[tuple[str, int]]:
    """Where an address leads; nowhere, if nobody knows its name."""
    with suppress(OSError):
        found = socket.getaddrinfo(*where, type=socket.SOCK_STREAM)
        return [(str(each[4][0]), where.port) for each in found]
    return []
