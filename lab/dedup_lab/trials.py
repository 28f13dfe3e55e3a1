"""Tries Spark before the first run: a machine that cannot verify is found in seconds, not after hours of runs.

The trial runs while the brokers start, so that it costs no time of its own.
"""

import shutil
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dedup_lab import java
from dedup_lab.children import Child, Children, python

TIMEOUT_S: Final = 300.0


class SparkTrial:
    """A context manager that starts a Spark session in the background; leaving it ends all but the log."""

    def __init__(self, folder: Path) -> None:
        self._log, self._scratch = folder / "spark-trial.log", folder / "spark-trial"
        self._children = Children()
        self._child: Child | None = None

    def __enter__(self) -> Self:
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._child = self._children.start(
            "Spark, tried before the first run",
            python("dedup_spark.sessions"),
            self._log,
            TMPDIR=str(self._scratch),
            **java.environment(),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._children.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def demand(self) -> None:
        """Wait for its end, the first time; PlatformError with Spark's root cause if it did not start."""
        if self._child is not None:
            self._child.succeed(TIMEOUT_S)
            self._child = None
