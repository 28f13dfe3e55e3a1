"""Fetches the jars of later systems while the first system is tested, so that they are there when needed.

A process of the lowest priority does it, so that it takes no processor from brokers and clients. A failure here ends
nothing: the jar is fetched again when its system starts.
"""

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dedup.errors import DedupError
from dedup.experiment.spec import Experiment
from dedup.process.orphans import leave_with_parent
from dedup_lab.children import Children, python
from dedup_lab.systems import jars

NICENESS: Final = 19


class Prefetch:
    """A context manager that fetches in the background until it is left."""

    def __init__(self, experiment: Experiment, logs: Path) -> None:
        self._log, self._children = logs / "prefetch.log", Children()
        later = dict.fromkeys(
            (system.kind, system.version) for system in experiment.spec.systems[1:] if system.existing is None
        )
        self._wanted = [f"{system}:{version}" for system, version in later if jars.missing(system, version)]

    def __enter__(self) -> Self:
        if self._wanted:
            self._children.start("prefetch", python("dedup_lab.prefetches", *self._wanted), self._log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._children.close()


def main() -> int:
    """Fetch what the arguments name, each `system:version`; the exit code is 1 if one could not be fetched."""
    leave_with_parent()
    os.nice(NICENESS)
    code = 0
    for each in sys.argv[1:]:
        system, _, version = each.partition(":")
        try:
            fetched = jars.fetch_missing(system, version)
            print(f"{each}: {len(fetched)} jars fetched")
        except DedupError as error:
            print(error)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
