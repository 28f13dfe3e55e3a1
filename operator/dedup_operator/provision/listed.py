"""A system by a chart of somebody else's, which the administrator has put on a list: rendered, judged, then installed.

Whatever is wrong with an entry is said before anything of it is begun: then the experiment is stalled, and nothing is
there to take away. It is left with the operator's own rights, so that an entry that is gone keeps nothing.
"""

from collections.abc import Mapping

from dedup.experiment.stages import Observation, Status
from dedup_operator.archives import NotFetched
from dedup_operator.clusters import Object, Unreachable
from dedup_operator.objects.listed import MADE, ListedSystem, check_faults, entry_of, proxies
from dedup_operator.objects.rendered import RELEASE, check, owned, without_later_hooks
from dedup_operator.objects.systems import proxies_of
from dedup_operator.provision.helm import Helm
from dedup_operator.sights import ABSENT, DONE, RUNNING


class Listed(Helm):
    """A release of the chart that `deploy.chart` names in the list. Nothing in its objects' labels need be ours."""

    @property
    def lacks(self) -> object:
        return Listed, self._system.listed

    def check(self) -> None:
        entry = self._entry
        check_faults(self._context.experiment.spec, entry)
        if self._state() is None:
            self._rendered(entry)

    def _deploy(self) -> bool:
        super()._deploy()
        if not self.is_there():
            return False  # what an earlier release left is still going
        self._belongings.make(proxies(self._owner, self._proxies, self._entry, self._release))
        return True

    def _install(self, marks: Mapping[str, str]) -> None:
        """A registry that is away is asked again: what has begun does not fail for that."""
        entry, namespace = self._entry, self._belongings.namespace
        try:
            rendered = self._rendered(entry)
        except NotFetched as error:
            raise Unreachable(str(error)) from None
        objects = owned(rendered, self._owner, self._release)
        self._context.releases.install_rendered(entry, self._release, namespace, objects, marks)

    def _see_remains(self) -> Observation:
        if self._state() is None and self._remains():
            return Observation(status=Status.RUNNING, message="what is left of an earlier release is still going")
        return ABSENT

    def _is_in_the_way(self) -> bool:
        return bool(self._remains())

    def see_leaving(self) -> Observation:
        seen = super().see_leaving()
        return RUNNING if seen == DONE and self._remains() else seen

    def leave(self) -> None:
        super().leave()
        if self._belongings.ours("ConfigMap", self._proxies) is not None:
            self._cluster.delete("ConfigMap", self._belongings.namespace, self._proxies)

    def _remains(self) -> list[Object]:
        return [*self._workloads(), *self._list("Pod")]

    def _parts(self) -> tuple[str, ...]:
        """Of all kinds that entries may make: the entry may not be there any more."""
        return tuple(MADE)

    def _list(self, kind: str) -> list[Object]:
        return self._cluster.list(kind, self._belongings.namespace, f"{RELEASE}={self._release}")

    def _rendered(self, entry: ListedSystem) -> list[Object]:
        """The objects that may be installed; PlatformError if it is not the entry's chart, or makes what it may not."""
        namespace = self._belongings.namespace
        objects = without_later_hooks(self._context.releases.render(entry, self._release, namespace))
        check(entry, objects, self._release, namespace)
        return objects

    @property
    def _entry(self) -> ListedSystem:
        return entry_of(self._system, self._context.settings.systems)

    @property
    def _proxies(self) -> str:
        return proxies_of(self._release)
