"""The courier: carries the files of a run from its pod to the store, while the run goes on and after it.

`python -m dedup_runners.courier ASSIGNMENT`. A segment of the history never changes once it has its closed name, so it
is carried at once: a long run does not wait for its upload in the end. All other files (reports, journals, logs) may
grow until the last program of the run has ended; the kubelet says so by SIGTERM, since the courier is a sidecar. Then
everything that is left is carried, and the manifest last of all, only if all else went through: a history in the store
that has a manifest is whole. Only the pod that has claimed the attempt has anything to carry.
"""

import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dedup.errors import DedupError, SpecificationError
from dedup.experiment import assignments
from dedup.experiment.assignments import Assignment
from dedup.history import stores
from dedup.history.histories import ALL_TABLES, MANIFEST, OPEN_SUFFIX
from dedup.history.stores import Place
from dedup_runners import claims, programs
from dedup_runners.waiting import until

LOOK_S: Final = 1.0
CARRY_S: Final = assignments.GRACE_S - 60.0
"""How long after the end of the run a store may be out of reach."""
RETRY_S: Final = 2.0


class Courier:
    """Carries one folder to one place. `carried` are the files that will not change and need no second way."""

    def __init__(self, folder: Path, place: Place) -> None:
        self._folder, self._place = folder, place
        self._carried: set[str] = set()

    def carry_segments(self) -> None:
        """Carry every closed segment that was not carried yet."""
        for table in ALL_TABLES:
            for path in sorted((self._folder / table).glob("*.parquet")):
                name = path.relative_to(self._folder).as_posix()
                if name not in self._carried and self._is_ours(path):
                    self._carry(name)
                    self._carried.add(name)

    def carry_rest(self) -> None:
        """Carry everything else, the manifest last."""
        self.carry_segments()
        paths = (path for path in self._folder.rglob("*") if self._is_ours(path))
        names = {path.relative_to(self._folder).as_posix() for path in paths} - self._carried
        for name in sorted(names - {MANIFEST}):
            self._carry(name)
        if MANIFEST in names:
            self._carry(MANIFEST)

    def _is_ours(self, path: Path) -> bool:
        """Whether it is a file of this folder. A link is none: programs that are not ours write there, too."""
        return path.is_file() and path.resolve() == self._folder.resolve() / path.relative_to(self._folder)

    def _carry(self, name: str) -> None:
        source, target = self._folder / name, self._place / name
        with stores.reached(self._place):
            if isinstance(target, Path):
                target.parent.mkdir(parents=True, exist_ok=True)
                opened = target.with_name(target.name + OPEN_SUFFIX)
                with source.open("rb") as content, opened.open("wb") as file:
                    shutil.copyfileobj(content, file)
                    file.flush()
                    os.fsync(file.fileno())  # the manifest must not outlive what it names
                opened.replace(target)
            else:
                target.fs.put_file(str(source), target.path)


def carry(assignment: Assignment) -> None:
    """Carry the run's files until SIGTERM, and then the rest; PlatformError if not everything came through."""
    place, over = _place(assignment), threading.Event()
    courier = Courier(assignment.folder, place)
    with programs.stopping(over.set):
        print(f"carrying {assignment.folder} to {place}", flush=True)
        while not over.wait(LOOK_S):
            if claims.won(assignment.shared).exists():
                _tried(courier.carry_segments)
        if not claims.won(assignment.shared).exists():
            print("this pod has not claimed the attempt: nothing is carried")
            return
        until(lambda: _tried(courier.carry_rest), CARRY_S, "every file of the run to be in the store", RETRY_S)


def _tried(work: Callable[[], None]) -> bool:
    """Do it; False if it could not be done now, which has been told."""
    try:
        work()
    except (DedupError, OSError) as error:
        print(f"{error}; trying again", file=sys.stderr)
        return False
    return True


def _place(assignment: Assignment) -> Place:
    place = assignment.place()
    if place is None:
        raise SpecificationError(
            where="artifacts", got="none", rule="a courier carries files to a store", todo="name one, or leave it out"
        )
    return stores.place(place)


def main(arguments: list[str]) -> int:
    """The courier's exit code."""
    if len(arguments) != 1:
        print("usage: python -m dedup_runners.courier ASSIGNMENT", file=sys.stderr)
        return 2
    return programs.attempt("courier", lambda: carry(assignments.read(Path(arguments[0])))).code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
