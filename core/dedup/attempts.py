"""Where the attempts of a run lie, and what became of each: `runs/RUN/attempt-N/` below the experiment's place.

It is the same in `dedup run`'s results folder and in a cluster's store, so that whoever reports need not know where the
runs were done. An attempt is *finished* when its manifest is there, which is written last. One that could not go on
says why in `failure.json`, and so does a system that could not be had, in `logs/SYSTEM/`.
"""

import json
import re
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from dedup.histories import MANIFEST
from dedup.plans import Run
from dedup.stores import Place, below, reached

RUNS: Final = "runs"
LOGS: Final = "logs"
FAILURE: Final = "failure.json"
_ATTEMPT: Final = re.compile(r"attempt-([1-9][0-9]*)")


class Attempt(NamedTuple):
    """One attempt of a run that was begun."""

    number: int
    folder: Place
    finished: bool


def folder_of(root: Place, run_id: str, number: int) -> Place:
    """Where an attempt's history lies."""
    return root / RUNS / run_id / f"attempt-{number}"


def attempts_of(root: Place, run_id: str) -> list[Attempt]:
    """Every attempt of a run that was begun, oldest first; one look at the names below the run's folder."""
    folder = root / RUNS / run_id
    with reached(folder):
        names = below(folder)
    begun = {PurePosixPath(name).parts[0] for name in names}
    numbers = sorted(int(found[1]) for name in begun if (found := _ATTEMPT.fullmatch(name)))
    return [
        Attempt(number, folder_of(root, run_id, number), f"attempt-{number}/{MANIFEST}" in names) for number in numbers
    ]


def failures_of(root: Place, run: Run) -> list[str]:
    """Why the run's unfinished attempts failed, oldest first; if none says so, why its system failed."""
    said = [_reason(attempt.folder) for attempt in attempts_of(root, run.run_id) if not attempt.finished]
    told = [reason for reason in said if reason is not None]
    system = None if told else _reason(root / LOGS / run.system)
    return told if system is None else [system]


def _reason(folder: Place) -> str | None:
    with reached(folder):
        try:
            return str(json.loads((folder / FAILURE).read_bytes())["reason"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return f"{folder / FAILURE} cannot be read"
