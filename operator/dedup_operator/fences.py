"""Fences: nothing is written by an operator that does not hold its lease.

Each write asks first, at the very moment it is made: an operator that stood still for an hour in the middle of a look
writes nothing when it wakes. Reads pass. One gap no fence of ours can close: that it stands still after it asked and
before the request leaves the machine. What then comes late is one request, and what it may do is in decision 016.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dedup_operator.clusters import Cluster, NotHolder, Object
from dedup_operator.objects.listed import ListedSystem
from dedup_operator.releases import Releases

Held = Callable[[], bool]


def check(held: Held, what: str) -> None:
    """NotHolder unless the lease is held now."""
    if not held():
        raise NotHolder(f"{what}: this operator does not hold its lease")


class FencedCluster:
    """A cluster that only the lease's holder may write to."""

    def __init__(self, cluster: Cluster, held: Held) -> None:
        self._cluster, self._held = cluster, held

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._cluster.get(kind, namespace, name)

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        return self._cluster.list(kind, namespace, selector, fields, most)

    def create(self, made: Object) -> bool:
        check(self._held, f"create {made['kind']} {made['metadata']['name']}")
        return self._cluster.create(made)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        check(self._held, f"delete {kind} {name}")
        self._cluster.delete(kind, namespace, name)

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        check(self._held, f"patch {kind} {name}")
        self._cluster.patch(kind, namespace, name, change)

    def replace_status(self, made: Object) -> Object:
        check(self._held, f"status of {made['metadata']['name']}")
        return self._cluster.replace_status(made)


class FencedReleases:
    """Helm, for the lease's holder only. What Helm does after it was let in is bounded where it runs (HelmReleases)."""

    def __init__(self, releases: Releases, held: Held) -> None:
        self._releases, self._held = releases, held

    def install(self, release: str, namespace: str, kind: str, values: Object, labels: Mapping[str, str]) -> None:
        check(self._held, f"install {release}")
        self._releases.install(release, namespace, kind, values, labels)

    def render(self, entry: ListedSystem, release: str, namespace: str) -> list[Any]:
        check(self._held, f"render {entry.name}")
        return self._releases.render(entry, release, namespace)

    def install_rendered(
        self, entry: ListedSystem, release: str, namespace: str, objects: Sequence[Object], labels: Mapping[str, str]
    ) -> None:
        check(self._held, f"install {release}")
        self._releases.install_rendered(entry, release, namespace, objects, labels)
