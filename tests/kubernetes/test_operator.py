"""The operator before a real API server, which says what it thinks of every object and of every status.

No pod runs: the player of testbed/worlds.py does what the controllers would, by the same API. Requests break in
every way that testbed/campaign knows; which ones is chosen by a seed that is among the closing lines (DEDUP_SEED
chooses others, and `make campaign` tries them all).
"""

import base64
import datetime
import gc
import gzip
import json
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import kopf
import pytest
from testbed.campaign import points
from testbed.campaign.courses import Course
from testbed.campaign.stories import SHORT, STORIES
from testbed.cluster import binaries
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import Helm
from testbed.played import DEFINITIONS, PlayedCluster, namespace_on, playing
from testbed.requests import ask, known, try_to_apply
from testbed.specs import changed
from testbed.strimzi.definitions import definitions
from testbed.worlds import SETTINGS, Player, World
from tests.operator.test_crashes_events import broken_often, chance_of, looked_at_any_moment
from tests.operator.test_fences import calm, stood_still
from tests.operator.test_leases import Party, passes
from tests.operator.test_reconciliations import SMALL
from tests.operator.test_stories import CALM

from dedup.experiment.spec import parse
from dedup_operator import reconciliations
from dedup_operator.admissions import Key
from dedup_operator.clusters import PLACES, Conflict, Forbidden, Object, UnknownKind, path_of
from dedup_operator.leases import DURATION_S, Alone
from dedup_operator.metrics import Metrics
from dedup_operator.objects.names import EXECUTION, Owner, execution_of
from dedup_operator.objects.snapshots import snapshot_name
from dedup_operator.objects.systems import endpoints
from dedup_operator.queues import WorkQueue
from dedup_operator.reconciliations import LOOK_AGAIN_S, REMAINS, Reconciler
from dedup_operator.releases import HelmReleases
from dedup_operator.retentions import KINDS
from dedup_operator.schema import crd
from dedup_operator.watching import registry, work
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

WAIT_S: Final = 60
DUELS: Final = 4
SAMPLE: Final = 4
"""Each is an experiment from beginning to end."""
ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer) -> Iterator[PlayedCluster]:
    with playing(api_server) as made:
        yield made


@pytest.fixture
def namespace(cluster: PlayedCluster) -> Iterator[str]:
    with namespace_on(cluster) as made:
        yield made


def applied(cluster: PlayedCluster, namespace: str, *changes: tuple[str, Any]) -> World:
    world = World(cluster, namespace)
    world.apply(changed(*SMALL, *changes))
    return world


@pytest.mark.smoke
def test_an_experiment_goes_from_apply_to_its_verdict(cluster: PlayedCluster, namespace: str) -> None:
    world = applied(cluster, namespace)
    assert not world.run()
    status = world.status()
    assert (status["phase"], status["verdict"], status["progress"]) == ("Finished", "Pass", "2/2 runs")
    assert world.condition("Finished") == ("True", "Pass")
    assert world.orphans() == []
    assert world.events() == CALM


def test_a_second_apply_of_the_same_file_changes_nothing(cluster: PlayedCluster, namespace: str) -> None:
    """Server-side and without force: before the operator has seen the first, while it works, and when all is over."""
    document, path = changed(*SMALL), path_of(crd.KIND, namespace, "e")
    assert try_to_apply(cluster.client, path, document, force=False)[0] == 201
    world = World(cluster, namespace)
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: world.run(until=lambda status: status.get("progress") == "1/2 runs"),
        world.run,
    ]
    for step in steps:
        step()
        before = world.live()
        assert try_to_apply(cluster.client, path, document, force=False) == (200, before)
    assert before["status"]["verdict"] == "Pass"


@pytest.mark.parametrize("group", ["/apis/nothing.dedup.dev/v1", "/apis/batch/v1"])
def test_a_kind_that_nobody_installed_is_not_an_object_that_is_not_there(
    cluster: PlayedCluster, namespace: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACES, "Nothing", (group, "nothings"))
    made = {"apiVersion": group, "kind": "Nothing", "metadata": {"name": "a", "namespace": namespace}}
    with pytest.raises(UnknownKind):
        cluster.get("Nothing", namespace, "a")
    with pytest.raises(UnknownKind):
        cluster.list("Nothing", namespace, "")
    with pytest.raises(UnknownKind):
        cluster.create(made)
    assert cluster.get("SparkApplication", namespace, "a") is cluster.get("Job", namespace, "a") is None


