"""The summary of an experiment: what `summary.json` holds and what the tables show.

It is made from the verdict and the manifests and adds no judgement of its own. It holds the verdict and its reasons,
sums for each variant on each system, and a row a run: every count, where the fault was planned and where it took
effect, the versions, and how long each stage took.

Duplicates come in blocks, and their lengths show the client's batching: without linger many small blocks, with more
linger fewer and larger ones (S1). So block lengths are shown as a histogram whose bins double: 1, 2-3, 4-7, … The
distance of a block from its first copy shows how much was in flight. The details of the other counts, and during which
fault they occurred, are added up from the runs' findings (dedup/judgement/findings.py).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from dedup.experiment.spec import Expectation, Experiment
from dedup.judgement.anomalies import Engine, OrderEvent, Witness
from dedup.judgement.conclusions import ExperimentVerdict, GroupVerdict, settings_of
from dedup.judgement.counts import COUNTS, S0_COUNTS, Counts
from dedup.judgement.endings import Repetition
from dedup.judgement.findings import Overview, Sum, added
from dedup.judgement.latencies import Latency, latency_of, merged
from dedup.judgement.paces import Pace
from dedup.judgement.verdicts import Evidence, Reason, RunVerdict, Verdict, worst
from dedup.wire.manifests import FaultRecord, Machine, Manifest, Record

COLUMNS: Final[Mapping[str, str]] = {COUNTS[name].heading: name for name in S0_COUNTS}
"""The columns of every table, in S0's order: heading -> name of the count."""

WORKING_STAGES: Final = frozenset({"produce", "heal", "consume"})
"""Stages whose length the experiment decides; the tester should keep all others short."""


class Bin(Record):
    """How many duplicate blocks have a length, or a distance from their first copies, of `first` to `last`."""

    first: int
    last: int
    blocks: int


class FaultRow(Record):
    """One fault of one run: where it was planned, where it took effect, and its result."""

    name: str
    kind: str
    requested_message: int | None
    requested_time: str | None = Field(None, description="if it was to begin at a time, in words (FaultRecord)")
    actual_message: int | None = Field(description="the producer's counter when the effect was confirmed")
    unacknowledged: int | None
    in_flight: int | None = Field(None, description="to what was struck; null: not known (FaultRecord)")
    target: str
    seconds: float | None = Field(description="from the injection to the proven heal")
    client_witness: dict[str, int]
    vacuous: str | None = Field(description="why it proves nothing, or null")
    heal_proven: bool


class RunRow(Record):
    """One planned run, or one history. `counts` is null if it has no verified history."""

    run_id: str
    attempt: int
    system: str
    variant: str
    run: int
    path: str | None = None
    recorded_at: str | None = Field(None, description="when its manifest was written: ISO 8601, UTC")
    expectation: Expectation | None = None
    judges: tuple[Engine, ...] = Field((), description="who judged it; the verdict rests on the first")
    verdict: Verdict
    reasons: tuple[Reason, ...]
    effective: bool
    void: bool
    counts: Counts | None
    block_lengths: tuple[Bin, ...] = ()
    findings: Overview | None = None
    witnesses: tuple[Witness, ...] = ()
    backward: tuple[OrderEvent, ...] = ()
    deduplication_in_force: bool | None = None
    faults: tuple[FaultRow, ...] = ()
    pace: Pace | None = Field(None, description="null: not known, as in older summaries")
    latency: Latency | None = Field(None, description="of its acknowledgements; null: not known")
    stage_seconds: dict[str, float] = Field(default_factory=dict)
    fixed_seconds: float | None = Field(None, description="all stages but producing, fault and heal, and consuming")


class GroupRow(Record):
    """All runs of one variant on one system. `sums` leaves out void runs: their counts prove nothing on the system."""

    system: str
    variant: str
    deduplication: bool
    expectation: Expectation
    runs: int
    effective_runs: int
    runs_with_copies: int
    runs_summed: int
    verdict: Verdict
    reasons: tuple[Reason, ...]
    p_value: float | None
    strength: str | None
    rate_bound: float | None = Field(description="per-run anomaly rate excluded at 95 % confidence")
    sums: Counts
    block_lengths: tuple[Bin, ...]
    block_distances: tuple[Bin, ...] = ()
    findings: tuple[Sum, ...] = ()
    latency: Latency | None = Field(
        None, description="of the acknowledgements of all these runs; null: not known of each"
    )
    settings: dict[str, str] = Field(
        default_factory=dict, description="the producer's, in force in all its runs; older summaries have none"
    )


