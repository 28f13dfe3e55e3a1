"""Which faults have a time of their own, and how the findings of several runs add up."""

from tests.core.evidences import all_evidence, evidence, experiment, verification

from dedup.experiment.plans import plan
from dedup.judgement.conclusions import conclude
from dedup.judgement.findings import MAX_WINDOWS, Overview, Sum, Window, added, windows_of
from dedup.judgement.summaries import Bin, summarise


def sum_(kind: str, messages: int, during: dict[str, int], outside: int = 0) -> Sum:
    return Sum(kind=kind, rows=1, messages=messages, during=during, outside=outside)


def test_a_fault_that_struck_has_a_time_and_one_that_never_did_has_none() -> None:
    manifest = evidence(plan(experiment())[0]).manifest
    assert manifest is not None
    (cut,) = manifest.faults
    (window,) = windows_of(manifest)
    assert window == Window(fault="cut", injected_ns=cut.injected_ns or 0, healed_ns=cut.healed_ns)
    for change in ({"injected_ns": None}, {"requested_message": None}):
        never = cut.model_copy(update=change)
        assert windows_of(manifest.model_copy(update={"faults": (never,)})) == ()
    assert len(windows_of(manifest.model_copy(update={"faults": (cut,) * 100}))) == MAX_WINDOWS


def test_findings_add_up_by_kind_and_fault() -> None:
    """A fault that one run does not know adds nothing to it."""
    lost, cut = sum_("not_received", 3, {"cut": 2}, 1), sum_("jump_forward", 1, {"cut": 1})
    more = sum_("not_received", 4, {"cut": 4, "crash": 1})
    assert added([lost, cut, more]) == (
        Sum(kind="not_received", rows=2, messages=7, during={"cut": 6, "crash": 1}, outside=1),
        cut,
    )
    assert added([]) == ()


def test_a_summary_adds_up_the_findings_of_the_runs_of_a_variant() -> None:
    """Of a run whose judges found nothing, nothing is added; void runs are left out like their counts."""
    made = experiment()
    found = Overview(sums=(sum_("jump_forward", 2, {"cut": 2}),), block_distances={4: 1, 8: 2})
    said = [
        each.model_copy(update={"spark": each.spark and each.spark.model_copy(update={"findings": found})})
        for each in all_evidence(made)
    ]
    control, _ = summarise(made, conclude(made, said), said).systems
    assert control.findings == (Sum(kind="jump_forward", rows=2, messages=4, during={"cut": 4}, outside=0),)
    assert control.block_distances == (Bin(first=4, last=7, blocks=2), Bin(first=8, last=15, blocks=4))
    without, _ = summarise(made, conclude(made, all_evidence(made)), all_evidence(made)).systems
    assert (without.findings, without.block_distances) == ((), ())
    assert verification().findings is None
