"""The hub's part of the campaign: every request of a DedupComparison, in its own cluster and in another, broken once.

The clusters are stores of objects, and what their operators do is scripted: an experiment is begun, then finished with
a sealed summary. A *tale* is what becomes of the other cluster meanwhile: nothing; it goes away and comes back, or does
not; or people change the experiment there by hand. In the end the user deletes the comparison, so that the requests of
that are broken, too. A point costs milliseconds, so each is a course of its own from its first look.

A course ends as it should if outcome, table, steps and conditions are those of a course in which nothing broke. A
second effect is an experiment made more often than there; an orphan is what stays when the comparison is gone, and
would not stay there.
"""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from dedup.experiment.comparisons import parse
from dedup.experiment.plans import plan
from dedup.experiment.spec import Expectation, Experiment
from dedup.judgement.abridgements import sealed
from dedup.judgement.counts import Counts
from dedup.judgement.paces import Pace
from dedup.judgement.summaries import GroupRow, RunRow, Summary
from dedup.judgement.verdicts import Verdict
from dedup_operator.clusters import Cluster, ClusterError, LiveCluster, Object, Unreachable
from dedup_operator.comparisons.controllers import Comparer
from dedup_operator.comparisons.kubeconfigs import Way as WayIn
from dedup_operator.comparisons.remotes import RemoteCluster
from dedup_operator.conditions import TIME
from dedup_operator.objects.snapshots import document_of
from testbed.campaign.breaks import BREAKS, DELETED, LEFT, Break, Breaks, Request, Way, at
from testbed.campaign.points import Outcome, Point
from testbed.campaign.stories import Story
from testbed.campaign.tables import Part
from testbed.specs import changed
from testbed.worlds import FIRST_S, NAMESPACE, Crash, FakeCluster

TITLE: Final = "The hub of a comparison"
HOW: Final = (
    "A `DedupComparison` of the hub's own cluster with another, from its creation to its table and to its deletion. "
    "Both clusters are stores of objects; what their operators do is scripted. The other cluster goes away and comes "
    "back, or never does, or was never there; people delete the experiment there, or give it another runToken. "
    "What is deleted at any request is the comparison; there no end is compared, but orphans and second effects are. "
    "A second effect is an experiment made twice. What stays in a cluster that is never reached again is no orphan if "
    "it stays in a calm course, too: an Event names that cluster."
)
STAGES: Final = ("Begin", "Make", "Run", "Finished", "Leave")
ALL: Final = (*BREAKS, DELETED, LEFT)
KEY: Final = (NAMESPACE, "c")
HERE: Final = "here"
CLOUD: Final = "cloud"
LOOK_S: Final = 20.0
WAITS_S: Final = 300.0
"""Between looks in tales that wait for a deadline."""
MAX_LOOKS: Final = 200
AWAY_LOOKS: Final = 3
DEADLINE: Final = "30m"


class Tale(NamedTuple):
    """What becomes of the other cluster. `away` is for so many looks; None is for ever."""

    name: str
    goes_away: bool = False
    away: int | None = AWAY_LOOKS
    never_there: bool = False
    by_hand: str = ""
    """What people do to the experiment there: a method of the course."""
    look_s: float = LOOK_S
    """Between two looks. Longer ones have fewer requests before a deadline, all of one kind."""


TALES: Final = (
    Tale("calm"),
    Tale("it goes away and comes back", goes_away=True),
    Tale("it goes away and never comes back", goes_away=True, away=None, look_s=WAITS_S),
    Tale("it is never there", never_there=True, look_s=WAITS_S),
    Tale("its experiment is deleted there", by_hand="remove"),
    Tale("its experiment gets another runToken there", by_hand="renew"),
)


class Unending(Exception):
    """A course that does not come to its end."""


@dataclass
class Place(FakeCluster):
    """A cluster that may be away: then nobody's request reaches it. What its own operator does goes on."""

    name: str = ""
    away: bool = False
    made: int = 0
    """How many experiments were made in it."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        self._reached()
        return super().get(kind, namespace, name)

    def create(self, made: Object) -> bool:
        self._reached()
        new = super().create(made)
        self.made += new and made["kind"] == "DedupExperiment"
        return new

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._reached()
        super().delete(kind, namespace, name)

    def _reached(self) -> None:
        if self.away:
            raise Unreachable(f"{self.name} is away")


@dataclass
class _To(Way):
    """The hub's way to one cluster; all ways of a course number their requests together."""

    cluster: str = ""

    def _ask(self, verb: str, kind: str, name: str, do: Callable[[Cluster], Any]) -> Any:
        return super()._ask(verb, kind, f"{name} in {self.cluster}", do)


