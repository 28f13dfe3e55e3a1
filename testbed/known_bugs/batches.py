"""What is kept of a batch of runs of one file of examples/bugs: of each run whether it showed the bug.

A batch is kept when it came to its end, with every run of it, whatever came out, and never changed after that.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from dedup.experiment.spec import Experiment, load, parse
from dedup.judgement.summaries import Summary
from dedup.judgement.verdicts import Verdict
from dedup_lab import scenarios
from dedup_lab.scenarios import Bug
from testbed import experiments

ROOT: Final = Path(__file__).parents[2]
BUGS: Final[Mapping[str, Path]] = {path.stem: path for path in sorted((ROOT / "examples" / "bugs").glob("*.yaml"))}
KEPT: Final = ROOT / "docs" / "known-bugs"
RUNS: Final = 5
"""Of each version in a batch."""
BATCHES: Final = 4


class Run(BaseModel):
    """One run: of which system and variant, what was concluded, and whether it showed the bug."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cell: str
    """SYSTEM/VARIANT, as in the example's annotation."""
    verdict: Verdict
    effective: bool
    shows: bool


class Batch(BaseModel):
    """Some runs of one bug, as they are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bug: str
    batch: int
    spec_digest: str
    recorded: str | None
    versions: dict[str, dict[str, str]]
    """By system."""
    load: float
    """The machine's load over the batch's last 15 minutes, a processor."""
    runs: tuple[Run, ...]


def experiment(name: str, number: int, runs: int = RUNS) -> Experiment:
    """One batch, from 1: the example with another seed."""
    document = load(BUGS[name]).model_dump(mode="json", by_alias=True, exclude_none=True)
    document["spec"] |= {"runs": runs, "seed": number}
    document["metadata"]["name"] = f"{name}-{number}"
    return parse(document, source=f"the bug {name}")


def bug_of(name: str) -> Bug:
    bug = scenarios.read(BUGS[name]).bug
    assert bug is not None, f"{name} is in examples/bugs, and has no {scenarios.EXPECT}"
    return bug


def path_of(name: str, number: int, kept: Path = KEPT) -> Path:
    return kept / name / f"batch-{number:02}.json"


def make(name: str, number: int, results: Path, kept: Path = KEPT) -> Batch:
    """Run a batch to its end, or go on with it, and keep it. PlatformError if it does not come to its end."""
    document = experiment(name, number).model_dump(mode="json", by_alias=True, exclude_none=True)
    out = results / name / f"batch-{number:02}"
    found = of_summary(name, number, experiments.summed(f"batch {number} of {name}", document, out), out)
    path = path_of(name, number, kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.model_dump_json(indent=1) + "\n")
    return found


def of_summary(name: str, number: int, summary: Summary, out: Path) -> Batch:
    """What is kept of a batch that was run into the folder `out`."""
    bug = bug_of(name)
    return Batch(
        bug=name,
        batch=number,
        spec_digest=summary.spec_digest,
        recorded=summary.last_recorded_at,
        versions=summary.versions,
        load=experiments.load(),
        runs=tuple(
            Run(
                cell=f"{run.system}/{run.variant}",
                verdict=run.verdict,
                effective=run.effective,
                shows=run.counts is not None and scenarios.shows(bug, out, run),
            )
            for run in summary.runs
        ),
    )


def read(kept: Path = KEPT) -> list[Batch]:
    """All batches that are kept; EvidenceError for a file that is none, or of another experiment."""
    found = []
    for path in sorted(kept.glob("*/batch-*.json")):
        try:
            batch = Batch.model_validate_json(path.read_bytes())
            if path_of(batch.bug, batch.batch, kept) != path or batch.bug not in BUGS:
                raise ValueError("it is another one's file")
            experiments.check_is_of(batch.spec_digest, experiment(batch.bug, batch.batch))
        except (ValidationError, ValueError) as error:
            raise experiments.refused(path, "batch", error) from None
        found.append(batch)
    return found
