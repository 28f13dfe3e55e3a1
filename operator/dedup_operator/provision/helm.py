"""A system that one of our charts deploys: its workloads are ready when they say so.

What Helm has written down of a release lies in a Secret of the experiment's namespace, and whoever may write Secrets
there can write such a record. So no word of it is believed but that there is one; Helm, which would do what it says,
with our rights and in any namespace, is never asked to read it: a release is taken away by us (decision 143).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from dedup.experiment.stages import Observation
from dedup_operator import sights
from dedup_operator.belongings import Foreign
from dedup_operator.clusters import ClusterError, Object
from dedup_operator.objects.names import UID, labels
from dedup_operator.objects.systems import values
from dedup_operator.provision.provisioner import WORKLOADS, Provisioner
from dedup_operator.releases import DEPLOYED, RELEASE, record_of, secrets_of, state_in
from dedup_operator.sights import ABSENT, DONE, RUNNING

PARTS: Final = (*WORKLOADS, "Service", "ConfigMap", "Secret", "PodDisruptionBudget")
"""What charts/kafka and charts/pulsar make. The pods go with their workloads, and claims too."""


class Helm(Provisioner):
    """A release of the chart of that name."""

    def is_there(self) -> bool:
        return self._state() == DEPLOYED

    def see(self) -> Observation:
        if not self.is_there():
            return self._see_remains()
        if (begun := self._see_begun()) != DONE:
            return sights.because(begun, self._list("Pod"))
        job = self._belongings.own("Job", self._job)
        if job is None:
            return ABSENT
        proof = self._belongings.see_job(job)
        return self._see_proven() if proof == DONE else sights.because(proof, self._list("Pod"))

    def _see_remains(self) -> Observation:
        """What is there instead of the release."""
        return ABSENT

    def _see_begun(self) -> Observation:
        """What must be seen of the release before it is asked to prove itself."""
        return DONE

    def _see_proven(self) -> Observation:
        """What must be seen of it besides the proof."""
        ready = sights.ready(self._workloads())
        return DONE if ready == DONE else sights.because(RUNNING if ready == ABSENT else ready, self._list("Pod"))

    def _deploy(self) -> bool:
        """Make the release whole. Helm's records of one that did not become so are the experiment's all the same."""
        try:
            if not self._installed():
                return True
        except ClusterError:
            self._adopt()
            raise
        self._adopt()
        return True

    def _installed(self) -> bool:
        """Whether it is now; nothing is installed beside pods that an earlier one left."""
        if (state := self._state()) == DEPLOYED:
            return True
        self._forget_readiness()  # which was another release's
        if state is not None:
            self._remove()
        if self._is_in_the_way():
            return False
        self._install(labels(self._owner, RELEASE, uid=str(self._owner.uid)))
        return True

    def _install(self, marks: Mapping[str, str]) -> None:
        """Make the release; the marks are labels of Helm's record."""
        described = values(self._system, self._context.settings, self._owner, self._context.experiment.spec)
        self._context.releases.install(self._release, self._belongings.namespace, self._system.chart, described, marks)

    def _is_in_the_way(self) -> bool:
        """Whether something that an earlier release left would become a part of the next."""
        return False

    def _adopt(self) -> None:
        for secret in secrets_of(self._cluster, self._release, self._belongings.namespace):
            if self._is_unowned(secret):
                owned = {"metadata": {"ownerReferences": [self._owner.reference]}}
                self._cluster.patch("Secret", self._belongings.namespace, secret["metadata"]["name"], owned)

    def see_leaving(self) -> Observation:
        seen = super().see_leaving()
        return ABSENT if seen == RUNNING and any(self._staying()) else seen

    def leave(self) -> None:
        super().leave()
        if self._state() is not None or any(self._staying()):
            self._remove()

    def _remove(self) -> None:
        """Delete what the release consists of, and its records last: while there is one, something may be left."""
        records = self._records()
        for kind, part in list(self._staying()):
            self._delete(kind, part)
        for name in records:
            self._cluster.delete("Secret", self._belongings.namespace, name)

    def _records(self) -> list[str]:
        """The names of our records; a release that is never upgraded has the first one only, whatever its labels."""
        found = secrets_of(self._cluster, self._release, self._belongings.namespace)
        ours = (each for each in found if self._is_unowned(each) or self._belongings.owns(each))
        names, first = [each["metadata"]["name"] for each in ours], record_of(self._release)
        lost = None if first in names else self._cluster.get("Secret", self._belongings.namespace, first)
        return [*names, first] if lost is not None and self._belongings.owns(lost) else names

    def _staying(self) -> Iterator[tuple[str, Object]]:
        """What the release consists of, each with its kind, but for what is going already."""
        for kind in self._parts():
            for part in self._list(kind):
                if self._belongings.owns(part) and not part["metadata"].get("deletionTimestamp"):
                    yield kind, part

    def _parts(self) -> tuple[str, ...]:
        """The kinds of what the chart makes."""
        return PARTS

    def _delete(self, kind: str, found: Object) -> None:
        self._cluster.delete(kind, self._belongings.namespace, found["metadata"]["name"])

    def _state(self) -> str | None:
        """Foreign if a record of that release is not ours: Helm would take it for its own."""
        records = secrets_of(self._cluster, self._release, self._belongings.namespace)
        for record in records:
            if not self._is_unowned(record) and not self._belongings.owns(record):
                raise Foreign("Secret", record["metadata"]["name"])
        return state_in(records)

    def _is_unowned(self, record: Object) -> bool:
        """Whether it is a record of ours whose owner nobody has told yet."""
        meta = record["metadata"]
        return not meta.get("ownerReferences") and (meta.get("labels") or {}).get(UID) == self._owner.uid

    def _list(self, kind: str) -> list[Object]:
        """Anybody can give a workload of his own the release's label."""
        found = super()._list(kind)
        return [each for each in found if self._belongings.owns(each)] if kind in WORKLOADS else found