@dataclass
class Course:
    """A tale at some point: the two clusters, the operator's requests so far, and what was found."""

    tale: Tale
    breaks: Breaks = lambda _number, _request: None
    now_s: float = FIRST_S
    asked: list[Request] = field(default_factory=list)
    looks: int = 0
    away_since: int | None = None
    handled: bool = False
    deleted: bool = False
    told: dict[str, Any] = field(default_factory=dict)
    """What the comparison said before it was deleted."""
    clusters: dict[str, Place] = field(default_factory=dict)
    before: list["Course"] = field(default_factory=list)
    """The course before each of its looks."""

    def __post_init__(self) -> None:
        for name in (HERE, CLOUD):
            self.clusters[name] = replace(self.clusters.get(name, Place(name=name)), clock=lambda: self.now_s)
        if self.hub.objects:
            return
        meta = {"name": CLOUD, "namespace": NAMESPACE, "labels": {"dedup.dev/use": "true"}}
        data = {"kubeconfig": base64.b64encode(json.dumps(_kubeconfig()).encode()).decode()}
        self.hub.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})
        self.hub.create(document())
        self.cloud.away = self.tale.never_there

    @property
    def hub(self) -> Place:
        return self.clusters[HERE]

    @property
    def cloud(self) -> Place:
        return self.clusters[CLOUD]

    def fork(self, breaks: Breaks) -> "Course":
        """The same from here on, in clusters of its own. Their objects are never changed in place."""
        clusters = {name: replace(each, objects=dict(each.objects)) for name, each in self.clusters.items()}
        asked, told = list(self.asked), dict(self.told)
        return replace(self, breaks=breaks, asked=asked, told=told, clusters=clusters, before=[])

    # What the operator does.

    def play(self) -> None:
        """From the first look until the comparison is gone; Unending if it does not go."""
        while self.live is not None:
            if self.looks == MAX_LOOKS:
                raise Unending(f"it goes on for ever: {self.live.get('status')}")
            self.before.append(self.fork(self.breaks))
            self._look()
            if self.live is not None and "outcome" in self.status and not self.deleted:
                self.told = self.findings()
                self.depart()
            self.move()
            self.collect()

    def _look(self) -> None:
        self.looks += 1
        self.now_s += self.tale.look_s
        try:
            Comparer(self._way(HERE), self._remote, lambda: self.now_s).look(KEY)
        except (ClusterError, Crash):
            pass

    def _remote(self, way: WayIn) -> Cluster:
        return self._way(way.server.removeprefix("https://"))

    def _way(self, name: str) -> Way:
        answers = LiveCluster if name == HERE else RemoteCluster
        place, asked = self.clusters[name], self.asked
        return _To(place, self.breaks, self, self.stage, asked=asked, answers=answers, cluster=name)

    # What others do; the breaks name these.

    def move(self) -> None:
        """Operators carry out what they have; the other cluster comes and goes; people do what they do."""
        seen = bool(self._step(CLOUD).get("uid"))
        if self.tale.goes_away and self.away_since is None and seen:
            self.away_since, self.cloud.away = self.looks, True
        if self.away_since is not None and self.tale.away is not None:
            self.cloud.away = self.looks < self.away_since + self.tale.away
        if self.tale.by_hand and not self.handled and seen:
            getattr(self, self.tale.by_hand)()
            self.handled = True
        held = (self.tale.goes_away and self.away_since is None) or (self.tale.by_hand and not self.handled)
        for name, cluster in self.clusters.items():
            for made in cluster.list("DedupExperiment", NAMESPACE, ""):
                if not made.get("status"):
                    told = {"observedRunToken": made["spec"]["runToken"], "progress": "1/4 runs"}
                    cluster.set_status(made, told)
                elif "verdict" not in made["status"] and not (held and name == CLOUD):
                    cluster.set_status(made, made["status"] | self._finished(name))

    def annotate(self) -> None:
        """Somebody writes to the comparison: its version is another one."""
        if self.live is not None:
            change = {"metadata": {"annotations": {"somebody": str(self.hub.versions)}}}
            self.hub.patch("DedupComparison", *KEY, change)

    def depart(self) -> None:
        """The user deletes it. With a finalizer it stays until that is taken off."""
        live = self.live
        if live is not None and not live["metadata"].get("deletionTimestamp"):
            self.deleted = True
            since = datetime.fromtimestamp(self.now_s, UTC).strftime(TIME)
            self.hub.patch("DedupComparison", *KEY, {"metadata": {"deletionTimestamp": since}})
            self.collect()

    def remove(self) -> None:
        """People delete the experiment in the other cluster."""
        for made in self.cloud.list("DedupExperiment", NAMESPACE, ""):
            FakeCluster.delete(self.cloud, "DedupExperiment", NAMESPACE, made["metadata"]["name"])

    def renew(self) -> None:
        """People give it another runToken, and its operator begins again."""
        for made in self.cloud.list("DedupExperiment", NAMESPACE, ""):
            name = made["metadata"]["name"]
            FakeCluster.patch(self.cloud, "DedupExperiment", NAMESPACE, name, {"spec": {"runToken": "mine"}})
            self.cloud.set_status(made, {"observedRunToken": "mine", "progress": "0/4 runs"})

    def collect(self) -> None:
        """Kubernetes deletes what is to be deleted, and what belonged to it, in the hub's own cluster."""
        live = self.live
        if live is not None and live["metadata"].get("deletionTimestamp") and not live["metadata"].get("finalizers"):
            self.hub.delete("DedupComparison", *KEY)
            live = None
        if live is None:
            for kind in ("DedupExperiment", "ConfigMap"):
                for made in self.hub.list(kind, NAMESPACE, ""):
                    if any(owner["uid"] == UID for owner in made["metadata"].get("ownerReferences") or ()):
                        self.hub.delete(kind, NAMESPACE, made["metadata"]["name"])

    # What can be seen.

    @property
    def live(self) -> Object | None:
        return self.hub.get("DedupComparison", *KEY)

    @property
    def status(self) -> dict[str, Any]:
        return dict((self.live or {}).get("status") or {})

    def _step(self, name: str) -> dict[str, Any]:
        return next((dict(each) for each in self.status.get("clusters", ()) if each["name"] == name), {})

    @property
    def stage(self) -> str:
        if (self.live or {"metadata": {}})["metadata"].get("deletionTimestamp"):
            return "Leave"
        if "outcome" in self.status:
            return "Finished"
        if not self.status:
            return "Begin"
        return "Run" if all(self._step(name).get("uid") for name in self.clusters) else "Make"

    def findings(self) -> dict[str, Any]:
        """What people and tools read of a comparison that has its outcome."""
        status = self.status
        home = self.hub.get("ConfigMap", NAMESPACE, "c-comparison") or {"data": {}}
        said = [
            [each["type"], each["status"], each["reason"], _plain(each["message"])] for each in status["conditions"]
        ]
        return {
            "outcome": status["outcome"],
            "steps": {each["name"]: each["step"] for each in status["clusters"]},
            "conditions": said,
            "table": home["data"].get("comparison.md"),
        }

    def left(self) -> list[str]:
        """What is there when the comparison is gone, Secrets and Events apart."""
        return sorted(
            f"{name}: {kind} {called}"
            for name, cluster in self.clusters.items()
            for kind, _, called in cluster.objects
            if kind not in ("Secret", "Event")
        )

    def events(self) -> list[str]:
        """What an Event says to people of what may have stayed."""
        return sorted({each["message"] for each in self.hub.list("Event", NAMESPACE, "")})

    def _finished(self, name: str) -> Object:
        return {"progress": "4/4 runs", "verdict": "Pass", "summary": SUMMARIES[name]}


