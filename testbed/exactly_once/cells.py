"""What is kept: of each pattern a file beside the page, with the runs of each of its failure points.

A run is kept when it has shown something, and never changed after that. A file whose pattern has other steps today is
not added to: its runs are of another service.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from dedup.errors import EvidenceError
from dedup.workloads.services import Pattern, Step
from testbed.exactly_once.patterns import points
from testbed.exactly_once.runs import Run

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "docs" / "exactly-once"
RUNS: Final = 5
"""Of each cell, at least."""


class Kept(BaseModel):
    """The runs of one pattern, by failure point."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pattern: Pattern
    steps: tuple[Step, ...]
    versions: tuple[str, ...]
    """With which its runs were made."""
    cells: dict[str, tuple[Run, ...]] = {}

    def lacks(self, runs: int) -> Iterator[str]:
        """The failure points of the runs that are to be made yet, one for each run."""
        for point in points(self.pattern):
            yield from [point] * (runs - len(self.cells.get(point, ())))

    def plus(self, point: str, run: Run, versions: tuple[str, ...]) -> "Kept":
        """With one run more, made with these versions."""
        versions = tuple(dict.fromkeys((*self.versions, *versions)))
        cells = {**self.cells, point: (*self.cells.get(point, ()), run)}
        ordered = {each: cells[each] for each in points(self.pattern) if each in cells}
        return self.model_copy(update={"versions": versions, "cells": ordered})

    def write(self, folder: Path = KEPT) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.pattern}.json").write_text(
            self.model_dump_json(indent=1, exclude_defaults=True) + "\n", encoding="utf-8"
        )


def read(pattern: Pattern, folder: Path = KEPT) -> Kept:
    """What is kept of a pattern, maybe nothing yet. EvidenceError if that is of another service, or cannot be read."""
    path = folder / f"{pattern}.json"
    if not path.exists():
        return Kept(pattern=pattern, steps=pattern.steps, versions=())
    try:
        found = Kept.model_validate_json(path.read_bytes())
        if (found.pattern, found.steps) != (pattern, pattern.steps):
            raise ValueError("it is of another pattern, or of one with other steps")
    except (ValidationError, ValueError) as error:
        raise EvidenceError(
            where=path.name, got=str(error)[:200], rule="it holds runs of this pattern", todo="restore it, or remove it"
        ) from None
    return found
