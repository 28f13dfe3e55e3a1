"""The conditions of results: what differs between them, and what forbids that they are compared.

A comparison asks what one thing changes, so all other things should be equal. Each fact about a result has a weight. A
*subject* is what people compare: the system, its version, the client, where it runs. A *confounder* can cause the same
difference: settings, the link's latency, Java, the tester's version. It is allowed, and listed. *Plan* is how much was
done, such as the number of runs: the statistics know it.

The workload, the faults, and what a variant with the same name promises must not differ. Otherwise the runs of two
results are no repetitions of one question, and the comparison is refused.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from dedup.errors import SpecificationError
from dedup.experiment.spec import Expectation, Experiment, System
from dedup.judgement.paces import Pace
from dedup.judgement.summaries import Summary
from dedup.wire.manifests import Record
from dedup.workloads.kinds import subject_of
from dedup.workloads.subjects import Subject

UNKNOWN: Final = "not known"
NONE: Final = "none"
OURS: Final = ("dedup", "python")
MOST_SHOWN: Final = 3
PLAN_KEYS: Final = {"runs", "replacements", "confidence_percent", "seed", "timeouts"}


class Weight(StrEnum):
    """What a difference means for a comparison."""

    SUBJECT = "subject"
    CONFOUNDER = "confounder"
    PLAN = "plan"


class Result(NamedTuple):
    """One execution of an experiment: the name that the comparison gives it, what was run, and its summary."""

    name: str
    experiment: Experiment
    summary: Summary
    cluster: str = ""
    """Where it was run, if that is what is compared: a result itself does not know it."""


class Side(NamedTuple):
    """One system of one result: what is compared with another."""

    name: str
    result: Result
    system: System

    @property
    def subject(self) -> Subject:
        """What its controls must show."""
        spec = self.result.experiment.spec
        controls = (spec.workload.of(each) for each in spec.variants if each.expect is Expectation.DUPLICATES)
        return subject_of(next(controls, spec.workload.given))

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions in force, of brokers, clients and the tester."""
        return self.result.summary.versions.get(self.system.name, {})

    @property
    def version(self) -> str:
        """The system's version, as far as it is known: one that was there, or by a chart of others, need not tell."""
        others = self.system.existing is not None or self.system.listed is not None
        asked = UNKNOWN if others else self.system.version
        return self.versions.get("deployed") or self.versions.get(f"{self.system.kind} broker") or asked

    @property
    def client(self) -> str:
        """The client library and its version."""
        return self.versions.get(self.system.library) or f"{self.system.library}, version {UNKNOWN}"

    @property
    def platform(self) -> str:
        """Where the brokers ran."""
        machines = self.result.summary.machines
        if self.system.existing is not None:
            return "a system that was there already"
        if not machines:
            return UNKNOWN
        hosts = sorted({each.host for each in machines if each.java})
        return f"processes on {', '.join(hosts)}" if hosts else "pods"


class Difference(Record):
    """One fact that is not the same on all sides; `values` by the side's name."""

    what: str
    weight: Weight
    values: dict[str, str]


Facts = dict[tuple[str, Weight], str]


def sides_of(results: Sequence[Result]) -> list[Side]:
    """The sides of results, in their order and that of their files.

    A side is called after its result, one of several systems after both, and those of a single result after the system.
    """
    if len(results) == 1:
        return [Side(each.name, results[0], each) for each in results[0].experiment.spec.systems]
    return [
        Side(result.name if len(result.experiment.spec.systems) == 1 else f"{result.name} {each.name}", result, each)
        for result in results
        for each in result.experiment.spec.systems
    ]


def differences(sides: Sequence[Side]) -> tuple[Difference, ...]:
    """What is not the same on all sides, subjects first. What is not known on a side is no difference."""
    facts = [_facts(side, sides) for side in sides]
    found = []
    for what, weight in dict.fromkeys(key for each in facts for key in each):
        values = [each.get((what, weight), NONE) for each in facts]
        if len(set(values) - {UNKNOWN}) > 1:
            told = dict(zip((side.name for side in sides), values, strict=True))
            found.append(Difference(what=what, weight=weight, values=told))
    return tuple(sorted(found, key=lambda each: list(Weight).index(each.weight)))


