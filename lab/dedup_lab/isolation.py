"""A run whose brokers need networks or disks of their own happens in namespaces of its own, without root.

`dedup run` starts itself again by `unshare`, as the root of a new user namespace that may do nothing outside it
(unless it is root already), in a new network namespace. There it may make more of them, one a broker
(systems/networks.py), and drop packets between them. All else is as in any other run, for what it starts is inside
with it: clients, Toxiproxy, Spark. Nothing outside can be reached from there, so what has to be fetched is fetched
before. Its hostname is `localhost` there, because the machine's own name may need a name server.

For disks it is a mount namespace in the same way, in which it may mount small ones (systems/disks.py). All else, its
network too, is the machine's.

Some systems let no user make namespaces, and Ubuntu lets them do nothing there. So whether it works is tried.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from dedup.errors import EnvironmentError_
from dedup.experiment.spec import Experiment, Spec
from dedup_lab import caches
from dedup_lab.clients import pulsar_function
from dedup_lab.systems import debezium, jars, packages, toxiproxy
from dedup_lab.systems.own_network import WORKS, Own, number

ENTRY: Final = "dedup_lab.systems.own_network"
OPTIONS: Final = MappingProxyType({Own.NETWORKS: ("--net", "--uts"), Own.DISKS: ("--mount",)})
"""What `unshare` is asked for."""
NETWORKS: Final = (Own.NETWORKS,)
TRY_S: Final = 120.0
FORBIDDING: Final = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
    ("/proc/sys/user/max_net_namespaces", "0", "user.max_net_namespaces=10000"),
    ("/proc/sys/user/max_mnt_namespaces", "0", "user.max_mnt_namespaces=10000"),
)
"""What forbids it, by the kernel's settings, and what allows it."""


def owned(spec: Spec) -> tuple[Own, ...]:
    """What the brokers of an experiment must have for themselves, on one machine."""
    wanted = {Own.NETWORKS: spec.own_networks, Own.DISKS: spec.own_disks}
    return tuple(own for own, needed in wanted.items() if needed)


def inside(owned: Sequence[Own] = NETWORKS) -> bool:
    """Whether this process is in namespaces of our own for that."""
    return all(os.environ.get(own.variable) == number(own) for own in owned)


def enter(experiment: Experiment, progress: caches.Progress) -> None:
    """Be in namespaces of our own: this program is started again there, unless it is there already.

    EnvironmentError_ if this machine does not let us.
    """
    wanted = owned(experiment.spec)
    if inside(wanted):
        return
    if (why := lack(wanted)) is not None:
        raise _forbidden(why, wanted)
    _fetch(experiment.spec, progress)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    command = unshared("run", sys.executable, *sys.orig_argv[1:], owned=wanted)
    os.execv(command[0], command)


def _fetch(spec: Spec, progress: caches.Progress) -> None:
    """Have all in the cache that brokers, and what stands beside them, are started from; clients were built before."""
    for system in spec.systems:
        jars.fetch_missing(system.kind, system.version, progress=progress)
    if any(spec.proxied(system) for system in spec.systems):
        toxiproxy.server(progress)
    if spec.served:
        packages.folder()
    if any(pattern.has_outbox for pattern in spec.served):
        jars.fetch_missing("debezium", debezium.VERSION, progress=progress)
    if spec.workload.works(spec.variants):
        pulsar_function.package(progress)


def lack(owned: Sequence[Own] = NETWORKS) -> str | None:
    """Why this machine does not let us have namespaces of our own for that, and what to do; None if it does."""
    if sys.platform != "linux":
        return f"{sys.platform} has no namespaces; use Linux, or pods"
    if missing := [each for each in ("unshare", "nsenter") if shutil.which(each) is None]:
        return f"no {' and no '.join(missing)} on PATH; install util-linux"
    try:
        done = subprocess.run(unshared("try", owned=owned), capture_output=True, text=True, timeout=TRY_S, check=False)
        said = (done.stdout.strip() or done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    except subprocess.TimeoutExpired:
        said = f"no answer in {TRY_S:g} s"
    if said == WORKS:
        return None
    for path, forbids, todo in FORBIDDING:
        if _read(path) == forbids:
            setting = todo.rpartition("=")[0]
            return f"{setting} is {forbids}; sudo sysctl -w {todo}, or run it in a virtual machine"
    return f"{said[:200]}; a container's runtime may forbid it: run on the host, or in pods"


_WHAT: Final = MappingProxyType({Own.NETWORKS: ("network", "a partition"), Own.DISKS: ("disk", "a fillDisk")})


def _forbidden(why: str, owned: Sequence[Own]) -> EnvironmentError_:
    said, _, todo = why.rpartition("; ")
    return EnvironmentError_(
        where=" and ".join(f"a {_WHAT[own][0]} of its own" for own in owned) + " for each broker",
        got=said,
        rule=" and ".join(_WHAT[own][1] for own in owned)
        + f" on this machine need{'s' if len(owned) == 1 else ''} namespaces",
        todo=todo,
    )


def unshared(what: str, *words: str, owned: Sequence[Own] = NETWORKS) -> list[str]:
    """The command line that does what `own_network` is told, in new namespaces."""
    begin = [str(shutil.which("unshare")), *namespaces(tuple(owned)), sys.executable, "-P", "-m", ENTRY]
    return [*begin, what, ",".join(owned), *words]


@cache
def namespaces(owned: tuple[Own, ...] = NETWORKS) -> tuple[str, ...]:
    """What `unshare` is asked for.

    Root needs no user namespace, unless its container forbids the others without one; and in one it could write no
    files of other users.
    """
    apart = tuple(option for own in owned for option in OPTIONS[own])
    if os.geteuid() == 0 and _works(*apart):
        return apart
    return ("--user", "--map-root-user", *apart)


def _works(*asked: str) -> bool:
    try:
        done = subprocess.run(["unshare", *asked, "true"], capture_output=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return None
