"""What goes into the job and what comes out: whole folders in, a report out.

A damaged folder is found before Spark sees it, by the checksums of its manifest: one unreadable file inside a Spark job
would end the job, and with it the verdicts of all the other runs.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from dedup.anomalies import Verification
from dedup.errors import DedupError, EvidenceError
from dedup.histories import damages, read_manifest
from dedup.manifests import Manifest


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


def whole_folders(folders: Sequence[Path]) -> tuple[list[tuple[Path, Manifest]], list[Problem]]:
    """The folders that are evidence, each with its manifest, and the problems of those that are not."""
    whole, problems = [], []
    for folder in folders:
        try:
            manifest = read_manifest(folder)
            found = damages(folder, manifest)
            if found:
                raise damaged(folder, found)
        except DedupError as error:
            problems.append(Problem(path=str(folder), error=str(error)))
        else:
            whole.append((folder, manifest))
    return whole, problems


def damaged(folder: Path, found: Sequence[str]) -> EvidenceError:
    """The error of a folder whose files are not what its manifest recorded."""
    return EvidenceError(
        where=str(folder),
        got="; ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else ""),
        rule="a history is evidence only as it was recorded",
        todo="restore the folder from its artifacts or run again",
    )


def write_report(report: Report, path: Path) -> None:
    """Write a report whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(report.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
