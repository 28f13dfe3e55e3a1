"""A lab: the folder and the processes of one running system; neither outlives its owner for long.

Keepers end with their owner. The folder names the owner (process id *and* creation time, since ids are reused), who
holds a lock on that file for as long as it lives. So the next start can remove what a killed owner has left: its data
and, if a keeper was killed too, its processes. Nothing is ever killed by name.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, TextIO

import psutil

from dedup_lab.caches import remove_stale, root
from dedup_lab.systems import disks
from dedup_lab.systems.keepers import Kept, Program
from dedup_lab.systems.networks import Host, Network
from dedup_lab.systems.ports import LOOPBACK
from dedup_runners.chaos.keepers import read
from dedup_runners.closing import Closing

OWNER: Final = "owner.json"
SAME_TIME_S = 2.0
"""Creation times of one process, read by two programs, differ by less than this, unless the clock was set meanwhile."""


SHARED = Host(LOOPBACK, None)
"""The place of every process of a lab whose processes have no networks of their own."""


class Lab(Closing):
    """The processes and the data of one system. Logs go to the caller's folder; data are thrown away at the end."""

    def __init__(
        self,
        folder: Path,
        logs: Path,
        *,
        apart: bool = False,
        disk_bytes: int | None = None,
        owner: TextIO | None = None,
    ) -> None:
        """`apart`: each process that asks for a `place` has its own network; `disk_bytes`: and a disk of that size.

        `owner`: the file that names us, locked, which is closed at the end.
        """
        self._owner = owner
        self.folder = folder
        self.logs = logs
        self.kept: dict[str, Kept] = {}
        self._network = Network() if apart else None
        self._disk_bytes, self._disks = disk_bytes, dict[str, Path]()
        self._keepers = folder / "keepers"
        self._keepers.mkdir(exist_ok=True)

    def data(self, name: str) -> Path:
        """A folder for the data of one process; made if need be."""
        path = self.folder / "data" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def disk(self, name: str) -> Path | None:
        """The disk of one process's own, over its folder for data, made if need be; None: this lab has none."""
        if self._disk_bytes is not None and name not in self._disks:
            disks.mount(self.data(name), self._disk_bytes)
            self._disks[name] = self.data(name)
        return self._disks.get(name)

    def log(self, name: str) -> Path:
        """Where the output of one process goes."""
        return self.logs / f"{name}.log"

    def place(self, name: str) -> Host:
        """Where the process of that name will run: its address, at which the other processes find it."""
        return SHARED if self._network is None else self._network.host(name)

    def own_address(self, name: str) -> str | None:
        """The address of the process's own network, if it has one."""
        return None if self._network is None else self.place(name).address

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Kept:
        """Start a program under a keeper. `name` is unique in this lab and names its files."""
        if name in self.kept:
            raise ValueError(f"{name} runs already")
        host = (self._network and self._network.found(name)) or SHARED
        kept = Kept(
            Program(name, [*host.enter, *argv], self.log(name), self.data(name), environment or {}), self._keepers
        )
        self.kept[name] = kept
        kept.wait_started()
        return kept

    def forget(self, kept: Kept) -> None:
        """Remove a program that ended as intended: `check` no longer looks at it."""
        kept.close()
        kept.wait_closed()
        del self.kept[kept.program.name]

    def check(self) -> None:
        """PlatformError about the first process that is gone and will not come back."""
        for kept in self.kept.values():
            kept.check()

    def stop(self) -> None:
        """Kill every process and delete the data; the lab can be used again (with other ports, say)."""
        self._end()
        with ExitStack() as rest:
            rest.callback(self._keepers.mkdir, exist_ok=True)
            for part in ("data", "keepers"):
                rest.callback(shutil.rmtree, self.folder / part, ignore_errors=True)
            self._unmount()

    def close(self) -> None:
        """End the lab: nothing of it is left but its logs. Safe to call twice."""
        self._end()
        with ExitStack() as rest:
            if self._owner is not None:
                rest.callback(self._owner.close)
            rest.callback(shutil.rmtree, self.folder, ignore_errors=True)
            if self._network is not None:
                rest.callback(self._network.close)
            self._unmount()

    def _end(self) -> None:
        """End every keeper, which kills its program; and what a keeper that was killed itself has left."""
        for kept in self.kept.values():
            kept.close()
        for kept in self.kept.values():
            kept.wait_closed()
            _kill(kept.status_file)
        self.kept.clear()

    def _unmount(self) -> None:
        """Take every disk away, whichever of them the kernel keeps; OSError at the end if there was one."""
        with ExitStack() as rest:
            while self._disks:
                rest.callback(disks.unmount, self._disks.popitem()[1])


def create(logs: Path, *, apart: bool = False, disk_bytes: int | None = None) -> Lab:
    """A new, empty lab of this process; removes labs of dead owners first. `close` it at the end.

    `apart` and `disk_bytes`: as of a `Lab`.
    """
    sweep()
    labs = root() / "labs"
    labs.mkdir(parents=True, exist_ok=True)
    unborn = Path(tempfile.mkdtemp(prefix=".new-", dir=labs))
    me = psutil.Process()
    owner = (unborn / OWNER).open("w", encoding="utf-8")
    with suppress(OSError):  # a file system without locks: its name and time tell who the owner is
        fcntl.flock(owner, fcntl.LOCK_EX)
    owner.write(json.dumps({"pid": me.pid, "create_time": me.create_time()}))
    owner.flush()
    # The rename shows the lab with its owner's name in it, so that a sweep that runs now does not remove it.
    folder = labs / unborn.name.removeprefix(".new-")
    os.rename(unborn, folder)
    return Lab(folder, logs, apart=apart, disk_bytes=disk_bytes, owner=owner)


def sweep() -> int:
    """Kill what is left of labs whose owner is gone and delete their folders. Returns how many there were."""
    labs = root() / "labs"
    swept = 0
    remove_stale(labs, ".new-*")
    for folder in [*labs.glob("*")] if labs.exists() else []:
        if folder.name.startswith(".new-") or _owned(folder):
            continue
        swept += 1
        for path in (folder / "keepers").glob("*.status.json"):
            _kill(path)
        shutil.rmtree(folder, ignore_errors=True)
    return swept


def _owned(folder: Path) -> bool:
    """Whether its owner lives: it holds its lock, or is the process that the file names.

    The lock tells it even if the clock was set since, which moves the times at which all processes began.
    """
    try:
        with (folder / OWNER).open(encoding="utf-8") as file:
            if _locked(file):
                return True
            owner = json.load(file)
        return _process(owner["pid"], owner["create_time"]) is not None
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        return False


def _locked(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _kill(status_file: Path) -> None:
    try:
        status = read(status_file)
    except (FileNotFoundError, ValueError):
        return
    # The keeper first, so that it does not start again what is killed next.
    identities = ((status.keeper_pid, status.keeper_create_time), (status.pid, status.create_time))
    for process in [_process(*identity) for identity in identities]:
        if process is None:
            continue
        try:
            process.kill()
            process.wait(10)
        except (psutil.NoSuchProcess, psutil.TimeoutExpired):
            pass


def _process(pid: int | None, create_time: float | None) -> psutil.Process | None:
    if pid is None or create_time is None:
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - create_time) < SAME_TIME_S and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if same else None
