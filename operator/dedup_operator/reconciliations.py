"""One look at one experiment: read it as it is now, take one step of the stage machine, write where it stands.

The order of things makes it safe to die anywhere. The intent is in the status before anything is begun, written with
the resourceVersion that was read: if somebody else wrote meanwhile, nothing is begun and all is read again. What is
begun has a name that follows from the intent, so beginning it again changes nothing. An end (a cancellation, a system
of an execution that a new runToken replaces) comes before the status that forgets it.

What an execution runs, and the administrator's settings for it, is its snapshot. The resource itself is asked for four
things only: whether it is still there, whether it is suspended, which runToken it has, and what stays when all is over.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from dedup.errors import DedupError, PlatformError, SpecificationError
from dedup.experiment.spec import Experiment, parse
from dedup.experiment.stages import Observation, Stage, State, Task, advance, current, decide, finished, schedule
from dedup.experiment.stages import Status as Seen
from dedup_operator import departures, logs, retentions, sights
from dedup_operator.admissions import Key, Queue, asked_at, ordinal
from dedup_operator.belongings import Foreign
from dedup_operator.clusters import MENDABLE, Cluster, ClusterError, NotHolder, Object, Refused, list_in
from dedup_operator.conditions import TIME, Situation, noted, stalled, status_of, written_time
from dedup_operator.departures import Departure, drop_finalizer, has_finalizer, held_back
from dedup_operator.executions import begun, check_unused, mark_used, snapshotted
from dedup_operator.locks import HERE, Home, Locks, Waits
from dedup_operator.metrics import Metrics
from dedup_operator.objects import settings as settings_files
from dedup_operator.objects.events import event
from dedup_operator.objects.names import Owner, execution_of
from dedup_operator.objects.settings import Defaults, Settings
from dedup_operator.objects.snapshots import digest_of, document_of, read, settings_in
from dedup_operator.pasts import renewed
from dedup_operator.places import AT_MOST_S, KEEPS_S, idle_s, made_room, resumed
from dedup_operator.platforms import KubernetesPlatform, needs_verification
from dedup_operator.possibilities import check_possible
from dedup_operator.provision.consents import check_today
from dedup_operator.references import check_named
from dedup_operator.releases import Releases, sweep
from dedup_operator.sights import Unattended
from dedup_operator.statuses import Kept, Standing, Status
from dedup_operator.statuses import read as read_status
from dedup_operator.stories import Tiding, crashed, story

AT_ONCE_S: Final = 0.0
SOON_S: Final = 1.0
"""For what ends in steps of a moment."""
LOOK_AGAIN_S: Final = 15.0
"""Events of Jobs and the like call earlier; this is for what they do not tell, and for time limits."""
STALLED_AGAIN_S: Final = 120.0
"""The longest time between two looks at what is stalled."""
SWEEP_AGAIN_S: Final = 600.0
"""A deletion that no event told of, a record that Helm wrote when its experiment was gone, what may not be deleted."""
QUEUE_AGAIN_S: Final = 120.0
"""Whose turn it is hears of it by events; this is for the words, and for events that never came."""
REMAINS: Final[Key] = ("", "")
"""In the queue instead of an experiment: what those have left behind that are gone. See `releases.sweep`."""
log = logging.getLogger("dedup_operator")


class Reconciler:
    """The operator's one verb. `now` is wall-clock time in seconds; without `namespaces` it watches all.

    `home` is where the locks of systems lie.
    """

    def __init__(
        self,
        cluster: Cluster,
        releases: Releases,
        defaults: Defaults,
        now: Callable[[], float] = time.time,
        namespaces: Sequence[str] = (),
        metrics: Metrics | None = None,
        home: Home = HERE,
    ) -> None:
        self.cluster, self.releases, self.defaults, self.now, self.home = cluster, releases, defaults, now, home
        self._namespaces = tuple(namespaces) or ("",)
        self.metrics = metrics or Metrics()
        self.queue = Queue(self._listed, defaults.concurrent_experiments, now)

    def _listed(self) -> list[Object]:
        return list_in(self.cluster, "DedupExperiment", self._namespaces)

    def look(self, key: Key) -> float | None:
        """Take a step. Seconds after which to look again, or None when only an event can change anything.

        A status that cannot be read stays as it is: whoever wrote it goes on from it. An Event and the log tell of it.
        """
        logs.current.set(logs.NONE)  # until it is known
        if key == REMAINS:
            sweep(self.cluster, self._namespaces)
            return SWEEP_AGAIN_S
        live = self.cluster.get("DedupExperiment", *key)
        going = live is not None and bool(live["metadata"].get("deletionTimestamp"))
        if live is None or (going and not has_finalizer(live)):
            return None
        try:
            before = read_status(live)
        except PlatformError as error:
            log.warning("%s/%s: %s", *key, error)
            meta = live["metadata"]
            if going:  # nobody knows what it has begun
                words = f"{error}; what it made on systems that were there before is left: remove dedup-run-… by hand"
                return departures.left_behind(self.cluster, live, Owner(*key, meta["uid"]), words, self.tell)
            unread = Tiding("StatusUnreadable", str(error), ("unreadable", str(meta["generation"])), warns=True)
            self.tell(Owner(*key, meta["uid"]), unread)
            return None
        looked = _Look(self, live, before)
        return looked.depart() if going else looked.step()

    def tell(self, owner: Owner, tiding: Tiding) -> None:
        """Write an Event, once. That this fails is of no harm to the experiment."""
        reason, message, part, warns = tiding
        now = datetime.fromtimestamp(self.now(), UTC)
        try:
            self.cluster.create(event(owner, part, reason, message, warns=warns, now=now))
        except NotHolder:
            pass  # whoever holds the lease tells it
        except ClusterError as error:
            self.metrics.add("api_errors_total")
            log.info("%s/%s: an Event could not be written: %s", owner.namespace, owner.name, error)


class _Hearing(KubernetesPlatform):
    """The platform; what it said last of the current task is kept for the conditions."""

    words = ""

    def observe(self, task: Task, attempt: int) -> Observation:
        seen = super().observe(task, attempt)
        self.words = seen.message
        return seen


class _Look:
    """One experiment as it was read."""

    def __init__(self, operator: Reconciler, live: Object, before: Status) -> None:
        self._operator, self._live = operator, live
        self._cluster, self._defaults, self._now = operator.cluster, operator.defaults, operator.now
        self._meta: Object = live["metadata"]
        spec = live.get("spec")
        self._token: str | None = spec.get("runToken") if isinstance(spec, dict) else None
        self._before = self._read = before
        self._tasks: tuple[Task, ...] = ()
        self._owner = self._execution(self._token)
        logs.current.set(execution_of(self._owner))
        self._kept: Kept | None = None
        self._stood: Status | None = None  # what the status was before something was to be begun that is refused
        self._changed = False  # whether the resource says something else by now than what is run

    def step(self) -> float | None:
        """What is wrong, and nobody but people can mend, is told in the status, whatever was to be done.

        A refusal of what was to be begun is raised then, so that it is asked for again later each time: what was
        written before it would wake the operator at once.
        """
        try:
            return self._step()
        except Waits as error:
            standing, words = self._without_time().state, str(error)
            assert standing is not None
            waits = {"state": standing.state, "heard": words, "queued": words, "changed": self._changed}
            self._write(self._situation(tasks=self._tasks, **waits))
            return LOOK_AGAIN_S
        except Unattended as error:
            self._stall(self._without_time(), str(error))
            return LOOK_AGAIN_S
        except (SpecificationError, PlatformError, Refused) as error:
            self._stall(self._stood or self._before, str(error))
            if self._stood is not None:
                raise error if isinstance(error, Refused) else Refused(str(error)) from None
            if isinstance(error, Refused):
                self._operator.metrics.add("api_errors_total")
            return self._later()
        except ClusterError:
            raise
        except Exception as error:  # a defect is told, too: without a word it would keep its place for ever
            if not self._is_over:
                with suppress(Exception):
                    self._stall(self._stood or self._before, crashed(error))
            raise

    @property
    def _is_over(self) -> bool:
        return bool(self._before.verdict and self._before.state) and self._before.observed_run_token == self._token

    def depart(self) -> float | None:
        """It is deleted: take away what it has made on systems of others, and let it go."""
        operator, owner = self._operator, self._execution(self._before.observed_run_token)
        logs.current.set(execution_of(owner))
        leaving = Departure(self._cluster, self._live, owner, self._locks(owner), self._now(), operator.tell)
        state = self._before.state
        return departures.depart(leaving, state.state if state else None, lambda: self._begun(owner))

    def _begun(self, owner: Owner) -> "tuple[Experiment, _Hearing] | None":
        """What an execution runs, and its platform, to leave it; None if it has begun nothing, or nobody knows what."""
        found = begun(self._cluster, owner, self._before, self._live, self._defaults)
        return found and (found[0], self._platform(found[0], owner, found[1]))

    def _locks(self, owner: Owner) -> Locks:
        return Locks(self._cluster, self._operator.home, owner, self._now)

    def _later(self) -> float:
        """Seconds until the next look at what is stalled: a quarter of the time for which it is, within bounds.

        Whoever mends a mistake that was just made is seen at once, and a thousand that nobody mends cost little.
        """
        since = next(each.last_transition_time for each in self._before.conditions if each.type == "Stalled")
        lasts_s = self._now() - datetime.strptime(since, TIME).replace(tzinfo=UTC).timestamp()
        return min(STALLED_AGAIN_S, max(LOOK_AGAIN_S, lasts_s / 4))

    def _stall(self, before: Status, why: str) -> None:
        """Say so; and when it has lasted, give the place up to others (`places`)."""
        status = stalled(before, self._meta["generation"], why, self._today())
        holds = before.state is not None and before.verdict is None and not before.parked
        if holds and idle_s(before, self._now()) > KEEPS_S and self._left_its_place(before):
            status = status.model_copy(update=self._parked())
        self._put(status)

    def _left_its_place(self, before: Status) -> bool:
        """Of the execution that the status is about, which another runToken may have to wait for."""
        idle, owner = idle_s(before, self._now()), self._execution(before.observed_run_token)
        assert before.state is not None
        try:
            if found := self._begun(owner):
                taken, platform = found
                return made_room(platform, taken, schedule(taken), before.state.state, idle, "a stall that lasts")
        except ClusterError:
            raise
        except Exception as error:  # a defect keeps no place for ever, and is heard of all the same
            if defect := not isinstance(error, DedupError):
                self._operator.metrics.add("crashes_total")
            log.info("%s/%s: what it runs is not ended: %s", owner.namespace, owner.name, error, exc_info=defect)
        return idle > AT_MOST_S

    def _parked(self) -> dict[str, Any]:
        """What a status says then: it asks anew for a place, after those that have waited."""
        return {"parked": True, "requested_at": self._today().strftime(TIME)}

    def _without_time(self) -> Status:
        """The status as it was, but for the time at which its task was begun: that time does not count."""
        standing = self._before.state
        if standing is None or self._now() - standing.state.since_unix_s < LOOK_AGAIN_S:
            return self._before
        now = standing.state.model_copy(update={"since_unix_s": self._now()})
        return self._before.model_copy(update={"state": Standing.of(now)})

    def _step(self) -> float | None:
        state, same = self._before.state, self._before.observed_run_token == self._token
        if self._is_over and state is not None:
            return self._ended(state.digest)
        asked = parse(document_of(self._live), source="DedupExperiment")
        if state is None or not same:  # before anything is begun, or ended, for it
            todays = self._todays(asked)
            platform = self._platform(asked, self._owner, todays)
            check_named(self._cluster, self._owner.namespace, asked, todays)
            platform.check()
            platform.check_faults()
        if state is not None and not same:
            check_unused(self._cluster, self._owner, self._before)
            if not self._abandoned(asked, state.state, old := self._execution(self._before.observed_run_token)):
                return SOON_S
            self._before = renewed(self._before, execution_of(old), self._token, written_time(self._today()))
        if self._before.state is None and asked.spec.suspend:
            self._write(self._situation(suspended=True))
            return None
        if self._before.state is None and (place := self._operator.queue.place(self._live)):
            waits = f"{ordinal(place)} in the queue; {self._operator.queue.limit} may run at a time"
            self._write(self._situation(queued=waits))
            return QUEUE_AGAIN_S
        if self._before.state is None:
            self._live = held_back(self._cluster, self._live, asked, self._defaults)
        kept = snapshotted(self._cluster, self._owner, self._before, asked, lambda: self._todays(asked))
        taken, settings = read(kept), settings_in(kept, self._defaults)
        self._live = held_back(self._cluster, self._live, taken, settings)  # the spec may have been another one then
        check_named(self._cluster, self._owner.namespace, taken, settings)
        self._kept = settings.artifacts.kept(self._owner.folder)
        self._tasks = schedule(taken)
        if self._before.state is None:
            begins = State(digest=taken.digest())
            self._write(self._situation(tasks=self._tasks, state=begins, snapshot_digest=digest_of(kept)))
            return AT_ONCE_S
        stands = self._before.state.state
        check_possible(self._tasks, stands)
        platform = self._platform(taken, self._owner, settings)
        if self._before.parked and not asked.spec.suspend:
            return self._again(asked, taken, stands, platform)
        return self._go_on(asked, taken, stands, platform, settings)

    def _again(self, asked: Experiment, taken: Experiment, state: State, platform: _Hearing) -> float | None:
        """Go on after its place was another's, if one is free. What is missing is told before it takes one."""
        if (task := current(self._tasks, state)[0]).stage is not Stage.REPORT:
            platform.check(task)
        said: dict[str, Any] = {"tasks": self._tasks, "changed": asked.digest() != taken.digest()}
        if place := self._operator.queue.place(self._live):
            waits = f"{ordinal(place)} in the queue; {self._operator.queue.limit} may run at a time"
            self._write(self._situation(state=state, queued=waits, parked=True, **said))
            return QUEUE_AGAIN_S
        self._write(self._situation(state=resumed(self._tasks, state), **said))
        return AT_ONCE_S

    def _go_on(
        self, asked: Experiment, taken: Experiment, state: State, platform: _Hearing, settings: Settings
    ) -> float | None:
        tasks, suspended = self._tasks, asked.spec.suspend
        self._changed = changed = asked.digest() != taken.digest()

        def save(after: State) -> None:
            told = platform.told if finished(tasks, after) else None
            self._write(self._situation(tasks=tasks, state=after, told=told, suspended=suspended, changed=changed))

        if suspended:
            after = self._suspended(taken, tasks, state, platform, "a suspension")
        else:
            if needs_verification(tasks, state):
                platform.check(tasks[state.cursor])
                check_today(taken.spec, settings, self._defaults, tasks[state.cursor])
            self._check_consent(taken, tasks, state, platform, save)
            after = self._advanced(taken, tasks, state, platform, save)
        if after != state and suspended:
            save(after)
        if after != state:
            return AT_ONCE_S
        if suspended:
            return self._rest(taken, state, platform, changed)
        self._write(self._situation(tasks=tasks, state=state, heard=platform.words, changed=changed))
        return LOOK_AGAIN_S

    def _check_consent(
        self,
        taken: Experiment,
        tasks: tuple[Task, ...],
        state: State,
        platform: KubernetesPlatform,
        save: Callable[[State], None],
    ) -> None:
        """PlatformError if somebody has taken back what a run needs that is at work: it is ended, and heals."""
        if finished(tasks, state) or (error := platform.withdrawn(current(tasks, state)[0])) is None:
            return
        after = self._suspended(taken, tasks, state, platform, f"what was taken back: {error}")
        if after != state:  # else it has ended, or only carries its result
            save(after)
            raise error

    def _rest(self, taken: Experiment, state: State, platform: _Hearing, changed: bool) -> float | None:
        """Suspended: its place is another's when nothing of it runs any more."""
        idle, said = idle_s(self._before, self._now()), self._parked()
        if self._before.parked:
            said = {"parked": True}
        elif not made_room(platform, taken, self._tasks, state, idle, "a suspension"):
            said = {}
        self._write(self._situation(tasks=self._tasks, state=state, suspended=True, changed=changed, **said))
        return None if said else LOOK_AGAIN_S

    def _advanced(
        self,
        taken: Experiment,
        tasks: tuple[Task, ...],
        state: State,
        platform: KubernetesPlatform,
        save: Callable[[State], None],
    ) -> State:
        """A step. What the API server or Helm refuses for good is a task that failed, in their words.

        Not what is not installed, or looked at by nobody, a right that is missing, or a name that somebody else has
        taken: that may be mended yet, and histories wait. It counts as never begun, however often it is refused.
        """
        saved, stood = state, self._before

        def note(after: State) -> None:
            nonlocal saved
            save(after)
            saved = after

        try:
            return advance(taken, state, platform, note, self._now)
        except (*MENDABLE, Foreign, Unattended):
            if saved != state:
                self._stood = stood
            raise
        except (Refused, PlatformError) as error:
            if isinstance(error, Refused):
                self._operator.metrics.add("api_errors_total")
            failed = Observation(status=Seen.FAILED, message=sights.short(str(error)))
            after = decide(tasks, saved, failed, now_unix_s=self._now(), timeouts=taken.spec.timeouts).state
            platform.cancel(*current(tasks, saved), after.last_failure)
            save(after)
            return after

    def _suspended(
        self, taken: Experiment, tasks: tuple[Task, ...], state: State, platform: KubernetesPlatform, why: str
    ) -> State:
        """End the run that goes on: its pod's watchdog heals, and its attempt is done again later, beside this one.

        Not one that has its result already, and only carries it to the store: it could not be done again.
        """
        task, attempt = current(tasks, state)
        to_its_end = task._replace(stage=Stage.CONSUME)
        if task.run_id is None or platform.observe(to_its_end, attempt).status is not Seen.RUNNING:
            return state
        if platform.carries(task, attempt):
            return state
        platform.cancel(task, attempt, f"{task}: ended by {why}")
        gone = Observation(status=Seen.ABSENT)
        begun = state.model_copy(update={"intended": True, "restarts": 0})
        return decide(tasks, begun, gone, now_unix_s=self._now(), timeouts=taken.spec.timeouts).state

    def _ended(self, digest: str) -> float | None:
        """An end stands. A spec that cannot be read any more differs from what was run, and takes nothing away."""
        asked = None
        with suppress(SpecificationError):
            asked = parse(document_of(self._live), source="DedupExperiment")
        changed = asked is None or asked.digest() != digest
        self._put(noted(self._before, self._meta["generation"], changed, self._today()))
        if has_finalizer(self._live) and (again_s := self._left_on()) is not None:
            return again_s
        return self._retain(asked) if asked else None

    def _left_on(self) -> float | None:
        """Go on with what a teardown had no time for, until nothing is left; None if nobody knows what that is."""
        with suppress(Refused):
            try:
                if (found := self._begun(self._owner)) is None:
                    return None
                if not found[1].left_to_others():
                    return LOOK_AGAIN_S
                drop_finalizer(self._cluster, self._live)
                return AT_ONCE_S
            except DedupError as error:
                left = Tiding("LeftBehind", str(error), ("left", "behind"), warns=True)
                self._operator.tell(self._owner, left)
        return LOOK_AGAIN_S

    def _retain(self, asked: Experiment) -> float | None:
        """Let go what an execution that is over has left, once it is time. What may not be deleted yet stays."""
        due_unix_s = retentions.due_unix_s(asked.spec.retention, self._before)
        if due_unix_s is None:
            return None
        if (wait_s := due_unix_s - self._now()) > 0:
            return wait_s
        with suppress(Refused):
            return AT_ONCE_S if retentions.sweep(self._cluster, self._owner) else None
        return SWEEP_AGAIN_S

    def _abandoned(self, asked: Experiment, state: State, owner: Owner) -> bool:
        """End the execution of an earlier runToken, before it is forgotten; whether it is ended."""
        if (found := self._begun(owner)) is None:
            mark_used(self._cluster, owner)
            return True
        taken, platform = found
        tasks = schedule(taken)
        if not finished(tasks, state):
            platform.cancel(*current(tasks, state), "another runToken")
        platform.leave()
        if platform.has_locks and not platform.has_left():
            self._operator.tell(owner, Tiding("Leaving", platform.waits_for(), ("leaving", owner.token), warns=False))
            return False  # what it made on a system of others is being removed
        if retentions.goes(asked.spec.retention, self._before.verdict) and retentions.sweep(self._cluster, owner):
            return False
        mark_used(self._cluster, owner)
        return True

    def _execution(self, token: str | None) -> Owner:
        return Owner(self._meta["namespace"], self._meta["name"], self._meta["uid"], token or "")

    def _todays(self, asked: Experiment) -> Settings:
        """What an execution that begins now would be begun with."""
        return settings_files.for_experiment(self._defaults, asked, self._owner.namespace)

    def _platform(self, taken: Experiment, owner: Owner, settings: Settings) -> _Hearing:
        return _Hearing(self._cluster, self._operator.releases, taken, owner, settings, self._now, self._operator.home)

    def _situation(self, **more: Any) -> Situation:
        said = {"generation": self._meta["generation"], "artifacts": self._kept, "execution": execution_of(self._owner)}
        said["requested_at"] = asked_at(self._live, self._before) or written_time(self._today())
        return Situation(token=self._token, **said | more)

    def _today(self) -> datetime:
        return datetime.fromtimestamp(self._now(), UTC)

    def _write(self, situation: Situation) -> None:
        """Write the status, unless it says the same already."""
        self._put(status_of(situation, self._before, self._today()))

    def _put(self, status: Status) -> None:
        if status == self._before:
            return
        written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._live = self._cluster.replace_status({**self._live, "status": written})
        for tiding in story(self._read, status, self._tasks, self._meta["generation"]):
            self._operator.tell(self._owner, tiding)
        self._operator.metrics.count(self._read, status, self._tasks, self._now())
        self._operator.queue.noticed(self._live)
        self._before = self._read = status
