"""One look at one experiment: read it as it is now, take one step of the stage machine, write where it stands.

The order of things makes it safe to die anywhere. The intent is in the status before anything is begun, written with
the resourceVersion that was read: if somebody else wrote meanwhile, nothing is begun and all is read again. What is
begun has a name that follows from the intent, so beginning it again changes nothing. An end (a cancellation, a system
of an execution that a new runToken replaces) comes before the status that forgets it.

What an execution runs is its snapshot. The resource itself is asked for three things only: whether it is still there,
whether it is suspended, and which runToken it has.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from dedup.errors import PlatformError, SpecificationError
from dedup.experiments import Experiment, parse
from dedup.stages import (
    Observation,
    Stage,
    State,
    Task,
    advance,
    current,
    decide,
    finished,
    schedule,
)
from dedup.stages import Status as Seen
from dedup_operator import sights
from dedup_operator.clusters import Cluster, Object, Refused
from dedup_operator.conditions import Situation, noted, stalled, status_of
from dedup_operator.objects import settings as settings_files
from dedup_operator.objects.names import Owner
from dedup_operator.objects.settings import Defaults
from dedup_operator.objects.snapshots import read, snapshot, snapshot_name
from dedup_operator.platforms import KubernetesPlatform
from dedup_operator.releases import Releases
from dedup_operator.statuses import Status

Key = tuple[str, str]
"""The namespace and name of an experiment."""

AT_ONCE_S: Final = 0.0
LOOK_AGAIN_S: Final = 15.0
"""Events of Jobs and the like call earlier; this is for what they do not tell, and for time limits."""
USE: Final = "dedup.dev/use"
OVER: Final = "dedup.dev/replaced"
REPLACED: Final = {"metadata": {"annotations": {OVER: "true"}}}
"""What is written on the snapshot of an execution that a new runToken has ended."""


class Reconciler:
    """The operator's one verb. `now` is wall-clock time in seconds."""

    def __init__(
        self, cluster: Cluster, releases: Releases, defaults: Defaults, now: Callable[[], float] = time.time
    ) -> None:
        self._cluster, self._releases, self._defaults, self._now = cluster, releases, defaults, now

    def look(self, key: Key) -> float | None:
        """Take a step. Seconds after which to look again, or None when only an event can change anything."""
        live = self._cluster.get("DedupExperiment", *key)
        if live is None or live["metadata"].get("deletionTimestamp"):
            return None
        return _Look(self._cluster, self._releases, self._defaults, self._now, live).step()


