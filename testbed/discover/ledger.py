"""What is kept of an exploration, a line each, and the page that is made of all lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict

from dedup.experiment.points import name_of
from dedup.judgement.explorations import Alarm, Exploration
from dedup.judgement.verdicts import Verdict
from dedup_lab.reporting.markdowns import plain
from testbed import ledgers
from testbed.discover.subjects import SUBJECTS, Round, Subject

HEAD: Final = """# Discovered

Made by `make discover` (testbed/discover), not by hand, from discovered.jsonl beside it. Each round is a
`dedup explore` of a current client against brokers that are started for it: every point of a conversation once, and
pairs of points by a seed. What a round is follows from its number: messages, partitions, pairs.

- *Alarm*: a visit whose history shows what is forbidden. Of each kind one is replayed ten times, and up to two
  more if it does not come again.
- *Points*, *pairs*: those that were visited. *Not struck*: points that no visit struck. Of a pair the first fault can
  keep the second exchange from coming: how many pairs struck twice is in no column.
- *Known*, *new* and *false* count kinds of alarms; *inconclusive* and *errors* count rounds with that verdict. Why a
  round did not pass is told below the table.
- *Known*: it comes again in at least 9 of 10, and is a published bug ([known-bugs.md](known-bugs.md)).
- *New*: it comes again in at least 9 of 10, and is no bug that is listed. A person has to look at it: at its witness,
  by `dedup explore … --replay`, and at the same schedule without the interposer.
- *False*: it does not come again. A tester must have none.

"""
OF_AN_ALARM: Final = "witness"
"""The code of the reason of a fail that is an alarm."""
KNOWN: Final = "known"
NEW: Final = "new"
FALSE: Final = "false"
NOT_REPLAYED: Final = "not replayed"
"""There were too many kinds of alarms; it counts as new."""
COLUMNS: Final = (
    "subject",
    "rounds",
    "points",
    "pairs",
    "not struck",
    "known",
    "new",
    "false",
    "inconclusive",
    "errors",
    "minutes",
)


class Found(BaseModel):
    """An alarm of a round: of what kind, how often it came again, and what it is taken for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    schedule: str
    anomalies: dict[str, int]
    replayed: int
    replays: int
    alike: int
    taken_for: str
    """A known bug's name, NEW, FALSE or NOT_REPLAYED."""


class Line(ledgers.Entry):
    """One round."""

    PART: ClassVar = ("subject", "number")

    subject: str
    number: int
    messages: int
    partitions: int
    versions: dict[str, str]
    verdict: str
    reasons: tuple[str, ...]
    points: int
    points_visited: int
    pairs_visited: int
    not_struck: int
    """Points of which none of eight visits struck."""
    found: tuple[Found, ...]
    seconds: float
    fails_otherwise: bool = False
    """Whether it fails for a reason that is no alarm: its control broke what it promises."""

    @property
    def unexplained(self) -> bool:
        """Whether somebody has to look at it: an error, an alarm that is no known bug, or a fail without an alarm."""
        known = {bug.name for bug in SUBJECTS[self.subject].known} if self.subject in SUBJECTS else set()
        odd = self.verdict == Verdict.ERROR or self.fails_otherwise
        return odd or any(found.taken_for not in known for found in self.found)


def line(round_: Round, result: Exploration) -> Line:
    """What is kept of a round's result."""
    visited = sum(row.visited for row in result.rows)
    return Line(
        subject=round_.subject.name,
        number=round_.number,
        messages=result.messages,
        partitions=result.partitions,
        versions=result.versions,
        verdict=result.verdict.value,
        reasons=tuple(reason.text for reason in result.reasons),
        points=result.points,
        points_visited=result.points_visited,
        pairs_visited=result.pairs_visited,
        not_struck=visited - sum(row.struck for row in result.rows),
        found=tuple(_found(round_.subject, alarm) for alarm in result.alarms),
        seconds=result.seconds,
        fails_otherwise=any(reason.verdict is Verdict.FAIL and reason.code != OF_AN_ALARM for reason in result.reasons),
    )


