"""What is kept of a batch: of each run what S0 tells of its own, in a small file beside the page.

Histories are gigabytes, and stay where they were made. A batch is kept when each of its runs has a result, and never
changed after that; one that was interrupted is finished by `dedup run --resume`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from dedup.judgement.summaries import Summary
from dedup.judgement.verdicts import Verdict
from testbed import experiments
from testbed.s0.tables import TABLES, Table, experiment

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "docs" / "s0"


class Run(BaseModel):
    """One run: whether its fault found something in flight, and what was read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    effective: bool
    received: int
    values: int
    duplicate_jumps: int
    jumps_forward: int
    jumps_backward: int
    not_received: int


class Batch(BaseModel):
    """Some runs of one table, as they are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    batch: int
    spec_digest: str
    verdict: Verdict
    recorded: tuple[str | None, str | None]
    versions: dict[str, str]
    load: float | None = None
    """The machine's load over the batch's last 15 minutes, a processor; None: not recorded."""
    runs: tuple[Run, ...]


class Place(NamedTuple):
    """Where a batch is made, and where it is kept."""

    results: Path
    kept: Path


def place(table: Table, number: int, results: Path, kept: Path = KEPT) -> Place:
    return Place(results / table.name / f"batch-{number:02}", kept / table.name / f"batch-{number:02}.json")


def missing(table: Table, upto: int, kept: Path = KEPT) -> Iterator[int]:
    """Which of the first batches are not kept yet."""
    return (number for number in range(1, upto + 1) if not place(table, number, Path(), kept).kept.exists())


def make(table: Table, number: int, results: Path) -> Batch:
    """Run a batch to its end, or go on with it, and keep it. PlatformError if it does not come to its end."""
    at, made = place(table, number, results), experiment(table, number)
    document = made.model_dump(mode="json", by_alias=True, exclude_none=True)
    found = of_summary(table, number, experiments.summed(f"batch {number} of {table.name}", document, at.results))
    found = found.model_copy(update={"load": experiments.load()})
    at.kept.parent.mkdir(parents=True, exist_ok=True)
    at.kept.write_text(found.model_dump_json(indent=1) + "\n")
    return found


def of_summary(table: Table, number: int, summary: Summary) -> Batch:
    """What is kept of a batch's summary; EvidenceError if a run of it has no result, or an error for one."""
    experiments.complete(f"batch {number} of {table.name}", summary)
    (versions,) = summary.versions.values()
    return Batch(
        table=table.name,
        batch=number,
        spec_digest=summary.spec_digest,
        verdict=summary.verdict,
        recorded=(summary.first_recorded_at, summary.last_recorded_at),
        versions=versions,
        runs=tuple(map(_run, summary.runs)),
    )


def _run(row: Any) -> Run:
    counts = row.counts
    return Run(
        variant=row.variant,
        effective=row.effective,
        received=counts.received,
        values=counts.values_with_duplicates,
        duplicate_jumps=counts.duplicate_jump_backward,
        jumps_forward=counts.jump_forward,
        jumps_backward=counts.jump_backward,
        not_received=counts.not_received,
    )


def read(kept: Path = KEPT) -> list[Batch]:
    """All batches that are kept; EvidenceError for a file that is none, or of another experiment."""
    found = []
    for path in sorted(kept.glob("*/batch-*.json")):
        try:
            batch = Batch.model_validate_json(path.read_bytes())
            table = TABLES[batch.table]
            if table.name != path.parent.name:
                raise ValueError("it lies in another table's folder")
            if place(table, batch.batch, Path(), kept).kept != path:
                raise ValueError("it is another one's file")
            experiments.check_is_of(batch.spec_digest, experiment(table, batch.batch))
        except (ValidationError, KeyError, ValueError) as error:
            raise experiments.refused(path, "batch", error) from None
        found.append(batch)
    return found
