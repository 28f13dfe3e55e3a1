"""The input and output of the job: folders with a manifest in, a report out.

The checksums of its manifest show a damaged folder before its rows are counted: one unreadable file inside a Spark job
would end the job, and with it the verdicts of all other runs. This module checks the manifest and the names in a
folder; the workers check the files (dedup_spark/engine/files.py).
"""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pydantic import BaseModel, ConfigDict

from dedup.errors import EvidenceError
from dedup.history import reports
from dedup.history.histories import omissions, read_manifest
from dedup.history.stores import Place, reached, write_whole
from dedup.judgement.anomalies import Verification
from dedup.judgement.verdicts import Evidence
from dedup.wire.manifests import Manifest

AT_ONCE: Final = 16
"""So many folders are read or written at the same time, for a store answers slowly."""


class Problem(BaseModel):
    """A folder that could not be verified, and why, in one line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    error: str


class Report(BaseModel):
    """One engine's answer on many run folders: each is in `runs` or in `problems`, in the order they were given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: str
    runs: tuple[Verification, ...] = ()
    problems: tuple[Problem, ...] = ()


def open_folders(folders: Sequence[Place]) -> tuple[list[tuple[Place, Manifest]], list[Problem]]:
    """The folders whose manifest names all files, each with its manifest; and the problems of the others."""
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
    except EvidenceError as error:  # a store that does not answer is no problem of the history, and ends the job
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
    """Write beside each history the report's answer on it, as the local lab keeps its judges' answers."""
    runs = {run.path: run for run in report.runs}
    problems = {problem.path: problem.error for problem in report.problems}

    def write(folder: Place) -> None:
        answers = {report.engine: runs.get(str(folder)), "problem": problems.get(str(folder))}
        reports.keep(folder, Evidence.model_validate({"run_id": folder.parent.name, **answers}))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(write, folders))
