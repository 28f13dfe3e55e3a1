"""A system that is not ours, seen from a machine whose clients reach it through an interposer, and perhaps a proxy.

As from outside (outside.py), only our own ends of the connections can be seen. But here it is known whose they are: a
client's connection to a broker is one that the proxy's process holds. Others of this machine may have theirs: our own
admins, strangers, and the brokers themselves if they run here.

In a pod the proxy is another container's process, which cannot be seen from here. But it has a user of its own, and the
kernel's table tells whose user a connection is.
"""

from collections.abc import Callable
from functools import partial
from os import getuid
from urllib.parse import urlsplit

from dedup.experiment.endpoints import Endpoints
from dedup_runners.chaos import sockets
from dedup_runners.chaos.sites.outside import Outside
from dedup_runners.chaos.sockets import Connection

Held = Callable[..., set[Connection]]
"""What the proxy holds: `sockets.of` its process, or `of_user`."""


def _none() -> int:
    return 0


class Interposed(Outside):
    """The `Site` of such a system. `open_connections`: how many the interposer has, for whoever runs it."""

    def __init__(self, endpoints: Endpoints, open_connections: Callable[[], int] = _none) -> None:
        super().__init__(endpoints)
        self._open_connections = open_connections
        self._held: Held | None = None

    def warm_up(self) -> None:
        """Learn which process the proxy is, or which user's, too."""
        super().warm_up()
        self._know_proxy()

    def connections(self) -> dict[str, set[Connection]]:
        """Of a proxy that cannot be found nothing is seen, and so nothing counts as gone."""
        return {} if self._held is None else self._at_brokers(self._held())

    def idle(self) -> bool:
        """Whether the interposer and the proxy hold no connection, and no broker has yet to close one.

        What a process has closed belongs to nobody until the other side has closed it, too. Whose it was cannot be
        told then, so a stranger's counts as well, for as long as that takes. If the proxy cannot be found, everybody's
        count but ours.
        """
        if self._open_connections():
            return False
        self._know_proxy()
        if self._held is None and self._endpoints.toxiproxy_url is not None:
            return super().idle()
        found = (self._held or partial(sockets.of, None))(sockets.AT_CLIENT, closed=True)
        return not any(self._leads_to(broker, each) for broker in self._endpoints.brokers for each in found)

    def _know_proxy(self) -> None:
        """By its process, or else by its user, unless that is ours: then its connections cannot be told from ours."""
        url = self._endpoints.toxiproxy_url
        if self._held is not None or url is None:
            return
        port = urlsplit(url).port or 0
        if (process := sockets.listener_at(port)) is not None:
            self._held = partial(sockets.of, process)
        elif (user := sockets.user_at(port)) not in (None, getuid()):
            self._held = partial(sockets.of_user, user)
