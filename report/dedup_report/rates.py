"""How fast a run went, and when it stood still, from its clock table.

The table holds how many sends and outcomes there were, noted every 10 ms or 10,000 rows. Rows count at the tick at
which they were noted and are not spread back over the time before, so that a silence stays a silence. Acknowledgements
are told from errors by the table of outcomes, which is in the same order.

The clock has no time of a single message, so no latency follows from it. Arrivals have no times at all, since reading
begins after the faults have healed (docs/history.md). What is not recorded is not drawn.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.history.histories import CLOCK_ACKNOWLEDGED, CLOCK_SENT, segments
from dedup.history.stores import Place, parquet
from dedup.wire.clients import Disturbance
from dedup.wire.lines import parse
from dedup.wire.manifests import FaultRecord, Manifest

BINS: Final = 120
SILENCE_S: Final = 0.5
"""A time without an acknowledgement, while messages wait for one, is called a silence if it is as long as this."""
LEAST_S: Final = 0.05
"""A run whose ticks lie closer together has no timeline."""
BATCH: Final = 1 << 18

Times = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


class Silence(NamedTuple):
    """A time in which messages waited and no acknowledgement came, in seconds from the first send."""

    begin_s: float
    end_s: float
    answered: bool = True
    """Whether an acknowledgement ended it; else none came any more, and it lasted to the last tick of the run."""

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


class Span(NamedTuple):
    """When a fault was in force, in seconds from the first send. `whole`: for the whole run, so it is not shaded."""

    name: str
    begin_s: float
    end_s: float
    whole: bool


class Recovery(NamedTuple):
    """How long after a fault's injection the last silence that it may have caused ended; None: there was none."""

    fault: str
    seconds: float | None
    answered: bool = True
    """As of that silence."""


class Rates(NamedTuple):
    """The rates of one run, in messages a second, in bins of equal width between `edges_s`."""

    edges_s: Times
    sent: Times
    acknowledged: Times
    errors: Times
    silences: tuple[Silence, ...]
    spans: tuple[Span, ...]
    recoveries: tuple[Recovery, ...]
    noticed: dict[str, Times]
    """When the client noticed what, by kind, in seconds."""

    @property
    def longest(self) -> Silence | None:
        return max(self.silences, key=lambda silence: silence.seconds, default=None)


def rates_of(folder: Place, manifest: Manifest) -> Rates | None:
    """The rates of a run; None if its clock table has too few ticks to tell any."""
    with parquet(folder / "clock.parquet") as file:
        clock = file.read(columns=["kind", "index", "monotonic_ns"])
    kind, index, at = (clock.column(name).to_numpy() for name in ("kind", "index", "monotonic_ns"))
    if not len(at):
        return None
    begin = min(manifest.producer.first_send_ns, int(at.min()))
    sent, outcomes = (
        _steps(index[kind == which], at[kind == which], begin) for which in (CLOCK_SENT, CLOCK_ACKNOWLEDGED)
    )
    last = max((float(steps[0][-1]) for steps in (sent, outcomes) if len(steps[0])), default=0.0)
    if last < LEAST_S:
        return None
    acknowledged, errors = _told_apart(folder, manifest, outcomes[1])
    edges = np.linspace(0, last, BINS + 1)
    silences = tuple(_silences(sent, (outcomes[0], acknowledged + errors), acknowledged, last))
    spans = tuple(_span(fault, begin, last) for fault in manifest.faults if fault.injected_ns is not None)
    return Rates(
        edges_s=edges,
        sent=_binned(sent[0], sent[1], edges),
        acknowledged=_binned(outcomes[0], acknowledged, edges),
        errors=_binned(outcomes[0], errors, edges),
        silences=silences,
        spans=spans,
        recoveries=tuple(_recovery(span, silences) for span in spans if not span.whole),
        noticed=_noticed(folder, begin),
    )


def _steps(index: Numbers, at: Numbers, begin: int) -> tuple[Times, Numbers]:
    """The times in seconds at which rows were noted, and how many were new; ticks without a new row are left out."""
    order = np.argsort(at, kind="stable")
    new = np.diff(np.maximum.accumulate(index[order]), prepend=0) if len(index) else index
    return ((at[order] - begin) / 1e9)[new > 0], new[new > 0]


def _told_apart(folder: Place, manifest: Manifest, new: Numbers) -> tuple[Numbers, Numbers]:
    """How many of the new outcomes at each tick were acknowledgements, and how many were not."""
    if not manifest.producer.fail + manifest.producer.unknown:
        return new, np.zeros_like(new)
    ok: list[npt.NDArray[np.bool_]] = [np.empty(0, np.bool_)]
    for path in segments(folder, "outcomes"):
        with parquet(path) as file:
            ok += [rows.column(0).to_numpy() == 0 for rows in file.iter_batches(BATCH, columns=["outcome"])]
    sums = np.concatenate(([0], np.cumsum(np.concatenate(ok))))
    ends = np.minimum(np.cumsum(new), len(sums) - 1)
    acknowledged = np.diff(sums[ends], prepend=0)
    return acknowledged, new - acknowledged


def _binned(at: Times, new: Numbers, edges: Times) -> Times:
    found, _ = np.histogram(at, edges, weights=new)
    return np.asarray(found / np.diff(edges), np.float64)


def _silences(
    sent: tuple[Times, Numbers], outcomes: tuple[Times, Numbers], acknowledged: Numbers, last: float
) -> Iterator[Silence]:
    """The silences: from when a message waited and the last acknowledgement was over, to the next one, or to the end.

    If nothing waited at an acknowledgement, it is the next send that begins to wait. A send has no tick of its own if
    it came within 10 ms of the tick before it, or if its chunk had to wait for room; both began to wait at once.
    """
    arrived = outcomes[0][acknowledged > 0]
    begins, ends = np.concatenate(([0.0], arrived)), np.concatenate((arrived, [last]))
    for number in np.flatnonzero(ends - begins >= SILENCE_S):
        begin, end, answered = begins[number], ends[number], bool(number < len(arrived))
        gone = sent[1][sent[0] <= begin].sum()
        waits = gone > outcomes[1][outcomes[0] <= begin].sum()
        between = sent[0][(sent[0] > begin) & ((sent[0] < end) if answered else (sent[0] <= end))]
        since = begin if waits or not len(between) else between[0]
        if end - since >= SILENCE_S:
            yield Silence(float(since), float(end), answered)


def _span(fault: FaultRecord, begin: int, last: float) -> Span:
    injected = fault.injected_ns or begin
    healed = last if fault.healed_ns is None else (fault.healed_ns - begin) / 1e9
    return Span(fault.name, max((injected - begin) / 1e9, 0.0), healed, fault.whole_run)


def _recovery(span: Span, silences: tuple[Silence, ...]) -> Recovery:
    during = [each for each in silences if each.begin_s < span.end_s and each.end_s > span.begin_s]
    if not during:
        return Recovery(span.name, None)
    latest = max(during, key=lambda silence: silence.end_s)
    return Recovery(span.name, latest.end_s - span.begin_s, latest.answered)


def _noticed(folder: Place, begin: int) -> dict[str, Times]:
    path = folder / Disturbance.FILE
    if not path.is_file():
        return {}
    found: dict[str, list[float]] = {}
    for line in parse(path.read_text(encoding="utf-8", errors="replace"), Disturbance):
        found.setdefault(line.kind, []).append((line.monotonic_ns - begin) / 1e9)
    return {kind: np.array(times) for kind, times in found.items()}