class _Look:
    """One experiment as it was read."""

    def __init__(
        self, cluster: Cluster, releases: Releases, defaults: Defaults, now: Callable[[], float], live: Object
    ) -> None:
        self._cluster, self._releases, self._defaults, self._now, self._live = cluster, releases, defaults, now, live
        self._meta: Object = live["metadata"]
        self._token: str | None = live["spec"].get("runToken")
        self._before = _status(live)
        self._owner = self._execution(self._token)

    def step(self) -> float | None:
        state, same = self._before.state, self._before.observed_run_token == self._token
        try:
            asked = parse(_document(self._live), source="DedupExperiment")
            if self._before.verdict is not None and state is not None and same:
                self._put(noted(self._before, self._meta["generation"], asked.digest() != state.digest, self._today()))
                return None
            if state is None or not same:  # before anything is begun, or ended, for it
                settings_files.for_experiment(self._defaults, asked, self._owner.namespace)
                self._check_secrets(asked)
            if state is not None and not same:
                self._abandon(state.state, self._execution(self._before.observed_run_token))
                self._before = Status(conditions=self._before.conditions)
            if self._before.state is None and asked.spec.suspend:
                self._write(self._situation(suspended=True))
                return None
            taken = self._snapshot(asked)
            self._check_secrets(taken)
        except (SpecificationError, PlatformError, Refused) as error:
            self._put(stalled(self._before, self._meta["generation"], str(error), self._today()))
            return LOOK_AGAIN_S
        if self._before.state is None:
            self._write(self._situation(tasks=schedule(taken), state=State(digest=taken.digest())))
            return AT_ONCE_S
        return self._go_on(asked, taken, self._before.state.state)

    def _go_on(self, asked: Experiment, taken: Experiment, state: State) -> float | None:
        tasks = schedule(taken)
        platform = self._platform(taken, self._owner)
        suspended, changed = asked.spec.suspend, asked.digest() != taken.digest()

        def save(after: State) -> None:
            told = platform.told() if finished(tasks, after) else None
            self._write(self._situation(tasks=tasks, state=after, told=told, suspended=suspended, changed=changed))

        if suspended:
            after = self._suspended(taken, tasks, state, platform)
        else:
            after = self._advanced(taken, tasks, state, platform, save)
        if after != state and suspended:
            save(after)
        if after != state:
            return AT_ONCE_S
        self._write(self._situation(tasks=tasks, state=state, suspended=suspended, changed=changed))
        return None if suspended else LOOK_AGAIN_S

    def _advanced(
        self,
        taken: Experiment,
        tasks: tuple[Task, ...],
        state: State,
        platform: KubernetesPlatform,
        save: Callable[[State], None],
    ) -> State:
        """A step. What the API server or Helm refuses for good is a task that failed, in their words."""
        saved = state

        def note(after: State) -> None:
            nonlocal saved
            save(after)
            saved = after

        try:
            return advance(taken, state, platform, note, self._now)
        except (Refused, PlatformError) as error:
            failed = Observation(status=Seen.FAILED, message=sights.short(str(error)))
            after = decide(tasks, saved, failed, now_unix_s=self._now(), timeouts=taken.spec.timeouts).state
            platform.cancel(*current(tasks, saved), after.last_failure)
            save(after)
            return after

    def _suspended(
        self, taken: Experiment, tasks: tuple[Task, ...], state: State, platform: KubernetesPlatform
    ) -> State:
        """End the run that goes on: its pod's watchdog heals, and its attempt is done again later, beside this one."""
        task, attempt = current(tasks, state)
        to_its_end = task.model_copy(update={"stage": Stage.CONSUME})
        if task.run_id is None or platform.observe(to_its_end, attempt).status is not Seen.RUNNING:
            return state
        platform.cancel(task, attempt, "suspended")
        gone = Observation(status=Seen.ABSENT)
        begun = state.model_copy(update={"intended": True, "restarts": 0})
        return decide(tasks, begun, gone, now_unix_s=self._now(), timeouts=taken.spec.timeouts).state

    def _abandon(self, state: State, owner: Owner) -> None:
        """End the execution of an earlier runToken, before it is forgotten."""
        kept = self._cluster.get("ConfigMap", owner.namespace, snapshot_name(owner))
        if kept is None:
            return
        taken = read(kept)
        tasks, platform = schedule(taken), self._platform(taken, owner)
        if not finished(tasks, state):
            platform.cancel(*current(tasks, state), "another runToken")
        platform.leave()
        self._cluster.patch("ConfigMap", owner.namespace, snapshot_name(owner), REPLACED)

    def _snapshot(self, asked: Experiment) -> Experiment:
        """The experiment of this execution, which is written down the first time that anybody asks for it."""
        name = snapshot_name(self._owner)
        kept = self._cluster.get("ConfigMap", self._owner.namespace, name)
        if kept is None:
            self._cluster.create(snapshot(self._owner, asked))
            kept = self._cluster.get("ConfigMap", self._owner.namespace, name)
        meta = (kept or {}).get("metadata", {})
        if (meta.get("annotations") or {}).get(OVER) == "true":
            raise PlatformError(
                where="spec.runToken",
                got=f"{self._token or 'none'}, which was used before",
                rule="every execution has a token of its own, and what it left stays as it was",
                todo="choose another",
            )
        owners = meta.get("ownerReferences") or ()
        if kept is None or all(each["uid"] != self._owner.uid for each in owners):
            raise PlatformError(
                where=f"ConfigMap {name}",
                got="one that does not belong to this experiment" if kept else "none, though it was just made",
                rule="an execution runs what was written down when it began",
                todo="find out who made it, and delete it" if kept else "see who deletes such ConfigMaps",
            )
        return read(kept)

    def _check_secrets(self, asked: Experiment) -> None:
        """Only Secrets whose owner said so are used: who writes an experiment need not have a right to read them."""
        s3 = asked.spec.artifacts.s3 if asked.spec.artifacts else None
        if s3 is None or s3.secret_ref is None:
            return
        secret = self._cluster.get("Secret", self._owner.namespace, s3.secret_ref.name)
        if secret is None or (secret["metadata"].get("labels") or {}).get(USE) != "true":
            raise PlatformError(
                where="spec.artifacts.s3.secretRef.name",
                got=f"{s3.secret_ref.name}, " + ("which is not there" if secret is None else "which has no such label"),
                rule=f'only Secrets that are labelled {USE}: "true" are used',
                todo="make it, or label it",
            )

    def _execution(self, token: str | None) -> Owner:
        return Owner(self._meta["namespace"], self._meta["name"], self._meta["uid"], token or "")

    def _platform(self, taken: Experiment, owner: Owner) -> KubernetesPlatform:
        settings = settings_files.for_experiment(self._defaults, taken, owner.namespace)
        return KubernetesPlatform(self._cluster, self._releases, taken, owner, settings)

    def _situation(self, **more: Any) -> Situation:
        return Situation(generation=self._meta["generation"], token=self._token, **more)

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
        self._before = status


def _document(live: Object) -> Object:
    """The experiment as people write it: without what the API server adds."""
    return {
        **{key: live[key] for key in ("apiVersion", "kind", "spec")},
        "metadata": {"name": live["metadata"]["name"]},
    }


def _status(live: Object) -> Status:
    """What is written there. A status that cannot be read (a newer operator's) is not taken for an empty one."""
    try:
        return Status.model_validate(live.get("status") or {}, by_alias=True, by_name=False, strict=False)
    except ValidationError as error:
        raise PlatformError(
            where="status",
            got=f"one that this operator cannot read: {error.errors()[0]['msg']}",
            rule="an execution goes on from its status",
            todo="install the operator that wrote it, or delete the experiment",
        ) from None
