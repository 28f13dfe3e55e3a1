"""A system that is there already: it is proven to answer, and neither deployed nor taken away.

Its round trip tells who it is. That identity is locked, so that no other experiment tests it meanwhile; and if faults
are to strike its pods, each broker's pod is proven by the addresses that the round trip has looked up. When the
execution is done with it, a Job removes everything whose name begins with the execution's, and then the lock is given
back.
"""

from dedup.errors import PlatformError
from dedup.experiment.consents import placed
from dedup.experiment.stages import Observation, Status
from dedup.wire.identities import Identity, identity_in
from dedup_operator import sights
from dedup_operator.clusters import Object
from dedup_operator.locks import Locks
from dedup_operator.objects.leftovers import leftovers, leftovers_name
from dedup_operator.provision.consents import candidates, may_strike
from dedup_operator.provision.provisioner import Provisioner
from dedup_operator.sights import ABSENT, DONE, RUNNING, short


class Existing(Provisioner):
    """`deploy.existing`."""

    def is_there(self) -> bool:
        """Once it was given back, another experiment may have it."""
        return bool(self._locks.held(self._system.name))

    def see(self) -> Observation:
        job = self._belongings.own("Job", self._job)
        if job is None:
            return ABSENT
        if (seen := self._belongings.see_job(job)) != DONE:
            return seen
        told = self._told(job) or self._by_address()
        try:
            self._prove(told)
        except PlatformError as error:
            return Observation(status=Status.FAILED, message=short(str(error)))
        self._locks.take(f"{self._system.protocol} {told.cluster}", self._system.name)
        return DONE

    def see_leaving(self) -> Observation:
        if not self._locks.held(self._system.name):
            return ABSENT if self._belongings.own("Job", self._job) else DONE
        cleaning = self._belongings.own("Job", self._cleaning)
        if cleaning is None or sights.ended(cleaning):
            return ABSENT
        return sights.because(RUNNING, self._belongings.pods(cleaning))

    def leave(self) -> None:
        """Remove what was made there; then give it back, also if that cannot be done (PlatformError says so)."""
        if not self._locks.held(self._system.name):
            return self._forget_readiness()
        cleaning = self._belongings.own("Job", self._cleaning)
        if cleaning is None:
            return self._belongings.make(leftovers(self._owner, self._system, self._context.settings))
        if (ended := sights.ended(cleaning)) is None:
            return None
        words = "" if ended == "Complete" else self._belongings.see_job(cleaning).message
        self._cluster.delete("Job", self._belongings.namespace, self._cleaning)
        self._forget_readiness()
        self._locks.release(self._system.name)
        if words:
            raise PlatformError(
                where=f"system {self._system.name}",
                got=words,
                rule="what an experiment makes on a system that was there before goes with it",
                todo="remove what has such a name by hand",
            )
        return None

    def _deploy(self) -> bool:
        return True

    @property
    def _locks(self) -> Locks:
        return Locks(self._cluster, self._context.home, self._owner, self._context.now)

    @property
    def _cleaning(self) -> str:
        return leftovers_name(self._owner, self._system)

    def _told(self, job: Object) -> Identity | None:
        words = (sights.last_word(pod, "round-trip") for pod in self._belongings.pods(job))
        return next((found for each in words if (found := identity_in(each)) is not None), None)

    def _by_address(self) -> Identity:
        """Where it is asked, if its round trip left no word: one of an older version, or of a pod that is gone."""
        existing = self._system.existing
        assert existing is not None
        return Identity(cluster=existing.bootstrap or existing.admin_url or "")

    def _prove(self, told: Identity) -> None:
        """PlatformError unless each broker's pod is known, if faults strike pods of it."""
        namespace, spec = self._belongings.namespace, self._context.experiment.spec
        if may_strike(self._cluster, namespace, self._system, spec):
            placed(told.brokers, candidates(self._cluster, namespace, self._system))
