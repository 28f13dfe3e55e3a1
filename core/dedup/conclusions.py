"""What may be concluded from a whole experiment.

Runs are judged one by one (`dedup.verdicts`); an experiment adds what no single run can tell. Every planned run must be
there. The variants of a system must differ in the switch under test only. The control has to convince: if duplicates
never appear without deduplication, their absence with it proves nothing. And if the experiment asks for a confidence,
the numbers must carry it. The verdict of the whole is the worst of its parts, so one doubtful run makes the experiment
inconclusive rather than be left out: a run that is hard on the system is the likeliest to end in doubt. Only a run
whose faults missed may be replaced, within a budget, and before anybody knows what was read (dedup/repetitions.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic import Field

from dedup import statistics
from dedup.endings import Repetition
from dedup.experiments import Expectation, Experiment, System, Variant
from dedup.manifests import Manifest, Record
from dedup.plans import Run, deduplicates, plan
from dedup.repetitions import judge_runs
from dedup.verdicts import (
    COPIES,
    FORBIDDEN,
    Code,
    Evidence,
    Reason,
    RunVerdict,
    Verdict,
    is_treatment,
    worst,
)

SWITCHES: Final = frozenset({"enable.idempotence", "deduplication"})
"""Client settings that are the thing under test itself: only they may differ between variants."""
ADDRESSES: Final = frozenset({"bootstrap.servers", "service_url"})
OURS: Final = frozenset({"dedup", "python"})
"""Versions that are the tester's own: a mended tester may finish an experiment."""


class Strength(Record):
    """What the clean effective runs of a treatment exclude."""

    clean_runs: int
    rate_bound: float = Field(description="per-run anomaly rate excluded at 95 % confidence; 1 if nothing is")

    def __str__(self) -> str:
        if not self.clean_runs:
            return "no clean effective run"
        runs = "1 clean effective run" if self.clean_runs == 1 else f"{self.clean_runs:,} clean effective runs"
        return f"{runs}: fewer than {self.rate_bound:.1%} of runs go wrong (95 % confidence)"


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
    """The verdict on an experiment: of its groups in the order of the file, and of every planned run."""

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

    @property
    def effective(self) -> list[RunVerdict]:
        return [verdict for verdict in self.verdicts if verdict.effective]

    @property
    def with_copies(self) -> int:
        return sum(verdict.with_copies for verdict in self.effective)

    @property
    def is_control(self) -> bool:
        return self.variant.expect is Expectation.DUPLICATES

    @property
    def forbids_copies(self) -> bool:
        return COPIES in FORBIDDEN[self.variant.expect]


def conclude(experiment: Experiment, evidence: Iterable[Evidence]) -> ExperimentVerdict:
    """The verdict on the experiment from all attempts of its runs, in any order; what is missing is an error."""
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
            )
            for variant in experiment.spec.variants
        ]
        of_system = [
            manifest for run in runs if run.system == system.name for manifest in manifests.get(run.run_id, [])
        ]
        unfair = [_error(Code.VARIANTS_DIFFER, f"{system.name}: {text}") for text in differences(of_system)]
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


def differences(manifests: Sequence[Manifest]) -> list[str]:
    """What differs between runs of one system and must not: settings but for the switch, versions but for ours."""
    seen: dict[str, set[str]] = {}
    for manifest in manifests:
        names = (manifest.run_id, manifest.topic)
        for key, value in manifest.producer.effective_config.items():
            if key not in SWITCHES | ADDRESSES and not any(name in value for name in names):
                seen.setdefault(f"the producer's {key}", set()).add(value)
        for key, value in manifest.versions.items():
            if key not in OURS:
                seen.setdefault(f"the version of {key}", set()).add(value)
        library = f"{manifest.producer.library} {manifest.producer.library_version}"
        seen.setdefault("the client library", set()).add(library)
    return [
        f"{what} is not the same in all runs: {', '.join(sorted(each))}" for what, each in seen.items() if len(each) > 1
    ]


def _in(run: Run, system: System, variant: Variant) -> bool:
    return (run.system, run.variant) == (system.name, variant.name)


def _error(code: Code, text: str) -> Reason:
    return Reason(verdict=Verdict.ERROR, code=code, text=text)


