"""What a cluster takes of the machine outside of its namespaces, under a number of its own.

Three things cannot be in a namespace, or should outlast it:

- a cable: a pair of interfaces, one end inside, the other on the machine, by which tests reach the API server. It is a
  network of two addresses out of 198.18.0.0/15, which is set aside for tests of this kind;
- cgroups, by which a kubelet accounts for its pods, and pods leave a share of the processor to the cluster's own
  programs: a tree of their own in each hierarchy;
- the images, unpacked, in the cache: they are there again when the next cluster takes the same number.

The process that holds the socket with a number's name holds the number. The kernel frees it when the process dies; the
next holder removes what is left of the three things.
"""

import os
import shlex
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_, PlatformError
from dedup_lab.caches import root
from dedup_runners.waiting import until
from testbed.cluster.namespaces import Namespaces, run

SLOTS: Final = 16
CABLES: Final = IPv4Network("198.18.0.0/15")
CLEAR_TIMEOUT_S: Final = 120.0
SHARES: Final = {"cpu.shares": 8 * 1024, "cpu.weight": 8 * 100}
"""Of the processor, in cgroups v1 and v2: a cluster has eight times the share of one process outside.

With sixteen, two clusters leave the brokers of a lab beside them so little that they need minutes to start.
"""
CONTROL: Final = "control"
CONTROL_SHARES: Final = {"cpu.shares": 1024 * (os.cpu_count() or 1), "cpu.weight": 40 * (os.cpu_count() or 1)}
"""What its own programs have of that: as much as all pods, to which a kubelet gives this for each processor.

Without it the API server does not answer for ten seconds when pods take all that there is.
"""


@dataclass(frozen=True)
class Slot:
    """One number, and what goes by it."""

    number: int

    @property
    def name(self) -> str:
        """The name of the cable's end on the machine, and of the tree in each hierarchy of cgroups."""
        return f"dedup{self.number}"

    @property
    def machine(self) -> IPv4Address:
        """The machine's address on the cable."""
        return CABLES[4 * self.number + 1]

    @property
    def node(self) -> IPv4Address:
        """The cluster's address on the cable: its node's, and its API server's."""
        return CABLES[4 * self.number + 2]

    @property
    def images(self) -> Path:
        """Where containerd keeps images from one cluster to the next."""
        return root() / "kubernetes" / "containerd" / str(self.number)

    def connect(self, inside: Namespaces) -> None:
        """Lay the cable. It goes with the namespaces."""
        ends = (("machine", self.name, self.machine), ("node", "eth0", self.node))
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(inside.pid))
        for side, interface, address in ends:
            here = run if side == "machine" else inside.run
            here("ip", "address", "add", f"{address}/30", "dev", interface)
            here("ip", "link", "set", interface, "up")

    def account(self) -> None:
        """Make the tops of its trees of cgroups: a kubelet makes the rest, below."""
        for top in self.cgroups():
            top.mkdir()
            if _shared(top, SHARES):
                if (children := top / "cgroup.subtree_control").exists():
                    children.write_text("+cpu")
                (top / CONTROL).mkdir()
                _shared(top / CONTROL, CONTROL_SHARES)

    @property
    def joining(self) -> list[str]:
        """What goes before a command of the cluster's own: it takes part in what those have of the processor."""
        controls = [top / CONTROL for top in self.cgroups()]
        joined = "".join(f"echo $$ >{shlex.quote(str(each))}/cgroup.procs && " for each in controls if each.exists())
        return ["/bin/sh", "-c", f'{joined}exec "$@"', "sh"]

    def cgroups(self) -> list[Path]:
        """The tops of its trees, one in each hierarchy; whether or not they exist."""
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        return [Path(mount[1], self.name) for mount in mounts if mount[2] in ("cgroup", "cgroup2")]

    def clear(self) -> None:
        """End the processes that are in its cgroups still, then remove the cgroups and the cable."""
        until(self._cgroups_removed, CLEAR_TIMEOUT_S, f"nothing is left in the cgroups {self.name}")
        cable = Path("/sys/class/net", self.name)
        if cable.exists():
            try:
                run("ip", "link", "delete", self.name)
            except PlatformError:  # it goes with its namespaces, too, whenever the kernel gets to them
                until(lambda: not cable.exists(), CLEAR_TIMEOUT_S, f"the cable {self.name} is gone")

    def _cgroups_removed(self) -> bool:
        for top in self.cgroups():
            for folder, _, _ in os.walk(top, topdown=False):
                _empty(Path(folder))
        return not any(top.exists() for top in self.cgroups())


def _shared(cgroup: Path, shares: Mapping[str, int]) -> bool:
    """Give it a share of the processor; whether its hierarchy is about processors."""
    there = [(cgroup / name, share) for name, share in shares.items() if (cgroup / name).exists()]
    for file, share in there:
        file.write_text(str(share))
    return bool(there)


def _empty(cgroup: Path) -> None:
    try:
        for pid in (cgroup / "cgroup.procs").read_text().split():
            if pid != "0":  # cgroups v2 show 0 for a process outside of our pid namespace; to `kill` 0 means ourselves
                os.kill(int(pid), signal.SIGKILL)
        cgroup.rmdir()
    except (FileNotFoundError, ProcessLookupError):
        pass  # gone by itself
    except OSError:
        pass  # busy: its processes are dying


@contextmanager
def taken() -> Iterator[Slot]:
    """The first free number, cleared before and after. EnvironmentError_ when there is none."""
    for number in range(SLOTS):
        with socket.socket(socket.AF_UNIX) as lock:
            if _locked(lock, number):
                slot = Slot(number)
                slot.clear()
                try:
                    yield slot
                finally:
                    slot.clear()
                return
    raise EnvironmentError_(
        where="cluster",
        got=f"{SLOTS} clusters side by side",
        rule="there is room for no more",
        todo="stop one: `make cluster-down CLUSTER=name`",
    )


def sweep() -> None:
    """Clear away what owners that were killed have left. That takes root, as the owners were."""
    if os.geteuid() != 0:
        return
    for number in range(SLOTS):
        with socket.socket(socket.AF_UNIX) as lock:
            if _locked(lock, number):
                Slot(number).clear()


def _locked(lock: socket.socket, number: int) -> bool:
    try:
        lock.bind(f"\0dedup-cluster-{number}")  # a name that is in no file system and lasts as long as the socket
    except OSError:
        return False
    return True
