"""A network of its own for each process of a lab: a namespace, joined to the lab's by a pair of virtual interfaces.

Only a lab whose experiment cuts brokers off from each other has them (`dedup_lab.isolation` says where they can be).
The lab is the router between its hosts: what one says to another passes the lab's own network, where a fault can drop
it, and so does what they say to clients. Every host sees the lab at the same address; neither reaches anything outside.

A namespace has no name. It lives while a process is in it, or while this process holds it open; so a broker that was
killed comes back to the same address, and when the lab's process ends, however it ends, nothing is left.
"""

import ctypes
import os
import shutil
import threading
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

CLONE_NEWNET: Final = 0x40000000
"""unshare(2): a new network namespace."""
HOSTS: Final = IPv4Network("10.0.0.0/16")
"""The network that the lab's hosts have among themselves."""
LAB: Final = HOSTS[1]
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
INSIDE: Final = "eth0"
"""What a host calls its only link."""
_numbers = count(2)  # a namespace takes a while to go: no number is used twice


class Host(NamedTuple):
    """The network of one process."""

    address: str
    namespace: int | None
    """An open file: while it is, the namespace stays. None: it is this machine's own network."""

    @property
    def enter(self) -> list[str]:
        """What begins the command line of a program that is to run there; it leaves no process of its own."""
        if self.namespace is None:
            return []
        return [str(shutil.which("nsenter")), f"--net=/proc/{os.getpid()}/fd/{self.namespace}"]


class Network:
    """The hosts of one lab, by the names of its processes."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def host(self, name: str) -> Host:
        """The host of that name, made if there is none. OSError if the kernel refuses."""
        if name not in self._hosts:
            self._hosts[name] = _made(HOSTS[next(_numbers)])
        return self._hosts[name]

    def found(self, name: str) -> Host | None:
        return self._hosts.get(name)

    def close(self) -> None:
        """Let the namespaces go; each ends with the last process in it."""
        for host in self._hosts.values():
            if host.namespace is not None:
                os.close(host.namespace)
        self._hosts.clear()


def be_a_router() -> None:
    """Bring our own loopback up and pass packets on between hosts: once, in a namespace that is ours alone."""
    from pyroute2 import IPRoute  # it is for Linux alone

    FORWARDING.write_text("1")
    with IPRoute() as ours:
        _up(ours, "lo")


def _made(address: IPv4Address) -> Host:
    from pyroute2 import IPRoute

    namespace = _elsewhere(_opened)
    name = f"host{int(address) - int(HOSTS.network_address)}"
    with IPRoute() as ours:
        ours.link("add", ifname=name, kind="veth", peer={"ifname": INSIDE, "net_ns_fd": namespace})
        _addressed(ours, name, LAB, address)

    def inside() -> None:
        _enter(namespace)
        with IPRoute() as theirs:
            _up(theirs, "lo")
            _addressed(theirs, INSIDE, address, LAB)
            theirs.route("add", dst="default", gateway=str(LAB))

    _elsewhere(inside)
    return Host(str(address), namespace)


def _addressed(at: Any, name: str, ours: IPv4Address, theirs: IPv4Address) -> None:
    """The two ends of a link know each other, and nobody else by it."""
    at.addr("add", index=at.link_lookup(ifname=name)[0], local=str(ours), address=str(theirs), prefixlen=32)
    _up(at, name)


def _up(at: Any, name: str) -> None:
    at.link("set", index=at.link_lookup(ifname=name)[0], state="up")


def _opened() -> int:
    _called("unshare", CLONE_NEWNET)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _enter(namespace: int) -> None:
    _called("setns", namespace, CLONE_NEWNET)


def _called(function: str, *arguments: int) -> None:
    # Python has neither before 3.12.
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, function)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function}: {os.strerror(code)}")


def _elsewhere(work: Callable[[], Any]) -> Any:
    """Do it in a thread of its own, which alone changes its network, and ends."""
    done: dict[str, Any] = {}

    def run() -> None:
        try:
            done["result"] = work()
        except BaseException as error:
            done["error"] = error

    thread = threading.Thread(target=run, name="network")
    thread.start()
    thread.join()
    if "error" in done:
        raise done["error"]
    return done["result"]
