"""Faults that need more than others, and what they may leave: no run begins without the right, or beside a cut."""

from typing import Any, Final

import pytest
from testbed.worlds import NAMESPACE, SETTINGS, ScriptedHelm, World
from tests.operator.test_reconciliations import applied, edit, message

from dedup_operator.objects.settings import Defaults
from dedup_operator.reconciliations import Reconciler

NET_FILTER: Final[dict[str, Any]] = {
    "name": "alone",
    "at": {"message": 1},
    "partition": {"target": "Leader", "by": "NetFilter", "duration": "5s"},
}


def privileged(world: World, *, allowed: bool) -> Reconciler:
    """An operator whose administrator did or did not allow privileged faults."""
    defaults = {name: getattr(SETTINGS, name) for name in Defaults.model_fields} | {"allow_privileged_faults": allowed}
    return Reconciler(world.cluster, ScriptedHelm(world.cluster), Defaults(**defaults), lambda: world.now_s)


def test_a_privileged_fault_is_begun_only_where_the_administrator_allows_it() -> None:
    world = applied(("spec/faults", [NET_FILTER]), ("spec/allowPrivilegedFaults", True))
    assert privileged(world, allowed=False).look((NAMESPACE, "e")) is not None
    assert "installed with allowPrivilegedFaults: true" in message(world, "Stalled")
    assert (world.status().get("state"), world.cluster.list("ConfigMap", NAMESPACE, "")) == (None, [])
    privileged(world, allowed=True).look((NAMESPACE, "e"))
    assert world.status()["state"]["cursor"] == 0
    harmless = applied(("spec/allowPrivilegedFaults", True))
    privileged(harmless, allowed=False).look((NAMESPACE, "e"))
    assert harmless.status()["state"]["cursor"] == 0


def test_a_right_that_is_taken_away_holds_up_what_needs_it_and_nothing_else() -> None:
    """Of what was begun with it, too, no run begins; and an execution without such a fault takes its place."""
    world = applied(("spec/faults", [NET_FILTER]), ("spec/allowPrivilegedFaults", True))
    privileged(world, allowed=True).look((NAMESPACE, "e"))
    operator = privileged(world, allowed=False)
    operator.look((NAMESPACE, "e"))
    assert "installed with allowPrivilegedFaults: true" in message(world, "Stalled")
    edit(world, runToken="2")
    operator.look((NAMESPACE, "e"))
    assert "installed with allowPrivilegedFaults: true" in message(world, "Stalled")
    edit(world, faults=[NET_FILTER | {"partition": {"target": "Leader", "by": "NetworkPolicy", "duration": "5s"}}])
    world.run()
    assert (world.status()["verdict"], world.status()["observedRunToken"]) == ("Pass", "2")


@pytest.mark.parametrize(("level", "begins"), [("restricted", False), ("baseline", False), ("privileged", True)])
def test_a_privileged_fault_is_begun_only_where_pods_may_be_so(level: str, begins: bool) -> None:
    world = applied(("spec/faults", [NET_FILTER]), ("spec/allowPrivilegedFaults", True))
    labels = {"pod-security.kubernetes.io/enforce": level}
    world.cluster.create({"kind": "Namespace", "metadata": {"name": NAMESPACE, "namespace": "", "labels": labels}})
    privileged(world, allowed=True).look((NAMESPACE, "e"))
    assert (world.status().get("state") is not None) is begins
    assert begins or f"got Pod Security level {level}" in message(world, "Stalled")


@pytest.mark.parametrize(
    ("of", "owner", "waits"), [("e", "broken", True), ("e", "gone", True), ("another", "broken", False)]
)
def test_no_run_begins_while_a_broken_one_keeps_a_broker_cut_off(of: str, owner: str, waits: bool) -> None:
    partition = NET_FILTER | {"partition": {"target": "Leader", "by": "NetworkPolicy", "duration": "5s"}}
    world = applied(("spec/faults", [partition]))
    pod = {"name": "broken", "namespace": NAMESPACE, "labels": {"dedup.dev/experiment": of}}
    world.cluster.create({"kind": "Pod", "metadata": pod, "status": {"phase": "Failed"}})
    policy = {"name": "cut", "namespace": NAMESPACE, "labels": {"dedup.dev/fault": "partition"}}
    world.cluster.create(
        {"kind": "NetworkPolicy", "metadata": policy | {"ownerReferences": [{"kind": "Pod", "name": owner}]}}
    )

    def begun() -> bool:
        return any(world.player.jobs.values())

    world.run(until=lambda _status: begun() or "still cuts a broker off" in message(world, "Ready"))
    assert begun() is not waits
    world.cluster.delete("NetworkPolicy", NAMESPACE, "cut")
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_clients_in_pods_are_not_cut_off_and_brokers_are() -> None:
    of_clients = NET_FILTER | {"partition": NET_FILTER["partition"] | {"between": "Clients"}}
    world = applied(("spec/faults", [of_clients]), ("spec/allowPrivilegedFaults", True))
    privileged(world, allowed=True).look((NAMESPACE, "e"))
    assert "partition.between: got Clients; a client's pod is not known before it runs" in message(world, "Stalled")
    twin = NET_FILTER | {"partition": NET_FILTER["partition"] | {"between": "Brokers"}}
    edit(world, faults=[twin])
    privileged(world, allowed=True).look((NAMESPACE, "e"))
    assert world.status()["state"]["cursor"] == 0
