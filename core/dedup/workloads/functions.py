"""`consumer.function`: the application is a function of Pulsar, which runs in a function worker and is killed with it.

The system itself takes each message of the topic, calls the function, writes what it returns to another topic, and
acknowledges the message when that is stored. Between the two a worker can die; then the message is given to the next
instance, too, and has two outputs. A function in *effectively once* has a producer for each partition of its input,
named after it, whose sequence ids are made from the inputs' message ids: a broker that deduplicates recognises the
second output. All of this is Pulsar's own code (`PulsarSource`, `PulsarSink`); ours is the function alone, which
returns one output for an input and is the same in all variants.

A sequence id is made from an input's ledger and entry (`FunctionCommon.getSequenceId`). Where inputs were sent in
batches, messages of one entry have the same (apache/pulsar 17061). And brokers look at the first id of a batch alone:
where outputs are sent in batches, the first batch of an instance that comes back can hold outputs that are stored and
others that are not, and is dropped as a whole.
"""

from enum import StrEnum

from pydantic import Field

from dedup.parts import Part


class Guarantee(StrEnum):
    """What a function asks for: `ProcessingGuarantees` of Pulsar, by the same names in other letters."""

    AT_LEAST_ONCE = "AtLeastOnce"
    EFFECTIVELY_ONCE = "EffectivelyOnce"

    @property
    def pulsars(self) -> str:
        """As Pulsar writes it."""
        return {Guarantee.AT_LEAST_ONCE: "ATLEAST_ONCE", Guarantee.EFFECTIVELY_ONCE: "EFFECTIVELY_ONCE"}[self]


class Function(Part):
    """A function of Pulsar, which writes one output for each message."""

    guarantee: Guarantee = Field(description="what it asks Pulsar for: its `processingGuarantees`")
    batches: bool = Field(
        True, description="whether its producers of outputs send batches, as is Pulsar's default for functions"
    )
