"""The page of the cycles: by system and fault, how many there were, and the worst that was seen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dedup_lab.reporting.markdowns import plain
from dedup_runners.chaos.faults.chaos import ENDED_S
from testbed import ledgers
from testbed.cycles.cycles import LATE_S, Outcome, drawn

HEAD: Final = f"""# Cycles

Made by `make cycles N=1000` (testbed/cycles), not by hand, from cycles.jsonl beside it. Faults of the kinds in the
table (not a rolling restart, partition, fillDisk or throttleTCP) are injected and healed, again and again, on three
real Kafka nodes and on a Pulsar of three brokers and three bookies, under a producer of 400 messages a second. In a
random third of the cycles the injector gets SIGKILL at a random moment. What happens in a cycle follows from its
number and the seed, and a run that was stopped goes on where it was.

- *Struck*: the target has shown the effect. A fault whose injector dies first has none.
- *Past the deadline*: how long after its planned end the fault was seen in force for the last time; below 0, it ended
  before. It is asked of the targets every 50 ms: the toxics in Toxiproxy, the state of each broker's process, and
  brokers that are down (until their next process runs). The latency's deadline is the producer's end; of a frame that
  was held the conversation tells how long. A leader that moved, and a frame that was lost, leave nothing in force.
- *Whole*: how long after the end of both processes all brokers were registered, the topic led and in sync, and a
  message went through every broker and back.
- *Bad*: in force for more than {LATE_S:g} s past the deadline, not whole within two minutes, a process left behind
  for {LATE_S:g} s (by a user's own experiment for {ENDED_S:g} s, for Chaos Toolkit plays its rollbacks), or, where the
  injector lived, a problem in the fault's record. A producer that did not begin, for its injector was dead, is none."""

COLUMNS: Final = (
    *("system", "fault", "cycles", "injector killed", "struck"),
    *("worst past the deadline, s", "slowest to be whole, s", "bad"),
)


def page(outcomes: Sequence[Outcome]) -> str:
    """All of it, in Markdown."""
    return "\n".join([HEAD, "", *_table(outcomes), *_wrongs(outcomes)]) + "\n"


def _table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    if not outcomes:
        yield "No cycle was done yet."
        return
    seeds = ", ".join(sorted({str(each.seed) for each in outcomes}))
    hours = sum(each.took_s for each in outcomes) / 3600
    yield f"{len(outcomes):,} cycles in {hours:.1f} hours, seed {seeds}. {_versions(outcomes)} {ledgers.made(outcomes)}"
    if others := sum((each.system, each.kind) != drawn(each.seed, each.number)[1:3] for each in outcomes):
        yield f"{others:,} of them had another fault than their number has today: the list of faults has changed since."
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for system, kind in sorted({(each.system, each.kind) for each in outcomes}):
        rows = [each for each in outcomes if (each.system, each.kind) == (system, kind)]
        yield _row(system, kind, rows)
    yield _row("**all**", "", outcomes)


def _versions(outcomes: Sequence[Outcome]) -> str:
    """Of the brokers, with how many cycles each."""
    known = Counter(f"{each.system} {each.version or '(version not recorded)'}" for each in outcomes)
    return f"Brokers: {', '.join(f'{name}: {count:,}' for name, count in sorted(known.items()))}."


def _row(system: str, kind: str, rows: Sequence[Outcome]) -> str:
    past = max((each.past_s for each in rows if each.past_s is not None), default=None)
    cells = [
        *(system, kind, f"{len(rows):,}", f"{sum(each.killed for each in rows):,}"),
        *(f"{sum(each.struck for each in rows):,}", "" if past is None else f"{past:.1f}"),
        *(f"{max((each.whole_s for each in rows), default=0):.1f}", f"{sum(each.bad for each in rows):,}"),
    ]
    return f"| {' | '.join(cells)} |"


def _wrongs(outcomes: Iterable[Outcome]) -> Iterator[str]:
    for each in (each for each in outcomes if each.bad):
        told = "; ".join(map(plain, each.problems)) or f"in force {each.past_s} s past its deadline"
        killed = ", injector killed" if each.killed else ""
        yield f"\n- cycle {each.number}, {each.system}, {each.kind}{killed}: {told}"