def _found(subject: Subject, alarm: Alarm) -> Found:
    return Found(
        kind=", ".join(alarm.visit.kind),
        schedule=name_of(alarm.visit.schedule),
        anomalies=alarm.visit.anomalies,
        replayed=alarm.replayed,
        replays=alarm.replays,
        alike=alarm.alike,
        taken_for=_taken_for(subject, alarm),
    )


def _taken_for(subject: Subject, alarm: Alarm) -> str:
    if not alarm.counts:
        return FALSE if alarm.replays else NOT_REPLAYED
    return next((known.name for known in subject.known if known.explains(alarm)), NEW)


def page(lines: Sequence[Line]) -> str:
    """All of it, in Markdown."""
    return HEAD + "".join(f"{text}\n" for text in (*_table(lines), *_versions(lines), *_doubts(lines), *_alarms(lines)))


def _table(lines: Sequence[Line]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| --- |{' ---: |' * (len(COLUMNS) - 1)}"
    for name in dict.fromkeys((*SUBJECTS, *(each.subject for each in lines))):
        own = [each for each in lines if each.subject == name]
        taken = Counter[str]()
        for found in (found for each in own for found in each.found):
            taken[found.taken_for if found.taken_for in (NEW, FALSE, NOT_REPLAYED) else KNOWN] += 1
        cells = [
            *(len(own), sum(each.points_visited for each in own), sum(each.pairs_visited for each in own)),
            *(sum(each.not_struck for each in own), taken[KNOWN], taken[NEW] + taken[NOT_REPLAYED], taken[FALSE]),
            *(sum(each.verdict == verdict for each in own) for verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR)),
            round(sum(each.seconds for each in own) / 60),
        ]
        yield f"| {name} | {' | '.join(f'{cell:,}' for cell in cells)} |"


def _versions(lines: Sequence[Line]) -> Iterator[str]:
    """Rounds of one subject may be of several versions; they are told apart."""
    by_versions: dict[tuple[str, str], list[int]] = {}
    for each in lines:
        told = ", ".join(f"{plain(name)} {plain(version)}" for name, version in sorted(each.versions.items()))
        by_versions.setdefault((each.subject, told or "versions not recorded"), []).append(each.number)
    if by_versions:
        yield from (
            "",
            "Versions of the tester's own client, and of brokers that name theirs; a Java or Go client's is in",
        )
        yield from ("its file of examples/explore:", "")
    for (subject, told), numbers in by_versions.items():
        yield f"- {subject} {', '.join(map(str, sorted(numbers)))}: {told}"
    yield from ("", f"{len(lines):,} rounds. {ledgers.made(lines)}")


def _doubts(lines: Sequence[Line]) -> Iterator[str]:
    """Why rounds did not pass."""
    found = [each for each in lines if each.verdict != Verdict.PASS]
    if found:
        yield from ("", "## Rounds that did not pass", "")
    for each in found:
        why = "; ".join(map(plain, each.reasons)) or "no reason was kept"
        yield f"- {each.subject} {each.number}, {each.verdict}: {why}"


def _alarms(lines: Sequence[Line]) -> Iterator[str]:
    found = [(each, one) for each in lines for one in each.found]
    if found:
        yield from ("", "## Alarms", "", "| subject, round | schedule | what showed | came again | taken for |")
        yield "| --- | --- | --- | --- | --- |"
    for each, one in found:
        shown = ", ".join(f"{name} {count}" for name, count in one.anomalies.items())
        more = f" (and {one.alike} alike)" if one.alike else ""
        again = f"{one.replayed} of {one.replays}" if one.replays else "not replayed"
        yield f"| {each.subject} {each.number} | `{one.schedule}`{more} | {shown} | {again} | {one.taken_for} |"
