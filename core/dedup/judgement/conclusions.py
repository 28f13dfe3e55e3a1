"""The verdict on a whole experiment.

Runs are judged one by one (`dedup.judgement.verdicts`); an experiment adds rules over all runs. Every planned run must
be there. The variants of a system must differ in the switch under test only. The control must show duplicates during
each fault: if none appear without deduplication, their absence with it proves nothing about that fault. If the
experiment asks for a confidence, the numbers of runs must reach it. The verdict of the whole is the worst of its parts.
So one doubtful run makes the experiment inconclusive and is not left out: runs under heavy stress are the most likely
to end in doubt. Only a run whose faults missed may be replaced, within a budget, and before its topic is read
(dedup/judgement/repetitions.py).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pydantic import Field, SerializeAsAny

from dedup.experiment import statistics
from dedup.experiment.plans import Run, deduplicates, plan
from dedup.experiment.spec import Expectation, Experiment, System, Variant
from dedup.judgement.counts import uncertain, uncertainty
from dedup.judgement.endings import Repetition
from dedup.judgement.repetitions import judge_runs
from dedup.judgement.verdicts import (
    Code,
    Evidence,
    Reason,
    RunVerdict,
    Verdict,
    is_treatment,
    worst,
)
from dedup.wire.manifests import Manifest, Record
from dedup.workloads.kinds import WorkloadKind, subject_of
from dedup.workloads.subjects import Subject

SWITCHES: Final = frozenset({"enable.idempotence", "deduplication"})
"""Client settings that are the thing under test itself: only they may differ between variants."""
ADDRESSES: Final = frozenset({"bootstrap.servers", "service_url", "serviceUrl"})
OURS: Final = frozenset({"dedup", "python"})
"""The tester's own versions: a corrected tester may finish an experiment."""
THE_SAME: Final[Mapping[str, System]] = {}


class Strength(Record):
    """Which rate of anomalies the runs of a treatment exclude."""

    clean_runs: int
    failed_runs: int = Field(0, description="with a witness, effective or not: what else is in doubt excuses none")
    rate_bound: float = Field(description="per-run anomaly rate excluded at 95 % confidence; 1 if nothing is")

    def __str__(self) -> str:
        sure = "(95 % confidence, if runs are independent)"
        if self.failed_runs:
            judged = self.clean_runs + self.failed_runs
            bound = (
                f": fewer than {statistics.percent_below(self.rate_bound)} of runs do {sure}" if self.clean_runs else ""
            )
            return f"{self.failed_runs:,} of {judged:,} runs went wrong{bound}"
        if not self.clean_runs:
            return "no clean effective run"
        runs = "1 clean effective run" if self.clean_runs == 1 else f"{self.clean_runs:,} clean effective runs"
        return f"{runs}: fewer than {statistics.percent_below(self.rate_bound)} of runs go wrong {sure}"


class GroupVerdict(Record):
    """All runs of one variant on one system. `runs` counts the planned, `runs_with_copies` effective ones."""

    system: str
    variant: str
    deduplication: bool
    expectation: Expectation
    runs: int
    effective_runs: int
    runs_with_copies: int
    p_value: float | None = Field(None, description="of a control: Fisher, one-sided, the weakest over the treatments")
    strength: Strength | None = Field(None, description="of a treatment")
    verdict: Verdict
    reasons: tuple[Reason, ...]


class ExperimentVerdict(Record):
    """The verdict on an experiment, on its groups in the order of the file, and on every planned run."""

    experiment: str
    spec_digest: str
    verdict: Verdict
    exit_code: int
    reasons: tuple[Reason, ...]
    systems: tuple[GroupVerdict, ...]
    runs: tuple[RunVerdict, ...]
    repetitions: tuple[Repetition, ...] = Field((), description="every attempt that is not its run's result")


