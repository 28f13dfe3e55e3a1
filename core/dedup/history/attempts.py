"""Where the attempts of a run lie, and how each ended: `runs/RUN/attempt-N/` below the experiment's place.

The layout is the same in `dedup run`'s results folder and in a cluster's store, so a report needs no knowledge of where
the runs were done. An attempt is *finished* when its manifest is there, which is written last. An attempt that could
not continue has a `failure.json`: why, and whether it was interrupted or failed by itself (dedup/judgement/endings.py).
An attempt with neither was interrupted: its writer was killed. A system that failed has its reason in `logs/SYSTEM/`.
"""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from pydantic import ValidationError

from dedup.errors import EvidenceError
from dedup.history.histories import MANIFEST, read_manifest
from dedup.history.stores import Place, below, reached, write_whole
from dedup.judgement.endings import Ending, Kind
from dedup.wire.clients import Mark, Milestone
from dedup.wire.files import Failure
from dedup.wire.lines import Event

RUNS: Final = "runs"
LOGS: Final = "logs"
_ATTEMPT: Final = re.compile(r"attempt-([1-9][0-9]*)")


class Attempt(NamedTuple):
    """One attempt of a run that was begun. `rows`: some of its sends were recorded."""

    number: int
    folder: Place
    finished: bool
    rows: bool = False


def folder_of(root: Place, run_id: str, number: int) -> Place:
    """Where an attempt's history lies."""
    return root / RUNS / run_id / f"attempt-{number}"


def attempts_of(root: Place, run_id: str) -> list[Attempt]:
    """Every attempt of a run that was begun, oldest first; it lists the names below the run's folder once."""
    folder = root / RUNS / run_id
    with reached(folder):
        names = below(folder)
    paths = [PurePosixPath(name).parts for name in names]
    numbers = sorted({int(found[1]) for path in paths if (found := _ATTEMPT.fullmatch(path[0]))})
    with_rows = {path[0] for path in paths if len(path) > 2 and path[1] == "sent"}
    return [
        Attempt(
            number,
            folder_of(root, run_id, number),
            f"attempt-{number}/{MANIFEST}" in names,
            f"attempt-{number}" in with_rows,
        )
        for number in numbers
    ]


def ending_of(attempt: Attempt) -> Ending:
    """How an unfinished attempt ended. In doubt it is assumed that it sent a message, and that it failed by itself."""
    sent = attempt.rows or _started(attempt.folder)
    with reached(attempt.folder):
        try:
            record = Failure.model_validate_json((attempt.folder / Failure.FILE).read_bytes())
            kind = Kind.INTERRUPTED if record.kind == Kind.INTERRUPTED else Kind.FAILED
            return Ending(kind=kind, sent=sent or record.sent, reason=record.reason)
        except FileNotFoundError:
            return Ending(kind=Kind.INTERRUPTED, sent=sent)
        except ValidationError:
            unread = f"{attempt.folder / Failure.FILE} cannot be read"
            return Ending(kind=Kind.FAILED, sent=True, reason=unread)


def result_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt that is the run's result, with or without a history; None while the run may be done (again).

    A history whose faults missed is the result until another attempt replaces it.
    """
    for index, each in enumerate(attempts):
        is_last = index == len(attempts) - 1
        if is_last or not missed_of(each) if each.finished else not ending_of(each).repeatable:
            return each
    return None


def missed_of(attempt: Attempt) -> tuple[str, ...]:
    """Why the faults of a finished attempt tested nothing, from its manifest; empty if that cannot be read."""
    try:
        return read_manifest(attempt.folder).missed
    except EvidenceError:
        return ()


def note_ending(folder: Path, stage: str, reason: str, kind: Kind) -> None:
    """Record in an attempt's folder why it has no history. The first record stays."""
    path = folder / Failure.FILE
    if path.exists() or (folder / MANIFEST).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rows = any((folder / "sent").glob("*"))
    record = Failure(stage=stage, reason=reason, kind=kind, sent=rows or _started(folder))
    write_whole(path, record.model_dump_json(indent=1))


def failure_of_system(root: Place, system: str) -> str | None:
    """Why a system could not be provisioned or used, if that was recorded."""
    folder = root / LOGS / system
    with reached(folder):
        try:
            return Failure.model_validate_json((folder / Failure.FILE).read_bytes()).reason
        except FileNotFoundError:
            return None
        except ValidationError:
            return f"{folder / Failure.FILE} cannot be read"


def _started(folder: Place) -> bool:
    """Whether the producer's marks show that it began to send, or have a line that cannot be read."""
    with reached(folder):
        try:
            lines = (folder / Mark.FILE).read_text(errors="replace").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return False
    try:
        return any(Event.model_validate_json(line).event == Milestone.START for line in lines)
    except ValidationError:
        return True
