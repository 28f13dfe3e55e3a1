"""A variant: one setting of the thing under test, and what it promises.

The *control* runs without deduplication and is expected to show duplicates. The *treatment* runs with it and forbids
them. If duplicates never appear without deduplication, their absence with it proves nothing. So where an experiment has
both, the switch must be off in the control and on in the treatment: two variants that differ only in their expectation,
or whose switches are reversed, are no useful comparison.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.parts import Name, Part
from dedup.refusals import refusal


class Expectation(StrEnum):
    """What a variant promises; each is a set of counts that must be zero (docs/design.md §7)."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"
    AT_MOST_ONCE = "AtMostOnce"
    DUPLICATES = "Duplicates"
    NONE = "None"

    @property
    def forbids_copies(self) -> bool:
        """Whether a message that is read twice breaks the promise."""
        return self in (Expectation.EXACTLY_ONCE, Expectation.AT_MOST_ONCE)


class Switch(StrEnum):
    """A setting that is on or off; an enum, because a third state may come."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class Variant(Part):
    """One setting of the thing under test, and what it is expected to do."""

    name: Name = Field(description="what results call this variant; unique among the variants")
    deduplication: Switch = Field(description="Kafka: the idempotent producer; Pulsar: message deduplication")
    expect: Expectation = Field(description="what the histories must show for the experiment to pass")


CONTROL_SWITCH: Final = "beside a variant that forbids duplicates, one that expects them is the control, without"
TREATMENT_SWITCH: Final = "beside a control (expect: Duplicates), one that forbids duplicates is the treatment, with"


def check_switches(variants: Sequence[Variant]) -> None:
    """Raise a refusal if a control beside a treatment has the switch on, or a treatment beside a control has it off."""
    controls = [variant.expect is Expectation.DUPLICATES for variant in variants]
    treatments = [variant.expect.forbids_copies for variant in variants]
    if not (any(controls) and any(treatments)):
        return
    for index, variant in enumerate(variants):
        wanted = Switch.DISABLED if controls[index] else Switch.ENABLED
        if (controls[index] or treatments[index]) and variant.deduplication is not wanted:
            raise refusal(
                f"variants[{index}].deduplication",
                variant.deduplication,
                f"{CONTROL_SWITCH if controls[index] else TREATMENT_SWITCH} deduplication",
                f"write {wanted}, or change what the variants expect",
            )
