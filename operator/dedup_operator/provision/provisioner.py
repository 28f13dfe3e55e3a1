"""What all ways to a system have in common: accounts for its runs, and the proof that it answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

from dedup.experiment.spec import Experiment, System
from dedup.experiment.stages import Observation
from dedup_operator.belongings import Belongings
from dedup_operator.clusters import Object
from dedup_operator.locks import HERE, Home
from dedup_operator.objects.accounts import accounts
from dedup_operator.objects.readiness import readiness, readiness_name
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.systems import release_of
from dedup_operator.releases import Releases
from dedup_operator.sights import ABSENT, DONE, RUNNING

WORKLOADS: Final = ("StatefulSet", "Deployment")


class Context(NamedTuple):
    """The execution that a system is provisioned for."""

    belongings: Belongings
    releases: Releases
    experiment: Experiment
    settings: Settings
    now: Callable[[], float]
    """Seconds since 1970."""
    home: Home = HERE
    """Where locks of systems are."""


class Provisioner(ABC):
    """One system of one execution, from nothing to the proof that it answers, and away again.

    Nothing is remembered, and nothing waits: `see` and `see_leaving` say how far it is, `start` and `leave` begin, and
    each may be called again.
    """

    def __init__(self, context: Context, system: System) -> None:
        self._context, self._system, self._belongings = context, system, context.belongings
        self._cluster, self._owner = context.belongings.cluster, context.belongings.owner
        self._release = release_of(self._owner, system)
        self._job = readiness_name(self._owner, system)

    @property
    def lacks(self) -> object:
        """Which of the systems have the same `check`: what one way lacks is asked for once."""
        return type(self)

    def check(self) -> None:
        """PlatformError if the cluster lacks what only an administrator installs."""
        return

    @abstractmethod
    def is_there(self) -> bool:
        """Whether clients may be pointed at it: it is deployed, if not yet proven to answer."""

    def check_had(self) -> None:
        """PlatformError if a run that is at work may not go on, since the system is not the execution's any more."""
        return

    @abstractmethod
    def see(self) -> Observation:
        """How far the provisioning is; done when a message has been written and read back."""

    def start(self) -> None:
        """Begin, or go on. Once there is the Job that proves the system, nothing is left to do."""
        experiment, settings = self._context.experiment, self._context.settings
        self._belongings.make(
            *accounts(self._owner, experiment, settings.account_annotations, settings.chaos_images, settings.systems)
        )
        if self._deploy():
            self._belongings.make(readiness(self._owner, experiment, self._system, settings))

    @abstractmethod
    def _deploy(self) -> bool:
        """Make the system whole; whether it may be asked to prove itself now."""

    def see_leaving(self) -> Observation:
        """How far the removal is; done when nothing of it is left: what is not ours is in no removal's way."""
        if self._state() is not None or self._belongings.ours("Job", self._job):
            return ABSENT
        return RUNNING if self._workloads() else DONE

    def leave(self) -> None:
        """Take away what was deployed for the experiment."""
        self._forget_readiness()

    def cancel(self) -> None:
        """End the proof, if it still runs."""
        self._belongings.end("Job", self._job)

    def _state(self) -> str | None:
        """Helm's word for the release; None if there is none."""
        return None

    def _forget_readiness(self) -> None:
        self._belongings.forget("Job", self._job)

    def _workloads(self) -> list[Object]:
        return [each for kind in self._kinds() for each in self._list(kind)]

    def _kinds(self) -> tuple[str, ...]:
        return WORKLOADS

    def _list(self, kind: str) -> list[Object]:
        selector = f"app.kubernetes.io/instance={self._release}"
        return self._cluster.list(kind, self._belongings.namespace, selector)
