"""A program for tests, to be run in a network of our own: three hosts that listen, one of them cut off as asked.

`a_cut_network BETWEEN DIRECTION SECONDS`. All connections come about before the cut and after it, or the program fails.
It prints, as JSON, which do while the cut is in force: each is FROM>TO, where `lab` is the lab itself, which the
clients are in. What cuts is a process of its own, which is killed at once: nothing but the kernel heals.
"""

import json
import multiprocessing
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import permutations
from typing import Any

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.partition import Between, Way
from dedup_lab.systems import networks
from dedup_lab.systems.networks import Host, Network
from dedup_runners.chaos.kernel_cuts import KernelCut
from dedup_runners.waiting import until

NAMES = ("a", "b", "c")
CLIENTS, OTHERS = 9_001, 9_002
"""The port for clients, and the one for everybody else."""
CONNECT_S = 2.0
"""On a busy machine. All connections are tried at once, so that no cut ends meanwhile."""
DATAGRAM_S = 0.3
HEALED_S = 20.0
ALL = sorted(
    [f"lab>{name} {whose}" for name in NAMES for whose in ("clients", "direct")]
    + [f"{one}>{other}" for one, other in permutations(NAMES, 2)]
)
"""What comes about where nothing is cut."""


def inside(host: Host, work: Callable[[], Any]) -> Any:
    def there() -> Any:
        assert host.namespace is not None
        networks._enter(host.namespace)
        return work()

    return networks._elsewhere(there)


def reaches(address: tuple[str, int]) -> bool:
    """Whether a connection comes about and a byte comes back."""
    try:
        with socket.create_connection(address, CONNECT_S) as connection:
            connection.settimeout(CONNECT_S)
            return connection.recv(1) == b"!"
    except OSError:
        return False


def serve(host: Host, port: int, leaving: ExitStack) -> None:
    """Greet everybody who connects, with one byte, until the program ends."""
    listener = inside(host, lambda: socket.create_server((host.address, port)))
    leaving.callback(listener.close)

    def greet() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.sendall(b"!")
            connection.close()

    threading.Thread(target=greet, daemon=True).start()


def seen(hosts: dict[str, Host]) -> list[str]:
    def comes_about(name: str) -> bool:
        one, other = name.removesuffix(" clients").removesuffix(" direct").split(">")
        address = hosts[other].address, CLIENTS if name.endswith("clients") else OTHERS
        return reaches(address) if one == "lab" else bool(inside(hosts[one], lambda: reaches(address)))

    with ThreadPoolExecutor(len(ALL)) as pool:
        return [name for name, there in zip(ALL, pool.map(comes_about, ALL), strict=True) if there]


def sockets(hosts: dict[str, Host], leaving: ExitStack) -> dict[str, socket.socket]:
    """A socket for datagrams at everybody's port for clients, and one of the lab's."""

    def bound(address: str) -> socket.socket:
        made = leaving.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.bind((address, CLIENTS))
        made.settimeout(DATAGRAM_S)
        return made

    theirs = {name: inside(host, lambda: bound(host.address)) for name, host in hosts.items()}  # noqa: B023
    return {"lab": bound(str(networks.LAB)), **theirs}


def arriving(ends: dict[str, socket.socket]) -> list[str]:
    """Which datagrams arrive, FROM>TO: what is cut one way passes the other."""

    def arrives(sender: socket.socket, receiver: socket.socket) -> bool:
        try:
            sender.sendto(b"?", receiver.getsockname())
            return receiver.recv(1) == b"?"
        except OSError:
            return False

    pairs = [(one, other) for one in ends for other in ends if one != other]
    return sorted(f"{one}>{other}" for one, other in pairs if arrives(ends[one], ends[other]))


def cut(endpoints: Endpoints, between: str, way: str, duration_s: float, told: Any) -> None:
    made = KernelCut(endpoints, "cut", Between(between), Way(way))
    made.prepare()
    told.send((made._name, made.begin("a", duration_s)))
    signal.pause()


def main() -> None:
    between, way, duration_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
    network = Network()
    with ExitStack() as leaving:
        hosts = {name: network.host(name) for name in NAMES}
        for host in hosts.values():
            serve(host, CLIENTS, leaving)
            serve(host, OTHERS, leaving)
        brokers = [Broker(id=name, client_port=CLIENTS, own_address=hosts[name].address) for name in NAMES]
        endpoints = Endpoints(system="kafka", client_bootstrap="", direct_bootstrap="", brokers=brokers)
        ends = sockets(hosts, leaving)
        until(lambda: seen(hosts) == ALL, HEALED_S, "all connections come about")
        said: dict[str, Any] = {"datagrams before": arriving(ends)}
        ours, theirs = multiprocessing.Pipe()
        injector = multiprocessing.get_context("spawn").Process(
            target=cut, args=(endpoints, between, way, duration_s, theirs)
        )
        injector.start()
        name, _ = ours.recv()
        began = time.monotonic()
        injector.kill()
        injector.join()
        watching = KernelCut(endpoints, "cut", Between(between), Way(way))
        watching._name = name
        said["while"], said["datagrams while"] = seen(hosts), arriving(ends)
        said["effect"] = watching.effect("a")
        until(lambda: seen(hosts) == ALL, HEALED_S, "all connections come about again")
        said["healed_s"] = time.monotonic() - began
        said["effect after"] = watching.effect("a")
        said["ended"] = watching.end("a")
        print(json.dumps(said))
    network.close()


if __name__ == "__main__":
    main()
