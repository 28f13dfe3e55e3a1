"""The small files that a runner writes beside its history: one JSON line an event, flushed at once, and its report.

`marks.jsonl` holds the producer's own counters at the moments that matter (start, message N, injected, healed,
finished). `disturbances.jsonl` holds what the client library noticed: the witnesses without which a fault did not
overlap traffic. `<role>.log` holds the library's own words, for people.
"""

import json
import os
import resource
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from pydantic import BaseModel

from dedup.errors import EnvironmentError_
from dedup.wire.clients import Disturbance, Noticed
from dedup.wire.lines import L, Line, parse

MAX_LINES_A_KIND: Final = 10_000
"""Of one kind of disturbance so many lines are written; the rest are counted only."""


def unwritable(folder: Path, error: Exception) -> EnvironmentError_:
    """The error of a history that cannot be written to its folder."""
    return EnvironmentError_(
        where=str(folder),
        got=str(error),
        rule="a run counts only with its whole history on the disk; what was written so far is kept",
        todo="make room or make the folder writable, then run again with --resume",
    )


class Journal:
    """A file of JSON lines; any thread may write, a client library's own too, so an error waits for `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._error: OSError | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def write(self, line: Line) -> None:
        """Write what is set of a record."""
        self.write_text(json.dumps(line.model_dump(mode="json", exclude_unset=True)))

    def write_text(self, text: str) -> None:
        with self._lock:
            if self._file.closed:
                return
            try:
                self._file.write(text + "\n")
            except OSError as error:
                self._error = error

    def close(self) -> None:
        """Close the file; EnvironmentError_ if any line could not be written. The second time nothing happens."""
        with self._lock:
            try:
                self._file.close()
            except OSError as error:
                self._error = error
            error_now, self._error = self._error, None
        if error_now is not None:
            raise unwritable(self._path.parent, error_now)


class Observer:
    """Takes down what a client notices (clients.Witnesses)."""

    def __init__(self, folder: Path, role: str) -> None:
        self.counts: Counter[str] = Counter()
        self._disturbances = Journal(folder / Disturbance.FILE) if role == "producer" else None
        self._log = Journal(folder / f"{role}.log")

    def disturbed(
        self,
        kind: Noticed,
        detail: str,
        monotonic_ns: int | None = None,
        *,
        broker: str | None = None,
        since_ns: int | None = None,
    ) -> None:
        self.counts[kind] += 1
        self.log(f"{kind}: {detail}")
        if self._disturbances is not None and self.counts[kind] <= MAX_LINES_A_KIND:
            at_ns = time.monotonic_ns() if monotonic_ns is None else monotonic_ns
            known = {"broker": broker, "since_ns": since_ns}
            told: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
            self._disturbances.write(Disturbance(kind=kind, detail=detail, monotonic_ns=at_ns, **told))

    def log(self, line: str) -> None:
        self._log.write_text(f"{time.strftime('%H:%M:%S')} {line}")

    def close(self) -> None:
        self._log.close()
        if self._disturbances is not None:
            self._disturbances.close()


def lines(folder: Path, kind: type[L]) -> list[L]:
    """The records of that kind in a run's folder, so far; none without their file."""
    path = folder / kind.FILE
    return parse(path.read_text(), kind) if path.is_file() else []


class Usage(NamedTuple):
    """What this process and its programs have used so far."""

    max_rss_bytes: int
    cpu_seconds: float


def usage() -> Usage:
    """The peak resident memory and the user and system time of this process and of its programs that have ended.

    Their peaks are added up: no less than both had at one time.
    """
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    seconds = sum(each.ru_utime + each.ru_stime for each in used)
    return Usage(sum(each.ru_maxrss for each in used) * unit_bytes, round(seconds, 3))


def save_report(path: Path, report: BaseModel) -> None:
    """Write a report whole or not at all; EnvironmentError_ if it cannot be written."""
    opened = path.with_name(path.name + ".open")
    try:
        with opened.open("w") as file:
            file.write(report.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
        opened.rename(path)
    except OSError as error:
        raise unwritable(path.parent, error) from None
