"""A cluster of our own: its pods run and find each other, another lives beside it, and it is gone without a trace."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import psutil
import pytest
from kubernetes.client import ApiClient, CoreV1Api
from testbed import pods
from testbed.cluster import clusters
from testbed.cluster.addons import busybox
from testbed.cluster.clusters import Cluster
from tests.kubernetes import by_hand
from tests.kubernetes.residue import Machine, Trace

from dedup.errors import EnvironmentError_
from dedup_lab.systems.labs import Lab
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

BOUND_S: Final = 180.0
TIMES: Final = 5
SAME_ADDRESS: Final = "10.96.77.77"
ITS_OWN: Final = ("containerd", "etcd", "kube-apiserver", "kube-controller", "kube-proxy", "kube-scheduler", "kubelet")
"""Its programs, as the kernel calls them."""
CONTROLLED: Final = (
    "for each in /proc/[0-9]*; do read -r name <$each/comm && echo $name $(grep -c /control$ $each/cgroup); done; true"
)
SAFE: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.fixture
def client(cluster: Cluster) -> Iterator[ApiClient]:
    cluster.load(busybox.archive())
    with cluster.api_server.client() as client:
        yield client


@pytest.fixture
def namespace(client: ApiClient) -> Iterator[str]:
    """A namespace as strict as those in which systems under test are installed."""
    name = f"dedup-test-{uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    CoreV1Api(client).create_namespace({"metadata": {"name": name, "labels": labels}})
    account = f"the account of {name}"
    until(lambda: CoreV1Api(client).list_namespaced_service_account(name).items, BOUND_S, account)
    yield name
    CoreV1Api(client).delete_namespace(name)


@pytest.fixture(scope="module")
def machine() -> None:
    """A cluster that the user names does not stand in for ours here."""
    try:
        clusters.check_machine()
    except EnvironmentError_ as error:
        pytest.skip(str(error))


def pod(name: str, script: str) -> dict[str, Any]:
    """A pod that runs a shell script."""
    container = {"name": "main", "image": busybox.IMAGE, "command": ["/bin/sh", "-c", script], "securityContext": SAFE}
    identity = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "securityContext": identity,
            "containers": [container],
        },
    }


def serving(word: str) -> str:
    """A script that answers every connection at port 8080 with a word."""
    return f"while true; do echo {word} | busybox nc -l -p 8080; done"


def asking(address: str) -> str:
    """A script that prints what is answered at port 80 of an address, once it is."""
    return f"busybox timeout {BOUND_S:.0f} sh -c 'until busybox nc {address} 80 | busybox grep .; do :; done'"


def phase(client: ApiClient, namespace: str, name: str) -> str:
    return str(CoreV1Api(client).read_namespaced_pod(name, namespace).status.phase)


def finished(client: ApiClient, namespace: str, name: str) -> str:
    """Wait for a pod's good end; its log."""
    until(lambda: phase(client, namespace, name) == "Succeeded", BOUND_S, f"pod {name} has succeeded")
    return str(CoreV1Api(client).read_namespaced_pod_log(name, namespace))


def test_a_pod_runs_to_its_end_and_its_log_can_be_read(client: ApiClient, namespace: str) -> None:
    CoreV1Api(client).create_namespaced_pod(namespace, pod("hello", "echo hello from a pod"))
    assert finished(client, namespace, "hello") == "hello from a pod\n"


def test_one_that_fails_says_how(client: ApiClient, namespace: str) -> None:
    CoreV1Api(client).create_namespaced_pod(namespace, pod("bad", "exit 3"))
    until(lambda: phase(client, namespace, "bad") == "Failed", BOUND_S, "the pod has failed")
    assert pods.container(client, namespace, "bad", "main").state.terminated.exit_code == 3


def test_pods_leave_its_own_programs_a_share_of_the_processor(cluster: Cluster) -> None:
    if cluster.inside is None:
        pytest.skip("another tool's cluster has its programs where that tool puts them")
    said = [line.split() for line in cluster.inside.run("sh", "-c", CONTROLLED).splitlines()]
    own = {line[0] for line in said if line[1:] == ["1"]}
    assert set(ITS_OWN) <= own
    assert "pause" in {line[0] for line in said} - own, "pods have theirs"


def test_commands_run_in_a_pod(client: ApiClient, namespace: str) -> None:
    CoreV1Api(client).create_namespaced_pod(namespace, pod("server", serving("served")))
    until(lambda: phase(client, namespace, "server") == "Running", BOUND_S, "the pod runs")
    assert pods.execute(client, namespace, "server", "main", ["sh", "-c", "echo $HOSTNAME"]) == "server\n"
    with pytest.raises(pods.Failed, match="7"):
        pods.execute(client, namespace, "server", "main", ["sh", "-c", "exit 7"])