def test_whatever_breaks_the_end_is_that_of_a_calm_course(cluster: PlayedCluster, tell: Callable[[str], None]) -> None:
    """And the calm course is the fake cluster's: what is tried there by the thousand holds for an API server too."""
    calms = {story.name: points.calm(story) for story in STORIES}
    every = [point for calm in calms.values() for point in points.points_of(calm, points.EVERYWHERE)]
    chosen = points.sampled(every, SAMPLE)
    for point in chosen:
        with namespace_on(cluster) as namespace:
            outcome = points.tried_on(cluster, namespace, point, calms[point.story.name])
        assert outcome.good, f"{point}: {outcome.why}"
    tell(f"{len(chosen)} of {len(every)} points, seed {points.seed()}")


@pytest.mark.parametrize("course", [looked_at_any_moment, broken_often])
def test_looks_at_any_moment_and_many_breaks_at_once_lead_there_too(
    cluster: PlayedCluster, namespace: str, course: Callable[[Course, random.Random], None]
) -> None:
    course(Course.of(SHORT, cluster, namespace), chance_of(0))


def test_of_two_operators_who_stands_still_writes_nothing_when_it_wakes(
    cluster: PlayedCluster, tell: Callable[[str], None]
) -> None:
    """Their clocks are ten minutes apart; the other one has the lease meanwhile, and takes all to its end."""
    world, moments = calm()
    chosen = points.sampled(range(1, moments + 1), DUELS)
    for moment in chosen:
        with namespace_on(cluster) as namespace:
            duel = stood_still(moment, world=applied(cluster, namespace))
            assert duel.out_of_turn == [], moment
            assert duel.ended_well(world), moment
    tell(f"{len(chosen)} of {moments} moments, seed {points.seed()}")


def test_a_day_after_a_pass_nothing_is_left_but_the_snapshot(cluster: PlayedCluster, namespace: str) -> None:
    world = applied(cluster, namespace)
    world.run()
    world.now_s += 24 * 3600
    world.run()
    owner = Owner(namespace, "e", world.live()["metadata"]["uid"])
    left = [made for kind in KINDS for made in cluster.list(kind, namespace, f"{EXECUTION}={execution_of(owner)}")]
    assert [made["metadata"]["name"] for made in left] == [snapshot_name(owner)]
    assert world.status()["verdict"] == "Pass"


def test_a_write_of_somebody_else_is_seen(cluster: PlayedCluster, namespace: str) -> None:
    """The API server refuses a status that was made from an old reading, and nothing is begun on it."""
    world = applied(cluster, namespace)
    old = world.live()
    cluster.patch("DedupExperiment", namespace, "e", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        cluster.replace_status({**old, "status": {"phase": "Pending"}})


def test_of_two_operators_one_holds_the_lease(cluster: PlayedCluster, namespace: str) -> None:
    """The API server takes the record as we write it, and keeps who read an older one from writing over it."""
    one, two = (Party(cluster, name, namespace=namespace) for name in ("one", "two"))
    for each in (one, two):
        each.lease.ask()
    assert one.lease.held() and not two.lease.held()
    old = cluster.get("Lease", namespace, "op")
    assert old is not None
    passes(1.0, one, two)
    one.lease.ask()
    taken = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "spec": {"holderIdentity": "three"}}
    with pytest.raises(Conflict):
        cluster.patch("Lease", namespace, "op", taken)
    two.lease.ask()
    passes(DURATION_S, one, two)
    two.lease.ask()
    assert two.lease.held() and not one.lease.held()
    two.lease.close()
    two.lease.release()
    one.lease.ask()
    assert one.lease.held()
    assert abs(cluster.now() - datetime.datetime.now(datetime.UTC).timestamp()) < WAIT_S


