"""A whole Kubernetes on this machine: a control plane that also acts, and one node that runs pods.

The control plane (control_plane.py) stores and answers. Two clients of the API server act:

- **kube-controller-manager** makes the actual state follow the desired one: pods of a Deployment, endpoints of a
  service, the emptying of a namespace that is deleted;
- **kube-scheduler** binds each new pod to a node;

and a node, on which pods run (nodes.py). Everything lives in one set of namespaces (namespaces.py), so that any number
of clusters run side by side and nothing of one remains. Its other resources on the machine have a number (slots.py).

Each program has a token for the API server, as a user with the rights of Kubernetes' own roles.
"""

import json
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import kubernetes
import tenacity

from dedup.errors import PlatformError
from dedup_lab.caches import Progress, silent
from dedup_lab.systems import labs
from dedup_lab.systems.labs import Lab
from dedup_runners.waiting import until
from testbed.cluster import addons, binaries, certificates, control_plane, images, nodes, packages, slots
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.binaries import (
    ETCD,
    KUBE_APISERVER,
    KUBE_CONTROLLER_MANAGER,
    KUBE_PROXY,
    KUBE_SCHEDULER,
    KUBECTL,
    KUBELET,
)
from testbed.cluster.certificates import Pair
from testbed.cluster.control_plane import User, write_private
from testbed.cluster.namespaces import Namespaces, created
from testbed.cluster.slots import SLOTS, Slot

PROGRAMS: Final = (ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_PROXY, KUBE_SCHEDULER, KUBELET, KUBECTL)
PORT: Final = 6443
KUBECONFIG: Final = "kubeconfig"
PROCESS_1: Final = "process-1"
"""The file beside the kubeconfig file that says the number of the cluster's process 1: by it others can enter too."""
TOLD: Final = "told"
"""The file beside it that names the folder with what a node's programs are told: a second one's are told it, too."""
READY_TIMEOUT_S: Final = 300.0
IMPORT_TIMEOUT_S: Final = 900.0
ADMIN: Final = "admin"
KUBELET_PAIR: Final = "kubelet"
CLIENT_PAIR: Final = "client"
USERS: Final = {
    ADMIN: "system:masters",
    f"system:node:{nodes.NODE}": "system:nodes",
    f"system:node:{nodes.SECOND}": "system:nodes",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "system:kube-proxy": "",
}
"""The users of the API server, and the group of each, if it needs one."""


@dataclass(frozen=True)
class Cluster:
    """A cluster as tests see it: the way in. `inside` is None if another tool started it (kind, k3d)."""

    kubeconfig: Path
    inside: Namespaces | None
    told: Path | None = None
    """Of one of ours: the folder with the certificates and kubeconfig files of a node's programs."""

    @property
    def api_server(self) -> ApiServer:
        """Its API server, with an administrator's rights."""
        return ApiServer(self.kubeconfig)

    def load(self, archive: Path) -> None:
        """Have the node know the images in an OCI archive by their names; at once if it does already.

        Does nothing for another tool's cluster: load images as that tool says (docs/kubernetes.md).
        """
        if self.inside is not None:
            load(self.inside, archive)


class Running(NamedTuple):
    """A cluster of our own while it runs, and its processes."""

    lab: Lab
    cluster: Cluster


def at(kubeconfig: Path) -> Cluster:
    """The cluster of a kubeconfig file, whichever tool started it."""
    try:
        pid = int((kubeconfig.parent / PROCESS_1).read_text(encoding="ascii"))
    except FileNotFoundError:
        return Cluster(kubeconfig, None)
    told = Path((kubeconfig.parent / TOLD).read_text(encoding="utf-8"))
    return Cluster(kubeconfig, Namespaces(pid), told)


def _collected(error: BaseException) -> bool:
    """Whether containerd has collected a layer of an image that is gone, in the moment in which another was to be put
    upon it (containerd#10835). The next import unpacks that layer again.
    """
    return isinstance(error, PlatformError) and "parent snapshot" in str(error) and "does not exist" in str(error)


IMPORTS: Final = tenacity.Retrying(
    stop=tenacity.stop_after_attempt(3), retry=tenacity.retry_if_exception(_collected), reraise=True
)


