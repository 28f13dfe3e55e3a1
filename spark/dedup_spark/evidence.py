"""What goes into the job and what comes out: folders with a manifest in, a report out.

A damaged folder is found before its rows are counted, by the checksums of its manifest: one unreadable file inside a
Spark job would end the job, and with it the verdicts of all the other runs. What the manifest itself and the names in a
folder tell is looked at here; the files are the workers' (dedup_spark/engine/files.py).
"""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pydantic import BaseModel, ConfigDict

from dedup.errors import DedupError, EvidenceError
from dedup.history import reports
from dedup.history.histories import omissions, read_manifest
from dedup.history.stores import Place, reached, write_whole
from dedup.judgement.anomalies import Verification
from dedup.judgement.verdicts import Evidence
from dedup.wire.manifests import Manifest

AT_ONCE: Final = 16
"""So many folders are looked at, or written to, at the same time: a store takes its time for each."""


class Problem(BaseModel):
    """A folder that could not be verified, and why, in one line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    error: str


class Report(BaseModel):
    """What one engine says of many run folders: each is in `runs` or in `problems`, in the order they were given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: str
    runs: tuple[Verification, ...] = ()
    problems: tuple[Problem, ...] = ()


def open_folders(folders: Sequence[Place]) -> tuple[list[tuple[Place, Manifest]], list[Problem]]:
    """The folders with a manifest that names all that is there, each with it; and the problems of those without."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        opened = list(pool.map(_open, folders))
    sound = [(folder, found) for folder, found in zip(folders, opened, strict=True) if isinstance(found, Manifest)]
    return sound, [found for found in opened if isinstance(found, Problem)]


def _open(folder: Place) -> Manifest | Problem:
    try:
        with reached(folder):
            manifest = read_manifest(folder)
            found = omissions(folder, manifest)
        if found:
            raise damaged(folder, found)
    except DedupError as error:
        return Problem(path=str(folder), error=str(error))
    return manifest


def damaged(folder: Place, found: Sequence[str]) -> EvidenceError:
    """The error of a folder whose files are not what its manifest recorded."""
    return EvidenceError(
        where=str(folder),
        got="; ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else ""),
        rule="a history is evidence only as it was recorded",
        todo="restore the folder from its artifacts or run again",
    )


def write_report(report: Report, where: Place) -> None:
    """Write a report whole or not at all."""
    with reached(where):
        write_whole(where, report.model_dump_json(indent=1))


def keep(report: Report, folders: Collection[Place]) -> None:
    """Write beside each history what the report says of it, as the local lab keeps what its judges said."""
    runs = {run.path: run for run in report.runs}
    problems = {problem.path: problem.error for problem in report.problems}

    def write(folder: Place) -> None:
        said = {report.engine: runs.get(str(folder)), "problem": problems.get(str(folder))}
        reports.keep(folder, Evidence.model_validate({"run_id": folder.parent.name, **said}))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(write, folders))
