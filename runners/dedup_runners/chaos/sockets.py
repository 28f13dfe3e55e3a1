"""What a broker's own sockets say: which client connections it holds, and which of them are gone.

A fault that resets connections is believed only when the *broker* has lost them. A connection counts as a client's if
it is established at the broker's client port and its other end is held by the proxy, for clients come through nothing
else. It is named by both its addresses, so that a client that reconnects at once is a new connection.

Looking must be fast, for it is done between the trigger and the fault. A JVM holds hundreds of files, and asking for
one process's sockets means asking about each; on Linux the kernel's own table of connections says the same at once,
since only the process that listens at a port has established connections there.

Whether a client is *gone* is another question than whether its connection is established. A client that closed leaves
its last requests in the broker's socket until the broker reads them: that socket is in CLOSE_WAIT, and the client's end
in FIN_WAIT. So for that question every state counts in which the broker may still read something.
"""

import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import psutil

TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
NAMESPACES: Final = "/proc/{pid}/ns/net"
TABLES_OF: Final = ("/proc/{pid}/net/tcp", "/proc/{pid}/net/tcp6")
ESTABLISHED: Final = frozenset({"01"})
AT_BROKER: Final = frozenset({"01", "03", "08"})
"""States of the broker's end in which it may still read: ESTABLISHED, SYN_RECV, CLOSE_WAIT (net/tcp_states.h)."""
AT_CLIENT: Final = frozenset({"01", "02", "04", "05"})
"""States of our end in which the broker has not closed its own: ESTABLISHED, SYN_SENT, FIN_WAIT1, FIN_WAIT2."""
LISTENING: Final = frozenset({"0A"})
UID: Final = 7
"""The column of the table that has the user's number."""
NOBODYS: Final = "0"
"""The inode of a socket that its process has closed."""
_NAMES: Final = {
    psutil.CONN_ESTABLISHED: "01",
    psutil.CONN_SYN_SENT: "02",
    psutil.CONN_SYN_RECV: "03",
    psutil.CONN_FIN_WAIT1: "04",
    psutil.CONN_FIN_WAIT2: "05",
    psutil.CONN_CLOSE_WAIT: "08",
}


class Connection(NamedTuple):
    """One connection, as the broker sees it."""

    here: tuple[str, int]
    there: tuple[str, int]


def held(brokers: Mapping[int, int], proxy_pid: int | None) -> dict[int, set[Connection]]:
    """The client connections at each broker's client port: `brokers` is port -> process.

    Only those whose other end `proxy_pid` holds; None: whoever holds it.
    """
    if TABLES[0].exists():
        return _by_table(brokers, proxy_pid)
    proxied = None if proxy_pid is None else {Connection(there, here) for here, there in _of(proxy_pid)}
    at_broker = {port: {each for each in _of(pid) if each.here[1] == port} for port, pid in brokers.items()}
    return {port: found if proxied is None else found & proxied for port, found in at_broker.items()}


def unfinished(brokers: Mapping[int, int]) -> set[Connection]:
    """The connections at the brokers' client ports that the brokers may still read from: `brokers` as above."""
    if TABLES[0].exists():
        rows = _rows(brokers.values())
        return {each for each, _ in connections(rows, AT_BROKER) if each.here[1] in brokers}
    return {each for port, pid in brokers.items() for each in _of(pid, AT_BROKER) if each.here[1] == port}


def mine(but: int | None = None, states: frozenset[str] = ESTABLISHED) -> set[Connection]:
    """All connections of this network namespace in these states, from our end; without those that `but` holds."""
    inodes = set() if but is None else _inodes(but)
    return {each for each, inode in connections(_rows(), states) if inode not in inodes}


def of(pid: int | None, states: frozenset[str] = ESTABLISHED, *, closed: bool = False) -> set[Connection]:
    """The connections that a process of ours holds, from its end, in these states.

    `closed`: also those that a process has closed already, whoever it was; with no process only those.
    """
    if not TABLES[0].exists():
        return set() if pid is None else _of(pid, states)
    inodes = (set() if pid is None else _inodes(pid)) | ({NOBODYS} if closed else set())
    return {each for each, inode in connections(_rows(), states) if inode in inodes}


