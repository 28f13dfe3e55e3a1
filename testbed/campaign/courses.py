"""The course of a story: an operator, the controllers and a user act in turn, one look after the other."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from dedup_operator.clusters import Cluster, ClusterError, Object
from dedup_operator.objects.names import Owner, execution_of
from dedup_operator.objects.systems import release_of
from dedup_operator.reconciliations import LOOK_AGAIN_S, REMAINS, Reconciler
from dedup_operator.sights import ended
from testbed.campaign.breaks import Effect, Way
from testbed.campaign.controllers import Controllers
from testbed.campaign.forgers import Forger, failures_of
from testbed.campaign.grounds import NOBODYS, OURS, Forks, Ground, Helm
from testbed.campaign.stories import Story, Turn
from testbed.worlds import SETTINGS, Crash, Played, World

NAME: Final = "e"
MAX_LOOKS: Final = 600
RESTART_S: Final = 20.0
RETRY_S: Final = 1.0


class Ended(Exception):
    """The course does not end, or stops before its end."""


@dataclass
class Course:
    """A story on some ground, at some point."""

    story: Story
    world: World
    uid: str = ""
    todo: list[Turn] = field(default_factory=list)
    """What the user will still do."""
    turned: bool = False
    looks: int = 0
    turned_at: int = 0
    """The look after which the user did the last thing."""
    over: bool = False
    may_miss: bool = False
    """Whether the user may find no occasion for what is to be done."""
    effects: list[Effect] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    wrongs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.forger = Forger(self.world.cluster, self.world.namespace, self.controllers, self.whose)
        self.controllers.theirs = self.forger.made

    @property
    def controllers(self) -> Controllers:
        assert isinstance(self.world.player, Controllers)
        return self.world.player

    @classmethod
    def of(cls, story: Story, ground: Played, namespace: str) -> "Course":
        world = World(ground, namespace, story.fails)
        world.player = Controllers(ground, namespace, story.fails, runs=story.runs)
        course = cls(story, world, todo=list(story.turns))
        world.apply(story.document)
        course.uid = course.world.live()["metadata"]["uid"]
        return course

    def fork(self) -> "Course":
        """The same on a ground of its own."""
        old = self.world
        assert isinstance(old.cluster, Forks)
        ground = old.cluster.fork()
        world = World(ground, old.namespace, old.fails, installed=list(old.installed))
        world.now_s = old.now_s
        world.player = self.controllers.fork(ground)
        made = Course(self.story, world, self.uid, list(self.todo), self.turned, self.looks, self.turned_at, self.over)
        made.jobs, made.effects = list(self.jobs), list(self.effects)
        made.verdicts, made.wrongs = list(self.verdicts), list(self.wrongs)
        return made

    def way(self, **how: Any) -> Way:
        return Way(self.world.cluster, others=self, effects=self.effects, jobs=self.jobs, **how)

    def look(self, way: Way) -> None:
        """One look of the operator, and what the others do then. A look that failed is repeated before they do."""
        if self.looks >= MAX_LOOKS:
            raise Ended("it goes on for ever")
        self.looks += 1
        way.stage = self.stage()
        helm = Helm(way, self.world.installed, self.world.refuses)
        again_s: float | None = 0.0
        try:
            where = self.world.namespace
            again_s = Reconciler(way, helm, SETTINGS, lambda: self.world.now_s, (where,)).look((where, NAME))
        except Crash:
            self.world.now_s += RESTART_S
        except ClusterError:
            self.world.now_s += RETRY_S
        waits = again_s is None or again_s > 0
        self.note()
        if self.over:
            return
        if waits and isinstance(self.world.cluster, Ground):
            unowned = self.world.cluster.unowned(self.uid, self._apart())
            self.wrongs += [f"{orphan} has no owner" for orphan in unowned]
        self.forger.looked(self.world.status(), waits)
        if self._turn(waits):
            return
        if self.stage() == "Finished" and (again_s is None or again_s > LOOK_AGAIN_S):
            self._end()
        elif waits:
            self.move()
            self.world.now_s += 1

    def play(self, way: Way) -> "Course":
        """Run the course to its end."""
        while not self.over:
            self.look(way)
        return self

    def stage(self) -> str:
        """The stage that the resource's status is at."""
        live = self.world.cluster.get("DedupExperiment", self.world.namespace, NAME)
        status = (live or {}).get("status") or {}
        if status.get("verdict"):
            return "Finished"
        if not status.get("state"):
            return "Begin"
        return str(self.story.stages[status["state"]["cursor"]])

    def move(self) -> None:
        """One move of the controllers."""
        self.world.player.move()

    def annotate(self) -> None:
        """Another client writes the resource."""
        note = {"metadata": {"annotations": {"somebody": str(self.looks)}}}
        self.world.cluster.patch("DedupExperiment", self.world.namespace, NAME, note)

    def edit(self, spec: Object) -> None:
        """The user changes the spec."""
        change = {"spec": spec, "metadata": {"generation": self.world.live()["metadata"]["generation"] + 1}}
        self.world.cluster.patch("DedupExperiment", self.world.namespace, NAME, change)

    def renew(self) -> None:
        """The user gives a new runToken."""
        self.edit({"runToken": "2"})

    def suspend(self) -> None:
        """The user suspends, and resumes as soon as the operator waits."""
        self.edit({"suspend": True})
        self.todo.append(Turn(None, True, {"suspend": False}))

    def depart(self) -> None:
        """The user deletes the resource."""
        self.world.cluster.delete("DedupExperiment", self.world.namespace, NAME)
        self.over = True

    def sweep(self) -> None:
        """An operator observes the deletion, or begins after it."""
        way, where = self.way(), self.world.namespace
        Reconciler(way, Helm(way, []), SETTINGS, lambda: self.world.now_s, (where,)).look(REMAINS)

    def ago(self, writes: int) -> Cluster:
        """The cluster as it was so many writes ago."""
        assert isinstance(self.world.cluster, Ground)
        return self.world.cluster.ago(writes)

    def findings(self) -> Object:
        """What people and tools read in the end, but for times."""
        status, theirs = self.world.status(), self.forger.made
        conditions = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
        return {
            "verdict": status.get("verdict"),
            "phase": status["phase"],
            "progress": status["progress"],
            "conditions": conditions,
            "token": status.get("observedRunToken"),
            "failures": status["state"]["failures"],
            "systems left": sum(
                made["metadata"]["uid"] not in theirs
                for kind, selector in (("StatefulSet", ""), ("Secret", "owner=helm"))
                for made in self.world.cluster.list(kind, self.world.namespace, selector)
            ),
        }

    def orphans(self) -> list[str]:
        """Objects that stay after the experiment: no owner deletes them. Pods belong to Jobs."""
        return [
            f"{kind} {made['metadata']['name']}"
            for kind in OURS
            for made in self.world.cluster.list(kind, self.world.namespace, "")
            if made["metadata"]["name"] not in NOBODYS
            and made["metadata"]["uid"] not in self._apart()
            and all(each["uid"] != self.uid for each in made["metadata"].get("ownerReferences") or ())
        ]

    def _apart(self) -> set[str]:
        """What is somebody else's, or has lost its owner to him."""
        return {*self.forger.made, *(made["metadata"]["uid"] for made, _ in self.forger.changed)}

    def whose(self) -> tuple[Owner, list[str]]:
        """The execution at work, and the names of its releases."""
        live = self.world.live()
        token = (live.get("status") or {}).get("observedRunToken") or live["spec"].get("runToken") or ""
        owner = Owner(self.world.namespace, NAME, self.uid, token)
        return owner, [release_of(owner, each) for each in self.story.experiment.spec.systems]

    def proven(self) -> bool:
        """Whether all evidence is in the store of the execution that the status is about."""
        return self.controllers.complete(execution_of(self.whose()[0]))

    def seconds(self, calm: "Course", spare: int = 0, again: Collection[str] = ()) -> list[str]:
        """Effects more often than in a calm course; a release that had to be made again is proven again.

        `again`: the components, or kinds that have none, of which there may be one effect more.
        """
        anew = len(self.world.installed) != len(calm.world.installed)
        return [
            f"{effect} {times} times, calm: {calm.effects.count(effect)}"
            for effect, times in Counter(self.effects).items()
            if times > calm.effects.count(effect) + spare + ((effect.component or effect.kind) in again)
            and not (anew and effect.component == "readiness")
        ]

    def missing(self, calm: "Course", spare: int = 0) -> list[str]:
        return [
            f"{effect} {self.effects.count(effect)} times, calm: {times}"
            for effect, times in Counter(calm.effects).items()
            if self.effects.count(effect) < times - spare
        ]

    def _turn(self, waits: bool) -> bool:
        if not self.todo:
            return False
        turn = self.todo[0]
        if (turn.waits and not waits) or (turn.stage is not None and turn.stage != self.stage()):
            return False
        if turn.parked and not self.world.status().get("parked"):
            return False
        self.todo, self.turned, self.turned_at = self.todo[1:], True, self.looks
        self.edit(turn.spec)
        return True

    def _end(self) -> None:
        if self.todo and not self.may_miss:
            raise Ended(f"the user never came to {self.todo[0].spec}")
        self.over = True

    def note(self) -> None:
        """The invariants of every moment."""
        live = self.world.cluster.get("DedupExperiment", self.world.namespace, NAME)
        verdict = ((live or {}).get("status") or {}).get("verdict")
        if verdict and (not self.verdicts or self.verdicts[-1] != verdict):
            self.verdicts.append(verdict)
        active = [
            job["metadata"]["name"]
            for job in self.world.cluster.list("Job", self.world.namespace, "dedup.dev/component=run")
            if ended(job) is None and job["metadata"]["uid"] not in self.forger.made
        ]
        wrong = f"runs at once: {', '.join(sorted(active))}"
        if len(active) > 1 and wrong not in self.wrongs:
            self.wrongs.append(wrong)
        for job, pod in self.controllers.overlaps:
            wrong = f"run {job} began beside pod {pod}"
            if wrong not in self.wrongs:
                self.wrongs.append(wrong)

    def dead_attempts(self) -> set[str]:
        """The Jobs of runs that have ended, but for the one that the operator looks at."""
        state = self.world.status().get("state") or {}
        found = self.world.cluster.list("Job", self.world.namespace, "dedup.dev/component=run")
        run = self.story.run_at(state["cursor"]) if "cursor" in state else None
        return {
            job["metadata"]["name"]
            for job in found
            if ended(job)
            and (
                job["metadata"]["annotations"]["dedup.dev/run"] != run
                or job["metadata"]["labels"]["dedup.dev/attempt"] != str(state.get("attempt"))
            )
        }

    @property
    def is_quiet(self) -> bool:
        """Whether nothing of a break is still to come."""
        return self.forger.is_gone and not self.controllers.away and not self.controllers.late


