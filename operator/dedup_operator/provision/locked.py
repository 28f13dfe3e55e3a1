"""A system that is there already, which one experiment at a time may test: if pods of others may be struck at all.

Its round trip tells who it is. That identity is locked, so that no other experiment tests it meanwhile. Then, if faults
are to strike its pods, each broker's pod is proven by the addresses that the round trip has looked up, and runs get
rights to those pods, for as long as the execution has the system. Before the lock nothing is proven: another experiment
may be replacing pods. A word that is older than the lock, and does not hold, is asked for again.

It is left in this order. When no run is at work any more, the round trip is stopped, if it goes on. When its pod has
ended, a Job removes everything whose name begins with the execution's. Then rights and locks are given back, and that
Job stays as the sign that nothing is left. As long as one of the others is there (the round trip's Job, a lock), the
system has not been left; so a crash between two steps forgets none. While the removal goes on no run begins.
"""

from contextlib import suppress
from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.consents import placed
from dedup.experiment.stages import Observation, Status
from dedup.wire.identities import Identity, identity_in
from dedup_operator import locks, sights
from dedup_operator.clusters import Object, Refused
from dedup_operator.locks import Locks
from dedup_operator.objects.accounts import strikes, strikes_name
from dedup_operator.objects.leftovers import leftovers, leftovers_name
from dedup_operator.objects.names import execution_of
from dedup_operator.objects.systems import names_on
from dedup_operator.provision.consents import candidates, may_strike
from dedup_operator.provision.existing import Existing
from dedup_operator.sights import ABSENT, DONE, RUNNING, Unattended, made_unix_s, short

FRESH_S: Final = 60.0
"""So long before its lock a round trip may have begun whose word still counts, if it is proven."""


