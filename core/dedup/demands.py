"""What a run is held against, and whether it is the run that was planned.

An experiment demands of each of its runs more than clean counts: this workload, this setting of deduplication, these
faults. A history of something else proves nothing about the experiment, whatever it shows.
"""

from collections.abc import Iterator

from pydantic import Field

from dedup.experiments import LATENCY_FAULT, Expectation, Experiment
from dedup.manifests import Manifest, Record
from dedup.plans import Run, deduplicates


class Demand(Record):
    """What a run is held against. What is None is not known (a history without its experiment) and not checked."""

    expectation: Expectation
    planned: Run | None = None
    messages: int | None = None
    spec_digest: str | None = None
    deduplication: bool | None = Field(None, description="as the variant asks; None: as the manifest says it asked")
    faults: tuple[str, ...] | None = None
    uncertain_sends_planned: bool = Field(False, description="the workload itself makes sends fail or stay unknown")
    trusted: bool = Field(False, description="a history without a manifest is taken at its word")


def demand_of(experiment: Experiment, run: Run) -> Demand:
    """What an experiment demands of one of its runs."""
    variant = next(each for each in experiment.spec.variants if each.name == run.variant)
    system = next(each for each in experiment.spec.systems if each.name == run.system)
    latency = (LATENCY_FAULT,) if system.network.latency_s else ()
    return Demand(
        expectation=variant.expect,
        planned=run,
        messages=experiment.spec.workload.messages,
        spec_digest=experiment.digest(),
        deduplication=deduplicates(variant),
        faults=(*latency, *(fault.name for fault in experiment.spec.faults)),
    )


def departures(manifest: Manifest, run_id: str, demand: Demand) -> Iterator[str]:
    """Where a manifest is not that of the planned run; of a run without a plan, `run_id` is its folder's."""
    planned = demand.planned
    pairs: list[tuple[str, object, object]] = [
        ("run_id", manifest.run_id, run_id if planned is None else planned.run_id),
        ("messages", manifest.messages, demand.messages),
        ("spec_digest", manifest.spec_digest, demand.spec_digest),
        ("deduplication asked", manifest.deduplication.asked, demand.deduplication),
    ]
    if planned is not None:
        pairs += [
            ("system", manifest.system, planned.system),
            ("variant", manifest.variant, planned.variant),
            ("run", manifest.run, planned.number),
            ("seed", manifest.seed, planned.seed),
        ]
    for name, found, wanted in pairs:
        if wanted is not None and found != wanted:
            yield f"{name} is {found}, planned {wanted}"
