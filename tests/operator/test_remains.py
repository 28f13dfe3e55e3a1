"""What an installation leaves that was cut short before its experiment was deleted: an operator takes it away.

Kubernetes does that with whatever has an owner. Helm's record has none until Helm has ended.
"""

from typing import Any, Final

import pytest
from testbed.worlds import NAMESPACE, Crash, World
from tests.operator.test_reconciliations import applied

from dedup_operator.clusters import Cluster, Forbidden, Object, Refused, Unreachable
from dedup_operator.reconciliations import REMAINS, SWEEP_AGAIN_S
from dedup_operator.releases import sweep

RECORD: Final = "sh.helm.release.v1.d-theirs.v1"


def cut_short() -> World:
    """The operator died when Helm had begun."""
    world = applied()
    for moment in range(1, 100):
        operator, _ = world.operator(crash_at=moment)
        try:
            while not records(world):
                operator.look((NAMESPACE, "e"))
        except Crash:
            pass
        if records(world):
            return world
    raise AssertionError("nothing was installed")


def records(world: World) -> list[Object]:
    return world.cluster.list("Secret", NAMESPACE, "owner=helm")


def look_for_remains(world: World) -> None:
    operator, _ = world.operator()
    assert operator.look(REMAINS) == SWEEP_AGAIN_S


def test_the_record_of_an_experiment_that_is_gone_goes() -> None:
    world = cut_short()
    (record,) = records(world)
    assert not record["metadata"].get("ownerReferences")
    world.cluster.delete("DedupExperiment", NAMESPACE, "e")
    look_for_remains(world)
    assert records(world) == []


def test_that_of_one_that_is_there_stays_and_it_goes_on() -> None:
    world = cut_short()
    before = records(world)
    look_for_remains(world)
    assert records(world) == before
    world.run()
    assert (world.status()["verdict"], world.orphans()) == ("Pass", [])


def test_another_experiment_of_that_name_is_not_whose_it_is() -> None:
    world = cut_short()
    again = world.live()
    world.cluster.delete("DedupExperiment", NAMESPACE, "e")
    world.cluster.create({**again, "metadata": {**again["metadata"], "uid": "7a2d"}})
    look_for_remains(world)
    assert records(world) == []


OURS: Final = {"dedup.dev/component": "release", "dedup.dev/experiment": "gone", "dedup.dev/uid": "5e3b"}
OTHERS: Final[list[dict[str, Any]]] = [
    {"labels": {"owner": "helm", "name": "theirs"}},
    {"labels": {**OURS, "name": "theirs"}},
    {"labels": {"owner": "helm", "dedup.dev/component": "release"}},
    {"labels": {"owner": "helm", **OURS, "dedup.dev/experiment": ""}},
    {"labels": {"owner": "helm", **OURS}, "ownerReferences": [{"kind": "ConfigMap", "name": "c", "uid": "1"}]},
]


@pytest.mark.parametrize("meta", OTHERS)
def test_what_is_somebody_elses_stays(meta: dict[str, Any]) -> None:
    world = applied()
    world.cluster.create({"kind": "Secret", "metadata": {"name": RECORD, "namespace": NAMESPACE, **meta}})
    look_for_remains(world)
    assert world.cluster.get("Secret", NAMESPACE, RECORD) is not None


def test_its_innocent_twin_goes() -> None:
    world = applied()
    labels = {"owner": "helm", **OURS}
    world.cluster.create({"kind": "Secret", "metadata": {"name": RECORD, "namespace": NAMESPACE, "labels": labels}})
    look_for_remains(world)
    assert world.cluster.get("Secret", NAMESPACE, RECORD) is None


class Strict:
    """A cluster that refuses a deletion, or all there is to read in one namespace; of another nobody answers."""

    def __init__(self, inner: Cluster, keeps: str = "", closed: str = "", silent: str = "") -> None:
        self._inner, self._keeps, self.closed, self._silent = inner, keeps, closed, silent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        if self.closed and namespace == self.closed:
            raise Forbidden(f"{kind} in {namespace} is forbidden")
        if self._silent and namespace == self._silent:
            raise Unreachable(namespace)
        return self._inner.list(kind, namespace, selector, fields, most)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        if name == self._keeps:
            raise Refused(f"{name} stays")
        self._inner.delete(kind, namespace, name)


def two_left(world: World) -> None:
    for number in (1, 2):
        meta = {"name": f"{RECORD}{number}", "namespace": NAMESPACE, "labels": {"owner": "helm", **OURS}}
        world.cluster.create({"kind": "Secret", "metadata": meta})


def test_one_that_cannot_go_is_not_in_the_others_way() -> None:
    world = applied()
    two_left(world)
    with pytest.raises(Refused, match="v11 stays"):
        sweep(Strict(world.cluster, keeps=f"{RECORD}1"), [NAMESPACE])
    assert [each["metadata"]["name"] for each in records(world)] == [f"{RECORD}1"]


def test_nor_is_a_namespace_that_is_gone() -> None:
    world = applied()
    two_left(world)
    strict = Strict(world.cluster, closed="was-deleted")
    sweep(strict, ["was-deleted", NAMESPACE])
    assert records(world) == []
    with pytest.raises(Forbidden):
        sweep(strict, ["was-deleted"])
