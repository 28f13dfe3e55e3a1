"""A replay beside the run that it repeats: where each fault struck then and now, and what came of it.

A replay is judged like every run, by its own history. The comparison adds no judgement: it shows whether the same was
struck, by the producer's counter.
"""

from collections.abc import Sequence

from dedup.faults.registry import kind_of
from dedup.judgement.counts import Counts
from dedup.judgement.summaries import RunRow
from dedup.judgement.verdicts import Verdict
from dedup.wire.manifests import FaultRecord, Manifest, Record


class Moment(Record):
    """The producer's counter when a fault began, and when its effect was confirmed; null: that never came."""

    began: int | None
    struck: int | None


class Strike(Record):
    """One fault in both runs."""

    name: str
    kind: str
    then: Moment
    now: Moment
    percent: float | None = None
    """How much later it struck now, in percent of the message of then; negative: earlier. None: not both struck."""


class Side(Record):
    """One of both runs. Verdict and counts are null if it was not judged, or has no history."""

    path: str
    recorded_at: str | None
    verdict: Verdict | None
    counts: Counts | None


class Replayed(Record):
    """What a replay has shown."""

    run_id: str
    then: Side
    now: Side
    faults: tuple[Strike, ...]
    never: tuple[str, ...]
    """Faults that never began in the recorded run, and so were left out."""


def strikes(then: Manifest, now: Manifest | None) -> tuple[Strike, ...]:
    """Each fault that began in the recorded run, in that order; `now` is None if the replay has no history."""
    found = {record.name: record for record in now.faults} if now is not None else {}
    return tuple(
        _strike(record, found.get(record.name))
        for record in then.faults
        if not record.whole_run and record.triggered_message is not None
    )


def side(path: str, manifest: Manifest | None, rows: Sequence[RunRow]) -> Side:
    """One of both runs, with what the summary's rows say of it."""
    said = [row for row in rows if manifest and (row.run_id, row.attempt) == (manifest.run_id, manifest.attempt)]
    return Side(
        path=path,
        recorded_at=manifest.recorded_at if manifest is not None else None,
        verdict=said[0].verdict if said else None,
        counts=said[0].counts if said else None,
    )


def _strike(then: FaultRecord, now: FaultRecord | None) -> Strike:
    before, after = _moment(then), _moment(now)
    percent = None
    if before.struck and after.struck is not None:
        percent = round(100 * (after.struck - before.struck) / before.struck, 3)
    return Strike(name=then.name, kind=then.kind, then=before, now=after, percent=percent)


def _moment(record: FaultRecord | None) -> Moment:
    """Of a fault on a frame, the interposer counts; where the producer is when it hears of it says nothing."""
    if record is None:
        return Moment(began=None, struck=None)
    kind = kind_of(record.kind)
    counted = kind is not None and kind.on_frames and record.effect_message is not None
    struck = record.requested_message if counted else record.effect_message
    return Moment(began=record.triggered_message, struck=struck)
