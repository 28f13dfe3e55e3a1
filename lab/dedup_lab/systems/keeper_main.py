"""A keeper: the small process that stands over one broker, as a kubelet stands over a container.

It is started with one argument, a JSON file that says what to run, and with a pipe from the lab's owner as its standard
input. Its duties, in order of importance:

1. **Nothing is left.** When the pipe ends (the owner closed it, or died in any way, `kill -9` included), it kills the
   broker's process group and leaves. The same when the owner is no longer its parent.
2. **Exits are evidence.** Each is written to the status file with the time at which it was noticed. Codes are those
   of a container: 137 is SIGKILL.
3. **Kills heal by themselves.** Only an end that was announced is healed: a fault writes the hold file `{"pid": P,
   "until_monotonic_ns": T, "codes": C, "latest_monotonic_ns": L}` *before* it signals process P, and if P ends with one
   of these codes (without any: by SIGKILL), at L at the latest (without it: whenever), the keeper starts the program
   again at T, whether or not the injector still lives. Any other exit stays, recorded, for the lab to find.

It runs with `python -I -S` and imports nothing but the standard library's smallest parts, so that it starts in 20 ms.
"""

import json
import os
import select
import signal
import sys
import time
from typing import Any

OWNER_CHECK_S = 0.5
KILLED = 128 + signal.SIGKILL
_PIPE = 0


class Keeper:
    """One program, its process, and the status file that tells about both."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.owner = os.getppid()
        self.pid: int | None = None
        self.create_time: float | None = None
        self.starts = 0
        self.exits: list[dict[str, int]] = []
        self.restart_at_ns: int | None = None
        self.error: str | None = None

    def start(self) -> None:
        """Start the program in a process group of its own, its output appended to its log."""
        spec = self.spec
        self.restart_at_ns = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, spec["log"], flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        try:
            self.pid = os.posix_spawn(
                spec["argv"][0],
                spec["argv"],
                {**os.environ, **spec["environment"]},
                file_actions=files,
                setpgroup=0,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as error:
            self.error = f"{spec['argv'][0]}: {error.strerror}"
        else:
            self.starts += 1
            self.create_time = create_time(self.pid)
        self.write()

    def reap(self) -> None:
        """Take note of the program's exit, if it exited, and of when to start it again, if somebody said so."""
        if self.pid is None:
            return
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.exited(pid, status)

    def exited(self, pid: int, status: int) -> None:
        """Record one exit and read the hold file for it."""
        code = os.waitstatus_to_exitcode(status)
        code = 128 - code if code < 0 else code
        now_ns = time.monotonic_ns()
        self.exits.append({"pid": pid, "code": code, "monotonic_ns": now_ns})
        self.pid = self.create_time = None
        self.restart_at_ns = self.held_until_ns(pid, code, now_ns)
        self.write()

    def held_until_ns(self, pid: int, code: int, now_ns: int) -> int | None:
        """Until when the announced end of `pid` with that code keeps it down; None when nobody announced it for now."""
        try:
            with open(self.spec["hold"], encoding="utf-8") as file:
                hold = json.load(file)
            announced = hold["pid"] == pid and code in hold.get("codes", (KILLED,))
            in_time = now_ns <= hold.get("latest_monotonic_ns", now_ns)
            return int(hold["until_monotonic_ns"]) if announced and in_time else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self) -> None:
        """Replace the status file."""
        status = {
            "name": self.spec["name"],
            "keeper_pid": os.getpid(),
            "keeper_create_time": create_time(os.getpid()),
            "pid": self.pid,
            "create_time": self.create_time,
            "starts": self.starts,
            "exits": self.exits,
            "restart_at_monotonic_ns": self.restart_at_ns,
            "error": self.error,
        }
        temporary = f"{self.spec['status']}.{os.getpid()}"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(status, file)
            os.replace(temporary, self.spec["status"])
        except OSError as error:  # the lab's folder is gone, or its disk is full: the process still has to be kept
            print(f"keeper of {self.spec['name']}: {error}", file=sys.stderr)

    def end(self) -> None:
        """Kill the program and everything it started."""
        if self.pid is None:
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        pid, status = os.waitpid(self.pid, 0)
        self.exited(pid, status)

    def wait_s(self) -> float:
        """How long nothing needs to be done unless something happens."""
        if self.restart_at_ns is None:
            return OWNER_CHECK_S
        return min(OWNER_CHECK_S, max(0.0, (self.restart_at_ns - time.monotonic_ns()) / 1e9))

    def keep(self, wake: int) -> None:
        """Watch over the program until the owner says stop, or is gone. `wake` is readable after a signal."""
        self.start()
        while True:
            readable, _, _ = select.select([_PIPE, wake], [], [], self.wait_s())
            if _PIPE in readable or os.getppid() != self.owner:
                return
            if wake in readable and not all(number == signal.SIGCHLD for number in os.read(wake, 256)):
                return
            self.reap()
            if self.restart_at_ns is not None and time.monotonic_ns() >= self.restart_at_ns:
                self.start()


def create_time(pid: int) -> float:
    """When a process was created, in seconds since the epoch, as psutil computes it (now, where /proc is not)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
    except (OSError, StopIteration):
        return time.time()
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Keep the program that the spec in argv[1] describes."""
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    os.chdir(spec["folder"])
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    keeper = Keeper(spec)
    try:
        keeper.keep(wake)
    finally:
        keeper.end()


if __name__ == "__main__":
    main()
