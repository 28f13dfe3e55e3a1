"""A system that is not ours, seen from a machine whose clients reach it through an interposer, and perhaps a proxy.

As from outside (outside.py), only our own ends of the connections can be seen. But here it is known whose they are: a
client's connection to a broker is one that the proxy's process holds. Others of this machine may have theirs: our own
admins, strangers, and the brokers themselves if they run here.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from dedup.experiment.endpoints import Endpoints
from dedup_runners.chaos import sockets
from dedup_runners.chaos.sites.outside import Outside
from dedup_runners.chaos.sockets import Connection


def _none() -> int:
    return 0


class Interposed(Outside):
    """The `Site` of such a system. `open_connections`: how many the interposer has, for whoever runs it."""

    def __init__(self, endpoints: Endpoints, open_connections: Callable[[], int] = _none) -> None:
        super().__init__(endpoints)
        self._open_connections = open_connections
        self._proxy: int | None = None

    def warm_up(self) -> None:
        """Learn which process the proxy is, too."""
        super().warm_up()
        self._know_proxy()

    def connections(self) -> dict[str, set[Connection]]:
        """Of a proxy that cannot be found nothing is seen, and so nothing counts as gone."""
        if self._proxy is None:
            return {}
        return self._at_brokers(sockets.of(self._proxy))

    def idle(self) -> bool:
        """Whether the interposer and the proxy hold no connection, and no broker has yet to close one.

        What a process has closed belongs to nobody until the other side has closed it, too. Whose it was cannot be
        told then, so a stranger's counts as well, for as long as that takes.
        """
        if self._open_connections():
            return False
        self._know_proxy()
        found = sockets.of(self._proxy, sockets.AT_CLIENT, closed=True)
        return not any(self._leads_to(broker, each) for broker in self._endpoints.brokers for each in found)

    def _know_proxy(self) -> None:
        url = self._endpoints.toxiproxy_url
        if self._proxy is None and url is not None:
            self._proxy = sockets.listener_at(urlsplit(url).port or 0)