def notes(sides: Sequence[Side], found: Sequence[Difference]) -> Iterator[str]:
    """What the reader must know about the conditions beside the differences, a sentence each."""
    weighty = [each.what for each in found if each.weight is not Weight.PLAN]
    if len(weighty) > 1 and any(each.weight is Weight.CONFOUNDER for each in found):
        yield f"{len(weighty)} things differ, so a difference of results need not come from one of them"
    if not found:
        yield "nothing that is known differs but when it was run: a difference of results would be chance, or not known"
    if any("machine" in each.what or each.what == "platform" for each in found):
        yield "the machines differ, so messages per second and pauses compare these, too"
    for side in sides:
        if _is_older(side):
            yield f"{side.name}: an older dedup made its summary, so its settings in force and its rates are not known"


def _is_older(side: Side) -> bool:
    """Whether its summary is from before summaries had settings and rates: of recorded runs it has neither."""
    rows = [row for row in side.result.summary.systems if row.system == side.system.name]
    runs = [run for run in side.result.summary.runs if run.system == side.system.name]
    told = any(row.settings for row in rows) or any(run.pace is not None for run in runs)
    return not told and any(run.counts is not None for run in runs)


def check_comparable(results: Sequence[Result]) -> None:
    """SpecificationError, in one line, if two results do not answer the same question."""
    first, runs = results[0], [_runs(each) for each in results]
    for index, other in enumerate(results):
        for earlier, twin in enumerate(results[:index]):
            if shared := _shared(runs[index], runs[earlier]):
                raise SpecificationError(
                    where=other.name,
                    got=f"{shared} of {len(other.summary.runs)} runs that are runs of {twin.name}, too",
                    rule="a comparison needs two executions; the same runs are no evidence twice",
                    todo="name another result, or run one of the two again in a folder of its own",
                )
        if unlike := list(_unlike(first, other)):
            more = f", and {len(unlike) - MOST_SHOWN} more" if len(unlike) > MOST_SHOWN else ""
            raise SpecificationError(
                where=other.name,
                got=f"{'; '.join(unlike[:MOST_SHOWN])}{more}",
                rule="workload, faults and what variants promise must be the same in all results",
                todo="run one of the two again with the other's, or compare others",
            )


_Runs = Mapping[tuple[str, int, str], Pace | None]
"""The runs of a result: by name, attempt, and when each was recorded, how fast it was."""


def _runs(result: Result) -> _Runs:
    runs = result.summary.runs
    return {(run.run_id, run.attempt, run.recorded_at): run.pace for run in runs if run.recorded_at is not None}


def _shared(runs: _Runs, others: _Runs) -> int:
    """How many runs two results share: all, if a folder was copied; some, if it was copied and then finished twice.

    Two clusters may record runs of one name in the same second, and not at the same pace. What is not known of the pace
    tells nothing.
    """
    paces = [(runs[each], others[each]) for each in runs.keys() & others.keys()]
    return sum(own is None or there is None or own == there for own, there in paces)


def _unlike(first: Result, other: Result) -> Iterator[str]:
    here, there = (dict(_asked(result.experiment)) for result in (other, first))
    names = [{variant.name for variant in result.experiment.spec.variants} for result in (first, other)]
    shared = names[0] & names[1]
    if not shared:
        yield f"variants {', '.join(sorted(names[1]))}, and {first.name} has {', '.join(sorted(names[0]))}"
    for key in dict.fromkeys((*here, *there)):
        kind, _, rest = key.partition(".")
        if kind == "variants" and rest.partition(".")[0] not in shared:
            continue
        if here.get(key, NONE) != there.get(key, NONE):
            yield f"{key} {here.get(key, NONE)}, and {there.get(key, NONE)} in {first.name}"


