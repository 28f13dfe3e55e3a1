"""Tries every point of every story: one break at one request, and then the course to its end.

A point starts from its look, in the state that the calm course had before it. It is over as soon as the state is that
of some look of the calm course: from there, nothing can differ any more. After something was lost or forged it is also
over in a state to which the same has led before. So a point costs milliseconds on the fake
cluster, and a fraction of a second on an API server that can be reset
(servers.py). `to_the_end` waives the second.

On any other API server every point is a course of its own in a new namespace, from `kubectl apply` to the verdict.
"""

import datetime
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from dedup_operator.clusters import Object
from dedup_operator.statuses import Judgement
from testbed.campaign.breaks import BREAKS, DELETED, FORGED, LEFT, LOSSES, USERS, Break, Effect, Request, at
from testbed.campaign.courses import Course, Ended, fingerprint, outlook, world
from testbed.campaign.grounds import OURS, Forks, Ground
from testbed.campaign.stories import NEXT_LOOKS, SHORT, Story
from testbed.worlds import NAMESPACE, Played

EVERYWHERE: Final = (*BREAKS, *USERS, DELETED, LEFT)
"""The breaks before any API server."""
OTHERS: Final = (*LOSSES, *FORGED)
"""Those that only the fake cluster shows: elsewhere others would have to know names before they are there."""
ALL: Final = (*EVERYWHERE, *OTHERS)
NEXT_NAMES: Final = 12
"""Among so many creations to come is one whose name is free."""
SEED: Final = "DEDUP_SEED"
Some = TypeVar("Some")


class Point(NamedTuple):
    story: Story
    number: int
    """Of the request, from 1, in the calm course."""
    request: Request
    how: Break

    def on(self, calm: "Calm") -> "Point":
        """The same in another calm course, in which the objects have names of their own."""
        return self._replace(request=calm.asked[self.number - 1])

    def __str__(self) -> str:
        return f"{self.story.name}, {self.request.stage}, request {self.number} ({self.request}): {self.how.name}"


class Outcome(NamedTuple):
    point: Point
    same: bool
    """Everything that is read in the end is as in the calm course."""
    seconds: int
    """Effects that the calm course had less often, and moments with two runs at a time."""
    orphans: int
    why: str

    @property
    def good(self) -> bool:
        return self.same and not self.seconds and not self.orphans


class Calm(NamedTuple):
    """A course without a break."""

    course: Course
    asked: list[Request]
    before: list[tuple[int, Course]]
    """Each look: how many requests came before it, and the world then."""
    seen: set[str]
    outlooks: dict[str, Counter[Effect]]
    """And after which effects there was each outlook first."""
    followed: dict[str, "Outcome"]
    """What became of each world to which something lost or forged has led: from there on it is the same again."""


def seed() -> int:
    """The seed: today's date, or DEDUP_SEED."""
    said = os.environ.get(SEED)
    return int(said) if said else datetime.datetime.now(datetime.UTC).date().toordinal()


def sampled(points: Sequence[Some], how_many: int) -> list[Some]:
    """A sample of the points, chosen by the seed, in their order."""
    chosen = sorted(random.Random(seed()).sample(range(len(points)), min(how_many, len(points))))
    return [points[index] for index in chosen]


def calm(story: Story) -> Calm:
    """On the fake cluster."""
    return _followed(Course.of(story, Ground(), NAMESPACE))


def calm_on(ground: Forks, namespace: str, story: Story) -> Calm:
    """On another ground. It must end as on the fake cluster, which judges its points: a ground knows only its present.

    AssertionError if it does not, or if other requests are made on the way.
    """
    here, expected = _followed(Course.of(story, ground, namespace)), calm(story)
    nothing = Break("nothing", ())
    outcome = judged(Point(story, 0, here.asked[0], nothing), here.course, expected.course)
    assert outcome.good, f"{story.name}, nothing broken: {outcome.why}"
    assert [_unnamed(each) for each in here.asked] == [_unnamed(each) for each in expected.asked], story.name
    return here._replace(course=expected.course)


def _followed(course: Course) -> Calm:
    way, before, seen = course.way(), [], set()
    outlooks: dict[str, Counter[Effect]] = {}
    while not course.over:
        before.append((len(way.asked), course.fork()))
        course.look(way)
        seen.add(repr(fingerprint(course)))
        outlooks.setdefault(repr(outlook(course)), Counter(course.effects))
    return Calm(course, way.asked, before, seen, outlooks, {})


def coming(calm: Calm, number: int) -> list[tuple[str, str]]:
    """What is created next, from that request on. What Helm has already looked for is not among it."""
    at_work = calm.asked[number - 1].by_helm
    return [
        (each.kind, each.name)
        for each in calm.asked[number - 1 :]
        if each.verb == "create" and each.kind in OURS and not (at_work and each.by_helm and each.kind != "Secret")
    ][:NEXT_NAMES]


def points_of(calm: Calm, breaks: Sequence[Break] = ALL) -> Iterator[Point]:
    """All breaks of all requests; of a story with turns, from the first of them to some looks after the last."""
    first, last, story = 0, len(calm.before), calm.course.story
    if story.turns:
        turned = [index for index, (_, course) in enumerate(calm.before) if course.turned]
        first, last = turned[0] - 1, calm.course.turned_at + NEXT_LOOKS
    for look, (asked_before, course) in enumerate(calm.before[:last]):
        end = calm.before[look + 1][0] if look + 1 < len(calm.before) else len(calm.asked)
        for number in range(asked_before + 1, end + 1):
            request = calm.asked[number - 1]
            for how in breaks:
                races = bool(story.turns) and how.meanwhile == "move"
                here = story is SHORT if how in USERS else look >= first + races
                if here and how.breaks(request) and _applies(how, course, calm, number):
                    yield Point(story, number, request, how)


