"""A variant: one setting of the thing under test, and what it promises.

The *control* runs without deduplication and is expected to show duplicates. The *treatment* runs with it and forbids
them. If duplicates never appear without deduplication, their absence with it proves nothing.
"""

from enum import StrEnum

from pydantic import Field

from dedup.parts import Name, Part


class Expectation(StrEnum):
    """What a variant promises; each is a set of counts that must be zero (design.md §7)."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"
    AT_MOST_ONCE = "AtMostOnce"
    DUPLICATES = "Duplicates"
    NONE = "None"


class Switch(StrEnum):
    """A setting that is on or off; an enum, because a third state may come."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class Variant(Part):
    """One setting of the thing under test, and what it is expected to do."""

    name: Name = Field(description="what results call this variant; unique among the variants")
    deduplication: Switch = Field(description="Kafka: the idempotent producer; Pulsar: message deduplication")
    expect: Expectation = Field(description="what the histories must show for the experiment to pass")
