"""The environment of a campaign's operator: a cluster with a past, and Helm that can be interrupted."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, Self, runtime_checkable

from dedup_operator.clusters import ClusterError, Object, Refused, Unreachable
from dedup_operator.releases import _PASSES, refusal, secrets_of
from testbed.campaign.breaks import Way
from testbed.helms import NoList, workload
from testbed.worlds import STORE, FakeCluster, Played

PAST: Final = 8
OURS: Final = (
    *("ConfigMap", "Secret", "ServiceAccount", "Role", "RoleBinding"),
    *("Job", "StatefulSet", "Deployment", "SparkApplication"),
)
NOBODYS: Final = ("default", "kube-root-ca.crt", STORE)
"""Every namespace has these."""
IN_THE_WAY: Final = (
    'Unable to continue with install: {kind} "{name}" in namespace "{namespace}" exists and cannot be imported into '
    "the current release: invalid ownership metadata"
)
BUSY: Final = "another operation (install/upgrade/rollback) is in progress"


@runtime_checkable
class Forks(Played, Protocol):
    """A cluster from which a course can be repeated from any of its looks."""

    def everything(self) -> Mapping[tuple[str, str, str], Object]:
        """All objects there are, by kind, namespace and name; events may be missing."""

    def fork(self) -> Self:
        """A copy, independent from here on."""


@dataclass
class Ground(FakeCluster):
    """The fake cluster, and its state before each of the last writes. Its objects are never changed in place."""

    past: deque[dict[tuple[str, str, str], Object]] = field(default_factory=lambda: deque(maxlen=PAST))

    def everything(self) -> Mapping[tuple[str, str, str], Object]:
        return self.objects

    def fork(self) -> "Ground":
        return replace(self, objects=dict(self.objects), past=self.past.copy())

    def ago(self, writes: int) -> FakeCluster:
        """The cluster as it was so many writes ago."""
        return replace(self, objects=self.past[-min(writes, len(self.past))])

    def unowned(self, uid: str, apart: Collection[str] = ()) -> list[str]:
        """Objects that would stay after the experiment; apart from these, by their UIDs."""
        return [
            f"{kind} {name}"
            for (kind, _, name), made in self.objects.items()
            if kind in OURS
            and name not in NOBODYS
            and made["metadata"]["uid"] not in apart
            and all(each["uid"] != uid for each in made["metadata"].get("ownerReferences") or ())
        ]

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self.past.append(dict(self.objects))
        super().delete(kind, namespace, name)

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        self._must_be_there(kind, namespace, name)
        super().patch(kind, namespace, name, change)

    def replace_status(self, made: Object) -> Object:
        self._must_be_there(made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])
        return super().replace_status(made)

    def _must_be_there(self, *key: str) -> None:
        if key not in self.objects:
            raise Refused(f'{key[0]} "{key[2]}" not found')

    def _put(self, key: tuple[str, str, str], made: Object) -> None:
        self.past.append(dict(self.objects))
        super()._put(key, made)


@dataclass
class Helm(NoList):
    """What Helm asks of the API server, on the operator's way, so that it breaks with it.

    Its release is pending at first, and the chart is one workload. A request that fails ends it as it ends Helm: with
    the API server's words, and with a release that is `failed`, if that can still be written. The last write of an
    installation may fail unheard (Helm's `recordRelease`). Before it installs it looks whether somebody else has an
    object of the chart; that is no request here. What comes in between loses, as with Helm.
    """

    way: Way
    installed: list[str]
    """Every installation that was begun."""
    refuses: Exception | None = None

    def install(self, release: str, namespace: str, kind: str, values: Object, marks: Mapping[str, str]) -> None:
        if self.refuses is not None:
            raise self.refuses
        with self.way.helm(kind, _spoken):
            found = secrets_of(self.way, release, namespace)
            if any(each["metadata"]["labels"]["status"].startswith("pending") for each in found):
                raise Unreachable(BUSY)
            self._look_for_others("StatefulSet", namespace, release)
            self.installed.append(release)
            self._install(release, namespace, values, {**marks, "version": str(len(found) + 1)})

    def _install(self, release: str, namespace: str, values: Object, marks: Mapping[str, str]) -> None:
        name = f"sh.helm.release.v1.{release}.v{marks['version']}"
        labels = {**marks, "owner": "helm", "name": release, "status": "pending-install"}
        meta = {"name": name, "namespace": namespace, "labels": labels}
        made = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "helm.sh/release.v1"}
        if not self.way.create(made):
            self._look_for_others("Secret", namespace, name)
            raise Unreachable(BUSY)
        try:
            self.way.create(workload(release, namespace, values))
        except ClusterError:
            self._call(name, namespace, "failed")
            raise
        self._call(name, namespace, "deployed")

    def _look_for_others(self, kind: str, namespace: str, name: str) -> None:
        found = self.way.inner.get(kind, namespace, name)
        meta = (found or {}).get("metadata", {})
        if kind == "Secret" and "owner" not in (meta.get("labels") or {}):
            raise Refused("release: already exists")
        if kind != "Secret" and found is not None and not meta.get("ownerReferences"):
            raise Refused(IN_THE_WAY.format(kind=kind, name=name, namespace=namespace))

    def _call(self, secret: str, namespace: str, status: str) -> None:
        try:
            self.way.patch("Secret", namespace, secret, {"metadata": {"labels": {"status": status}}})
        except ClusterError:
            pass  # Helm writes it to its log, and no more


def _spoken(error: ClusterError) -> ClusterError:
    """What the operator makes of Helm's words."""
    words = f"helm: {error}"
    return Unreachable(words) if _PASSES.search(words) else refusal(words)