class _Group(Record):
    system: System
    variant: Variant
    verdicts: tuple[RunVerdict, ...]
    faults: tuple[str, ...] = Field((), description="those that strike at a message; each needs copies of its own")
    workload: SerializeAsAny[WorkloadKind] | None = Field(None, description="subject and cause of what its runs show")

    @property
    def effective(self) -> list[RunVerdict]:
        return [verdict for verdict in self.verdicts if verdict.effective]

    @property
    def subject(self) -> Subject:
        return subject_of(self.workload)

    @property
    def showing(self) -> list[RunVerdict]:
        """The effective runs that show the subject, of whatever cause."""
        return self.that_show(self.subject)

    def that_show(self, subject: Subject) -> list[RunVerdict]:
        """The effective runs that show that subject: a treatment is compared by its control's."""
        return [run for run in self.effective if run.shows(subject.count)]

    @property
    def of_cause(self) -> list[RunVerdict]:
        """Of these the runs that show it of the cause that the workload names, if it names one."""
        return [run for run in self.showing if run.shows(self.count)]

    @property
    def count(self) -> str:
        """The count of that cause; that of the subject if the workload names none."""
        return (self.workload.aim.cause if self.workload is not None else "") or self.subject.count

    @property
    def cause(self) -> str:
        """That cause in words, after a blank; empty if the workload names none."""
        words = self.workload.aim.words if self.workload is not None else ""
        return f" {words}" if words else ""

    @property
    def copies_by_fault(self) -> dict[str, int]:
        """By fault: how many runs have a value that was under way during it and shows the subject, of that cause.

        Of a subject of which that is not known no fault has any.
        """
        known = self.of_cause if self.subject.by_fault else []
        return {fault: sum(run.with_copies_during(fault, self.count) for run in known) for fault in self.faults}

    @property
    def convincing(self) -> int:
        """The number of effective runs that show the subject, of the fault that has the fewest."""
        return min(self.copies_by_fault.values(), default=len(self.of_cause))

    @property
    def is_control(self) -> bool:
        return self.variant.expect is Expectation.DUPLICATES

    @property
    def forbids_copies(self) -> bool:
        return self.variant.expect.forbids_copies


def conclude(experiment: Experiment, evidence: Iterable[Evidence]) -> ExperimentVerdict:
    """The verdict on the experiment from all attempts of its runs, in any order; a missing run is an error."""
    attempts: dict[str, list[Evidence]] = {}
    for each in evidence:
        attempts.setdefault(each.run_id, []).append(each)
    runs = plan(experiment)
    judged = judge_runs(experiment, runs, attempts)
    verdicts = {run_id: each.verdict for run_id, each in judged.items()}
    manifests = {name: [e.manifest for e in found if e.manifest is not None] for name, found in attempts.items()}
    groups = []
    for system in experiment.spec.systems:
        own = [
            _Group(
                system=system,
                variant=variant,
                verdicts=tuple(verdicts[run.run_id] for run in runs if _in(run, system, variant)),
                faults=tuple(fault.name for fault in experiment.spec.all_faults),
                workload=experiment.spec.workload.of(variant),
            )
            for variant in experiment.spec.variants
        ]
        of_system = [
            manifest for run in runs if run.system == system.name for manifest in manifests.get(run.run_id, [])
        ]
        tested = {variant.name: system.of(variant) for variant in experiment.spec.variants}
        unfair = [_error(Code.VARIANTS_DIFFER, f"{system.name}: {text}") for text in differences(of_system, tested)]
        groups += [_judge_group(group, own, experiment.spec.confidence_percent, unfair) for group in own]
    unplanned = sorted(attempts.keys() - verdicts.keys())
    reasons = [_error(Code.ANOTHER_RUN, f"run {run_id} is not of this experiment's plan") for run_id in unplanned]
    reasons += _of_groups(groups)
    return ExperimentVerdict(
        experiment=experiment.name,
        spec_digest=experiment.digest(),
        verdict=(verdict := worst(reason.verdict for reason in reasons)),
        exit_code=verdict.exit_code,
        reasons=tuple(reason for reason in reasons if reason.verdict is verdict),
        systems=tuple(groups),
        runs=tuple(verdicts[run.run_id] for run in runs),
        repetitions=tuple(each for run in runs for each in judged[run.run_id].repetitions),
    )