def _judge_group(group: _Group, own: Sequence[_Group], confidence: float | None, unfair: list[Reason]) -> GroupVerdict:
    against = [other for other in own if other.forbids_copies]
    p_values = [
        statistics.fisher_p(group.with_copies, len(group.effective), other.with_copies, len(other.effective))
        for other in against
    ]
    reasons = [*unfair, *_of_runs(group.verdicts)]
    if group.is_control:
        reasons += _doubts_of_control(group, against, confidence)
    elif is_treatment(group.variant.expect):
        reasons += _doubts_of_treatment(group, own, confidence)
    clean = [verdict for verdict in group.effective if verdict.verdict is Verdict.PASS]
    strength = Strength(clean_runs=len(clean), rate_bound=statistics.rate_bound(len(clean)))
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
        runs_with_copies=group.with_copies,
        p_value=p_value,
        strength=strength if is_treatment(group.variant.expect) else None,
        verdict=worst(reason.verdict for reason in reasons),
        reasons=tuple(reasons),
    )


def _of_runs(verdicts: Sequence[RunVerdict]) -> Iterator[Reason]:
    """What speaks against the runs: one reason a kind, with the first run as the example."""
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
    """Why the control does not show that this fault causes duplicates on this system."""
    runs, name = len(group.effective), f"{group.system.name}: {group.variant.name}"
    if not group.with_copies:
        text = f"{name}: no value was read twice in any of {runs} effective runs, so a clean treatment proves nothing"
        yield _doubt(Code.CONTROL_CLEAN, text)
        return
    if confidence is None:
        return
    if not against:
        text = f"{name}: a confidence of {confidence:g} % needs a variant without duplicates to compare with"
        yield _doubt(Code.CONTROL_UNCONVINCING, text)
    wanted = statistics.significance(confidence)
    for other in against:
        treated = len(other.effective)
        if statistics.best_p(runs, treated) > wanted:
            yield _too_few(group, runs, confidence)
        elif (p := statistics.fisher_p(group.with_copies, runs, other.with_copies, treated)) > wanted:
            yield _doubt(
                Code.CONTROL_UNCONVINCING,
                f"{name}: copies in {group.with_copies} of {runs} effective runs, with {other.variant.name} in "
                f"{other.with_copies} of {treated}: p = {float(p):.3g}, and {confidence:g} % confidence needs "
                f"at most {float(wanted):.3g}",
            )


def _doubts_of_treatment(group: _Group, own: Sequence[_Group], confidence: float | None) -> Iterator[Reason]:
    """Too few effective runs for the confidence that was asked for, even had all of them been the best possible."""
    if confidence is None:
        return
    runs = len(group.effective)
    controls = [len(other.effective) for other in own if other.is_control] if group.forbids_copies else []
    if statistics.best_p(min(controls, default=runs), runs) > statistics.significance(confidence):
        yield _too_few(group, runs, confidence)


def _too_few(group: _Group, runs: int, confidence: float) -> Reason:
    return _doubt(
        Code.TOO_FEW_RUNS,
        f"{group.system.name}: {group.variant.name}: {runs} effective runs of {len(group.verdicts)} are too few for "
        f"{confidence:g} % confidence; {statistics.runs_needed(confidence)} of each variant would be enough at best",
    )


def _doubt(code: Code, text: str) -> Reason:
    return Reason(verdict=Verdict.INCONCLUSIVE, code=code, text=text)


def _merits(group: _Group, own: Sequence[_Group], strength: Strength, p_value: float | None) -> Iterator[Reason]:
    """Why a group that nothing speaks against may pass."""

    def merit(code: Code, text: str) -> Reason:
        return Reason(verdict=Verdict.PASS, code=code, text=f"{group.system.name}: {group.variant.name}: {text}")

    runs = len(group.effective)
    if group.is_control:
        chance = f" (Fisher's p against the treatment: {p_value:.3g})" if p_value is not None else ""
        yield merit(Code.CONTROL_CONVINCING, f"copies in {group.with_copies} of {runs} effective runs{chance}")
    elif not is_treatment(group.variant.expect):
        yield merit(Code.CLEAN, f"nothing is expected of it; copies in {group.with_copies} of {runs} effective runs")
    else:
        yield merit(Code.STRENGTH, f"{strength}")
        if not any(other.is_control for other in own):
            yield merit(Code.NO_CONTROL, "no control: that the fault can cause anything was not shown")


def _of_groups(groups: Sequence[GroupVerdict]) -> Iterator[Reason]:
    """The groups' reasons, each said once."""
    yield from dict.fromkeys(reason for group in groups for reason in group.reasons)
