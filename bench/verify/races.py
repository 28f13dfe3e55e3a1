"""Races: contenders in processes of their own, one at a time and in turns, with the clock and the memory watched.

Cold is from the start of a process to its first answer: interpreter, imports, JVM and all. Warm is an answer after two
by the same process. Memory is each process' own peak (VmHWM), so that none is missed between two looks.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

PROGRAM: Final = Path(__file__).parent / "contenders.py"
LOOK_S: Final = 0.05


class Sample(NamedTuple):
    """One answer. `cpu_s` is that of all its processes."""

    seconds: float
    cpu_s: float
    found: Mapping[str, int]


class Racer:
    """A contender's process, which answers when it is asked."""

    def __init__(self, name: str, folders: Sequence[Path]) -> None:
        began = time.perf_counter()
        command = [sys.executable, str(PROGRAM), name, *map(str, folders)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process = psutil.Process(self._child.pid)
        self._cpu_s: dict[int, float] = {}
        self.peaks: dict[str, int] = {}
        """The most memory any process of each kind had, in bytes."""
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        answer = self._answer()
        self.cold = Sample(time.perf_counter() - began, self._cpu(), answer["found"])

    def ask(self) -> Sample:
        """One more answer."""
        before = self._cpu()
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        answer = self._answer()
        return Sample(answer["seconds"], self._cpu() - before, answer["found"])

    def close(self) -> None:
        """Let it end."""
        self._ended.set()
        self._watch.join()
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.wait(60)

    def _answer(self) -> Any:
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self._child.args)[:300]}: ended with {self._child.wait(60)}")
        return json.loads(line)

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._cpu()

    def _cpu(self) -> float:
        for process in self._processes():
            try:
                times = process.cpu_times()
                self._cpu_s[process.pid] = times.user + times.system
                kind = self._kind(process)
                self.peaks[kind] = max(self.peaks.get(kind, 0), _peak(process.pid))
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                continue
        return sum(self._cpu_s.values())

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _kind(self, process: psutil.Process) -> str:
        if process.pid == self._child.pid:
            return "driver"
        return "JVM" if process.name() == "java" else "worker"


def _peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def started(name: str, folders: Sequence[Path]) -> Iterator[Racer]:
    """A contender that has given its first answer."""
    racer = Racer(name, folders)
    try:
        yield racer
    finally:
        racer.close()


class Race(NamedTuple):
    """What one contender did: its answers when cold and when warm, and its memory."""

    cold: list[Sample]
    warm: list[Sample]
    peaks: dict[str, int]


def race(folder: Path, names: Sequence[str], rounds: int) -> dict[str, Race]:
    """Every contender `rounds` times: cold in a new process, warm in its first. Every second round goes backwards."""
    races = {name: Race([], [], {}) for name in names}
    racers: dict[str, Racer] = {}
    try:
        for number in range(rounds):
            for name in names[:: 1 if number % 2 == 0 else -1]:
                racer = Racer(name, [folder])
                races[name].cold.append(racer.cold)
                if number == 0:
                    racers[name] = racer
                    racer.ask()
                else:
                    racer.close()
                races[name].warm.append(racers[name].ask())
                _tell(number, name, races[name])
    finally:
        for name, racer in racers.items():
            racer.close()
            races[name].peaks.update(racer.peaks)
    return races


def _tell(number: int, name: str, race: Race) -> None:
    cold, warm = race.cold[-1], race.warm[-1]
    print(f"  round {number + 1}: {name}: cold {cold.seconds:.2f} s, warm {warm.seconds:.2f} s", file=sys.stderr)
