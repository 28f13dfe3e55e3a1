"""Results made by hand for comparisons: so many runs that went wrong, at such a pace, on such a day."""

from typing import Any, Final

from tests.core.evidences import duplicates, evidence, experiment

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup.judgement.conclusions import conclude
from dedup.judgement.conditions import Result
from dedup.judgement.paces import Pace
from dedup.judgement.summaries import Summary, summarise
from dedup.judgement.verdicts import Evidence
from dedup.wire.manifests import Machine

MS: Final = 1_000_000
LAPTOP: Final = Machine(host="laptop", os="Linux-6.12", java="17.0.12")


def kafka(version: str = "4.3.1", **spec: Any) -> Experiment:
    """One Kafka of this version, a control and a treatment, ten runs each; `spec` replaces keys."""
    return experiment(**{"systems": [{"name": "kafka", "kafka": {"version": version}}], "runs": 10, **spec})


def gathered(
    made: Experiment,
    *,
    failed: int = 0,
    with_copies: int | None = None,
    rate: float = 1_000.0,
    day: int = 1,
    machine: Machine = LAPTOP,
    settings: dict[str, str] | None = None,
    latency: int | None = None,
) -> list[Evidence]:
    """Evidence of every run. The first `failed` runs of each treatment have copies, and the first `with_copies` of each
    control (all, if it is not given). Run number n acknowledges `rate` + n messages a second. `latency`: the median, in
    ms; p99 is 100 + n times that."""
    versions = {system.name: system.version for system in made.spec.systems}
    found = []
    for run in plan(made):
        on = run.variant != "control"
        most = failed if on else (made.spec.runs if with_copies is None else with_copies)
        each = evidence(
            run,
            duplicates() if run.number <= most else {},
            deduplication=on,
            spec_digest=made.digest(),
            versions={"deployed": versions[run.system], "confluent-kafka": "2.16.1", "dedup": "0.1.0"},
            recorded_at=f"2026-11-{day:02}T12:00:{run.number:02}Z",
            machine=machine,
        )
        assert each.manifest is not None
        config = each.manifest.producer.effective_config | (settings or {})
        producer = each.manifest.producer.model_copy(update={"effective_config": config})
        pace = Pace(acknowledged_per_second=rate + run.number, longest_pause_s=2.0 + run.number / 10)
        manifest = each.manifest.model_copy(update={"producer": producer})
        latencies = latency and {latency * MS: 98, latency * (100 + run.number) * MS: 2}
        found.append(each.model_copy(update={"pace": pace, "manifest": manifest, "latencies": latencies}))
    return found


_KNOWN: Final[dict[str, Summary]] = {}
"""Summaries that were made before; many tests want the same."""


def summary(made: Experiment, **changes: Any) -> Summary:
    """The summary of that evidence."""
    key = f"{made.model_dump_json()} {changes}"
    if key not in _KNOWN:
        found = gathered(made, **changes)
        _KNOWN[key] = summarise(made, conclude(made, found), found)
    return _KNOWN[key]


def result(name: str, made: Experiment | None = None, **changes: Any) -> Result:
    """A result of that name; of Kafka 4.3.1 if nothing else is said."""
    made = made or kafka()
    return Result(name, made, summary(made, **changes))
