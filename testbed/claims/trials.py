"""The runs for the table: an example with more runs, of which the sums of each variant are kept."""

import json
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from dedup.experiment.spec import Experiment, load, parse
from dedup.judgement.summaries import Summary
from dedup.judgement.verdicts import Verdict
from testbed import experiments
from testbed.claims.rows import TRIALS, Trial

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "docs" / "kafka-and-pulsar"
RUNS: Final = 10
"""Of each variant."""
COST: Final = KEPT / "cost.json"
"""The samples of bench/cost, each setting's rates in the order of the rounds."""


class Group(BaseModel):
    """All runs of one variant."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    effective: int
    """Runs whose fault found something in flight."""
    passed: int
    """Runs whose expectation was met, which only effective ones can."""
    with_copies: int
    verdict: Verdict


class Kept(BaseModel):
    """What is kept of a trial."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trial: str
    spec_digest: str
    recorded: str | None
    versions: dict[str, str]
    groups: tuple[Group, ...]

    def group(self, variant: str) -> Group:
        return next(each for each in self.groups if each.variant == variant)


def experiment(trial: Trial) -> Experiment:
    """The example with more runs."""
    document = load(trial.file).model_dump(mode="json", by_alias=True, exclude_none=True)
    document["spec"] |= {"runs": RUNS, "replacements": RUNS}
    return parse(document, source=f"the trial {trial.name}")


def make(trial: Trial, results: Path, kept: Path = KEPT) -> Kept:
    """Run a trial to its end, or go on with it, and keep it. PlatformError if it does not come to its end."""
    document = experiment(trial).model_dump(mode="json", by_alias=True, exclude_none=True)
    found = of_summary(trial, experiments.summed(trial.name, document, results / trial.name))
    kept.mkdir(parents=True, exist_ok=True)
    (kept / f"{trial.name}.json").write_text(found.model_dump_json(indent=1) + "\n")
    return found


def of_summary(trial: Trial, summary: Summary) -> Kept:
    """What is kept of a summary; EvidenceError if a run of it is an error, for then nothing is known of that run."""
    experiments.complete(trial.name, summary)
    (versions,) = summary.versions.values()
    return Kept(
        trial=trial.name,
        spec_digest=summary.spec_digest,
        recorded=summary.last_recorded_at,
        versions=versions,
        groups=tuple(
            Group(
                variant=row.variant,
                effective=row.effective_runs,
                passed=sum(run.variant == row.variant and run.verdict is Verdict.PASS for run in summary.runs),
                with_copies=row.runs_with_copies,
                verdict=row.verdict,
            )
            for row in summary.systems
        ),
    )


def read(kept: Path = KEPT) -> dict[str, Kept]:
    """The trials that are kept, by name; EvidenceError for a file that is none, or of another experiment."""
    found = {}
    for path in sorted(kept.glob("*.json")):
        if path.name == COST.name:
            continue
        try:
            each = Kept.model_validate_json(path.read_bytes())
            if each.trial != path.stem or each.trial not in TRIALS:
                raise ValueError("it is another one's file")
            experiments.check_is_of(each.spec_digest, experiment(TRIALS[each.trial]))
        except ValueError as error:
            raise experiments.refused(path, "trial", error) from None
        found[each.trial] = each
    return found


def costs(kept: Path = KEPT) -> dict[str, dict[str, list[float]]]:
    """Messages a second of each round, by system and setting of bench/cost; empty if it was not measured."""
    path = kept / COST.name
    if not path.exists():
        return {}
    document = json.loads(path.read_bytes())
    return {
        system: {setting: [sample["rate"] for sample in samples] for setting, samples in by.items()}
        for system, by in document.items()
    }
