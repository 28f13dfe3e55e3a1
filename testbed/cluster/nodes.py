"""What makes a machine a node of a cluster: containerd, a kubelet and kube-proxy.

- **containerd** keeps images and makes containers of them (by runc). It gives each pod a cable of its own to the node,
  by the CNI plugin `ptp`: whatever a pod sends passes the node's routing, where services are made.
- **kubelet** watches the API server for pods that are bound to its node, has containerd start them, and reports their
  status. The API server asks it for logs and for `exec`: each knows the other by a certificate (certificates.py).
- **kube-proxy** watches services and writes iptables rules that turn a service's address into one of its pods'.

Each function here writes what its program reads, and returns the command line that starts it.

All three find the API server by a kubeconfig file, and stand in namespaces of the cluster's own (namespaces.py).
"""

import json
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from testbed.cluster import packages
from testbed.cluster.binaries import KUBE_PROXY, KUBELET
from testbed.cluster.certificates import Pair

NODE: Final = "node"
SECOND: Final = "node-2"
"""A node that may join (second_nodes.py)."""
POD_NETWORK: Final = "10.244.0.0/16"
POD_NETWORKS: Final = {NODE: "10.244.0.0/17", SECOND: "10.244.128.0/17"}
"""Each node's part of it."""
DNS_SERVICE: Final = IPv4Address("10.96.0.10")
"""Where pods ask for names: the address that the cluster's DNS, when there is one, has to take."""
SOCKET: Final = Path("/run/containerd/containerd.sock")
ANSWERS_KUBELETS: Final = "Start streaming server"
"""The last that containerd says when it has read what it kept."""
CONSTANTS: Final = (Path("/var/lib/kubelet"), Path("/var/lib/cni"))
"""Where a kubelet and CNI plugins always write: the cluster has folders of its own at these paths.

Were they the machine's, our kubelet would delete the sockets of another that runs on it.
"""


def cni(pods: str) -> dict[str, Any]:
    """How a pod is wired whose address is one of that network."""
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    wires = [{"type": "ptp", "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": wires}


def containerd(folder: Path, images: Path, pause: str, name: str = NODE) -> list[str]:
    """Images are kept in `images`; `pause` is the one whose only task is to hold a pod's namespaces."""
    plugins = folder / "cni"
    plugins.mkdir()
    (plugins / "pods.conflist").write_text(json.dumps(cni(POD_NETWORKS[name]), indent=2), encoding="utf-8")
    config = folder / "containerd.toml"
    config.write_text(
        f"""version = 2
root = "{images}"
state = "{SOCKET.parent}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt",  # it would make folders below /opt
]

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Only CAP_SYS_RESOURCE could give a container a better score than containerd's own, and a virtual machine may lack it.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{packages.cni_folder()}"
conf_dir = "{plugins}"
""",
        encoding="utf-8",
    )
    return [packages.find("containerd"), f"--config={config}"]


def kubelet(
    folder: Path,
    kubeconfig: Path,
    node: IPv4Address,
    cgroup: str,
    own: Pair,
    client: Path,
    *,
    name: str = NODE,
    taints: Sequence[Mapping[str, str]] = (),
) -> list[str]:
    """Pods' cgroups are made below `cgroup`; it shows its `own` certificate and accepts clients that show `client`.

    Only pods that tolerate its `taints` come to it.
    """
    names = folder / "resolv.conf"
    names.write_text("", encoding="ascii")  # no name server outside of the cluster is used
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(client)}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(own.certificate),
        "tlsPrivateKeyFile": str(own.key),
        "registerWithTaints": [*taints],
        "clusterDNS": [str(DNS_SERVICE)],
        "clusterDomain": "cluster.local",
        "resolvConf": str(names),
        "cgroupRoot": f"/{cgroup}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "volumePluginDir": str(folder / "volume-plugins"),
        # A kubelet with a full disk deletes images and refuses pods. This is a developer's disk, which the cluster
        # must ignore.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi"},
    }
    path = folder / "kubelet.json"
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return [
        str(KUBELET.path),
        f"--config={path}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={folder / 'kubelet'}",
        f"--hostname-override={name}",
        f"--node-ip={node}",
    ]


def kube_proxy(kubeconfig: Path, name: str = NODE) -> list[str]:
    """It leaves alone the limits of connection tracking, which are the whole machine's."""
    return [
        str(KUBE_PROXY.path),
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={name}",
        f"--cluster-cidr={POD_NETWORK}",
        "--proxy-mode=iptables",
        "--conntrack-max-per-core=0",
    ]
