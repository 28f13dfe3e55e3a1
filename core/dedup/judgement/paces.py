"""The pace of a run: how fast it went, and how long it stood still, as its producer saw it.

A fault costs time. The rate of a run counts the time of its faults, too, so it is what the whole workload got. The
longest pause is the longest time in which no outcome reached the producer: how long the system was not available to it.
Both come from the producer's own clock, and need no clock of a broker.
"""

from collections.abc import Sequence
from itertools import pairwise

from pydantic import Field

from dedup.wire.manifests import Manifest, Record


class Pace(Record):
    """How fast one run went."""

    acknowledged_per_second: float = Field(description="messages with outcome ok, from the first send to the last end")
    longest_pause_s: float = Field(description="the longest time without an outcome, to 10 ms or 10,000 messages")


def pace_of(manifest: Manifest, ended_ns: Sequence[int]) -> Pace | None:
    """The pace of a run whose producer's clock shows outcomes at these times, in order; None if it has no times."""
    first_ns, last_ns = manifest.producer.first_send_ns, manifest.producer.last_acknowledgement_ns
    if not ended_ns or last_ns <= first_ns:
        return None
    pause_ns = max(later - earlier for earlier, later in pairwise((first_ns, *ended_ns)))
    return Pace(
        acknowledged_per_second=round(manifest.producer.ok * 1e9 / (last_ns - first_ns), 3),
        longest_pause_s=round(pause_ns / 1e9, 3),
    )
