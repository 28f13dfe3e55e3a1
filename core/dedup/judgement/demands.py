"""What an experiment demands of a run, and whether a history is of the planned run.

An experiment demands more than clean counts: this workload, this setting of deduplication, these faults. A history of
another run proves nothing about the experiment.
"""

from collections.abc import Iterator
from math import isclose
from typing import Final

from pydantic import Field, SerializeAsAny

from dedup.experiment.plans import Run, deduplicates
from dedup.experiment.spec import Expectation, Experiment
from dedup.faults.kinds import A_BROKER
from dedup.faults.registry import LATENCY_FAULT, Fault, kind_of
from dedup.faults.targets import victim
from dedup.judgement.anomalies import Verification
from dedup.payloads import messages_of
from dedup.wire.faults import Detail
from dedup.wire.manifests import Manifest, Record
from dedup.workloads.kinds import WorkloadKind
from dedup.workloads.partitioners import TRIED

NOT_RECORDED: Final = "not recorded"


class PlannedFault(Record):
    """A fault as the experiment asks for it, at a message or at a time; with neither in force for the whole run."""

    name: str
    kind: str
    message: int | None
    time: str | None = Field(None, description="in words, as manifests record it")
    settings: dict[str, float | str] = Field(
        default_factory=dict, description="by the names under which its injector writes them down"
    )
    victim: str = Field(A_BROKER, description="what it strikes, in words")


class Demand(Record):
    """What a run must fulfil. None: not known (a history without its experiment), and not checked."""

    expectation: Expectation
    planned: Run | None = None
    kind: str | None = Field(None, description="kafka or pulsar")
    messages: int | None = None
    streams: int | None = None
    homes: tuple[int, ...] | None = Field(None, description="the partition that each stream is sent to")
    partitions: int | None = None
    library: str | None = Field(None, description="the client library that sends")
    clients: tuple[str, ...] | None = Field(
        None, description="the versions of the client that are known to send streams to these partitions; None: all"
    )
    spec_digest: str | None = None
    deduplication: bool | None = Field(None, description="as the variant asks; None: as the manifest says it asked")
    faults: tuple[PlannedFault, ...] | None = None
    workload: SerializeAsAny[WorkloadKind] | None = Field(
        None, description="what the application does beyond sending each message once"
    )
    trusted: bool = Field(False, description="a history without a manifest is taken at its word")


def demand_of(experiment: Experiment, run: Run) -> Demand:
    """What an experiment demands of one of its runs."""
    variant = next(each for each in experiment.spec.variants if each.name == run.variant)
    kind = experiment.spec.workload.of(variant)
    system = next(each for each in experiment.spec.systems if each.name == run.system).of(variant)
    asked_ms = system.network.latency_s * 1000
    latency = PlannedFault(name=LATENCY_FAULT, kind=LATENCY_FAULT, message=None, settings={"latency_ms": asked_ms})
    return Demand(
        expectation=variant.expect,
        planned=run,
        kind=system.kind,
        messages=experiment.spec.workload.messages,
        streams=experiment.spec.workload.streams,
        homes=experiment.spec.workload.homes(system.library, system.client.properties),
        partitions=experiment.spec.workload.partitions,
        library=system.library,
        clients=experiment.spec.workload.tried(system.library),
        spec_digest=experiment.digest(),
        deduplication=deduplicates(variant),
        faults=(*([latency] if asked_ms else []), *map(_planned, experiment.spec.all_faults)),
        workload=kind,
    )


def _planned(fault: Fault) -> PlannedFault:
    return PlannedFault(
        name=fault.name,
        kind=fault.kind,
        message=fault.at.message,
        time=fault.at.time,
        settings=fault.given.settings,
        victim=fault.given.victim,
    )


