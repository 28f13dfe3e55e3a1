"""Does the tester contradict itself?

A verdict needs a reliable tester. The two judges share no code, so where they differ one of them is wrong. The runners
counted what they did, so a different count means that rows were lost or added later. And some observations are
impossible, whatever a broker does: two messages at one position, a position below the end that was never read, a
message that was delivered after a later one of its partition, an outcome of a send that did not happen. Each function
yields contradictions in words, or nothing. A position that was never read is no contradiction if a second client could
not read it either. One contradiction voids every witness of the run (docs/design.md §7).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dedup.judgement.anomalies import Verification
from dedup.judgement.counts import COUNTS, JUMP_COUNTS
from dedup.wire.manifests import Manifest

BACKWARD: Final = {name: jump for name, jump in JUMP_COUNTS.items() if COUNTS[name].forbidden_by}
"""The two counts whose witnesses are order events."""


def disagreements(answer: Verification, other: Verification) -> Iterator[str]:
    """Where two judges differ on one history, field by field; their names and paths may differ.

    Findings are not compared: the oracle makes none.
    """
    for name, value in answer.counts:
        if value != (another := getattr(other.counts, name)):
            yield f"{name} {value:,} and {another:,}"
    for name in sorted(set(Verification.model_fields) - {"path", "engine", "counts", "findings"}):
        if getattr(answer, name) != getattr(other, name):
            yield f"different {name}"


def _above_the_stable(manifest: Manifest) -> Iterator[str]:
    """Open transactions that cannot be: no last stable offset lies above the beginning of one."""
    for end in manifest.consumer.end:
        for each in end.open:
            if end.stable is None or not each.first >= end.stable < end.entries:
                stable = "none" if end.stable is None else f"{end.stable:,}"
                yield (
                    f"in partition {end.partition} a transaction is open from offset {each.first:,} on, and the last "
                    f"stable offset is {stable}, of {end.entries:,}"
                )


def _number(gaps: Sequence[str]) -> int:
    """How many gaps these are: the last text may say how many more there are."""
    *named, last = gaps
    more = re.fullmatch(r"and (\d+) more", last)
    return len(named) + (int(more[1]) if more else 1)


OF_SENDS: Final = frozenset({"values sent", "ok outcomes", "fail outcomes", "unknown outcomes"})
"""What is counted by value and recorded by send: alike only if each value was sent once."""


def contradictions(manifest: Manifest, answer: Verification, *, gaps: bool = True) -> Iterator[str]:
    """Where a judge's counts, the runners' reports and the manifest's plan cannot all be true.

    A problem that a runner itself reports (not complete, end not reached) is no contradiction. `gaps`: whether a
    position that was not read contradicts the end that was reached; False for files without a recorded end.
    """
    counts, producer, consumer = answer.counts, manifest.producer, manifest.consumer
    for name, number in counts:
        if number and COUNTS[name].contradiction:
            yield f"{COUNTS[name].contradiction}: {number:,}"
    yield from _above_the_stable(manifest)
    unasked = set(range(manifest.topic_partitions)) - {end.partition for end in consumer.end}
    if consumer.reached_end and unasked:
        yield f"the consumer says that it reached the end, but partitions {sorted(unasked)} were not asked for theirs"
    confirmed = {each.gap for each in consumer.undelivered}
    if gaps and consumer.reached_end and (unread := [gap for gap in answer.gaps if gap not in confirmed]):
        yield f"the consumer says that it reached the end, but {unread[0]} (gaps: {_number(unread):,})"
    if producer.complete and counts.outcomes_missing:
        yield f"the producer says that it is complete, but values without an outcome: {counts.outcomes_missing:,}"
    if producer.complete and counts.sent_outside:
        yield f"the producer says that it is complete, but values sent in no transaction: {counts.sent_outside:,}"
    if producer.complete and counts.send != manifest.messages:
        yield f"the producer says that it is complete, but {counts.send:,} of {manifest.messages:,} values were sent"
    if producer.sent > manifest.rows("sent"):
        yield f"the producer sent {producer.sent:,} values, and wrote {manifest.rows('sent'):,} ahead"
    once = manifest.schema_version == 1 or manifest.rows("sent") == counts.send
    if not once and (counts.send > manifest.rows("sent") or counts.positive_ack > producer.ok):
        yield f"{counts.send:,} values sent and {counts.positive_ack:,} ok, of {manifest.rows('sent'):,} sends"
    if (application := consumer.application) is not None:
        of_lives = sum(life.processed for life in application.lives)
        if of_lives != application.processed:
            yield f"the application processed {application.processed:,} messages, and its lives {of_lives:,}"
    told = producer.ok + producer.fail + producer.unknown
    if not once and counts.negative_ack > producer.fail:
        yield f"values that always failed: {counts.negative_ack:,} counted, of {producer.fail:,} sends that failed"
    if not once and producer.complete and told != manifest.rows("sent"):
        yield f"the producer says that it is complete, but {told:,} of {manifest.rows('sent'):,} sends have an outcome"
    for what, counted, recorded in (
        ("values sent", counts.send, manifest.rows("sent")),
        ("ok outcomes", counts.positive_ack, producer.ok),
        ("fail outcomes", counts.negative_ack, producer.fail),
        ("unknown outcomes", counts.unknown - counts.outcomes_missing, producer.unknown),
        ("acknowledgements", counts.ack, counts.positive_ack + counts.negative_ack),
        ("rows read", counts.received + counts.re_reads, consumer.received),
        ("jumps", answer.events_total, sum(getattr(counts, name) for name in JUMP_COUNTS)),
    ):
        if counted != recorded and (once or what not in OF_SENDS):
            yield f"{what}: {counted:,} counted, {recorded:,} recorded"


def unwitnessed(answer: Verification, anomalies: Iterable[str]) -> Iterator[str]:
    """The counts above 0, of those named, for which the judge shows no message, or nothing else that it counts."""
    anomalies = tuple(anomalies)
    shown = {witness.anomaly for witness in answer.witnesses} | {
        name for name, jump in BACKWARD.items() if any(event.jump is jump for event in answer.events)
    }
    shown |= {name for name in anomalies if COUNTS[name].noun == "transaction" and answer.hanging}
    cut_off = set(BACKWARD) if answer.events_total > len(answer.events) else set()
    for name in anomalies:
        if (count := getattr(answer.counts, name)) and name not in shown | cut_off:
            yield f"{name} {count:,} without a witness"