def differences(manifests: Sequence[Manifest], tested: Mapping[str, System] = THE_SAME) -> list[str]:
    """What differs between runs of one system and must not: settings except the switch, versions except ours.

    A setting or a version that only some runs have differs, too. `tested`: the system as it is in each variant, if
    that is not the same in all. Then another library or program has its own settings and version, and variants with the
    same one may differ in the settings that they declare.
    """
    sorts: dict[tuple[object, ...], list[Manifest]] = {}
    variants: dict[str, list[Manifest]] = {}
    for manifest in manifests:
        sorts.setdefault(_sender(tested.get(manifest.variant)), []).append(manifest)
        variants.setdefault(manifest.variant, []).append(manifest)
    compared = [
        *([_of_client(each, _declared(each, tested)) for each in own] for own in sorts.values()),
        *([_of_client(each) for each in own] for own in variants.values()),
        [_of_system(manifest) for manifest in manifests],
    ]
    return list(dict.fromkeys(text for known in compared for text in _differing(known)))


def _sender(system: System | None) -> tuple[str, ...]:
    return () if system is None else system.sender


def _differing(known: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for what in dict.fromkeys(key for of in known for key in of):
        seen = {each.get(what, "none") for each in known}
        if len(seen) > 1:
            yield f"{what} is not the same in all runs: {', '.join(sorted(seen))}"


def _declared(manifest: Manifest, tested: Mapping[str, System]) -> frozenset[str]:
    """The settings in which variants with this run's client differ, as they declare."""
    own = _sender(tested.get(manifest.variant))
    beside = [each.client for each in tested.values() if each.sender == own]
    return frozenset(
        name for each in beside for name in each.properties if len({of.properties.get(name) for of in beside}) > 1
    )


def _of_client(manifest: Manifest, declared: Collection[str] = ()) -> dict[str, str]:
    """What must be the same in all runs with a client, by name. Values that contain the run's name count as equal."""
    producer, but = manifest.producer, {*SWITCHES, *declared}
    settings = {f"the producer's {key}": value for key, value in settings_of(manifest).items() if key not in but}
    return settings | {"the client library": f"{producer.library} {producer.library_version}"}


def _of_system(manifest: Manifest) -> dict[str, str]:
    """What must be the same in all runs of a system, whatever its client, by name."""
    versions = {f"the version of {key}": value for key, value in manifest.versions.items() if key not in OURS}
    return versions | _of_application(manifest)


def _of_application(manifest: Manifest) -> dict[str, str]:
    application = manifest.consumer.application
    if application is None:
        return {}
    told = {f"the application's {key}": value for key, value in _named(application.effective_config, manifest).items()}
    return {**told, "the application's library version": application.library_version}


def settings_of(manifest: Manifest) -> dict[str, str]:
    """The producer's settings in force but its addresses. A value that contains the run's name is not told."""
    return _named(manifest.producer.effective_config, manifest)


def _named(config: Mapping[str, str], manifest: Manifest) -> dict[str, str]:
    names = [each for each in (manifest.run_id, manifest.topic) if each]  # "" is in every value
    return {
        key: "named after the run" if any(name in value for name in names) else value
        for key, value in config.items()
        if key not in ADDRESSES
    }


def _in(run: Run, system: System, variant: Variant) -> bool:
    return (run.system, run.variant) == (system.name, variant.name)


def _error(code: Code, text: str) -> Reason:
    return Reason(verdict=Verdict.ERROR, code=code, text=text)


def _judge_group(group: _Group, own: Sequence[_Group], confidence: float | None, unfair: list[Reason]) -> GroupVerdict:
    against = [other for other in own if other.forbids_copies]
    p_values = [
        statistics.fisher_p(
            group.convincing, len(group.effective), len(other.that_show(group.subject)), len(other.effective)
        )
        for other in against
    ]
    reasons = [*unfair, *_of_runs(group.verdicts)]
    if group.is_control:
        reasons += _doubts_of_control(group, against, confidence)
    else:
        reasons += _doubts_of_comparison(group, own, confidence)
    strength = _strength(group)
    p_value = float(max(p_values)) if group.is_control and p_values else None
    if not reasons:
        reasons += _merits(group, own, strength, p_value)
    return GroupVerdict(
        system=group.system.name,
        variant=group.variant.name,
        deduplication=deduplicates(group.variant),
        expectation=group.variant.expect,
        runs=len(group.verdicts),
        effective_runs=len(group.effective),
        runs_with_copies=sum(run.with_copies for run in group.effective),
        p_value=p_value,
        strength=strength if is_treatment(group.variant.expect) else None,
        verdict=worst(reason.verdict for reason in reasons),
        reasons=tuple(reasons),
    )


def _strength(group: _Group) -> Strength:
    clean = sum(judged.verdict is Verdict.PASS for judged in group.effective)
    failed = sum(judged.verdict is Verdict.FAIL for judged in group.verdicts)
    bound = statistics.rate_bound(clean + failed, failed)
    return Strength(clean_runs=clean, failed_runs=failed, rate_bound=bound)


def _of_runs(verdicts: Sequence[RunVerdict]) -> Iterator[Reason]:
    """The reasons against the runs: one a kind, with the first run as the example."""
    kinds: dict[tuple[Verdict, str], list[tuple[str, str]]] = {}
    for judged in verdicts:
        for reason in judged.reasons:
            if reason.verdict is not Verdict.PASS:
                kinds.setdefault((reason.verdict, reason.code), []).append((judged.run_id, reason.text))
    for (verdict, code), found in kinds.items():
        (first, text), runs = found[0], len({run_id for run_id, _ in found})
        others = f" (so {runs} of {len(verdicts)} runs)" if runs > 1 else ""
        yield Reason(verdict=verdict, code=code, text=f"{first}: {text}{others}")


def _doubts_of_control(group: _Group, against: Sequence[_Group], confidence: float | None) -> Iterator[Reason]:
    """Why the control does not show that this fault causes the subject, duplicates mostly, on this system."""
    runs, name = len(group.effective), f"{group.system.name}: {group.variant.name}"
    if not group.of_cause:
        none = f"{group.subject.none}{group.cause} in any of {runs} effective runs"
        yield _doubt(Code.CONTROL_CLEAN, f"{name}: {none}, so a clean treatment proves nothing")
        return
    for fault in (fault for fault, copies in group.copies_by_fault.items() if not copies):
        some = f"{group.subject.some}{group.cause} in {len(group.of_cause)} of {runs} effective runs"
        of_others = group.subject.by_fault and any(run.with_copies_during(fault) for run in group.of_cause)
        but = "not known to be" if of_others else group.subject.but
        text = f"{name}: {some}, {but} in the time of fault {fault}"
        yield _doubt(Code.CONTROL_UNCONVINCING, f"{text}: that it can cause any is not shown")
    if confidence is None or not group.convincing:
        return
    if not against:
        text = f"{name}: a confidence of {confidence:g} % needs a variant without duplicates to compare with"
        yield _doubt(Code.CONTROL_UNCONVINCING, text)
    wanted = statistics.significance(confidence)
    for other in against:
        treated, shown = len(other.effective), len(other.that_show(group.subject))
        if statistics.best_p(runs, treated) > wanted:
            yield _too_few(group, other, confidence)
        elif (p := statistics.fisher_p(group.convincing, runs, shown, treated)) > wanted:
            yield _doubt(
                Code.CONTROL_UNCONVINCING,
                f"{name}: {_convincing(group)}, with "
                f"{other.variant.name} in {shown} of {treated}: p = {float(p):.3g}, and "
                f"{confidence:g} % confidence needs at most {float(wanted):.3g}",
            )


def _doubts_of_comparison(group: _Group, own: Sequence[_Group], confidence: float | None) -> Iterator[Reason]:
    """Why the group cannot reach the confidence: nothing to compare it with, or too few effective runs at best."""
    if confidence is None:
        return
    controls = [other for other in own if other.is_control]
    if not controls or not any(other.forbids_copies for other in own):
        yield _doubt(
            Code.NOTHING_COMPARED,
            f"{group.system.name}: {group.variant.name}: {confidence:g} % confidence is that a control and a treatment "
            f"differ, and there is no {'treatment' if controls else 'control'}: nothing was compared",
        )
    elif group.forbids_copies:
        control = min(controls, key=lambda other: len(other.effective))
        best = statistics.best_p(len(control.effective), len(group.effective))
        if best > statistics.significance(confidence):
            yield _too_few(control, group, confidence)


def _too_few(control: _Group, treatment: _Group, confidence: float) -> Reason:
    """The same reason for both: how many runs one needs depends on how many the other has."""
    effective, treated = len(control.effective), len(treatment.effective)
    return _doubt(
        Code.TOO_FEW_RUNS,
        f"{control.system.name}: {control.variant.name} has {effective} effective runs of {len(control.verdicts)}, and "
        f"{treatment.variant.name} {treated} of {len(treatment.verdicts)}: too few for {confidence:g} % confidence; "
        f"{statistics.runs_needed(confidence)} of each variant would be enough at best",
    )


def _doubt(code: Code, text: str) -> Reason:
    return Reason(verdict=Verdict.INCONCLUSIVE, code=code, text=text)


def _merits(group: _Group, own: Sequence[_Group], strength: Strength, p_value: float | None) -> Iterator[Reason]:
    """Why a group without any reason against it passes."""

    def merit(code: Code, text: str) -> Reason:
        return Reason(verdict=Verdict.PASS, code=code, text=f"{group.system.name}: {group.variant.name}: {text}")

    runs = len(group.effective)
    if group.is_control:
        chance = f" (Fisher's p against the treatment: {p_value:.3g})" if p_value is not None else ""
        yield merit(Code.CONTROL_CONVINCING, f"{_convincing(group)}{chance}")
    elif not is_treatment(group.variant.expect):
        shown = f"{group.subject.some} in {len(group.showing)} of {runs} effective runs"
        yield merit(Code.CLEAN, f"nothing is expected of it; {shown}")
    else:
        yield merit(Code.STRENGTH, f"{strength}")
        if not any(other.is_control for other in own):
            yield merit(Code.NO_CONTROL, "no control: that duplicates can appear at all was not shown")
    if doubtful := [each.counts for each in group.effective if each.counts and uncertain(each.counts)]:
        most = max(doubtful, key=lambda counts: uncertain(counts) / counts.send)
        text = f"{len(doubtful)} of {runs} effective runs have sends without an acknowledgement"
        yield merit(Code.UNCERTAIN_SENDS, f"{text}, of which no loss can be told; most in one run: {uncertainty(most)}")
    if any(reason.code == Code.CALM for judged in group.verdicts for reason in judged.reasons):
        yield merit(Code.CALM, "no fault was injected: calm runs say nothing about failures")


def _convincing(group: _Group) -> str:
    """In how many runs a control shows the subject: of the fault with the fewest, and in its time."""
    found = group.copies_by_fault
    during = f" in the time of fault {min(found, key=found.__getitem__)}" if found else ""
    shown = f"{group.subject.some}{group.cause}"
    return f"{shown} in {group.convincing} of {len(group.effective)} effective runs{during}"


def _of_groups(groups: Sequence[GroupVerdict]) -> Iterator[Reason]:
    """The groups' reasons, without repetitions."""
    yield from dict.fromkeys(reason for group in groups for reason in group.reasons)
