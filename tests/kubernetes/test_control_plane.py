"""A control plane of our own: quick, closed to strangers, a world of its own, and gone without a trace."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import kubernetes
import psutil
import pytest
from testbed.cluster import binaries, control_plane
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.binaries import ETCD, KUBE_APISERVER
from testbed.cluster.control_plane import ControlPlane
from tests.kubernetes import by_hand
from tests.kubernetes.by_hand import gone

from dedup.errors import EnvironmentError_
from dedup_lab.systems import labs
from dedup_lab.systems.ports import listening
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

BOUND_S: Final = 60.0


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    """A cluster that the user names does not stand in for ours here."""
    try:
        control_plane.check_machine()
    except EnvironmentError_ as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, ControlPlane]]:
    """Two control planes side by side."""
    for program in (ETCD, KUBE_APISERVER):
        binaries.find(program)

    def start(stack: ExitStack) -> ControlPlane:
        return stack.enter_context(control_plane.running(tmp_path_factory.mktemp("control-plane")))

    with ExitStack() as stack:
        yield start(stack), start(stack)


@pytest.fixture
def server(both: tuple[ControlPlane, ControlPlane]) -> ApiServer:
    return both[0].api_server


def test_it_is_the_pinned_version(server: ApiServer) -> None:
    with server.client() as client:
        assert kubernetes.client.VersionApi(client).get_code().git_version == KUBE_APISERVER.version == "v1.34.4"


def test_a_namespace_is_created_read_back_and_deleted(server: ApiServer) -> None:
    with server.client() as client:
        core = kubernetes.client.CoreV1Api(client)
        create(core, "story")
        assert core.read_namespace("story").status.phase == "Active"
        core.delete_namespace("story")
        # Emptying it is a controller's work, and there is none: we say in its place that it is done.
        leaving = core.read_namespace("story")
        assert leaving.status.phase == "Terminating"
        leaving.spec.finalizers = []
        core.replace_namespace_finalize("story", leaving)
        assert "story" not in namespaces(server)


@pytest.mark.parametrize("user", [{}, {"token": "guessed"}], ids=["without a token", "with a guessed one"])
def test_only_who_has_the_token_is_let_in(server: ApiServer, tmp_path: Path, user: dict[str, str]) -> None:
    with pytest.raises(kubernetes.client.ApiException) as refused:
        namespaces(seen_by(user, server, tmp_path))
    assert refused.value.status == 401
    assert "default" in namespaces(server)


def test_a_service_account_may_do_what_a_role_lets_it(server: ApiServer, tmp_path: Path) -> None:
    """Its token is accepted, so it is known (not 401); without a role it may do nothing (403)."""
    with server.client() as client:
        core = kubernetes.client.CoreV1Api(client)
        create(core, "robots")
        core.create_namespaced_service_account("robots", {"metadata": {"name": "robot"}})
        asked = core.create_namespaced_service_account_token("robot", "robots", {"spec": {}})
        as_robot = seen_by({"token": asked.status.token}, server, tmp_path)
        with pytest.raises(kubernetes.client.ApiException) as refused:
            namespaces(as_robot)
        assert refused.value.status == 403
        rbac = kubernetes.client.RbacAuthorizationV1Api(client)
        rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}
        rbac.create_cluster_role({"metadata": {"name": "robots"}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "robots"}
        subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "robots"}
        rbac.create_cluster_role_binding({"metadata": {"name": "robots"}, "roleRef": role, "subjects": [subject]})
        until(lambda: allowed(as_robot), BOUND_S, "the binding is in force")


def test_a_watch_hears_what_happens(server: ApiServer) -> None:
    """The way of every operator; an etcd that is too old for this API server breaks it."""
    with server.client() as client:
        core = kubernetes.client.CoreV1Api(client)
        create(core, "heard")
        begun = core.list_namespace().metadata.resource_version
        create(core, "later")
        heard = kubernetes.watch.Watch().stream(
            core.list_namespace, resource_version=begun, allow_watch_bookmarks=True, timeout_seconds=int(BOUND_S)
        )
        assert next((event["type"], event["object"].metadata.name) for event in heard) == ("ADDED", "later")


def test_it_listens_at_one_port_and_two_private_sockets(both: tuple[ControlPlane, ControlPlane]) -> None:
    """Another user of this machine finds nothing but a port that asks for a token."""
    lab = both[0].lab
    etcd, kube_apiserver = (listeners(lab, name) for name in ("etcd", "kube-apiserver"))
    assert etcd == {"clients", "peers"}
    assert len(kube_apiserver) == 1 and kube_apiserver.pop().startswith("127.0.0.1:")
    assert lab.folder.stat().st_mode & 0o077 == 0


def test_two_side_by_side_do_not_see_each_other(both: tuple[ControlPlane, ControlPlane]) -> None:
    one, other = (each.api_server for each in both)
    with one.client() as client:
        create(kubernetes.client.CoreV1Api(client), "mine")
    assert "mine" in namespaces(one)
    assert "mine" not in namespaces(other)


def test_no_proxy_of_the_environment_stands_before_loopback(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert "default" in namespaces(server)


def test_after_the_end_no_process_and_no_folder_is_left(tmp_path: Path) -> None:
    with control_plane.running(tmp_path) as plane:
        pids = processes(plane.lab)
        assert len(pids) == 4, "etcd, kube-apiserver and their keepers"
        with plane.api_server.client() as client:
            port = int(client.configuration.host.rpartition(":")[2])
        assert listening(port)
    assert all(gone(pid) for pid in pids)
    assert not plane.lab.folder.exists()
    assert not listening(port)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["etcd.log", "kube-apiserver.log"], (
        "logs are the caller's"
    )


def test_by_hand_it_comes_up_once_and_goes_down_whole() -> None:
    place = by_hand.place("control-plane")
    try:
        assert f"kubeconfig: {place / 'kubeconfig'}\n" in by_hand.command("up", "control-plane")
        owner = by_hand.owner("control-plane")
        family = [owner, *owner.children(recursive=True)]
        assert len(family) == 5
        assert "ready after" not in by_hand.command("up", "control-plane"), "it was up already"
        assert "default" in namespaces(ApiServer(place / "kubeconfig"))
    finally:
        by_hand.command("down", "control-plane")
    assert not place.exists()
    assert all(gone(process.pid) for process in family)


def test_when_its_owner_is_killed_everything_leaves() -> None:
    try:
        by_hand.command("up", "control-plane")
        owner = by_hand.owner("control-plane")
        family = [owner, *owner.children(recursive=True)]
        etcd = next(process for process in family if process.name() == "etcd")
        lab = Path(etcd.cwd()).parents[1]
        owner.send_signal(signal.SIGKILL)
        until(lambda: all(gone(process.pid) for process in family), BOUND_S, "all five processes are gone")
    finally:
        by_hand.command("down", "control-plane")
    assert not by_hand.place("control-plane").exists()
    assert not lab.exists(), "what a killed owner cannot clear away, the next command does"


def create(core: kubernetes.client.CoreV1Api, namespace: str) -> None:
    core.create_namespace({"metadata": {"name": namespace}})


def namespaces(server: ApiServer) -> set[str]:
    with server.client() as client:
        return {each.metadata.name for each in kubernetes.client.CoreV1Api(client).list_namespace().items}


def seen_by(user: dict[str, str], server: ApiServer, folder: Path) -> ApiServer:
    """The same server, entered by somebody else."""
    kubeconfig = json.loads(server.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = user
    path = folder / "kubeconfig"
    path.write_text(json.dumps(kubeconfig))
    return ApiServer(path)


def allowed(server: ApiServer) -> bool:
    try:
        return bool(namespaces(server))
    except kubernetes.client.ApiException:
        return False


def processes(lab: labs.Lab) -> list[int]:
    """The ids of a lab's programs and of their keepers."""
    statuses = [status for kept in lab.kept.values() if (status := kept.status()) is not None]
    return [pid for status in statuses for pid in (status.pid, status.keeper_pid) if pid is not None]


def listeners(lab: labs.Lab, name: str) -> set[str]:
    """Where a program listens: `address:port`, or what it calls its Unix socket."""
    status = lab.kept[name].status()
    assert status is not None
    found = psutil.Process(status.pid).net_connections("all")
    internet = {f"{each.laddr.ip}:{each.laddr.port}" for each in found if each.status == psutil.CONN_LISTEN}
    return internet | {str(each.laddr) for each in found if each.family == socket.AF_UNIX and each.laddr}