def departures(manifest: Manifest, run_id: str, demand: Demand) -> Iterator[str]:
    """Where a manifest is not that of the planned run, or without a plan, of the run called `run_id`.

    One that says when it was recorded says where its streams were sent. Older ones need not.
    """
    planned = demand.planned
    pairs: list[tuple[str, object, object]] = [
        ("run_id", manifest.run_id, run_id if planned is None else planned.run_id),
        ("kind", manifest.kind, demand.kind),
        ("messages", manifest.messages, demand.messages),
        ("streams", manifest.streams, demand.streams),
        ("partitions", manifest.topic_partitions, demand.partitions),
        ("spec_digest", manifest.spec_digest, demand.spec_digest),
        ("deduplication asked", manifest.deduplication.asked, demand.deduplication),
    ]
    if manifest.stream_partitions is not None:
        pairs.append(("partitions of streams", manifest.stream_partitions, demand.homes))
    elif manifest.recorded_at is not None and demand.homes is not None:
        yield f"partitions of streams are not named, planned {demand.homes}"
    if demand.library is not None:
        pairs.append(("client", manifest.producer.library, demand.library))
    tried = _tried(manifest) if planned is None else demand.clients
    if tried is not None and (client := manifest.producer.library_version) not in tried:
        yield f"keys were put by {client}, and it is known of {', '.join(tried)} alone where it puts them"
    if demand.partitions is not None:
        again = demand.workload and demand.workload.resent_partitions(demand.partitions)
        if manifest.resent_partitions != again:
            yield f"partitions of what is sent again are {manifest.resent_partitions}, planned {again}"
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


def _tried(manifest: Manifest) -> tuple[str, ...] | None:
    """Of a history without its plan: the versions of its client that put keys where it says; None: all, or no keys.

    Without keys the producer names the partitions of the streams, in turn.
    """
    in_turn = tuple(stream % manifest.topic_partitions for stream in range(manifest.streams))
    has_keys = manifest.stream_partitions not in (None, in_turn)
    return TRIED.get(manifest.producer.library) if has_keys else None


def unplanned_sends(answer: Verification, demand: Demand) -> Iterator[str]:
    """The streams that sent values outside the plan: stream s of S sends 1, 2, 3, … up to its share.

    It does not check that all planned values were sent: a producer that died has not sent them. If the producer is
    complete, the number of values is the planned one, and none is outside the plan, then they are the planned values.
    """
    if demand.messages is None or demand.streams is None or answer.sent is None:
        return
    for stream, (lowest, highest) in answer.sent.items():
        last = messages_of(stream, demand.messages, demand.streams) if stream < demand.streams else 0
        if lowest < 1 or highest > last:
            planned = f"1 to {last:,}" if last else "nothing"
            yield f"stream {stream} sent values from {lowest:,} to {highest:,}, planned {planned}"


def other_faults(manifest: Manifest, demand: Demand) -> Iterator[str]:
    """The faults that have a planned name and differ from the plan.

    The injector of a fault that took effect has recorded its settings; only older manifests, which do not say when they
    were recorded, may lack them. A setting that is newer than its kind had its default before there was one.
    """
    planned = {fault.name: fault for fault in demand.faults or ()}
    for record in manifest.faults:
        if (wanted := planned.get(record.name)) is None:
            continue
        silent = manifest.recorded_at is not None and record.injected_ns is not None
        kind = kind_of(record.kind)
        unsaid = {} if kind is None else kind.newer
        pairs: list[tuple[str, object, object]] = [
            ("kind", record.kind, wanted.kind),
            ("message asked", record.requested_message, wanted.message),
            ("time asked", record.requested_time, wanted.time),
            *(
                (name, record.injector.get(name, unsaid.get(name, NOT_RECORDED) if silent else value), value)
                for name, value in wanted.settings.items()
            ),
        ]
        if record.target_witness:
            pairs.append(("victim", victim(Detail.model_validate(record.target_witness)), wanted.victim))
        for what, found, asked in pairs:
            if not _same(found, asked):
                yield f"fault {record.name}: its {what} is {found}, planned {asked}"


def _same(found: object, asked: object) -> bool:
    """Whether two settings are equal; fractions of a second may be rounded."""
    if isinstance(found, float | int) and isinstance(asked, float | int):
        return isclose(found, asked, rel_tol=1e-9)
    return found == asked