def fingerprint(course: Course) -> Any:
    """All that the rest of a course depends on, and its effects so far: two courses with the same end the same way.

    Left out is what nothing is decided by: versions, times (but for limits, which no story comes near to), events,
    which are written and never read, and the attempts of runs that are over, which the operator never looks at again.
    """
    return _future(course, eased=False), Counter(course.effects)


def outlook(course: Course) -> Any:
    """All that the rest of a course depends on, whatever it has taken to come there, and what lies in the store.

    Left out is also what only words are made of: how many tasks have failed, and why, and how often a Job has failed.
    """
    return _future(course, eased=True), sorted(course.controllers.results)


def world(course: Course) -> Any:
    """All of the present: what the operator, the controllers and a forger go on from, and what was wrong so far."""
    return fingerprint(course), course.controllers.standing(), course.forger.standing(), course.wrongs


def _future(course: Course, *, eased: bool) -> Any:
    cluster = course.world.cluster
    assert isinstance(cluster, Forks)
    objects = cluster.everything()
    live = course.world.live()
    status = dict(live.get("status") or {})
    state = dict(status.pop("state", {}))
    state.pop("sinceUnixS", None)
    status.pop("requestedAt", None)
    status.pop("startedAt", None)
    past = [{k: v for k, v in each.items() if not k.endswith("At")} for each in status.pop("history", [])]
    untold = ("lastTransitionTime", "message") if eased else ("lastTransitionTime",)
    conditions = [{k: v for k, v in each.items() if k not in untold} for each in status.pop("conditions", [])]
    dead = course.dead_attempts() if eased else set()
    if eased:
        state.pop("failures", None)
        state.pop("lastFailure", None)
        dead.add(failures_of(course.whose()[0]))
    others: Counter[Any] = Counter()
    for (kind, namespace, name), made in objects.items():
        labels = made["metadata"].get("labels") or {}
        component = labels.get("dedup.dev/component")
        if name in dead:
            continue
        if kind == "Pod":
            of = objects.get(("Job", namespace, labels.get("batch.kubernetes.io/job-name", "")))
            if of is None or ended(of):
                continue
        if kind in ("DedupExperiment", "Event") or (kind == "ConfigMap" and component == "run"):
            continue
        over = kind == "Job" and ended(made)
        run = (made["metadata"].get("annotations") or {}).get("dedup.dev/run")
        said = labels.get("status") if kind == "Secret" else made.get("status")
        said = over if eased and over else said
        owned = any(each["uid"] == course.uid for each in made["metadata"].get("ownerReferences") or ())
        others[(kind, run if over and run else name, owned, over, repr(said))] += 1
    return live["spec"], status, state, past, conditions, others, course.todo, course.verdicts
