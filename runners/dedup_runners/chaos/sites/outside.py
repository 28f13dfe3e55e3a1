"""A system that is not ours to touch: its brokers cannot be killed, and only our own end of a connection can be seen.

That end is the kernel's word, not the proxy's: a connection that is gone from this network namespace's table was torn
down. Whose it was is told by the address to which the proxy of that broker leads.
"""

import os
import socket
from typing import Any

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup_runners.addresses import apart
from dedup_runners.chaos import sockets
from dedup_runners.chaos.sites.protocol import Death, Victim
from dedup_runners.chaos.sockets import Connection
from dedup_runners.chaos.watchdog import Toxiproxy
from dedup_runners.closing import Closing


class Outside(Closing):
    """The `Site` of a system of which nothing but its ports is known (protocol.py)."""

    restart_grace_s = 0.0

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._addresses: dict[str, set[str]] = {}
        self._hosts = {broker.id: _addresses(broker.host) for broker in endpoints.brokers if broker.host}

    def warm_up(self) -> None:
        """Learn where each broker's proxy leads; without proxies nobody's connections can be told from another's."""
        if self._endpoints.toxiproxy_url is None:
            return
        toxiproxy = Toxiproxy(self._endpoints.toxiproxy_url)
        try:
            proxies = toxiproxy.call("GET", "/proxies")
        finally:
            toxiproxy.close()
        assert isinstance(proxies, dict)
        upstreams = {name: apart(proxy["upstream"])[0] for name, proxy in proxies.items()}
        self._addresses = {
            broker.id: _addresses(upstreams[broker.proxy])
            for broker in self._endpoints.brokers
            if broker.proxy in upstreams
        }

    def connections(self) -> dict[str, set[Connection]]:
        return self._at_brokers(sockets.mine())

    def _at_brokers(self, found: set[Connection]) -> dict[str, set[Connection]]:
        """Those of them that lead to each broker behind a proxy."""
        ports = {broker.id: broker.client_port for broker in self._endpoints.brokers}
        return {
            broker: {each for each in found if each.there[1] == ports[broker] and each.there[0] in addresses}
            for broker, addresses in self._addresses.items()
        }

    def idle(self) -> bool:
        """Whether none but this very process, which asks brokers too, holds a connection to a broker's port.

        At its own address, where it is known: a store of histories may well have the same port.
        """
        found = sockets.mine(but=os.getpid(), states=sockets.AT_CLIENT)
        return not any(self._leads_to(broker, each) for broker in self._endpoints.brokers for each in found)

    def _leads_to(self, broker: Broker, connection: Connection) -> bool:
        host, port = connection.there
        return port == broker.client_port and (broker.id not in self._hosts or host in self._hosts[broker.id])

    def victim(self, broker: str) -> Victim:
        raise PlatformError(
            where=f"broker {broker}",
            got="a system that is not ours to touch",
            rule="only brokers that the experiment deployed, or whose pods consent by label, are killed",
            todo="deploy the system with the experiment, or use faults of the clients' path",
        )

    def kill(self, victim: Victim, down_s: float, *, clean: bool = False) -> None:
        self.victim(victim.broker)

    def death(self, victim: Victim) -> Death | None:
        return None

    def restarted(self, victim: Victim) -> dict[str, Any] | None:
        return None

    def run(self, victim: Victim, script: str, *, strikes: bool = False) -> str:
        self.victim(victim.broker)
        return ""

    def exits(self) -> int:
        """Nobody tells us."""
        return 0

    def close(self) -> None:
        """Nothing is held open."""


def _addresses(host: str) -> set[str]:
    """Where that name leads; PlatformError if nobody knows it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise PlatformError(
            where=f"host {host}",
            got=str(error),
            rule="a broker is found by its name",
            todo="see that the brokers advertise names that can be looked up from where this runs",
        ) from None
    return {str(each[4][0]) for each in found}
