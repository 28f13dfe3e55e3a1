"""A variant: one setting of the thing under test, and what it promises.

The *control* runs without deduplication and is expected to show duplicates. The *treatment* runs with it and forbids
them. If duplicates never appear without deduplication, their absence with it proves nothing. So where an experiment has
both, they differ in one thing. That is the switch, which is off in the control and on in the treatment; or it is what
they declare of the workload or of the client, with the same switch in both. Two variants that differ only in their
expectation, or whose switches are reversed, or in two things at once, are no useful comparison.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.experiment.client_choices import Client
from dedup.parts import Name, Part
from dedup.refusals import refusal
from dedup.workloads.kinds import WorkloadKind
from dedup.workloads.registry import Changes


class Expectation(StrEnum):
    """What a variant promises; each is a set of counts that must be zero (docs/design.md §7)."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"
    AT_MOST_ONCE = "AtMostOnce"
    DUPLICATES = "Duplicates"
    COMMITTED_ONCE = "CommittedOnce"
    NONE = "None"

    @property
    def forbids_copies(self) -> bool:
        """Whether a message that is read twice breaks the promise."""
        return self in (Expectation.EXACTLY_ONCE, Expectation.AT_MOST_ONCE, Expectation.COMMITTED_ONCE)


class Switch(StrEnum):
    """A setting that is on or off; an enum, because a third state may come."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class Variant(Part):
    """One setting of the thing under test, and what it is expected to do."""

    name: Name = Field(description="what results call this variant; unique among the variants")
    deduplication: Switch = Field(description="Kafka: the idempotent producer; Pulsar: message deduplication")
    expect: Expectation = Field(description="what the histories must show for the experiment to pass")
    client: Client | None = Field(
        None, description="what it changes of the systems' client; control and treatment may differ in it"
    )
    workload: Changes | None = Field(
        None, description="what it changes of the workload's kind; control and treatment may differ in it"
    )


CONTROL_SWITCH: Final = "beside a variant that forbids duplicates, one that expects them is the control, without"
TREATMENT_SWITCH: Final = "beside a control (expect: Duplicates), one that forbids duplicates is the treatment, with"


ONE_THING: Final = "a control and a treatment differ in one thing: in deduplication, in the workload or in the client"


def check_switches(
    variants: Sequence[Variant], kinds: Sequence[WorkloadKind | None], clients: Sequence[object]
) -> None:
    """Raise a refusal if a control and a treatment do not differ in one thing, the right way round.

    `kinds`, `clients`: what the workload of each variant is, and its client on one system. Where both have the same
    workload and the same client, the switch is off in the control and on in the treatment; where they differ in one of
    these, the switch is the same.
    """
    controls = [index for index, variant in enumerate(variants) if variant.expect is Expectation.DUPLICATES]
    treatments = [index for index, variant in enumerate(variants) if variant.expect.forbids_copies]
    for index, variant in enumerate(variants):
        for other in treatments if index in controls else controls if index in treatments else ():
            differ = [
                key
                for key, differs in (
                    ("workload", kinds[index] != kinds[other]),
                    ("client", clients[index] != clients[other]),
                )
                if differs
            ]
            if not differ:
                _check_switch(index, variant, control=index in controls)
            elif len(differ) > 1 or variant.deduplication is not variants[other].deduplication:
                _refuse_two_things(index, variant, variants[other], differ)


def _refuse_two_things(index: int, variant: Variant, other: Variant, differ: Sequence[str]) -> None:
    if len(differ) > 1:
        raise refusal(
            f"variants[{index}].client",
            variant.name,
            f"{ONE_THING}, and {other.name} differs in its workload, too",
            "let both have the same workload, or the same client",
        )
    raise refusal(
        f"variants[{index}].deduplication",
        variant.deduplication,
        f"{ONE_THING}, and {other.name} differs in both",
        f"write {other.deduplication}, or let both have the same {differ[0]}",
    )


def _check_switch(index: int, variant: Variant, *, control: bool) -> None:
    wanted = Switch.DISABLED if control else Switch.ENABLED
    if variant.deduplication is not wanted:
        raise refusal(
            f"variants[{index}].deduplication",
            variant.deduplication,
            f"{CONTROL_SWITCH if control else TREATMENT_SWITCH} deduplication",
            f"write {wanted}, or change what the variants expect",
        )