@pytest.fixture
def helm(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HelmReleases:
    """The real Helm with the real charts."""
    for home in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        monkeypatch.setenv(home, str(tmp_path))
    return HelmReleases(ROOT / "charts", helm=str(binaries.find(binaries.HELM)), kubeconfig=api_server.kubeconfig)


def looks(world: World, helm: HelmReleases, until: Callable[[], bool] = lambda: False) -> list[str]:
    """Look again and again, to the end or until then. What was without an owner between two looks."""
    operator = Reconciler(world.cluster, helm, SETTINGS, namespaces=[world.namespace])
    orphans: list[str] = []
    for _ in range(200):
        again_s = operator.look((world.namespace, "e"))
        if again_s is None or again_s > LOOK_AGAIN_S or until():
            break
        if again_s > 0:
            orphans += world.orphans()
            world.player.move()
            for made in world.cluster.list("Deployment", world.namespace, ""):
                replicas = made["spec"]["replicas"]
                there = {"observedGeneration": made["metadata"]["generation"], "replicas": replicas}
                world.cluster.set_status(made, {**there, "readyReplicas": replicas, "updatedReplicas": replicas})
    return orphans


def test_helm_installs_a_system_that_goes_with_its_experiment(
    cluster: PlayedCluster, namespace: str, helm: HelmReleases
) -> None:
    """From the operator's own hand to the end of the system."""
    world = applied(cluster, namespace, ("spec/systems", [{"name": "kafka", "kafka": {}}, {"name": "p", "pulsar": {}}]))
    assert looks(world, helm) == []
    assert world.status()["verdict"] == "Pass"
    assert cluster.list("StatefulSet", namespace, "") == cluster.list("Secret", namespace, "owner=helm") == []


@pytest.mark.parametrize("state", ["pending-install", "pending-upgrade", "uninstalling", "failed"])
def test_a_release_that_a_crash_left_half_done_is_made_again(
    cluster: PlayedCluster, namespace: str, helm: HelmReleases, state: str
) -> None:
    """Helm itself says that another operation is in progress, and installs nothing over a pending release."""
    world = applied(cluster, namespace)
    looks(world, helm, until=lambda: bool(cluster.list("Job", namespace, "dedup.dev/component=readiness")))
    (secret,) = cluster.list("Secret", namespace, "owner=helm")
    left_half_done(cluster, secret, state)
    (first,) = cluster.list("StatefulSet", namespace, "")
    orphans = looks(world, helm, until=lambda: any(world.player.jobs.values()))
    (again,) = cluster.list("StatefulSet", namespace, "")
    assert first["metadata"]["uid"] != again["metadata"]["uid"]
    assert looks(world, helm) == orphans == []
    assert world.status()["verdict"] == "Pass"
    assert cluster.list("Secret", namespace, "owner=helm") == []


def test_what_helm_may_not_make_yet_stalls_and_is_made_when_it_may(
    cluster: PlayedCluster, namespace: str, helm: HelmReleases
) -> None:
    """Here by a quota; the API server says of a missing right what it says of that. Nothing would stay behind."""
    none, path = {"count/statefulsets.apps": "0"}, f"/api/v1/namespaces/{namespace}/resourcequotas"
    code, quota = ask(cluster.client, "POST", path, {"metadata": {"name": "none"}, "spec": {"hard": none}})
    assert code == 201
    counted = {**quota, "status": {"hard": none, "used": none}}  # which a controller would have found out
    assert ask(cluster.client, "PUT", f"{path}/none/status", counted)[0] == 200
    world = applied(cluster, namespace)
    for _ in range(2):
        with pytest.raises(Forbidden, match=r"(?s)^helm: .* is forbidden: "):
            looks(world, helm)
        assert world.condition("Stalled") == ("True", "Stalled")
        (secret,) = cluster.list("Secret", namespace, "owner=helm")
        assert (secret["metadata"]["labels"]["status"], world.orphans()) == ("failed", [])
    ask(cluster.client, "DELETE", f"{path}/none")
    assert looks(world, helm) == []
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)


