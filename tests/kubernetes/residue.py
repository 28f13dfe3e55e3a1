"""What a cluster could leave behind on the machine, found out while it runs and looked for afterwards.

Its processes, its tree in each hierarchy of cgroups and its cable are known one by one, so that clusters of others,
which come and go meanwhile, do not matter. Mounts, packet filters, the kernel's settings, and the files where the parts
of a cluster like to leave some must be what they were.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
from testbed.cluster import nodes
from testbed.cluster.namespaces import KERNEL
from testbed.cluster.slots import SLOTS, Slot
from tests.kubernetes.by_hand import gone

RULES: Final = (["nft", "list", "ruleset"], ["iptables-save"], ["ip6tables-save"])
PLACES: Final = (
    *nodes.CONSTANTS,
    Path("/opt", "containerd"),
    Path("/usr/libexec/kubernetes"),
    Path("/var/lib/containers/cache"),
)
"""Folders in which programs of a cluster write unless they are kept from it."""


@dataclass(frozen=True)
class Machine:
    """What of this machine every cluster could change."""

    mounts: list[str]
    rules: list[str]
    settings: list[str]
    network_namespaces: list[str]
    files: list[str]

    @classmethod
    def now(cls) -> "Machine":
        """As it is at this moment."""
        return cls(
            sorted(Path("/proc/self/mounts").read_text().splitlines()),
            [_rules(command) for command in RULES if shutil.which(command[0])],
            [Path("/proc/sys", name).read_text() for name in KERNEL],
            sorted(path.name for path in Path("/run/netns").glob("*")),
            sorted(str(Path(folder, name)) for folder, name in _files()),
        )


@dataclass
class Trace:
    """All of one cluster that is on the machine, remembered while it runs; `family` are its first processes."""

    kubeconfig: Path
    family: list[psutil.Process]
    slot: Slot = field(init=False)
    pids: set[int] = field(init=False)

    def __post_init__(self) -> None:
        said = self.kubeconfig.read_text()
        self.slot = next(slot for slot in map(Slot, range(SLOTS)) if f"//{slot.node}:" in said)
        self.pids = {each.pid for elder in self.family for each in (elder, *elder.children(recursive=True))}

    def left(self) -> list[str]:
        """What is there, in words; nothing once the cluster is down."""
        processes = [f"process {pid}" for pid in sorted(self.pids) if not gone(pid)]
        cgroups = [f"cgroup {top}" for top in self.slot.cgroups() if top.exists()]
        cable = [f"interface {self.slot.name}"] if Path("/sys/class/net", self.slot.name).exists() else []
        lock = f"@dedup-cluster-{self.slot.number}"
        locks = [f"socket {lock}"] if lock in Path("/proc/net/unix").read_text().split() else []
        return [*processes, *cgroups, *cable, *locks]


def _files() -> Iterator[tuple[str, str]]:
    for place in PLACES:
        for folder, folders, files in os.walk(place):
            yield from ((folder, name) for name in (*folders, *files))


def _rules(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("#"))  # a comment tells the time