UID: Final = "0c4e"


def _plain(message: str) -> str:
    """Without the words of the last request that did not reach a cluster: any may be the last before the deadline."""
    return re.sub(r"(is Unreachable): .*", r"\1", message)


def _kubeconfig() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"https://{CLOUD}"}}],
        "users": [{"name": "u", "user": {"token": "t0k"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def document() -> Object:
    """The comparison of the hub with one other cluster."""
    spec = changed(("spec/systems", [{"name": "kafka", "kafka": {}}]), ("spec/runs", 2))["spec"]
    clusters = [{"name": HERE}, {"name": CLOUD, "kubeConfig": {"secretRef": {"name": CLOUD}}}]
    return {
        "apiVersion": "dedup.dev/v1alpha1",
        "kind": "DedupComparison",
        "metadata": {"name": KEY[1], "namespace": NAMESPACE, "uid": UID},
        "spec": {"clusters": clusters, "template": {"spec": spec}, "deadline": DEADLINE},
    }


def summary(made: Experiment, copies: int) -> Summary:
    """Of an experiment all of whose runs did what they promise; so many copies are in each control."""
    controls = {each.name for each in made.spec.variants if each.expect is not Expectation.EXACTLY_ONCE}
    runs = [
        RunRow(
            run_id=run.run_id,
            attempt=1,
            system=run.system,
            variant=run.variant,
            run=run.number,
            recorded_at=f"2026-11-25T12:{copies:02}:{run.number:02}Z",
            verdict=Verdict.PASS,
            reasons=(),
            effective=True,
            void=False,
            counts=_counts(copies if run.variant in controls else 0),
            pace=Pace(acknowledged_per_second=1000.0 + run.number, longest_pause_s=2.0),
        )
        for run in plan(made)
    ]
    return Summary(
        experiment=made.name,
        spec_digest=made.digest(),
        verdict=Verdict.PASS,
        exit_code=0,
        reasons=(),
        versions={system.name: {"deployed": system.version} for system in made.spec.systems},
        systems=tuple(_groups(made, runs)),
        runs=tuple(runs),
    )


def _groups(made: Experiment, runs: Sequence[RunRow]) -> Iterator[GroupRow]:
    for variant in made.spec.variants:
        own = [each for each in runs if each.variant == variant.name]
        copies = sum(each.counts.extra_copies for each in own if each.counts)
        yield GroupRow(
            system=own[0].system,
            variant=variant.name,
            deduplication=variant.expect is Expectation.EXACTLY_ONCE,
            expectation=variant.expect,
            runs=len(own),
            effective_runs=len(own),
            runs_with_copies=len(own) if copies else 0,
            runs_summed=len(own),
            verdict=Verdict.PASS,
            reasons=(),
            p_value=None,
            strength=None,
            rate_bound=None,
            sums=_counts(copies),
            block_lengths=(),
        )


def _counts(copies: int) -> Counts:
    return Counts(values_with_duplicates=copies, extra_copies=copies)


def _sealed(name: str, copies: int) -> Object:
    asked = parse(document_of(document()), source="the tale")
    packed = sealed(summary(asked.experiment(UID, name), copies))
    assert packed is not None
    return packed.model_dump()


SUMMARIES: Final = {HERE: _sealed(HERE, 3), CLOUD: _sealed(CLOUD, 5)}


# Points.


def calm(tale: Tale) -> Course:
    """The tale with nothing broken."""
    course = Course(tale)
    course.play()
    return course


def points_of(calm: Course, breaks: Sequence[Break] = ALL) -> Iterator[Point]:
    """All breaks of all requests."""
    story = Story(calm.tale.name, document())
    for number, request in enumerate(calm.asked, 1):
        yield from (Point(story, number, request, how) for how in breaks if how.breaks(request))


def tried(point: Point, calm: Course) -> Outcome:
    """The point to its end, held against the calm course."""
    start = [each for each in calm.before if len(each.asked) < point.number][-1]
    course = start.fork(at(point.number, point.how))
    try:
        course.play()
    except Unending as error:
        return Outcome(point, False, 0, 0, str(error))
    if len(course.asked) < point.number or course.asked[point.number - 1] != point.request:
        return Outcome(point, False, 0, 0, f"request {point.number} is another one here")
    seconds = sum(max(0, course.clusters[name].made - each.made) for name, each in calm.clusters.items())
    orphans = [each for each in course.left() if each not in calm.left()]
    early = point.how in (DELETED, LEFT)
    differs = [] if early else [key for key, said in calm.told.items() if course.told.get(key) != said]
    if unsaid := [each for each in course.left() if not course.events()]:
        differs.append(f"nothing tells of {unsaid}")
    why = [f"{each}: {course.told.get(each)}, calm: {calm.told.get(each)}" for each in differs]
    return Outcome(point, not differs, seconds, len(orphans), "; ".join([*why, *orphans]))


def part(collected: Callable[[str, Iterator[Outcome], int], list[Outcome]]) -> Part:
    """All points of all tales; `collected` takes the outcomes as they come."""
    began_s = time.monotonic()
    calms: Mapping[str, Course] = {tale.name: calm(tale) for tale in TALES}
    todo = [point for each in calms.values() for point in points_of(each)]
    outcomes = collected(TITLE, (tried(point, calms[point.story.name]) for point in todo), len(todo))
    return Part(TITLE, HOW, outcomes, len(todo), time.monotonic() - began_s, STAGES)
