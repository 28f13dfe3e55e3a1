"""The Linux namespaces in which one whole cluster runs.

Linux lets a process have its own view of some part of the machine: its own processes, mounts, network and host name.
One set of such views holds everything that belongs to a cluster, its programs and its pods alike. So two clusters
cannot meet, whatever they do: both have an interface `eth0`, a folder `/run` and iptables rules of their own. And
nothing can be left behind: when process 1 of the set ends, the kernel kills all others and takes apart their mounts,
interfaces and rules, whichever process made them.

Process 1 (init.py) stands under a keeper of the lab. Every other program is started from outside, by entering the set
(`nsenter`), so that each has a keeper and a log of its own as in any lab.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from dedup.errors import PlatformError
from dedup_lab.systems.labs import Lab
from dedup_runners.waiting import until
from testbed.cluster import packages

START_TIMEOUT_S: Final = 120.0
END_TIMEOUT_S: Final = 120.0
COMMAND_TIMEOUT_S: Final = 60.0
INIT: Final = Path(__file__).with_name("init.py")
KINDS: Final = ("mount", "net", "pid", "uts", "ipc")
PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
KERNEL: Final = {
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
}
"""Settings of the whole machine that a kubelet changes unless it finds them so: here it finds files that say so."""


@dataclass(frozen=True)
class Namespaces:
    """A set of namespaces, known by its process 1 (its number as we see it from outside)."""

    pid: int

    def entering(self, argv: Sequence[str | Path], folder: Path = Path("/")) -> list[str]:
        """The command line that runs `argv` inside, standing in `folder`. No proxy can be reached from there.

        Programs inside look for others where we do, even if the user came by `su` and has no /usr/sbin on PATH.
        """
        kinds = [f"--{kind}" for kind in KINDS]
        cleared = [f"--unset={name}" for name in PROXIES]
        enter = [packages.find("nsenter"), f"--target={self.pid}", *kinds]
        return [*enter, "env", f"--chdir={folder}", *cleared, f"PATH={packages.PATH}", *map(str, argv)]

    def run(self, *argv: str | Path, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run a command inside to its end and return what it printed. PlatformError when it fails."""
        return run(*self.entering(argv), timeout_s=timeout_s)


@contextmanager
def created(lab: Lab, name: str, shared: Mapping[Path, Path]) -> Iterator[Namespaces]:
    """A new set, under a keeper of the lab; its host name is `name`. At the end the lab is stopped, and all in it ends.

    The file system is the machine's, but for `/run`, which is empty, and the paths in `shared`, at which other files or
    folders are seen. Its network is a loopback interface, nothing else.
    """
    process_1 = _begin(lab)
    try:
        inside = Namespaces(process_1.pid)
        inside.run("hostname", name)
        inside.run("ip", "link", "set", "lo", "up")
        # A kubelet mounts volumes in a folder of its own, and its pods, in namespaces below these, have to see them.
        inside.run("mount", "--make-rshared", "/")
        inside.run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
        for seen, path in {**shared, **_settings(lab.data("settings"))}.items():
            inside.run("mount", "--bind", path, seen)
        yield inside
    finally:
        lab.stop()
        # The kernel lets process 1 go last.
        until(lambda: _ended(process_1), END_TIMEOUT_S, "every process in the cluster's namespaces has ended")


def _begin(lab: Lab) -> psutil.Process:
    made = [f"--{kind}" for kind in KINDS]
    init = [sys.executable, "-I", "-S", str(INIT)]
    kept = lab.start("init", [packages.find("unshare"), *made, "--fork", "--kill-child", "--mount-proc", *init])

    def child() -> psutil.Process | None:
        lab.check()
        status = kept.status()
        children = psutil.Process(status.pid).children() if status and status.pid else []
        return next((each for each in children if each.cmdline() == init), None)

    process_1 = until(child, START_TIMEOUT_S, "process 1 of the cluster's namespaces runs")
    assert process_1 is not None  # what `until` returns is true
    return process_1


def _ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _settings(folder: Path) -> dict[Path, Path]:
    settings = {}
    for name, value in KERNEL.items():
        path = folder / name.replace("/", ".")
        path.write_text(f"{value}\n", encoding="ascii")
        settings[Path("/proc/sys", name)] = path
    return settings


def run(*argv: str | Path, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Run a command of the machine to its end and return what it printed. PlatformError when it fails."""
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False, timeout=timeout_s)
    if done.returncode != 0:
        raise PlatformError(
            where=" ".join(map(str, argv)),
            got=(done.stderr.strip() or f"exit code {done.returncode}")[-300:],
            rule="it succeeds on a Linux machine where the tests may do everything (root)",
            todo="read the message; `id -u` must say 0",
        )
    return done.stdout
