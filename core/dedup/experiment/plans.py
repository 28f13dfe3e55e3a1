"""The plan: systems × variants × runs, each with a seed, in the order in which they are done.

Control and treatment runs alternate in pairs, and the experiment's seed shuffles the order of each pair. So changes
during an experiment (a warm cache, a busy neighbour) affect both equally (docs/design.md §7).
"""

import hashlib
import random

from dedup.experiment import statistics
from dedup.experiment.spec import Expectation, Experiment, Switch, Variant
from dedup.wire.manifests import Record
from dedup.workloads.kinds import subject_of


class Run(Record):
    """One seeded execution of the workload for one system and one variant."""

    run_id: str
    system: str
    variant: str
    number: int
    seed: int


def plan(experiment: Experiment) -> tuple[Run, ...]:
    """Every run of the experiment, system by system, in the order in which they are done."""
    spec = experiment.spec
    runs: list[Run] = []
    for system in spec.systems:
        for number in range(1, spec.runs + 1):
            variants = list(spec.variants)
            random.Random(f"{spec.seed}/{system.name}/{number}").shuffle(variants)
            runs.extend(run_of(spec.seed, system.name, variant.name, number) for variant in variants)
    return tuple(runs)


def runs_of(runs: tuple[Run, ...], system: str) -> tuple[Run, ...]:
    return tuple(run for run in runs if run.system == system)


def out_of_reach(experiment: Experiment) -> str | None:
    """Why the experiment cannot pass, whatever its runs show; None if it can."""
    spec = experiment.spec
    controls = [variant for variant in spec.variants if variant.expect is Expectation.DUPLICATES]
    unknown = [subject for each in controls if not (subject := subject_of(spec.workload.of(each))).by_fault]
    if unknown and (spec.faults or spec.random):
        return (
            f"of a fault it is not known whether it caused {unknown[0].some}, and a control must show that; "
            "take the faults out, or the variant that expects duplicates"
        )
    last = [each.name for each in spec.faults if each.at.message == spec.workload.messages and not each.given.on_frames]
    if last:
        return (
            f"fault {last[0]} begins when the last message was sent, and one that strikes then tests nothing; "
            "let it begin earlier, or send more"
        )
    if (confidence := spec.confidence_percent) is None:
        return None
    expected = [variant.expect for variant in spec.variants]
    if Expectation.DUPLICATES not in expected or not any(each.forbids_copies for each in expected):
        return (
            f"{confidence:g} % confidence is that a control (expect: Duplicates) and a treatment that forbids them "
            "differ, and one of them is not there; add it, or take confidencePercent out"
        )
    if statistics.best_p(spec.runs, spec.runs) > statistics.significance(confidence):
        return (
            f"{spec.runs} runs of each variant are too few for {confidence:g} % confidence, whatever they show; "
            f"ask for {statistics.runs_needed(confidence)} or more, or take confidencePercent out"
        )
    return None


def deduplicates(variant: Variant) -> bool:
    """Whether the variant asks for deduplication."""
    return variant.deduplication is Switch.ENABLED


def run_of(seed: int, system: str, variant: str, number: int) -> Run:
    """The run of that number on a system, by the names of system and variant; its own seed follows from all four."""
    run_id = f"{system}-{variant}-{number:03d}"
    digest = hashlib.sha256(f"{seed}/{run_id}".encode()).digest()
    return Run(
        run_id=run_id,
        system=system,
        variant=variant,
        number=number,
        seed=int.from_bytes(digest[:6], "big"),
    )
