"""Does the tester contradict itself?

An accusation is worth as much as the accuser. The two judges share no code, so where they differ one of them is wrong.
The runners counted what they did, so a count that is not theirs means that something was lost or made up on the way.
And some things cannot be, whatever a broker does: two messages at one position, a position within what was read to its
end that was never read, a message that was delivered after a later one of its partition, an outcome of a send that did
not happen. Each function yields contradictions in words, or nothing. A position that was never read is none if a second
client could not read it either. One contradiction voids every witness of the run (docs/design.md §7).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from dedup.judgement.anomalies import Verification
from dedup.judgement.counts import COUNTS, JUMP_COUNTS
from dedup.wire.manifests import Manifest

BACKWARD: Final = {name: jump for name, jump in JUMP_COUNTS.items() if COUNTS[name].forbidden_by}
"""The two counts whose witnesses are order events."""


def disagreements(said: Verification, other: Verification) -> Iterator[str]:
    """Where two judges differ on one history, field by field; who they are and where they looked may differ.

    Findings are not compared: the oracle makes none.
    """
    for name, value in said.counts:
        if value != (another := getattr(other.counts, name)):
            yield f"{name} {value:,} and {another:,}"
    for name in sorted(set(Verification.model_fields) - {"path", "engine", "counts", "findings"}):
        if getattr(said, name) != getattr(other, name):
            yield f"different {name}"


def contradictions(manifest: Manifest, said: Verification, *, gaps: bool = True) -> Iterator[str]:
    """Where a judge's counts, the runners' reports and the manifest's plan cannot all be true.

    What a runner itself admits (it was not complete, it did not reach the end) is no contradiction. `gaps`: whether
    positions that were not read contradict the end that was reached; not in files of which nobody says where they end.
    """
    counts, producer, consumer = said.counts, manifest.producer, manifest.consumer
    for name, number in counts:
        if number and COUNTS[name].contradiction:
            yield f"{COUNTS[name].contradiction}: {number:,}"
    if consumer.reached_end and (unasked := set(range(manifest.streams)) - {end.partition for end in consumer.end}):
        yield f"the consumer says that it reached the end, but partitions {sorted(unasked)} were not asked for theirs"
    confirmed = {each.gap for each in consumer.undelivered}
    if gaps and consumer.reached_end and (unread := [gap for gap in said.gaps if gap not in confirmed]):
        yield f"the consumer says that it reached the end, but {unread[0]} (gaps: {len(unread):,})"
    if producer.complete and counts.outcomes_missing:
        yield f"the producer says that it is complete, but values without an outcome: {counts.outcomes_missing:,}"
    if producer.complete and counts.send != manifest.messages:
        yield f"the producer says that it is complete, but {counts.send:,} of {manifest.messages:,} values were sent"
    if producer.sent > manifest.rows("sent"):
        yield f"the producer sent {producer.sent:,} values, and wrote {manifest.rows('sent'):,} ahead"
    for what, counted, recorded in (
        ("values sent", counts.send, manifest.rows("sent")),
        ("ok outcomes", counts.positive_ack, producer.ok),
        ("fail outcomes", counts.negative_ack, producer.fail),
        ("unknown outcomes", counts.unknown - counts.outcomes_missing, producer.unknown),
        ("acknowledgements", counts.ack, counts.positive_ack + counts.negative_ack),
        ("rows read", counts.received + counts.re_reads, consumer.received),
        ("jumps", said.events_total, sum(getattr(counts, name) for name in JUMP_COUNTS)),
    ):
        if counted != recorded:
            yield f"{what}: {counted:,} counted, {recorded:,} recorded"


def unwitnessed(said: Verification, anomalies: Iterable[str]) -> Iterator[str]:
    """The counts above 0, of those named, for which the judge shows no message at all."""
    shown = {witness.anomaly for witness in said.witnesses} | {
        name for name, jump in BACKWARD.items() if any(event.jump is jump for event in said.events)
    }
    cut_off = set(BACKWARD) if said.events_total > len(said.events) else set()
    for name in anomalies:
        if (count := getattr(said.counts, name)) and name not in shown | cut_off:
            yield f"{name} {count:,} without a witness"