def _asked(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """What must be the same in all results, by place in the file, drawn faults after written ones; variants by name."""
    document = experiment.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    yield from _flat("workload", document["workload"])
    for index, fault in enumerate(experiment.spec.all_faults):
        yield from _flat(f"faults[{index}]", fault.model_dump(mode="json", by_alias=True, exclude_none=True))
    for variant in document["variants"]:
        yield from _flat(f"variants.{variant['name']}", variant)


def _flat(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield where, NONE if value is None else str(value)
        return
    for key, each in value.items():
        yield from _flat(f"{where}.{key}", each)


def _facts(side: Side, sides: Sequence[Side]) -> Facts:
    """What is known of a side. What only one product or client has is told only if all sides have the same."""
    system, summary = side.system, side.result.summary
    facts: Facts = {
        ("version", Weight.SUBJECT): f"{system.product.name} {side.version}",
        ("client", Weight.SUBJECT): side.client,
        ("platform", Weight.SUBJECT): side.platform,
    }
    if side.result.cluster:
        facts["cluster", Weight.SUBJECT] = side.result.cluster
    told = {"network.latency": str(system.network.model_dump(mode="json", by_alias=True)["latency"])}
    told |= {f"the tester's {key}": side.versions.get(key, UNKNOWN) for key in OURS}
    for what in ("os", "java"):
        values = sorted({str(getattr(each, what)) for each in summary.machines} - {""})
        told[f"the machine's {what}"] = ", ".join(values) or UNKNOWN
    if len({each.system.kind for each in sides}) == 1:
        deployed = getattr(system, system.kind).model_dump(mode="json", by_alias=True, exclude={"version"})
        told |= {f"{system.kind}.{key}": str(value) for key, value in deployed.items()}
        told["deploy.chart"] = system.chart if side.platform == "pods" else UNKNOWN
    if len({each.system.library for each in sides}) == 1:
        told |= dict(_settings(side, sides))
    spec = side.result.experiment.spec
    document = spec.model_dump(mode="json", by_alias=True, include=PLAN_KEYS)
    plan = dict(_flat("spec", document)) | {"spec.variants": ", ".join(variant.name for variant in spec.variants)}
    weighed = ((Weight.CONFOUNDER, told), (Weight.PLAN, plan))
    return facts | {(what, weight): value for weight, each in weighed for what, value in each.items()}


def _settings(side: Side, sides: Sequence[Side]) -> Iterator[tuple[str, str]]:
    """The client's settings: those in force, if they are known of all sides; else those asked for.

    One that all variants have with one value, on every side, is told once; else it is told of each variant.
    """
    shared = set.intersection(*({variant.name for variant in each.result.experiment.spec.variants} for each in sides))
    in_force = {each.name: _in_force(each, shared) for each in sides}
    if not all(in_force.values()):
        for key in sorted({key for each in sides for key in each.system.client.properties}):
            yield f"client.properties.{key}", side.system.client.properties.get(key, "default")
        return
    apart = {key for found in in_force.values() for key, values in found.items() if len(set(values.values())) > 1}
    for key, values in in_force[side.name].items():
        if key in apart:
            yield from ((f"the producer's {key} of {variant}", value) for variant, value in values.items())
        else:
            yield f"the producer's {key}", next(iter(values.values()))


def _in_force(side: Side, variants: Collection[str]) -> dict[str, dict[str, str]]:
    """The settings in force by key and variant; none if they are not known of each of these variants."""
    own = [row for row in side.result.summary.systems if row.system == side.system.name]
    rows = {row.variant: row.settings for row in own if row.variant in variants}
    if not rows or not all(rows.values()):
        return {}
    keys = dict.fromkeys(key for each in rows.values() for key in each)
    return {key: {variant: each.get(key, "default") for variant, each in rows.items()} for key in keys}