def load(inside: Namespaces, archive: Path) -> None:
    """Have the node in these namespaces know the images in an OCI archive by their names."""
    if _digests(archive) <= set(_ctr(inside, "images", "list").split()):
        return
    IMPORTS(_ctr, inside, "images", "import", archive)
    if nameless := replaced(_ctr(inside, "images", "list")):
        _ctr(inside, "images", "remove", *nameless)


def _ctr(inside: Namespaces, *argv: str | Path) -> str:
    ctr = (packages.find("ctr"), "--address", nodes.SOCKET, "--namespace", "k8s.io")
    return inside.run(*ctr, *argv, timeout_s=IMPORT_TIMEOUT_S)


def replaced(listing: str) -> list[str]:
    """The images, in what `ctr images list` says, that had a name until another image got it: they are not needed.

    A node also calls each image by the digest of its configuration, and that name stays.
    """
    images = [line.split()[:3] for line in listing.splitlines()[1:]]
    named = {digest for name, _, digest in images if not name.startswith("sha256:")}
    return [name for name, _, digest in images if name.startswith("sha256:") and digest not in named]


def _digests(archive: Path) -> set[str]:
    """The digests of the images in an OCI archive, as its index names them."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None, f"{archive} is an OCI archive"
        return {manifest["digest"] for manifest in json.load(index)["manifests"]}


def check_machine() -> None:
    """EnvironmentError_ when this machine cannot run a cluster."""
    packages.check(packages.CLUSTER)
    if binaries.missing(PROGRAMS):
        binaries.go()


def prepare(progress: Progress = silent, *, bare: bool = False) -> None:
    """Get a cluster's programs and addons. DedupError: a download or a build fails."""
    check_machine()
    packages.install(packages.CLUSTER)
    with ThreadPoolExecutor(1) as beside:
        # The largest image is mostly downloads, and programs are mostly compiled: one need not wait for the other.
        spark = None if bare else beside.submit(images.archive, images.SPARK, progress)
        binaries.find_all(PROGRAMS, progress)
        if spark is not None:
            addons.prepare(progress)
            spark.result()
        images.archive(images.PAUSE, progress)


@contextmanager
def running(folder: Path, progress: Progress = silent, *, bare: bool = False) -> Iterator[Running]:
    """A cluster of its own, its node ready for pods; at the end nothing is left of it but logs.

    Unless it is to be bare, it has the addons (addons/). Its kubeconfig file and logs are put into `folder`, and the
    kubeconfig file is taken away again. Any number of them run side by side. Raises DedupError: something is missing
    that cannot be had, or a process ended (quoting its log).
    """
    prepare(progress, bare=bare)
    with labs.create(folder) as lab, slots.taken() as slot, _machine(lab, slot) as inside:
        cluster = _start(lab, slot, inside)
        if not bare:
            addons.install(cluster, progress)
        try:
            yield Running(lab, _published(cluster, folder))
        finally:
            for name in (KUBECONFIG, PROCESS_1, TOLD):
                (folder / name).unlink(missing_ok=True)


def _published(cluster: Cluster, folder: Path) -> Cluster:
    """The same cluster, by files that others may use. The kubeconfig file comes last, when all is ready."""
    assert cluster.inside is not None
    (folder / PROCESS_1).write_text(f"{cluster.inside.pid}\n", encoding="ascii")
    (folder / TOLD).write_text(str(cluster.told), encoding="utf-8")
    write_private(folder / KUBECONFIG, cluster.kubeconfig.read_text())
    return at(folder / KUBECONFIG)


