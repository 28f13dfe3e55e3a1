"""Systems that are there already, before a real API server: locks, rights, a consent, and a deletion half-way.

No pod runs: the player of testbed/worlds.py does what the controllers would. What is real is the server's word on who
may write over what was read, on every object that is made, and on finalizers.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, Final

import pytest
from testbed.cluster.api_servers import ApiServer
from testbed.played import PlayedCluster, namespace_on, playing
from testbed.worlds import LOCKING, World
from tests.operator import test_consents as consents
from tests.operator.test_consents import KILL, PODS, STOP, WHO, document
from tests.operator.test_existing import KEYS
from tests.operator.test_reconciliations import message

from dedup.experiment.spec import parse
from dedup_operator.clusters import Conflict, LiveCluster, Object
from dedup_operator.departures import FINALIZER
from dedup_operator.locks import NAME, Home, Locks, Waits
from dedup_operator.objects.accounts import strikes_name
from dedup_operator.objects.names import Owner

pytestmark = pytest.mark.kubernetes

RIVALS: Final = 6
ROUNDS: Final = 5
LOOKS: Final = 80
SAFE: Final[Object] = {
    "automountServiceAccountToken": False,
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "broker",
            "image": "none",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer) -> Iterator[PlayedCluster]:
    with playing(api_server) as made:
        yield made


@pytest.fixture
def namespace(cluster: PlayedCluster) -> Iterator[str]:
    """A new one. No operator is left that would let its experiments go."""
    with namespace_on(cluster) as made:
        yield made
        for each in cluster.list("DedupExperiment", made, ""):
            cluster.patch("DedupExperiment", made, each["metadata"]["name"], {"metadata": {"finalizers": None}})


def test_of_many_that_take_a_lock_at_once_one_has_it(
    api_server: ApiServer, cluster: PlayedCluster, namespace: str
) -> None:
    """Again and again: the Lease is made in the first round, and given back in each."""
    for number in range(RIVALS):
        made = document(KILL, name=f"e-{number}")
        cluster.create({**made, "metadata": {"name": f"e-{number}", "namespace": namespace}})
    owners = []
    for number in range(RIVALS):
        live = cluster.get("DedupExperiment", namespace, f"e-{number}")
        assert live is not None
        owners.append(Owner(namespace, f"e-{number}", live["metadata"]["uid"]))
    home, together = Home(namespace, "locks"), Barrier(RIVALS)

    def take(owner: Owner) -> str:
        with api_server.client() as client:
            locks = Locks(LiveCluster(client), home, owner, lambda: 0.0)
            together.wait()
            try:
                locks.take(["kafka c", "kafka d"], "kafka")
            except (Conflict, Waits) as error:
                return type(error).__name__
            return owner.name

    for _ in range(ROUNDS):
        with ThreadPoolExecutor(RIVALS) as threads:
            said = list(threads.map(take, owners))
        won = [each for each in said if each.startswith("e-")]
        held = [each.name for each in owners if len(Locks(cluster, home, each, lambda: 0.0).held("kafka")) == 2]
        assert len(won) == 1 and held == won, said
        (winner,) = (each for each in owners if each.name == won[0])
        Locks(cluster, home, winner, lambda: 0.0).release("kafka")


def world(cluster: PlayedCluster, namespace: str, *, silent: str = "") -> World:
    """A Kafka's pods, which consent, but the silent one; the Secrets; and an experiment that strikes them."""
    made = World(cluster, namespace, settings=LOCKING)
    made.player.met = WHO
    for name, keys in KEYS.items():
        meta: Object = {"name": name, "namespace": namespace, "labels": {"dedup.dev/use": "true"}}
        meta |= {"annotations": {"dedup.dev/hosts": "k:9092"}} if name == "login" else {}
        data = dict.fromkeys(keys, "c2VjcmV0")
        cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})
    for number in range(3):
        pod = consents.pod(number, namespace=namespace)
        if pod["metadata"]["name"] == silent:
            pod["metadata"]["labels"] = consents.LABELS
        cluster.create({**pod, "spec": SAFE})
        found = cluster.get("Pod", namespace, pod["metadata"]["name"])
        assert found is not None
        address = pod["status"]["podIP"]
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        cluster.set_status({"apiVersion": "v1", "kind": "Pod", **found}, status)
    given = document(KILL, STOP)
    cluster.create({**given, "metadata": {"name": "e", "namespace": namespace}})
    return made


def strike_role(made: World) -> Object | None:
    """What runs may do to the pods of others."""
    owner = Owner(made.namespace, "e", made.live()["metadata"]["uid"])
    (system,) = parse(document(KILL), source="test").spec.systems
    return made.cluster.get("Role", made.namespace, strikes_name(owner, system))


def locks(made: World) -> dict[str, Any]:
    found = made.cluster.get("Lease", made.namespace, NAME) or {"metadata": {}}
    return dict(found["metadata"].get("annotations") or {})


def test_it_goes_to_its_verdict_and_lets_the_system_and_itself_go(cluster: PlayedCluster, namespace: str) -> None:
    made = world(cluster, namespace)
    made.run(until=lambda _status: any(made.player.jobs.values()))
    assert made.live()["metadata"]["finalizers"] == [FINALIZER] and len(locks(made)) == 1
    role = strike_role(made)
    assert role is not None
    assert [each.get("resourceNames") for each in role["rules"]] == [None, PODS]
    made.run()
    assert made.status()["verdict"] == "Pass"
    operator, _ = made.operator()
    operator.look((namespace, "e"))
    assert not made.live()["metadata"].get("finalizers")
    assert strike_role(made) is None and locks(made) == {}


def test_without_the_label_it_is_stalled_in_words_and_a_label_that_goes_ends_the_run(
    cluster: PlayedCluster, namespace: str
) -> None:
    made = world(cluster, namespace, silent="k-1")
    operator, _ = made.operator()
    operator.look((namespace, "e"))
    assert "got no label dedup.dev/faults=allowed at k-1;" in message(made, "Stalled")
    assert cluster.list("Job", namespace, "") == []
    cluster.patch("Pod", namespace, "k-1", {"metadata": {"labels": {"dedup.dev/faults": "allowed"}}})
    made.run(until=lambda _status: any(made.player.jobs.values()))
    cluster.patch("Pod", namespace, "k-2", {"metadata": {"labels": {"dedup.dev/faults": None}}})
    operator, _ = made.operator()
    operator.look((namespace, "e"))
    assert "got no label dedup.dev/faults=allowed at k-2;" in message(made, "Stalled")
    assert cluster.list("Job", namespace, "dedup.dev/component=run") == []


@pytest.mark.parametrize("component", ["readiness", "run"])
def test_one_that_is_deleted_half_way_is_left_whole_and_goes(
    cluster: PlayedCluster, namespace: str, component: str
) -> None:
    """While the system proves itself, or a run is at work: its Job is stopped, what it made removed, the lock gone."""
    made = world(cluster, namespace)
    made.run(until=lambda _status: bool(cluster.list("Job", namespace, f"dedup.dev/component={component}")))
    made.player.move()
    cluster.delete("DedupExperiment", namespace, "e")
    operator, _ = made.operator()
    removed = False
    for _ in range(LOOKS):
        if cluster.get("DedupExperiment", namespace, "e") is None:
            break
        operator.look((namespace, "e"))
        removed |= bool(cluster.list("Job", namespace, "dedup.dev/component=leftovers"))
        made.player.move()
    assert cluster.get("DedupExperiment", namespace, "e") is None and removed
    assert locks(made) == {}
    assert "LeftBehind" not in dict(made.events())
