"""A control plane to work with by hand: `python -m tests.kubernetes.cluster up | down [NAME]`.

`up` builds what is missing, starts a process in the background that owns the control plane (`serve`), and returns when
the API server answers. What there is to know about a control plane NAME lies in one folder of the cache: its owner, its
kubeconfig file and its logs. `down` asks the owner to stop, waits until it is gone and takes the folder away.
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
from pathlib import Path
from typing import Final, NoReturn

import psutil
from tests.kubernetes.cluster import binaries, control_plane
from tests.kubernetes.cluster.binaries import ETCD, KUBE_APISERVER, KUBECTL

from dedup.errors import DedupError, PlatformError
from dedup_lab import labs
from dedup_lab.caches import root
from dedup_lab.keepers import last_words
from dedup_runners.waiting import until

PACKAGE: Final = "tests.kubernetes.cluster"
CHECKOUT: Final = Path(__file__).parents[3]
UP_TIMEOUT_S: Final = 120.0
DOWN_TIMEOUT_S: Final = 60.0
CHECK_S: Final = 1.0


class Place:
    """The folder of one control plane by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = root() / "kubernetes" / "running" / name
        self.kubeconfig = self.folder / "kubeconfig"
        self.log = self.folder / "owner.log"
        self._owner = self.folder / "owner.json"

    def own(self) -> None:
        """Say that this process is the owner."""
        me = psutil.Process()
        self._owner.write_text(json.dumps({"pid": me.pid, "create_time": me.create_time()}), encoding="utf-8")

    def owner(self) -> psutil.Process | None:
        """The process that owns the control plane; None when there is none, or it is dead."""
        try:
            said = json.loads(self._owner.read_text(encoding="utf-8"))
            process = psutil.Process(said["pid"])
            same = abs(process.create_time() - said["create_time"]) < labs.SAME_TIME_S
        except (FileNotFoundError, psutil.NoSuchProcess):
            return None
        return process if same else None


def up(place: Place) -> None:
    """Start the control plane unless it runs; print how to use it and how to stop it."""
    if place.owner() is None:
        down(place)  # what an owner that was killed has left
        control_plane.check_machine()
        for program in (ETCD, KUBE_APISERVER, KUBECTL):
            binaries.find(program, report)
        begun = time.monotonic()
        _start_owner(place)
        print(f"Kubernetes {KUBE_APISERVER.version} answers after {time.monotonic() - begun:.1f} s")
    until(place.kubeconfig.exists, UP_TIMEOUT_S, f"the control plane {place.name} is up")
    print(f"kubeconfig: {place.kubeconfig}")
    print(f"look:       {KUBECTL.path} --kubeconfig {place.kubeconfig} get namespaces")
    print(f"stop:       make control-plane-down PLANE={place.name}")


def _start_owner(place: Place) -> None:
    place.folder.mkdir(parents=True)
    with place.log.open("wb") as log:
        owner = subprocess.Popen(
            [sys.executable, "-m", PACKAGE, "serve", place.name],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # neither Ctrl-C nor the end of this terminal reaches it
        )

    def up_or_dead() -> bool:
        return place.kubeconfig.exists() or owner.poll() is not None

    until(up_or_dead, UP_TIMEOUT_S, f"the control plane {place.name} is up")
    if owner.poll() is not None:
        raise PlatformError(
            where=f"control plane {place.name}",
            got=f"exit code {owner.returncode}; it last said: {last_words(place.log) or '(nothing)'}",
            rule="it runs until it is stopped",
            todo=f"read the logs in {place.folder}",
        )


def serve(place: Place) -> NoReturn:
    """Own a control plane until SIGTERM comes or one of its processes dies."""
    signal.signal(signal.SIGTERM, _leave)
    place.own()
    with control_plane.running(place.folder) as ours:
        while True:
            ours.lab.check()
            threading.Event().wait(CHECK_S)


def _leave(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what is being taken down must come down whole
    sys.exit(0)


def down(place: Place) -> None:
    """Stop the control plane if it runs; nothing of it is left."""
    if (owner := place.owner()) is not None:
        owner.terminate()
        owner.wait(DOWN_TIMEOUT_S)
    labs.sweep()
    shutil.rmtree(place.folder, ignore_errors=True)


def report(what: str, done: int, total: int) -> None:
    """Tell the terminal what takes long."""
    if done < total:
        print(f"{what} (minutes, once on a machine)", flush=True)


def place(name: str) -> Place:
    """The place of a name that is fit to be a folder's."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise argparse.ArgumentTypeError(f"got {name!r}; a name is 1 to 31 of a-z, 0-9 and -, as in control-plane-2")
    return Place(name)


def main() -> int:
    """Do what the command line says; the exit code is 0, or 4 with one line on stderr."""
    commands = {"up": up, "down": down, "serve": serve}
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", description="a control plane by hand")
    parser.add_argument("command", choices=[*commands])
    parser.add_argument("place", nargs="?", type=place, default="control-plane", metavar="NAME")
    asked = parser.parse_args()
    try:
        commands[asked.command](asked.place)
    except DedupError as error:
        print(error, file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
