"""Whether this machine has the memory that the brokers' own disks take: a tmpfs is memory (systems/disks.py).

While a disk is full all of it is memory, and the other brokers hold what was sent. Who lets that grow beyond what is
there has the kernel kill a broker, or anybody. What is there is the kernel's word for the machine and for each control
group around this process; what a group could drop of its files counts as free.
"""

from pathlib import Path
from typing import Final

import psutil

from dedup.errors import EnvironmentError_
from dedup.experiment.spec import Experiment
from dedup_lab.systems import disks

MEMBERSHIP: Final = Path("/proc/self/cgroup")
GROUPS: Final = Path("/sys/fs/cgroup")
_V1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2: Final = ("memory.max", "memory.current", "inactive_file")
REMEDY: Final = "send fewer or smaller messages, or free memory"


def needed(experiment: Experiment) -> int:
    """The bytes of memory that the disks take at most: one is full, and the others hold what was sent. 0: no disks."""
    if not experiment.spec.own_disks:
        return 0
    size = disks.size_bytes(experiment)
    brokers = max((system.kafka.brokers for system in experiment.spec.systems if system.kafka is not None), default=1)
    return size + (brokers - 1) * (size - disks.BASE_BYTES)


def available() -> int:
    """The bytes of memory that can still be had, by the machine and by the control groups of this process."""
    return min([int(psutil.virtual_memory().available), *_groups()])


def lack(experiment: Experiment) -> str | None:
    """What is missing, and what to do; None if the memory is there."""
    try:
        check(experiment)
    except EnvironmentError_ as error:
        return f"{error.got}, and {error.rule}; {error.todo}"
    return None


def check(experiment: Experiment) -> None:
    """EnvironmentError_ if the disks may take more memory than there is."""
    wanted = needed(experiment)
    if wanted and wanted > (there := available()):
        raise EnvironmentError_(
            where="a disk of its own for each broker",
            got=f"{_mib(there)} of memory available",
            rule=f"a fillDisk on this machine takes memory, for this workload up to {_mib(wanted)}",
            todo=REMEDY,
        )


def _groups() -> list[int]:
    """What each control group around this process has left, where it has a limit."""
    left = []
    for line in _text(MEMBERSHIP).splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            root, names = GROUPS / "memory", _V1
        elif not controllers:
            root, names = GROUPS, _V2
        else:
            continue
        inner = Path(path.lstrip("/"))
        left += [free for each in (inner, *inner.parents) if (free := _left(root / each, names)) is not None]
    return left


def _left(group: Path, names: tuple[str, str, str]) -> int | None:
    limit, used = (_text(group / name).strip() for name in names[:2])
    if not limit.isdecimal() or not used.isdecimal():
        return None  # no such group, or no limit ("max")
    stat = dict(line.split(" ", 1) for line in _text(group / "memory.stat").splitlines() if " " in line)
    return max(0, int(limit) - int(used) + int(stat.get(names[2], "0")))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _mib(size: int) -> str:
    return f"{size // disks.MIB:,} MiB"
