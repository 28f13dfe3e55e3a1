"""A whole Kubernetes on this machine: a control plane that also acts, and one node that runs pods.

To what stores and answers (control_plane.py) come the two that act, both mere clients of the API server:

- **kube-controller-manager** makes what is follow what was asked for: pods of a Deployment, endpoints of a service, the
  emptying of a namespace that is deleted;
- **kube-scheduler** binds each new pod to a node;

and a node, on which pods run (nodes.py). Everything lives in one set of namespaces (namespaces.py), so that any number
of clusters run side by side and each leaves whole. What it takes of the machine besides has a number (slots.py).

Everyone comes to the API server with a token, as a user to whom Kubernetes' own roles give what its part needs.
"""

import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import kubernetes
from tests.kubernetes.cluster import binaries, certificates, control_plane, nodes, packages, slots
from tests.kubernetes.cluster.api_servers import ApiServer
from tests.kubernetes.cluster.binaries import (
    ETCD,
    KUBE_APISERVER,
    KUBE_CONTROLLER_MANAGER,
    KUBE_PROXY,
    KUBE_SCHEDULER,
    KUBELET,
)
from tests.kubernetes.cluster.control_plane import User
from tests.kubernetes.cluster.namespaces import Namespaces, create
from tests.kubernetes.cluster.slots import Slot

from dedup_lab import labs
from dedup_lab.caches import Progress, silent
from dedup_lab.labs import Lab
from dedup_runners.waiting import until

PROGRAMS: Final = (ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_PROXY, KUBE_SCHEDULER, KUBELET)
PORT: Final = 6443
NODE_TIMEOUT_S: Final = 60.0
IMPORT_TIMEOUT_S: Final = 300.0
ADMIN: Final = "admin"
USERS: Final = {
    ADMIN: "system:masters",
    f"system:node:{nodes.NODE}": "system:nodes",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "system:kube-proxy": "",
}
"""Who comes to the API server, and the group of each. Their roles are Kubernetes' own."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs: the way in."""

    kubeconfig: Path
    inside: Namespaces

    @property
    def api_server(self) -> ApiServer:
        """Its API server, with an administrator's rights."""
        return ApiServer(self.kubeconfig)

    def load(self, archive: Path) -> None:
        """Have the node know the image in an OCI archive by its name; at once if it does already."""
        if _digests(archive) <= set(self._ctr("images", "list").split()):
            return
        self._ctr("images", "import", str(archive), timeout_s=IMPORT_TIMEOUT_S)

    def _ctr(self, *argv: str, timeout_s: float = IMPORT_TIMEOUT_S) -> str:
        return self.inside.run("ctr", "--address", nodes.SOCKET, "--namespace", "k8s.io", *argv, timeout_s=timeout_s)


def check_machine() -> None:
    """EnvironmentError_ when this machine cannot run a cluster."""
    packages.check(packages.CLUSTER)
    if binaries.missing(PROGRAMS):
        binaries.go()


@contextmanager
def running(folder: Path, progress: Progress = silent) -> Iterator[Cluster]:
    """A cluster of its own, its node ready for pods; at the end nothing is left of it but logs.

    Its kubeconfig file and logs are put into `folder`, and the kubeconfig file is taken away again. Any number of them
    run side by side. Raises DedupError: something is missing that cannot be had, or a process ended (quoting its log).
    """
    check_machine()
    packages.install(packages.CLUSTER)
    binaries.find_all(PROGRAMS, progress)
    with labs.open_lab(folder) as lab, slots.taken() as slot:
        kubeconfig = folder / "kubeconfig"
        try:
            progress(f"start a cluster of Kubernetes {KUBELET.version}", 0, 1)
            cluster = Cluster(kubeconfig, _machine(lab, slot))
            _start(lab, slot, cluster)
            progress(f"start a cluster of Kubernetes {KUBELET.version}", 1, 1)
            yield cluster
        finally:
            lab.stop()  # before the slot is given back: what is in its cgroups has to be gone
            kubeconfig.unlink(missing_ok=True)


def _machine(lab: Lab, slot: Slot) -> Namespaces:
    """The node's own view of this machine: its network, its logs, its name."""
    hosts = lab.data("node") / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{slot.node} {nodes.NODE}\n", encoding="ascii")
    inside = create(lab, nodes.NODE, {Path("/etc/hosts"): hosts, Path("/var/log"): lab.data("var-log")})
    slot.connect(inside)
    inside.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    return inside


def _start(lab: Lab, slot: Slot, cluster: Cluster) -> None:
    def run(name: str, argv: Sequence[str]) -> None:
        lab.start(name, cluster.inside.entering(argv, lab.data(name)))

    folder = lab.data("node")
    address = f"IP:{slot.node}"
    kubelet = certificates.make(folder, "kubelet", f"/CN={nodes.NODE}", f"subjectAltName={address}")
    server = certificates.make(folder, "server", "/O=system:masters/CN=kube-apiserver", "extendedKeyUsage=clientAuth")

    containerd = nodes.containerd_config(folder, slot.images, PAUSE)
    run("containerd", [packages.find("containerd"), f"--config={containerd}"])

    users = {name: User(name, group) for name, group in USERS.items()}
    url = f"https://{slot.node}:{PORT}"
    certificate = control_plane.start(lab, run, url, [*users.values()], _acting(kubelet, server))
    configs = {name: folder / f"{name.replace(':', '-')}.kubeconfig" for name in users}
    for name, user in users.items():
        control_plane.write_kubeconfig(configs[name], url, certificate, user)
    control_plane.write_kubeconfig(cluster.kubeconfig, url, certificate, users[ADMIN])

    manager, scheduler = configs["system:kube-controller-manager"], configs["system:kube-scheduler"]
    key = certificate.with_suffix(".key")
    run("kube-controller-manager", [str(KUBE_CONTROLLER_MANAGER.path), *controller_manager_flags(manager, certificate, key)])
    run("kube-scheduler", [str(KUBE_SCHEDULER.path), f"--kubeconfig={scheduler}", "--leader-elect=false"])

    cluster.wait_containerd...
    own = configs[f"system:node:{nodes.NODE}"]
    config = nodes.kubelet_config(folder, slot.name, kubelet, server.certificate)
    run("kubelet", [str(KUBELET.path), *nodes.kubelet_flags(lab.data("kubelet"), config, own, slot.node)])
    run("kube-proxy", [str(KUBE_PROXY.path), *nodes.kube_proxy_flags(configs["system:kube-proxy"])])
    until(lambda: _ready(lab, cluster), NODE_TIMEOUT_S, "the cluster's node is ready")