def of_our_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a process of our user holds the client's end of a connection on this host, as the kernel tells now.

    Not if nobody holds it any more: whose it was is not known then. Where the kernel has no table, it is believed.
    """
    if not TABLES[0].exists():
        return True
    wanted = Connection(_address(client), _address(server))
    for row in _rows():
        found = parse(row, AT_CLIENT)
        if found is not None and found[0] == wanted and found[1] != NOBODYS:
            return _user(row) == os.getuid()
    return False


def of_user(uid: int, states: frozenset[str] = ESTABLISHED, *, closed: bool = False) -> set[Connection]:
    """The connections that processes of a user hold, from their end, in these states, as the kernel's table tells.

    For processes that cannot be seen, such as another container's of our pod. `closed`: as in `of`.
    """
    found = set()
    for row in _rows():
        parsed = parse(row, states)
        if parsed is not None and (_user(row) == uid or (closed and parsed[1] == NOBODYS)):
            found.add(parsed[0])
    return found


def user_at(port: int) -> int | None:
    """The user whose process listens at `port`; None if nobody does, or there is no table."""
    for row in _rows():
        found = parse(row, LISTENING)
        if found is not None and found[0].here[1] == port:
            return _user(row)
    return None


def listener_at(port: int) -> int | None:
    """The process that listens at `port`, if the system tells."""
    try:
        found = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS tells only root about everyone's sockets
        return None
    return next((each.pid for each in found if each.status == psutil.CONN_LISTEN and each.laddr[1:] == (port,)), None)


def parse(row: str, states: frozenset[str] = ESTABLISHED) -> tuple[Connection, str] | None:
    """One row of the kernel's table (proc(5), /proc/net/tcp) and its inode; None of a connection in no such state."""
    start = row.split(None, 4)
    if len(start) < 5 or start[3] not in states:
        return None
    fields = row.split()
    return Connection(_unhex(fields[1]), _unhex(fields[2])), fields[9]


def connections(rows: Iterable[str], states: frozenset[str] = ESTABLISHED) -> list[tuple[Connection, str]]:
    """The connections in these states among the rows of a table, with their inodes."""
    return [found for row in rows if (found := parse(row, states)) is not None]


def _user(row: str) -> int:
    return int(row.split()[UID])


def _by_table(brokers: Mapping[int, int], proxy_pid: int | None) -> dict[int, set[Connection]]:
    """Both ends of a connection on one host are in the tables: the broker's row, and the row of whoever holds it."""
    found, ports = connections(_rows(brokers.values())), set(brokers)
    proxys = None if proxy_pid is None else _inodes(proxy_pid)
    at_broker = {each for each, _ in found}
    if proxys is not None:
        at_broker &= {Connection(each.there, each.here) for each, inode in found if inode in proxys}
    return {port: {each for each in at_broker if each.here[1] == port} for port in ports}


def _rows(elsewhere: Iterable[int] = ()) -> list[str]:
    """The rows of our network's tables, and of those of each of these processes that has a network of its own."""
    ours = _network("self")
    others = {found: pid for pid in elsewhere if (found := _network(pid)) not in (None, ours)}
    tables = [*TABLES, *(Path(each.format(pid=pid)) for pid in others.values() for each in TABLES_OF)]
    return [row for table in tables for row in _read(table).splitlines()]


def _network(pid: int | str) -> str | None:
    """The network namespace of a process; None if it is gone, or not ours to ask."""
    try:
        return os.readlink(NAMESPACES.format(pid=pid))
    except OSError:
        return None


def _read(table: Path) -> str:
    try:
        return table.read_text()
    except OSError:
        return ""  # there is none, or its process is gone


def _inodes(pid: int) -> set[str]:
    """The sockets that a process holds, by the kernel's numbers; empty if it is gone."""
    folder = f"/proc/{pid}/fd"
    found: set[str] = set()
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names:
        try:
            found.add(os.readlink(f"{folder}/{name}").removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue  # closed while we looked
    return found


def _unhex(text: str) -> tuple[str, int]:
    """An address as the kernel writes it: words in host byte order, `0100007F:1F90` is 127.0.0.1:8080."""
    words, _, port = text.partition(":")
    packed = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return _address((socket.inet_ntop(family, packed), int(port, 16)))


def _of(pid: int, states: frozenset[str] = ESTABLISHED) -> set[Connection]:
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return set()
    return {
        Connection(_address(each.laddr), _address(each.raddr))
        for each in found
        if _NAMES.get(each.status) in states and each.raddr
    }


def _address(address: tuple[str, int]) -> tuple[str, int]:
    """IPv4 as the JVM's dual-stack sockets show it (::ffff:127.0.0.1) and as others do, spelled the same."""
    return address[0].removeprefix("::ffff:"), address[1]