def test_a_record_of_helms_goes_with_an_experiment_that_was_deleted_meanwhile(
    cluster: PlayedCluster, namespace: str, helm: HelmReleases
) -> None:
    """As if Helm, and the operator with it, had ended before anybody said whose it is."""
    world = applied(cluster, namespace)
    looks(world, helm, until=lambda: bool(cluster.list("StatefulSet", namespace, "")))
    (secret,) = cluster.list("Secret", namespace, "owner=helm")
    cluster.patch("Secret", namespace, secret["metadata"]["name"], {"metadata": {"ownerReferences": None}})
    operator = Reconciler(cluster, helm, SETTINGS, namespaces=[namespace])
    operator.look(REMAINS)
    assert cluster.list("Secret", namespace, "owner=helm")
    cluster.delete("DedupExperiment", namespace, "e")
    operator.look(REMAINS)
    assert cluster.list("Secret", namespace, "owner=helm") == []


def left_half_done(cluster: PlayedCluster, secret: Object, state: str) -> None:
    """Helm's record as Helm has it before it has done what it began: the label, and the release in it."""
    rewritten(cluster, secret, lambda record: record["info"].update(status=state))
    change = {"metadata": {"labels": {"status": state}}}
    cluster.patch("Secret", secret["metadata"]["namespace"], secret["metadata"]["name"], change)


def rewritten(cluster: PlayedCluster, secret: Object, change: Callable[[Object], None]) -> None:
    """Helm's record with another release in it."""
    record = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    change(record)
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(record).encode()))).decode()
    meta = secret["metadata"]
    cluster.patch("Secret", meta["namespace"], meta["name"], {"data": {"release": packed}})


TREASURE: Final = {"apiVersion": "v1", "kind": "ConfigMap"}
FOREIGN: Final = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n"


def forge(record: Object, theirs: str) -> None:
    """Let a release consist of somebody else's ConfigMap, and make another one before it is deleted."""
    hook = {"name": "made", "kind": "ConfigMap", "path": "t", "events": ["pre-delete"], "last_run": {}, "weight": 0}
    made = FOREIGN.format(name="made", namespace=theirs)
    record.update(manifest=FOREIGN.format(name="treasure", namespace=theirs), hooks=[{**hook, "manifest": made}])


@pytest.mark.parametrize("whose", ["ours", "helm's"])
def test_what_a_forged_record_says_is_not_done(
    cluster: PlayedCluster, namespace: str, helm: HelmReleases, api_server: ApiServer, tmp_path: Path, whose: str
) -> None:
    """Whoever may write Secrets in a namespace must not reach another by the operator's rights. Helm would."""
    with namespace_on(cluster) as theirs:
        cluster.create(TREASURE | {"metadata": {"name": "treasure", "namespace": theirs}})
        world = applied(cluster, namespace)
        looks(world, helm, until=lambda: any(world.player.jobs.values()))
        (secret,) = cluster.list("Secret", namespace, "owner=helm")
        rewritten(cluster, secret, lambda record: forge(record, theirs))
        if whose == "ours":
            looks(world, helm)
            assert cluster.list("Secret", namespace, "owner=helm") == []
        else:
            release = secret["metadata"]["labels"]["name"]
            Helm(ROOT / "charts/kafka", release, namespace, tmp_path, api_server.kubeconfig).uninstall()
        found = {name: cluster.get("ConfigMap", theirs, name) is not None for name in ("treasure", "made")}
        assert found == {"treasure": whose == "ours", "made": whose != "ours"}


def test_a_record_that_was_there_first_is_taken_away_unread(
    cluster: PlayedCluster, namespace: str, helm: HelmReleases
) -> None:
    """It has our name and says that it is the experiment's: nothing is done of it, and a system is installed."""
    with namespace_on(cluster) as theirs:
        cluster.create(TREASURE | {"metadata": {"name": "treasure", "namespace": theirs}})
        world = applied(cluster, namespace)
        looks(world, helm, until=lambda: bool(cluster.list("Secret", namespace, "owner=helm")))
        (secret,) = cluster.list("Secret", namespace, "owner=helm")
        rewritten(cluster, secret, lambda record: forge(record, theirs))
        left_half_done(cluster, cluster.list("Secret", namespace, "owner=helm")[0], "failed")
        looks(world, helm)
        assert world.status()["verdict"] == "Pass"
        assert cluster.get("ConfigMap", theirs, "treasure") and not cluster.get("ConfigMap", theirs, "made")


