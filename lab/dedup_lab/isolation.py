"""A run whose brokers need networks of their own happens in a network that is its own altogether, without root.

`dedup run` starts itself again by `unshare`, as the root of a new user namespace that may do nothing outside it
(unless it is root already), in a new network namespace. There it may make more of them, one a broker
(systems/networks.py), and drop packets between them. All else is as in any other run, for what it starts is inside
with it: clients, Toxiproxy, Spark. Nothing outside can be reached from there, so what has to be fetched is fetched
before. Its hostname is `localhost` there, because the machine's own name may need a name server.

Some systems let no user make namespaces, and Ubuntu lets them do nothing there. So whether it works is tried.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_
from dedup.experiment.spec import Experiment
from dedup_lab import caches
from dedup_lab.systems import jars, toxiproxy
from dedup_lab.systems.own_network import VARIABLE, WORKS, number

ENTRY: Final = "dedup_lab.systems.own_network"
APART: Final = ("--net", "--uts")
TRY_S: Final = 120.0
FORBIDDING: Final = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
    ("/proc/sys/user/max_net_namespaces", "0", "user.max_net_namespaces=10000"),
)
"""What forbids it, by the kernel's settings, and what allows it."""


def inside() -> bool:
    """Whether this process is in a network of our own."""
    return os.environ.get(VARIABLE) == number()


def enter(experiment: Experiment, progress: caches.Progress) -> None:
    """Be in a network of our own: this program is started again there, unless it is there already.

    EnvironmentError_ if this machine does not let us.
    """
    if inside():
        return
    if (why := lack()) is not None:
        raise _forbidden(why)
    for system in experiment.spec.systems:
        jars.fetch_missing(system.kind, system.version, progress=progress)
    if any(experiment.spec.proxied(system) for system in experiment.spec.systems):
        toxiproxy.server(progress)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    command = unshared("run", sys.executable, *sys.orig_argv[1:])
    os.execv(command[0], command)


def lack() -> str | None:
    """Why this machine does not let us have networks of our own, and what to do, in words; None if it does."""
    if sys.platform != "linux":
        return f"{sys.platform} has no network namespaces; use Linux, or pods"
    if missing := [each for each in ("unshare", "nsenter") if shutil.which(each) is None]:
        return f"no {' and no '.join(missing)} on PATH; install util-linux"
    try:
        done = subprocess.run(unshared("try"), capture_output=True, text=True, timeout=TRY_S, check=False)
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


def _forbidden(why: str) -> EnvironmentError_:
    said, _, todo = why.rpartition("; ")
    return EnvironmentError_(
        where="a network of its own for each broker",
        got=said,
        rule="a partition on this machine needs user and network namespaces",
        todo=todo,
    )


def unshared(*words: str) -> list[str]:
    """The command line that does what `own_network` is told, in new namespaces."""
    return [str(shutil.which("unshare")), *namespaces(), sys.executable, "-P", "-m", ENTRY, *words]


@cache
def namespaces() -> tuple[str, ...]:
    """What `unshare` is asked for.

    Root needs no user namespace, unless its container forbids the others without one; and in one it could write no
    files of other users.
    """
    if os.geteuid() == 0 and _works(*APART):
        return APART
    return ("--user", "--map-root-user", *APART)


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
