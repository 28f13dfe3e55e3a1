"""What is kept: of each pattern a file beside the page, with the runs of each of its failure points.

A run is kept when it has shown something, and never changed after that. One that has shown nothing leaves its reason.
A file whose pattern has other steps today is not added to: its runs are of another service. A cell has the runs of one
program: the first run of another one takes the place of all.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from dedup.errors import EvidenceError
from dedup.workloads.services import Pattern, Step
from testbed.exactly_once.patterns import points
from testbed.exactly_once.runs import ROOT, Run

KEPT: Final = ROOT / "docs" / "exactly-once"
RUNS: Final = 5
"""Of each cell, at least."""


class Nothing(BaseModel):
    """A run that has shown nothing: when it ended, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    reason: str


class Kept(BaseModel):
    """The runs of one pattern, by failure point."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pattern: Pattern
    steps: tuple[Step, ...]
    versions: tuple[str, ...]
    """With which its runs were made."""
    cells: dict[str, tuple[Run, ...]] = {}
    nothing: dict[str, tuple[Nothing, ...]] = {}
    """Of each failure point, the runs that have shown nothing."""

    def lacks(self, runs: int, program: str) -> Iterator[str]:
        """The failure points of the runs that are to be made yet with this program, one for each run."""
        for point in points(self.pattern):
            there = [run for run in self.cells.get(point, ()) if run.made and run.made.program == program]
            yield from [point] * (runs - len(there))

    def plus(self, point: str, run: Run, versions: tuple[str, ...]) -> "Kept":
        """With one run more, made with these versions; those of other programs are gone from its cell."""
        versions = tuple(dict.fromkeys((*self.versions, *versions)))
        of_one = [each for each in self.cells.get(point, ()) if _program(each) == _program(run)]
        cells = {**self.cells, point: (*of_one, run)}
        ordered = {each: cells[each] for each in points(self.pattern) if each in cells}
        return self.model_copy(update={"versions": versions, "cells": ordered})

    def plus_nothing(self, point: str, nothing: Nothing) -> "Kept":
        """With one more that has shown nothing."""
        return self.model_copy(
            update={"nothing": {**self.nothing, point: (*self.nothing.get(point, ()), nothing)}},
        )

    def write(self, folder: Path = KEPT) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.pattern}.json").write_text(
            self.model_dump_json(indent=1, exclude_defaults=True) + "\n", encoding="utf-8"
        )


def _program(run: Run) -> str:
    return run.made.program if run.made else ""


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