def test_a_service_leads_to_its_pod_from_other_pods_and_from_itself(client: ApiClient, namespace: str) -> None:
    address = served(client, namespace, "server", "served")
    CoreV1Api(client).create_namespaced_pod(namespace, pod("client", asking(address)))
    assert finished(client, namespace, "client") == "served\n"
    assert pods.execute(client, namespace, "server", "main", ["sh", "-c", asking(address)]) == "served\n"


def served(client: ApiClient, namespace: str, name: str, word: str, address: str | None = None) -> str:
    """A pod that serves a word and a service before it; the service's address."""
    core = CoreV1Api(client)
    core.create_namespaced_pod(namespace, pod(name, serving(word)))
    ports = [{"port": 80, "targetPort": 8080}]
    spec = {"selector": {"app": name}, "ports": ports} | ({"clusterIP": address} if address else {})
    service = core.create_namespaced_service(namespace, {"metadata": {"name": name}, "spec": spec})
    until(lambda: pods.ready(client, namespace, f"app={name}") == 1, BOUND_S, f"pod {name} is ready")
    return str(service.spec.cluster_ip)


def test_a_namespace_that_is_deleted_goes(client: ApiClient) -> None:
    core, name = CoreV1Api(client), f"dedup-test-{uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    core.create_namespaced_config_map(name, {"metadata": {"name": "full"}})
    core.delete_namespace(name)
    gone = {"field_selector": f"metadata.name={name}"}
    until(lambda: not core.list_namespace(**gone).items, BOUND_S, "the namespace is gone")


def test_the_kubelet_obeys_the_api_server_only(client: ApiClient, cluster: Cluster) -> None:
    if cluster.inside is None:
        pytest.skip("it is about our own kubelet")
    (node,) = CoreV1Api(client).list_node().items
    address = next(each.address for each in node.status.addresses if each.type == "InternalIP")
    answer = httpx.get(f"https://{address}:10250/pods", verify=False, trust_env=False, timeout=BOUND_S)
    assert answer.status_code == httpx.codes.UNAUTHORIZED


@pytest.mark.usefixtures("machine")
def test_two_side_by_side_do_not_meet(tmp_path: Path) -> None:
    """The same address of a service leads to each one's own pod."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with (
        clusters.running(tmp_path / "one", bare=True) as one,
        clusters.running(tmp_path / "other", bare=True) as other,
    ):
        for word, each in (("one", one.cluster), ("other", other.cluster)):
            each.load(busybox.archive())
            with each.api_server.client() as client:
                served(client, "default", "server", word, SAME_ADDRESS)
        for word, each in (("one", one.cluster), ("other", other.cluster)):
            with each.api_server.client() as client:
                said = pods.execute(client, "default", "server", "main", ["sh", "-c", asking(SAME_ADDRESS)])
                assert said == f"{word}\n"


@pytest.mark.usefixtures("machine")
def test_five_times_up_and_down_leave_nothing(tmp_path: Path) -> None:
    before = Machine.now()
    for time in range(TIMES):
        folder = tmp_path / str(time)
        folder.mkdir()
        with clusters.running(folder, bare=True) as ours:
            ours.cluster.load(busybox.archive())
            with ours.cluster.api_server.client() as client:
                served(client, "default", "server", "served")
            trace = Trace(ours.cluster.kubeconfig, keepers(ours.lab))
            assert len(trace.left()) > len(trace.pids) > 16, "there is something that could be left"
            lab = ours.lab.folder
        assert trace.left() == []
        assert not lab.exists()
        assert {path.suffix for path in folder.iterdir()} == {".log"}
    assert Machine.now() == before


def keepers(lab: Lab) -> list[psutil.Process]:
    statuses = [status for kept in lab.kept.values() if (status := kept.status())]
    return [psutil.Process(status.keeper_pid) for status in statuses]


@pytest.mark.usefixtures("machine")
def test_one_whose_owner_is_killed_is_gone_after_the_next_command() -> None:
    before = Machine.now()
    try:
        by_hand.command("up", "cluster")
        owner = by_hand.owner("cluster")
        trace = Trace(by_hand.place("cluster") / "kubeconfig", [owner])
        owner.send_signal(signal.SIGKILL)
        owner.wait(BOUND_S)
    finally:
        by_hand.command("down", "cluster")
    until(lambda: not trace.left(), BOUND_S, "the last process has ended")
    assert not by_hand.place("cluster").exists()
    assert Machine.now() == before


@pytest.mark.usefixtures("machine")
def test_it_goes_whole_even_if_its_keepers_are_killed_too() -> None:
    """Nobody is left who knows of it; what it wrote down is enough."""
    try:
        by_hand.command("up", "cluster")
        owner = by_hand.owner("cluster")
        trace = Trace(by_hand.place("cluster") / "kubeconfig", [owner])
        owner.suspend()  # none of them sees another go
        for process in (*owner.children(), owner):
            process.kill()
    finally:
        by_hand.command("down", "cluster")
    until(lambda: not trace.left(), BOUND_S, "the last process has ended")
