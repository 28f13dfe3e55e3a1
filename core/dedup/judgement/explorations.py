"""The verdict of `dedup explore`: was every point of the conversation struck, and did every one leave a clean history?

Each visit is a short run with a history of its own, judged like any other. Its fault is one chosen request or reply;
that it struck, and that the client noticed, is proven by the conversation. An alarm is a visit whose history shows
what is forbidden; it counts only if the same schedule shows it again, in nine of ten runs. No rate is claimed: points
are visited, not sampled.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic import Field

from dedup.experiment.points import Action, Point, Schedule, controls_of, in_transactions, name_of
from dedup.judgement.verdicts import PRECEDENCE, Code, Reason, Verdict, worst
from dedup.wire.manifests import Record

REPLAYS: Final = 10
SHOWN_IN: Final = 9
"""An alarm counts if it is seen again in so many of its replays; a shrunk schedule, if in so many of its tries."""
LISTED: Final = 3


class Visit(Record):
    """One run of a schedule."""

    schedule: tuple[Point, ...]
    deduplication: bool = Field(description="whether it is the treatment; of transactions the control has it, too")
    messages: int
    transaction_size: int | None = Field(None, description="messages a transaction; none: they are sent in no one")
    missed: tuple[str, ...] = Field((), description="points that did not strike, and why")
    unnoticed: tuple[str, ...] = Field((), description="points that struck, and whose request was not sent again")
    verdict: Verdict
    reasons: tuple[Reason, ...]
    anomalies: dict[str, int] = Field(default_factory=dict, description="the forbidden counts that are not 0")
    copies: int = Field(0, description="values that were read more than once; of transactions: that were not committed")
    unknown: int = Field(0, description="sends whose outcome the client never learned; the fault plans them")
    explanation: str = Field("", description="of an alarm: what the conversation and the judges have to say of it")
    seconds: float
    folder: str | None = Field(None, description="its history, if it is kept")

    @property
    def name(self) -> str:
        return name_of(self.schedule) + ("" if self.deduplication else "-control")

    @property
    def alarm(self) -> bool:
        return self.deduplication and self.verdict is Verdict.FAIL

    @property
    def done(self) -> bool:
        """Whether it could be done: one that is an error is done again when one goes on."""
        return self.verdict is not Verdict.ERROR

    def shows(self, anomalies: Iterable[str]) -> bool:
        """Whether it is an alarm with one of these anomalies."""
        return self.alarm and bool(self.anomalies.keys() & set(anomalies))

    @property
    def kind(self) -> tuple[str, ...]:
        """What alarms of one kind have in common: they are replayed and shrunk once."""
        return (*(f"{each.exchange.api} {each.action}" for each in self.schedule), *list(self.anomalies)[:1])


class Shrunk(Record):
    """The shortest schedule and the fewest messages that still show an alarm."""

    schedule: tuple[Point, ...]
    messages: int
    partitions: int
    transaction_size: int | None = None
    anomalies: tuple[str, ...] = Field((), description="the alarm's; each run that shows one of them counts")
    shown: int
    tries: int


class Alarm(Record):
    """A schedule whose history shows what is forbidden, and how often it did so again."""

    visit: Visit
    replayed: int = Field(description="so many replays showed an anomaly of the same name")
    replays: int
    alike: int = Field(
        0, description="more alarms of its kind; of these two at most were replayed, and came again no oftener"
    )
    shrunk: Shrunk | None = None

    @property
    def counts(self) -> bool:
        return self.replays > 0 and self.replayed * REPLAYS >= self.replays * SHOWN_IN


class Replay(Record):
    """A shrunk schedule that was run again: `shown` in so many of `tries` runs."""

    schedule: tuple[Point, ...]
    verdict: Verdict
    reasons: tuple[Reason, ...]
    shown: int
    tries: int


def replayed(shrunk: Shrunk, visits: Sequence[Visit]) -> Replay:
    """What replays say: fail if one anomaly is in nine of ten, pass if all struck, were noticed and showed nothing."""
    shown = sum(each.shows(shrunk.anomalies) for each in visits)
    where = " and ".join(map(str, shrunk.schedule)) or "no fault at all"
    told = f"{where}, {shrunk.messages:,} message(s): {', '.join(shrunk.anomalies)} in {shown} of {len(visits)} runs"
    others = {name: sum(each.shows([name]) for each in visits) for each in visits for name in each.anomalies}
    others = {name: count for name, count in others.items() if count and name not in shrunk.anomalies}
    verdict = Verdict.INCONCLUSIVE
    if max(shown, *others.values(), 0) * REPLAYS >= len(visits) * SHOWN_IN:
        verdict = Verdict.FAIL
    elif not shown and not others:
        verdict = worst(
            [*(each.verdict for each in visits), *(Verdict.INCONCLUSIVE for each in visits if each.unnoticed)]
        )
    elif not all(each.done for each in visits):
        verdict = Verdict.ERROR
    reasons = [
        _reason(verdict, "replayed", "; ".join([told, *(f"{name} in {count}" for name, count in others.items())]))
    ]
    if verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
        reasons += _why_not(visits)
    return Replay(schedule=shrunk.schedule, verdict=verdict, reasons=tuple(reasons), shown=shown, tries=len(visits))


def _why_not(visits: Sequence[Visit]) -> Iterator[Reason]:
    """What keeps replays from a pass, each of it once."""
    for verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
        own = [each for each in visits if each.verdict is verdict]
        texts = dict.fromkeys(reason.text for each in own for reason in each.reasons if reason.verdict is verdict)
        if own:
            yield _reason(verdict, Code.PROBLEM, f"{len(own):,} runs: {_listed(list(texts))}")
    unnoticed = [each for each in visits if each.verdict is Verdict.PASS and each.unnoticed]
    if unnoticed:
        told = f"in {len(unnoticed):,} runs the client did not send again what was struck"
        yield _reason(Verdict.INCONCLUSIVE, Code.FAULT_VACUOUS, told)


class Row(Record):
    """The points of one API and action."""

    api: str
    action: Action
    points: int
    visited: int
    struck: int
    clean: int
    alarms: int
    unknown: int = Field(description="visits in which the client did not learn every outcome")
    control: str = Field("", description="of the control's visits, how many stored copies")


class Unexplored(Record):
    """An exchange that was heard, and not broken."""

    exchange: str
    why: str


class Exploration(Record):
    """The whole: what was explored, what came of it, and what was left out."""

    target: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    messages: int
    partitions: int
    in_flight: int
    transaction_size: int | None = Field(None, description="messages a transaction; none: they are sent in no one")
    points: int
    points_visited: int
    pairs: int
    pairs_visited: int
    seed: int
    rows: tuple[Row, ...]
    alarms: tuple[Alarm, ...]
    unexplored: tuple[Unexplored, ...]
    versions: dict[str, str]
    settings: dict[str, str] = Field(description="the client's settings that are not its defaults")
    seconds: float
    visits: int = Field(description="all runs: calm ones, controls and replays, too")
    points_a_minute: float
    folder: str

    @property
    def scope(self) -> str:
        """What was explored, in words."""
        pairs = f"{self.pairs_visited:,} of {self.pairs:,} pairs, sampled with seed {self.seed}"
        return f"{self.points_visited:,} of {self.points:,} points; {pairs if self.pairs_visited else 'no pairs'}"


def table(points: Sequence[Point], visits: Iterable[Visit]) -> tuple[Row, ...]:
    """A row for each API and action, over the visits of single points."""
    single = [each for each in visits if len(each.schedule) == 1]
    known = list(dict.fromkeys((point.exchange.api, point.action) for point in points))
    rows = []
    for api, action in known:
        own = [each for each in single if (each.schedule[0].exchange.api, each.schedule[0].action) == (api, action)]
        treatment = [each for each in own if each.deduplication and each.done]
        control = [each for each in own if not each.deduplication]
        rows.append(
            Row(
                api=api,
                action=action,
                points=sum((each.exchange.api, each.action) == (api, action) for each in points),
                visited=len(treatment),
                struck=sum(not each.missed for each in treatment),
                clean=sum(each.verdict is Verdict.PASS for each in treatment),
                alarms=sum(each.alarm for each in treatment),
                unknown=sum(each.unknown > 0 for each in treatment),
                control=f"{_convincing(control)} of {len(control)}" if control else "",
            )
        )
    return tuple(rows)


def conclude(
    points: Sequence[Point], pairs: Sequence[Schedule], visits: Sequence[Visit], alarms: Sequence[Alarm]
) -> tuple[Verdict, tuple[Reason, ...]]:
    """The verdict and its reasons, the worst first. `visits`: the last one of each schedule and variant."""
    reasons = [
        *_of_alarms(alarms),
        *_of_visits(visits),
        *_of_scope(points, pairs, visits),
        *_of_control(points, visits),
    ]
    if not reasons:
        clean = "was struck and noticed, and left nothing twice, lost or out of order"
        told = [f"each of {len(points):,} points {clean}"]
        told += [f"{_both(pairs, visits):,} of {len(pairs):,} pairs struck twice, and left no more"] if pairs else []
        told += [_control_told(points, f"each of {_controls(points, visits)}")]
        reasons = [Reason(verdict=Verdict.PASS, code=Code.CLEAN, text="; ".join(told))]
    reasons.sort(key=lambda reason: PRECEDENCE.index(reason.verdict))
    return worst(reason.verdict for reason in reasons), tuple(reasons)


def _of_alarms(alarms: Sequence[Alarm]) -> Iterator[Reason]:
    for alarm in alarms:
        what = ", ".join(f"{count:,} {name}" for name, count in alarm.visit.anomalies.items())
        again = f"again in {alarm.replayed} of {alarm.replays} replays" if alarm.replays else "not replayed"
        alike = f", and {alarm.alike:,} more alarms of this kind" if alarm.alike else ""
        where = " and ".join(map(str, alarm.visit.schedule)) or "no fault at all"
        if alarm.counts:
            yield _reason(Verdict.FAIL, "witness", f"{where}: {what}; {again}{alike}")
        else:
            doubt = f"{where}: {what}; {again}: an alarm counts from {SHOWN_IN} in {REPLAYS} on{alike}"
            yield _reason(Verdict.INCONCLUSIVE, "alarm_not_replayed", doubt)


def _of_visits(visits: Sequence[Visit]) -> Iterator[Reason]:
    """What stands in the way of a pass besides alarms: errors, doubts about histories, a control that fails."""
    for verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
        own = [each for each in visits if each.verdict is verdict]
        if verdict is not Verdict.ERROR:  # an error stands whatever was struck
            own = [each for each in own if each.deduplication and not each.missed and not each.unnoticed]
        texts = [
            f"{each.name}: {next(reason.text for reason in each.reasons if reason.verdict is verdict)}" for each in own
        ]
        if texts:
            yield _reason(verdict, Code.PROBLEM, f"{len(texts):,} visits: {_listed(texts)}")
    broke = [each for each in visits if not each.deduplication and each.verdict is Verdict.FAIL]
    if broke:
        texts = [
            f"{each.name}: {next(reason.text for reason in each.reasons if reason.verdict is Verdict.FAIL)}"
            for each in broke
        ]
        told = f"the control broke what it promises; it is not replayed, so it accuses nobody: {_listed(texts)}"
        yield _reason(Verdict.INCONCLUSIVE, "control_failed", told)


def _of_scope(points: Sequence[Point], pairs: Sequence[Schedule], visits: Sequence[Visit]) -> Iterator[Reason]:
    schedules: set[Schedule] = {each.schedule for each in visits if each.deduplication}
    left = [name_of(each) for each in [*((point,) for point in points), *pairs] if each not in schedules]
    if not points:
        yield _reason(Verdict.INCONCLUSIVE, Code.NOTHING_SENT, "no exchange is in all calm conversations")
    if left:
        yield _reason(Verdict.INCONCLUSIVE, "not_visited", f"{len(left):,} schedules were not visited: {_listed(left)}")
    treatment = [each for each in visits if each.deduplication and not each.alarm and len(each.schedule) == 1]
    missed = [f"{each.name} ({each.missed[0]})" for each in treatment if each.missed]
    unnoticed = [each.name for each in treatment if each.unnoticed and not each.missed]
    if missed:
        told = f"{len(missed):,} points were not struck: {_listed(missed)}"
        yield _reason(Verdict.INCONCLUSIVE, Code.FAULT_VACUOUS, told)
    if unnoticed:
        told = f"at {len(unnoticed):,} points the client did not send again what was struck: {_listed(unnoticed)}"
        yield _reason(Verdict.INCONCLUSIVE, Code.FAULT_VACUOUS, told)


def _of_control(points: Sequence[Point], visits: Sequence[Visit]) -> Iterator[Reason]:
    asked, convincing = len(controls_of(points)), _controls(points, visits)
    if not asked or convincing < asked:
        told = f"{_control_told(points, f'{convincing} of {asked}')}; all must"
        yield _reason(Verdict.INCONCLUSIVE, Code.CONTROL_UNCONVINCING, told)


def _control_told(points: Sequence[Point], share: str) -> str:
    if in_transactions(points):
        return (
            f"who did not ask for committed messages was given aborted ones in {share} runs with a lost reply to "
            "EndTxn: aborted reads are seen, whatever was struck"
        )
    return f"without deduplication {share} lost replies to a batch left copies"


def _both(pairs: Sequence[Schedule], visits: Iterable[Visit]) -> int:
    """A pair may be out of reach: the first fault can keep the second exchange from coming. It is no claim.

    Who goes on with fewer pairs has visits of others, too.
    """
    asked = set(pairs)
    own = [each for each in visits if each.deduplication and each.schedule in asked]
    return sum(each.verdict is Verdict.PASS and not each.missed and not each.unnoticed for each in own)


def _controls(points: Sequence[Point], visits: Iterable[Visit]) -> int:
    asked = {(point,) for point in controls_of(points)}
    return _convincing(each for each in visits if not each.deduplication and each.schedule in asked)


def _convincing(control: Iterable[Visit]) -> int:
    """How many visits of the control show what they must."""
    return sum(each.copies > 0 and not each.missed for each in control)


def _reason(verdict: Verdict, code: str, text: str) -> Reason:
    return Reason(verdict=verdict, code=code, text=text)


def _listed(found: Sequence[str]) -> str:
    more = f" and {len(found) - LISTED:,} more" if len(found) > LISTED else ""
    return "; ".join(found[:LISTED]) + more