def _applies(how: Break, course: Course, calm: Calm, number: int) -> bool:
    """Whether others find something to do there."""
    if not how.needs:
        return True
    course.forger.coming = coming(calm, number)
    return bool(attrgetter(how.needs)(course)())


def tried(point: Point, calm: Calm, *, to_the_end: bool = False) -> Outcome:
    """On the ground of the calm course."""
    look = max(index for index, (number, _) in enumerate(calm.before) if number < point.number)
    number, course = point.number - calm.before[look][0], calm.before[look][1].fork()
    way = course.way(breaks=at(number, point.how))
    course.forger.coming = coming(calm, point.number)
    course.may_miss = point.how.doubts
    met: list[str] = []

    def found(outcome: Outcome) -> Outcome:
        calm.followed.update(dict.fromkeys(met, outcome))
        return outcome

    try:
        while not course.over:
            course.look(way)
            broken = len(way.asked) >= number
            if broken and (asked := way.asked[number - 1]) != point.request:
                return Outcome(point, False, 0, 0, f"request {point.number} is another one here: {asked}")
            if broken and not to_the_end and not course.over and _is_calm_again(point.how, course, calm):
                wrongs = [*course.wrongs, *course.forger.wrongs]
                return found(Outcome(point, True, len(wrongs), 0, "; ".join(wrongs)))
            if broken and not to_the_end and not course.over and point.how in OTHERS:
                met.append(repr((point.how.name, world(course))))
                if (known := calm.followed.get(met[-1])) is not None:
                    return found(known._replace(point=point))
    except Ended as error:
        return found(Outcome(point, False, 0, 0, str(error)))
    return found(judged(point, course, calm.course))


def _is_calm_again(how: Break, course: Course, calm: Calm) -> bool:
    """Whether it goes on as the calm course does; after a loss or a forgery it may have taken more to come there."""
    if how not in OTHERS:
        return repr(fingerprint(course)) in calm.seen
    if not course.is_quiet or (then := calm.outlooks.get(repr(outlook(course)))) is None:
        return False
    done = Counter(course.effects)
    return then <= done and all(
        more == 1 and (each.component or each.kind) in how.again for each, more in (done - then).items()
    )


def tried_on(ground: Played, namespace: str, point: Point, calm: Calm) -> Outcome:
    """On another ground, in a namespace of its own. The calm course may be the fake cluster's: both end the same."""
    course = Course.of(point.story, ground, namespace)
    way = course.way(breaks=at(point.number, point.how))
    try:
        course.play(way)
    except Ended as error:
        return Outcome(point, False, 0, 0, str(error))
    asked = way.asked[point.number - 1]
    if _unnamed(asked) != _unnamed(point.request):
        return Outcome(point, False, 0, 0, f"request {point.number} is another one here: {asked}")
    return judged(point, course, calm.course)


def _unnamed(request: Request) -> Request:
    """Names come of the resource's uid, which is another one each time."""
    return request._replace(name="")


def judged(point: Point, course: Course, calm: Course) -> Outcome:
    """A course that has come to its end, held against the calm one.

    If controllers were quicker than the user in stopping a run, it had one attempt more or less: both are right. So it
    is if the user came while something was lost, or in the way; what was forged may leave no occasion to come. Where
    the user comes at any request, whatever was done may be done once more. What is right after something was lost or
    forged, the break says.
    """
    how = point.how
    course.forger.leave()
    wrongs = [*course.wrongs, *course.forger.wrongs]
    if how is LEFT:
        course.sweep()
    orphans = course.orphans()
    if how in (DELETED, LEFT):
        return Outcome(point, True, len(wrongs), len(orphans), "; ".join([*wrongs, *orphans]))
    said, expected = course.findings(), calm.findings()
    if how.meanwhile == "renew":
        expected["token"] = "2"
    if how.meanwhile == "forger.unlabel" and point.story.turns:
        expected["systems left"] = said["systems left"]  # what is hidden from Helm goes with the experiment
    if course.todo:
        expected["token"] = said["token"]
    if how.doubts:
        expected |= _in_doubt(course, said, expected)
    differs = [f"{key}: {said[key]}, calm: {expected[key]}" for key in expected if said[key] != expected[key]]
    if course.verdicts != calm.verdicts and not (how.doubts and course.verdicts == [said["verdict"]]):
        differs.append(f"verdicts: {course.verdicts}")
    late = 1 if point.story.turns and (how.meanwhile == "move" or how in OTHERS) else 0
    seconds = [*wrongs, *course.seconds(calm, 1 if how in USERS else late, how.again)]
    missing = [] if how.doubts else course.missing(calm, late)
    why = [*differs, *missing, *seconds, *orphans]
    return Outcome(point, not differs and not missing, len(seconds), len(orphans), "; ".join(why))


def _in_doubt(course: Course, said: Object, expected: Object) -> Object:
    """What is right where an end was forged: a failure more, or less, and *Error* if the report missed something.

    Or if there is no report, since that is what failed. *Pass* only if nothing is missing.
    """
    more = said["failures"] - expected["failures"]
    right: Object = {"failures": said["failures"]} if more in (-1, 0, 1) else {}
    missed = course.controllers.said is Judgement.ERROR or more == 1
    if said["verdict"] == Judgement.ERROR and missed:
        return right | {key: said[key] for key in ("verdict", "conditions")}
    return right if course.proven() else {**right, "verdict": "not Pass"}