class Summary(Record):
    """What `summary.json` holds, and what `dedup verify --format json` prints.

    It is made from the evidence alone: its times are the manifests' own. For histories without an experiment
    (`experiment` is empty) it has the verdict and the runs.
    """

    schema_version: int = Field(1, ge=1, le=1)
    experiment: str
    spec_digest: str
    verdict: Verdict
    exit_code: int
    reasons: tuple[Reason, ...]
    first_recorded_at: str | None = Field(None, description="of the run that ended first: ISO 8601, UTC")
    last_recorded_at: str | None = None
    machines: tuple[Machine, ...] = Field((), description="all that recorded a run")
    versions: dict[str, dict[str, str]] = Field(description="by system")
    systems: tuple[GroupRow, ...]
    runs: tuple[RunRow, ...]
    repetitions: tuple[Repetition, ...] = Field((), description="every attempt that is not its run's result, and why")


AND: Final = " and "
"""Between several versions of a client."""


def summarise(experiment: Experiment, concluded: ExperimentVerdict, evidence: Iterable[Evidence]) -> Summary:
    """The summary of an experiment that was concluded from this evidence."""
    found = {(each.run_id, each.attempt): each for each in evidence}
    judged = [(verdict, found.get((verdict.run_id, verdict.attempt))) for verdict in concluded.runs]
    versions: dict[str, dict[str, str]] = {system.name: {} for system in experiment.spec.systems}
    clients: dict[str, dict[str, set[str]]] = {name: {} for name in versions}
    for verdict, each in judged:
        if each is not None and each.manifest is not None:
            versions[verdict.system] |= each.manifest.versions
            sender = each.manifest.producer
            clients[verdict.system].setdefault(sender.library, set()).add(sender.library_version)
    for name, told in clients.items():  # variants may have several; the tester's own, which asks brokers, sends nothing
        versions[name] |= {library: AND.join(sorted(found)) for library, found in told.items()}
    return Summary(
        experiment=concluded.experiment,
        spec_digest=concluded.spec_digest,
        verdict=concluded.verdict,
        exit_code=concluded.exit_code,
        reasons=concluded.reasons,
        **_recorded([each.manifest for _, each in judged if each is not None and each.manifest is not None]),
        versions=versions,
        systems=tuple(_group_row(group, judged) for group in concluded.systems),
        runs=tuple(run_row(verdict, each) for verdict, each in judged),
        repetitions=concluded.repetitions,
    )


def summarise_alone(judged: Sequence[tuple[RunVerdict, Evidence]]) -> Summary:
    """The summary of histories that were judged one by one."""
    verdict = worst(each.verdict for each, _ in judged)
    return Summary(
        experiment="",
        spec_digest="",
        verdict=verdict,
        exit_code=verdict.exit_code,
        reasons=(),
        **_recorded([each.manifest for _, each in judged if each.manifest is not None]),
        versions={},
        systems=(),
        runs=tuple(run_row(each, evidence) for each, evidence in judged),
    )


def _recorded(manifests: Sequence[Manifest]) -> dict[str, Any]:
    """When the histories were recorded, and on which machines."""
    times = sorted(each.recorded_at for each in manifests if each.recorded_at is not None)
    machines = dict.fromkeys(each.machine for each in manifests if each.machine is not None)
    return {
        "first_recorded_at": times[0] if times else None,
        "last_recorded_at": times[-1] if times else None,
        "machines": tuple(machines),
    }


def _judges(evidence: Evidence) -> tuple[Engine, ...]:
    others = (Engine.ORACLE,) if evidence.alone is None and evidence.oracle is not None else ()
    return (evidence.judge, *others) if evidence.said is not None else ()


