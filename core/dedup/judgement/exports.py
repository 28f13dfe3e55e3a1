"""Jack Vanlightly's two files (S0), byte for byte.

`<name>_dedup_output.txt` is a CSV, one line a run, first the runs without deduplication. `<name>_order_output.txt` has
one line for every jump: its size is the distance between the value and the one read just before it, in either
direction, and a jump onto a value that was read already is called a duplicate block. S0's files hold one system and two
variants; so each system gets a pair of its own, and where two variants share a setting of deduplication, each variant.

These files carry no verdict, so void runs, whose counts mean nothing, are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dedup.experiment.plans import deduplicates
from dedup.experiment.spec import Experiment, Variant
from dedup.judgement.anomalies import OrderEvent, Verification
from dedup.judgement.counts import S0_COUNTS, Jump
from dedup.judgement.verdicts import Evidence, RunVerdict
from dedup.wire.manifests import Record

HEADER: Final = ",".join(("DedupEnabled", "TestRun", *S0_COUNTS.values()))
_WORDS: Final = {
    Jump.FORWARD: "JUMP FORWARDS",
    Jump.BACKWARD: "JUMP BACKWARDS",
    Jump.DUPLICATE_FORWARD: "DUPLICATE BLOCK - JUMP FORWARDS",
    Jump.DUPLICATE_BACKWARD: "DUPLICATE BLOCK - JUMP BACKWARDS",
}


class Exported(Record):
    """One run as the files need it."""

    variant: str
    deduplication: bool
    run: int
    verification: Verification


def export(experiment: Experiment, verdicts: Iterable[RunVerdict], evidence: Iterable[Evidence]) -> dict[str, str]:
    """Every export file of the experiment: name -> text. A system without a run to show gets a header only."""
    answers = {(each.run_id, each.attempt): each.said for each in evidence}
    switches = {variant.name: deduplicates(variant) for variant in experiment.spec.variants}
    shown: dict[str, list[Exported]] = {system.name: [] for system in experiment.spec.systems}
    for verdict in verdicts:
        verification = answers.get((verdict.run_id, verdict.attempt))
        if verification is not None and not verdict.void:
            shown[verdict.system].append(
                Exported(
                    variant=verdict.variant,
                    deduplication=switches[verdict.variant],
                    run=verdict.run,
                    verification=verification,
                )
            )
    files = {}
    for system, runs in shown.items():
        stem = experiment.name if len(shown) == 1 else f"{experiment.name}-{system}"
        for suffix, variants in _pairs(experiment.spec.variants):
            rows = sorted(
                (run for run in runs if run.variant in variants), key=lambda run: (run.deduplication, run.run)
            )
            files[f"{stem}{suffix}_dedup_output.txt"] = dedup_output(rows)
            files[f"{stem}{suffix}_order_output.txt"] = order_output(rows)
    return files


def dedup_output(runs: Iterable[Exported]) -> str:
    """The CSV file, in the order given."""
    return "".join(f"{line}\n" for line in (HEADER, *map(dedup_line, runs)))


def dedup_line(run: Exported) -> str:
    """`false,1,1000000,1000000,1000000,0,1009000,0,0,9000,0,1,0,0`"""
    numbers = (run.run, *(getattr(run.verification.counts, name) for name in S0_COUNTS))
    return ",".join(("true" if run.deduplication else "false", *map(str, numbers)))


def order_output(runs: Iterable[Exported]) -> str:
    """The file of jumps, in the order given; an extra line marks a run with more jumps than a judge reports."""
    return "".join(f"{line}\n" for run in runs for line in _order_lines(run))


def order_line(run: int, event: OrderEvent) -> str:
    """`Test run: 1 DUPLICATE BLOCK - JUMP BACKWARDS 1781 (85326 -> 83545)`"""
    size = abs(event.value - event.last)
    return f"Test run: {run} {_WORDS[event.jump]} {size} ({event.last} -> {event.value})"


def _order_lines(run: Exported) -> Iterator[str]:
    listed, happened = len(run.verification.events), run.verification.events_total
    yield from (order_line(run.run, event) for event in run.verification.events)
    if happened > listed:
        yield f"Test run: {run.run} ONLY THE FIRST {listed} OF {happened} JUMPS ARE LISTED"


def _pairs(variants: Sequence[Variant]) -> list[tuple[str, set[str]]]:
    """The suffix of each pair of files, and the variants whose runs it holds."""
    if len({variant.deduplication for variant in variants}) == len(variants):
        return [("", {variant.name for variant in variants})]
    return [(f"-{variant.name}", {variant.name}) for variant in variants]
