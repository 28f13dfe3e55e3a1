"""A Kubernetes to work with by hand: `python -m testbed.cluster up | down control-plane | cluster [NAME] [--policies]`.

`up` gets what is missing, starts a process in the background that owns the control plane or the cluster (`serve`), and
returns when it can be used. What there is to know about NAME lies in one folder of the cache: its owner, its kubeconfig
file and its logs. `down` asks the owner to stop, waits until it is gone and takes the folder away.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import psutil

from dedup.errors import DedupError, PlatformError
from dedup_lab.caches import Progress, root
from dedup_lab.systems import labs
from dedup_lab.systems.keepers import last_words
from dedup_runners.waiting import until
from testbed.cluster import binaries, clusters, control_plane, enforcing, slots
from testbed.cluster.binaries import KUBECTL
from testbed.cluster.clusters import Running
from testbed.cluster.control_plane import ControlPlane
from testbed.cluster.policies import Standing

PACKAGE: Final = "testbed.cluster"
CHECKOUT: Final = Path(__file__).parents[2]
UP_TIMEOUT_S: Final = 900.0
DOWN_TIMEOUT_S: Final = 120.0
CHECK_S: Final = 1.0
VARIABLES: Final = {"control-plane": "PLANE", "cluster": "CLUSTER"}
"""The variables that give `make` a name."""


class Kind(NamedTuple):
    """What can be brought up: how, and what is got before, which may take minutes."""

    prepare: Callable[[Progress], None]
    running: Callable[[Path], AbstractContextManager[ControlPlane | Running]]


KINDS: Final = {
    "control-plane": Kind(control_plane.prepare, control_plane.running),
    "cluster": Kind(clusters.prepare, clusters.running),
}


class Place:
    """The folder of one control plane or cluster by name."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.folder = root() / "kubernetes" / "running" / f"{kind}-{name}"
        self.kubeconfig = self.folder / "kubeconfig"
        self.log = self.folder / "owner.log"
        self._owner = self.folder / "owner.json"

    def own(self) -> None:
        """Say that this process is the owner."""
        me = psutil.Process()
        self._owner.write_text(json.dumps({"pid": me.pid, "create_time": me.create_time()}), encoding="utf-8")

    def owner(self) -> psutil.Process | None:
        """The process that owns it; None when there is none, or it is dead."""
        try:
            said = json.loads(self._owner.read_text(encoding="utf-8"))
            process = psutil.Process(said["pid"])
            same = abs(process.create_time() - said["create_time"]) < labs.SAME_TIME_S
        except (FileNotFoundError, psutil.NoSuchProcess):
            return None
        return process if same else None


def up(place: Place, policies: Standing | None) -> None:
    """Start it unless it runs; print how to use it and how to stop it."""
    if place.owner() is None:
        down(place)  # what an owner that was killed has left
        KINDS[place.kind].prepare(report)
        binaries.find(KUBECTL, report)
        begun = time.monotonic()
        _start_owner(place, policies)
        print(f"{place.kind} of Kubernetes {KUBECTL.version}: ready after {time.monotonic() - begun:.1f} s")
    until(place.kubeconfig.exists, UP_TIMEOUT_S, f"the {place.kind} {place.name} is up")
    print(f"kubeconfig: {place.kubeconfig}")
    print(f"look:       {KUBECTL.path} --kubeconfig {place.kubeconfig} get namespaces")
    print(f"stop:       make {place.kind}-down {VARIABLES[place.kind]}={place.name}")


def _start_owner(place: Place, policies: Standing | None) -> None:
    place.folder.mkdir(parents=True)
    enforced = [] if policies is None else [f"--policies={policies.name}"]
    with place.log.open("wb") as log:
        owner = subprocess.Popen(
            [sys.executable, "-m", PACKAGE, "serve", place.kind, place.name, *enforced],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # neither Ctrl-C nor the end of this terminal reaches it
        )

    def up_or_dead() -> bool:
        return place.kubeconfig.exists() or owner.poll() is not None

    until(up_or_dead, UP_TIMEOUT_S, f"the {place.kind} {place.name} is up")
    if owner.poll() is not None:
        raise PlatformError(
            where=f"{place.kind} {place.name}",
            got=f"exit code {owner.returncode}; it last said: {last_words(place.log) or '(nothing)'}",
            rule="it runs until it is stopped",
            todo=f"read the logs in {place.folder}",
        )


def serve(place: Place, policies: Standing | None) -> NoReturn:
    """Own it until SIGTERM comes or one of its processes dies."""
    signal.signal(signal.SIGTERM, _leave)
    place.own()
    with KINDS[place.kind].running(place.folder) as ours, ExitStack() as more:
        if policies is not None and isinstance(ours, Running):
            more.enter_context(enforcing.enforced(ours.cluster, place.folder, policies))
        while True:
            ours.lab.check()
            threading.Event().wait(CHECK_S)


def _leave(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second SIGTERM must not interrupt the shutdown
    sys.exit(0)


def down(place: Place) -> None:
    """Stop it if it runs; nothing of it is left."""
    if (owner := place.owner()) is not None:
        owner.terminate()
        owner.wait(DOWN_TIMEOUT_S)
    labs.sweep()
    slots.sweep()
    shutil.rmtree(place.folder, ignore_errors=True)


def report(what: str, done: int, total: int) -> None:
    """Announce a long step on the terminal."""
    if done == 0 and total:
        print(f"{what} (minutes, once on a machine)", flush=True)


def name(given: str) -> str:
    """A name that is fit to be a folder's."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", given):
        raise argparse.ArgumentTypeError(f"got {given!r}; a name is 1 to 31 of a-z, 0-9 and -, as in cluster-2")
    return given


def main() -> int:
    """Do what the command line says; the exit code is 0, or 4 with one line on stderr."""
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", description="a Kubernetes by hand")
    parser.add_argument("command", choices=["up", "down", "serve"])
    parser.add_argument("kind", choices=[*KINDS])
    parser.add_argument("name", nargs="?", type=name, metavar="NAME")
    parser.add_argument("--policies", choices=[each.name for each in Standing], help="enforce NetworkPolicies")
    asked = parser.parse_args()
    if asked.policies and asked.kind != "cluster":
        parser.error(f"--policies: got {asked.kind}; only a cluster has a network; say `cluster`")
    place, policies = Place(asked.kind, asked.name or asked.kind), Standing[asked.policies] if asked.policies else None
    try:
        match asked.command:
            case "up":
                up(place, policies)
            case "down":
                down(place)
            case "serve":
                serve(place, policies)
    except DedupError as error:
        print(error, file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