def run_row(judged: RunVerdict, evidence: Evidence | None) -> RunRow:
    """The row of one run, or of a history without an experiment."""
    manifest = evidence.manifest if evidence else None
    answer = evidence.said if evidence else None
    seconds = manifest.stage_seconds if manifest else {}
    fixed = sum(value for stage, value in seconds.items() if stage not in WORKING_STAGES)
    return RunRow(
        run_id=judged.run_id,
        attempt=judged.attempt,
        system=judged.system,
        variant=judged.variant,
        run=judged.run,
        path=answer.path if answer else None,
        recorded_at=manifest.recorded_at if manifest else None,
        expectation=judged.expectation,
        judges=_judges(evidence) if evidence else (),
        verdict=judged.verdict,
        reasons=judged.reasons,
        effective=judged.effective,
        void=judged.void,
        counts=judged.counts,
        block_lengths=histogram(answer.block_lengths) if answer else (),
        findings=answer.findings if answer else None,
        witnesses=judged.witnesses,
        backward=judged.backward,
        deduplication_in_force=manifest.deduplication.in_force if manifest else None,
        faults=_fault_rows(manifest, evidence.vacuous) if manifest and evidence else (),
        pace=evidence.pace if evidence else None,
        latency=latency_of(evidence.latencies) if evidence else None,
        stage_seconds=seconds,
        fixed_seconds=round(fixed, 3) if seconds else None,
    )


def cells(counts: Counts | None) -> list[str]:
    """The cells of the columns of `COLUMNS` for one run or one sum; dashes where nothing was counted."""
    return ["-" if counts is None else f"{getattr(counts, name):,}" for name in COLUMNS.values()]


def histogram(block_lengths: Mapping[int, int]) -> tuple[Bin, ...]:
    """How many blocks lie in each bin from 2^k to 2^(k+1) - 1, from the shortest to the longest, empty bins between."""
    blocks: Counter[int] = Counter()
    for length, number in block_lengths.items():
        blocks[length.bit_length() - 1] += number
    if not blocks:
        return ()
    powers = range(min(blocks), max(blocks) + 1)
    return tuple(Bin(first=1 << power, last=(2 << power) - 1, blocks=blocks[power]) for power in powers)


def total(counts: Iterable[Counts]) -> Counts:
    """The sum of each count."""
    summed: Counter[str] = Counter()
    for each in counts:
        summed.update(each.model_dump())
    return Counts(**summed)


def _group_row(group: GroupVerdict, judged: Sequence[tuple[RunVerdict, Evidence | None]]) -> GroupRow:
    own = [
        (verdict, evidence)
        for verdict, evidence in judged
        if (verdict.system, verdict.variant) == (group.system, group.variant) and not verdict.void
    ]
    lengths, distances, found = Counter[int](), Counter[int](), list[Overview]()
    for _, evidence in own:
        if evidence is not None and evidence.said is not None:
            lengths.update(evidence.said.block_lengths)
            found += [evidence.said.findings] if evidence.said.findings else []
    for overview in found:
        distances.update(overview.block_distances)
    return GroupRow(
        **group.model_dump(include=set(GroupRow.model_fields) - {"reasons", "strength"}),
        reasons=group.reasons,
        runs_summed=len(own),
        strength=str(group.strength) if group.strength else None,
        rate_bound=group.strength.rate_bound if group.strength else None,
        sums=total(verdict.counts for verdict, _ in own if verdict.counts is not None),
        block_lengths=histogram(lengths),
        block_distances=histogram(distances),
        findings=added(sum_ for overview in found for sum_ in overview.sums),
        latency=_latency(own),
        settings=next((settings_of(each.manifest) for _, each in own if each and each.manifest), {}),
    )


def _latency(summed: Sequence[tuple[RunVerdict, Evidence | None]]) -> Latency | None:
    """Of the acknowledgements of these runs; None unless each run that has some has its histogram."""
    known = [
        evidence.latencies if evidence else None
        for verdict, evidence in summed
        if verdict.counts is not None and verdict.counts.positive_ack
    ]
    return None if None in known else latency_of(merged(each for each in known if each is not None))


def _fault_rows(manifest: Manifest, vacuous: Mapping[str, str | None]) -> tuple[FaultRow, ...]:
    return tuple(
        FaultRow(
            name=fault.name,
            kind=fault.kind,
            requested_message=fault.requested_message,
            requested_time=fault.requested_time,
            actual_message=fault.effect_message,
            unacknowledged=fault.unacknowledged,
            in_flight=fault.in_flight,
            target=fault.target,
            seconds=_seconds(fault),
            client_witness=fault.client_witness,
            vacuous=vacuous.get(fault.name),
            heal_proven=fault.heal_proven,
        )
        for fault in manifest.faults
    )


def _seconds(fault: FaultRecord) -> float | None:
    if fault.injected_ns is None or fault.healed_ns is None:
        return None
    return round((fault.healed_ns - fault.injected_ns) / 1e9, 3)
