"""What a broker's own sockets say: which client connections it holds, and which of them are gone.

A fault that resets connections is believed only when the *broker* has lost them. A connection counts as a client's if
it is established at the broker's client port and its other end is held by the proxy, for clients come through nothing
else. It is named by both its addresses, so that a client that reconnects at once is a new connection.
"""

from typing import NamedTuple

import psutil


class Connection(NamedTuple):
    """One established connection, as the broker sees it."""

    here: tuple[str, int]
    there: tuple[str, int]


def held_by(pid: int, port: int) -> set[Connection]:
    """The connections that process `pid` holds at its own `port`; empty if the process is gone."""
    return {connection for connection in _of(pid) if connection.here[1] == port}


def proxied_to(proxy_pid: int, ports: set[int]) -> set[Connection]:
    """The connections that the proxy holds to any of `ports`, turned round: as the brokers see them."""
    return {Connection(there, here) for here, there in _of(proxy_pid) if there[1] in ports}


def listener_at(port: int) -> int | None:
    """The process that listens at `port`, if the system tells."""
    try:
        found = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS tells only root about everyone's sockets
        return None
    return next(
        (each.pid for each in found if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port),
        None,
    )


def _of(pid: int) -> set[Connection]:
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return set()
    return {
        Connection(_address(each.laddr), _address(each.raddr))
        for each in found
        if each.status == psutil.CONN_ESTABLISHED and each.raddr
    }


def _address(address: tuple[str, int]) -> tuple[str, int]:
    """IPv4 as the JVM's dual-stack sockets show it (::ffff:127.0.0.1) and as others do, spelled the same."""
    return address[0].removeprefix("::ffff:"), address[1]