class Locked(Existing):
    """`deploy.existing`, where the operator has locks."""

    def is_there(self) -> bool:
        """Once it was given back, another experiment may have it; and while it is being left nothing may be made."""
        return bool(self._locks.held(self._system.name)) and self._removal is None

    def check_had(self) -> None:
        """A lock that somebody else took away may be another experiment's by now. What may not be asked is held."""
        with suppress(Refused):
            if not self._locks.held(self._system.name):
                raise PlatformError(
                    where=f"system {self._system.name}",
                    got="no lock of it any more",
                    rule="one experiment at a time tests a system that is there already; beside another no run counts",
                    todo="see who gave it back; this one goes on by itself when it has the lock again",
                )

    def see(self) -> Observation:
        if (removal := self._removal) is not None:
            return (
                ABSENT if self._is_over(removal) else _waits("what an earlier part of it made there is being removed")
            )
        job = self._readiness
        if job is None or job["spec"].get("suspend"):
            return ABSENT
        if (seen := self._belongings.see_job(job)) != DONE:
            return seen
        if (told := self._told(job)) is None:
            return ABSENT
        consenting, names = self._consenting(), [f"{self._system.protocol} {each}" for each in told.names]
        older_s = self._locks.take(names, self._system.name) - made_unix_s(job)
        if older_s > FRESH_S:
            return self._asked_again()
        try:
            pods = self._proven(told) if consenting else []
        except PlatformError as error:
            if older_s > 0:
                return self._asked_again()
            return Observation(status=Status.FAILED, message=short(str(error)))
        if pods:
            self._grant(pods)
        return DONE

    def _asked_again(self) -> Observation:
        """Its word is older than the lock: whoever had the system meanwhile may have had its pods replaced."""
        self._forget_readiness()
        return ABSENT

    def _grant(self, pods: list[str]) -> None:
        """Runs may strike these pods, and no other that an earlier proof found."""
        for made in strikes(self._owner, self._context.experiment, self._system, pods):
            self._belongings.make(made)
            found = self._belongings.own(made["kind"], name := made["metadata"]["name"])
            if found is not None and found.get("rules") != made.get("rules"):
                self._cluster.patch(made["kind"], self._belongings.namespace, name, {"rules": made["rules"]})

    def start(self) -> None:
        """Begin anew what was left, was stopped, or left no word (of an older version, or of a pod that is gone)."""
        if (removal := self._removal) is not None:
            self._cluster.delete("Job", self._belongings.namespace, removal["metadata"]["name"])
        job = self._readiness
        if job is not None and (
            job["spec"].get("suspend") or (sights.ended(job) == "Complete" and not self._told(job))
        ):
            self._forget_readiness()
        super().start()

    def see_leaving(self) -> Observation:
        if not self._is_to_be_left():
            return DONE
        if at_work := locks.at_work(self._cluster, self._belongings.namespace, execution_of(self._owner)):
            return _waits(f"{at_work} of a run is at work; if its node is gone, delete it by force")
        if (removal := self._removal) is not None:
            pods = self._belongings.pods(removal)
            return ABSENT if self._is_over(removal) else sights.because(RUNNING, pods)
        job = self._readiness
        stopping = job is not None and job["spec"].get("suspend") and not self._is_stopped(job)
        return _waits("the round trip's pod has not ended") if stopping else ABSENT

    def leave(self) -> None:
        """Remove what was made there; then give it back, also if that cannot be done (PlatformError says so)."""
        if self.see_leaving().status is not Status.ABSENT:
            return
        if (removal := self._removal) is not None:
            return self._give_back(removal)
        self.cancel()
        job = self._readiness
        if job is None or self._is_stopped(job):
            self._belongings.make(leftovers(self._owner, self._system, self._context.settings))
        return

    def cancel(self) -> None:
        """Stop the round trip, if it goes on; its Job stays, as the sign that something may have been made."""
        job = self._readiness
        if job is not None and not sights.ended(job) and not job["spec"].get("suspend"):
            name = job["metadata"]["name"]
            self._cluster.patch("Job", self._belongings.namespace, name, {"spec": {"suspend": True}})

    def _give_back(self, removal: Object) -> None:
        words = "" if sights.ended(removal) == "Complete" else self._belongings.see_job(removal).message
        self._forget_readiness()
        for kind in ("RoleBinding", "Role"):
            if self._belongings.ours(kind, name := strikes_name(self._owner, self._system)) is not None:
                self._cluster.delete(kind, self._belongings.namespace, name)
        self._locks.release(self._system.name)
        if words:
            raise PlatformError(
                where=f"system {self._system.name}",
                got=words,
                rule="what an experiment makes on a system that was there before goes with it",
                todo=f"remove by hand what begins with {self._names}-",
            )

    @property
    def _locks(self) -> Locks:
        return Locks(self._cluster, self._context.home, self._owner, self._context.now)

    @property
    def _names(self) -> str:
        return names_on(self._release)

    @property
    def _readiness(self) -> Object | None:
        return self._belongings.own("Job", self._job)

    @property
    def _removal(self) -> Object | None:
        """The Job that removes, or has removed."""
        return self._belongings.own("Job", leftovers_name(self._owner, self._system))

    def _is_to_be_left(self) -> bool:
        """Whether anything may be there that is ours."""
        removal = self._removal
        going_on = removal is not None and not self._is_over(removal)
        return going_on or self._readiness is not None or bool(self._locks.held(self._system.name))

    def _is_over(self, job: Object) -> bool:
        return bool(sights.ended(job)) and self._is_quiet(job)

    def _is_stopped(self, job: Object) -> bool:
        """Whether no pod of it is at work, nor comes any more: its controller has seen that it is suspended."""
        return (bool(sights.ended(job)) or sights.suspended(job)) and self._is_quiet(job)

    def _is_quiet(self, job: Object) -> bool:
        return all((each.get("status") or {}).get("phase") in sights.ENDS for each in self._belongings.pods(job))

    def _told(self, job: Object) -> Identity | None:
        words = (sights.last_word(pod, "round-trip") for pod in self._belongings.pods(job))
        return next((found for each in words if (found := identity_in(each)) is not None), None)

    def _consenting(self) -> bool:
        """Whether faults strike pods; Unattended if an owner does not allow it (any more): people can mend that."""
        namespace, spec = self._belongings.namespace, self._context.experiment.spec
        try:
            return bool(may_strike(self._cluster, namespace, self._system, spec))
        except PlatformError as error:
            raise Unattended(where=error.where, got=error.got, rule=error.rule, todo=error.todo) from None

    def _proven(self, told: Identity) -> list[str]:
        """The pods that faults strike; PlatformError unless each broker's is known."""
        pods = candidates(self._cluster, self._belongings.namespace, self._system)
        return sorted(placed(told.brokers, pods).values())


def _waits(words: str) -> Observation:
    return Observation(status=Status.RUNNING, message=words)