def test_helm_installs_a_kafka_of_strimzis_that_goes_with_its_experiment(
    cluster: PlayedCluster, namespace: str, helm: HelmReleases
) -> None:
    """Strimzi's own definitions; what its operator would say is played."""
    system = {"name": "kafka", "kafka": {}, "deploy": {"chart": "strimzi-kafka"}}
    with ExitStack() as kinds:
        for each in definitions():
            path, listed = f"{DEFINITIONS}/{each['metadata']['name']}", each["spec"]["names"]["plural"]
            if ask(cluster.client, "GET", path)[0] == 404:
                there = f"/apis/kafka.strimzi.io/v1/namespaces/{namespace}/{listed}"
                kinds.enter_context(known(cluster.client, path, each, there))
        world = applied(cluster, namespace, ("spec/systems", [system]))
        world.player.strimzi = ({"type": "Ready", "status": "True"},)
        orphans = looks(world, helm, until=lambda: any(world.player.jobs.values()))
        (kafka,) = cluster.list("Kafka", namespace, "")
        uid = world.live()["metadata"]["uid"]
        assert [each["uid"] for each in kafka["metadata"]["ownerReferences"]] == [uid]
        assert kafka["metadata"]["annotations"]["strimzi.io/pause-reconciliation"] == "true"
        proxies = cluster.get("ConfigMap", namespace, f"{kafka['metadata']['name']}-toxiproxy")
        assert proxies is not None
        upstreams = [each["upstream"] for each in json.loads(proxies["data"]["toxiproxy.json"])]
        (asked,) = parse(changed(*SMALL, ("spec/systems", [system])), source="test").spec.systems
        told = endpoints(asked, kafka["metadata"]["name"], namespace)
        assert [each.replace(":9094", ":9092") for each in upstreams] == told.direct_bootstrap.split(",")
        assert looks(world, helm) == orphans == []
        assert world.status()["verdict"] == "Pass"
        assert cluster.list("Kafka", namespace, "") == cluster.list("Secret", namespace, "owner=helm") == []


def record(namespace: str, uid: str) -> Object:
    """What Helm has written of an installation that was cut short."""
    labels = {"owner": "helm", "dedup.dev/component": "release", "dedup.dev/experiment": "e", "dedup.dev/uid": uid}
    meta = {"name": f"sh.helm.release.v1.d-{uid}.v1", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta}


def test_events_call_the_workers(
    cluster: PlayedCluster, namespace: str, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kopf's watches, the queue and a worker, as the program has them: nobody but events asks to look.

    At the start, and when an experiment is deleted, they have what Helm left of those that are gone taken away.
    """
    cluster.create(record(namespace, "5e3b"))
    world = World(cluster, namespace)
    queue, player = WorkQueue[Key](), Player(cluster, namespace)
    operator, _ = world.operator()
    threading.Thread(target=work, args=(queue, operator, Metrics(), Alone()), daemon=True).start()
    stop = threading.Event()

    def verdict_after_a_move() -> str | None:
        player.move()
        return world.status().get("verdict")

    made = registry(queue)
    watcher = threading.Thread(
        target=lambda: kopf.run(registry=made, standalone=True, namespaces=[namespace], stop_flag=stop), daemon=True
    )
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.setattr(reconciliations, "LOOK_AGAIN_S", 3600.0)
    watcher.start()
    try:
        until(lambda: not cluster.list("Secret", namespace, "owner=helm"), WAIT_S, "the old record is gone", 0.2)
        world.apply(changed(*SMALL))
        until(lambda: verdict_after_a_move() == "Pass", 2 * WAIT_S, "the verdict", 0.2)
        cluster.create(record(namespace, world.live()["metadata"]["uid"]))
        cluster.delete("DedupExperiment", namespace, "e")
        until(lambda: not cluster.list("Secret", namespace, "owner=helm"), WAIT_S, "Helm's records are gone", 0.2)
    finally:
        stop.set()
        watcher.join(WAIT_S)
        queue.close()
        with warnings.catch_warnings():  # kopf's loop may end before its connections do, and they say so when they go
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