def _start(lab: Lab, slot: Slot, inside: Namespaces) -> Cluster:
    def run(program: str, argv: Sequence[str]) -> None:
        lab.start(program, [*slot.joining, *inside.entering(argv, lab.data(program))])

    folder, url = lab.data("node"), f"https://{slot.node}:{PORT}"
    addresses = ",".join(f"IP:{each.node}" for each in map(Slot, range(SLOTS)))  # a second node is of another slot
    kubelet = certificates.make(folder, KUBELET_PAIR, f"/CN={nodes.NODE}", f"subjectAltName={addresses}")
    client = certificates.make(
        folder, CLIENT_PAIR, "/O=system:masters/CN=kube-apiserver", "extendedKeyUsage=clientAuth"
    )
    run("containerd", nodes.containerd(folder, slot.images, images.PAUSE.reference))
    users = [User(name, group) for name, group in USERS.items()]
    trusted = control_plane.start(lab, run, url, users, _acting(client, kubelet.certificate))
    configs = {user.name: kubeconfig_of(folder, user.name) for user in users}
    for user in users:
        control_plane.write_kubeconfig(configs[user.name], url, trusted, user)
    run("kube-controller-manager", controller_manager(configs["system:kube-controller-manager"], trusted))
    run("kube-scheduler", scheduler(configs["system:kube-scheduler"]))
    until(lambda: answers(lab, inside), READY_TIMEOUT_S, "containerd answers")
    cluster = Cluster(configs[ADMIN], inside, folder)
    cluster.load(images.archive(images.PAUSE))
    own = configs[f"system:node:{nodes.NODE}"]
    run("kubelet", nodes.kubelet(lab.data("kubelet"), own, slot.node, slot.name, kubelet, client.certificate))
    run("kube-proxy", nodes.kube_proxy(configs["system:kube-proxy"]))
    until(lambda: _ready(lab, cluster.api_server), READY_TIMEOUT_S, "the node is ready for pods")
    return cluster


def kubeconfig_of(folder: Path, user: str) -> Path:
    """Where a user's kubeconfig file lies."""
    return folder / f"{user}.kubeconfig"


def views(lab: Lab, slot: Slot, name: str) -> dict[Path, Path]:
    """What a node sees at paths of the machine: its own name, logs, and folders of programs."""
    hosts = lab.data("node") / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{slot.node} {name}\n", encoding="ascii")
    shared = {Path("/etc/hosts"): hosts, Path("/var/log"): lab.data("var-log")}
    for constant in nodes.CONSTANTS:
        constant.mkdir(parents=True, exist_ok=True)
        shared[constant] = lab.data(str(constant.relative_to("/")).replace("/", "-"))
    return shared


@contextmanager
def _machine(lab: Lab, slot: Slot) -> Iterator[Namespaces]:
    """The machine as the cluster sees it: its name, its logs, and its cable to ours."""
    with created(lab, nodes.NODE, views(lab, slot, nodes.NODE)) as inside:
        slot.connect(inside)
        # The API server calls on services too (webhooks). Without a route, no matter where to, the kernel refuses
        # before it asks the rules of kube-proxy.
        inside.run("ip", "route", "add", control_plane.SERVICE_NETWORK, "dev", "eth0")
        slot.account()
        inside.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        yield inside


def _acting(client: Pair, kubelet: Path) -> list[str]:
    """An API server's further options with nodes: who they are, and how it reaches kubelets."""
    return [
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={client.certificate}",
        f"--kubelet-client-key={client.key}",
        f"--kubelet-certificate-authority={kubelet}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def controller_manager(kubeconfig: Path, trusted: Path) -> list[str]:
    """Each controller with the rights of its own account; pods trust the API server by `trusted`."""
    return [
        str(KUBE_CONTROLLER_MANAGER.path),
        f"--kubeconfig={kubeconfig}",
        f"--root-ca-file={trusted}",
        f"--service-account-private-key-file={trusted.with_suffix('.key')}",
        f"--flex-volume-plugin-dir={kubeconfig.with_name('volume-plugins')}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
    ]


def scheduler(kubeconfig: Path) -> list[str]:
    """It is alone, so that it need not be elected."""
    return [str(KUBE_SCHEDULER.path), f"--kubeconfig={kubeconfig}", "--leader-elect=false"]


def answers(lab: Lab, inside: Namespaces) -> bool:
    """Whether the containerd in these namespaces does, to kubelets too: those end if it knows its pods not yet."""
    lab.check()
    try:
        _ctr(inside, "version")
    except PlatformError:
        return False
    return nodes.ANSWERS_KUBELETS in lab.log("containerd").read_text(encoding="utf-8")


def _ready(lab: Lab, server: ApiServer) -> bool:
    """Whether a pod that is created now will be started: the node takes pods, and they have an account to run as."""
    lab.check()
    with server.client() as client:
        core = kubernetes.client.CoreV1Api(client)
        ready = any(
            condition.type == "Ready" and condition.status == "True"
            for node in core.list_node().items
            for condition in node.status.conditions or []
            if not node.spec.taints
        )
        accounts = core.list_namespaced_service_account("default").items
        return ready and any(account.metadata.name == "default" for account in accounts)
