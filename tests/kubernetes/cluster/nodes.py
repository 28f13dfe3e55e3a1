"""What makes a machine a node of a cluster: containerd, a kubelet and kube-proxy.

- **containerd** keeps images and makes containers of them (by runc). It gives each pod a cable of its own to the node,
  by the CNI plugin `ptp`: whatever a pod sends passes the node's routing, where services are made.
- **kubelet** watches the API server for pods that are bound to its node, has containerd start them, and tells how they
  are. The API server in turn asks it for logs and for `exec`: each knows the other by one certificate (certificates.py).
- **kube-proxy** watches services and writes iptables rules that turn a service's address into that of one of its pods.

All three find the API server by a kubeconfig file, and stand in namespaces of the cluster's own (namespaces.py).
"""

import json
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from tests.kubernetes.cluster import packages
from tests.kubernetes.cluster.certificates import Pair

NODE: Final = "node"
POD_NETWORK: Final = "10.244.0.0/16"
DNS_SERVICE: Final = IPv4Address("10.96.0.10")
"""Where pods ask for names: the address that the cluster's DNS, when there is one, has to take."""
SOCKET: Final = Path("/run/containerd/containerd.sock")
CNI: Final = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni",
                "ranges": [[{"subnet": POD_NETWORK}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}


def containerd_config(folder: Path, images: Path, pause: str) -> Path:
    """Write containerd's configuration to `folder`; `pause` is the image that holds a pod's namespaces."""
    cni = folder / "cni"
    cni.mkdir()
    (cni / "pods.conflist").write_text(json.dumps(CNI, indent=2), encoding="utf-8")
    config = folder / "config.toml"
    config.write_text(
        f"""version = 2
root = "{images}"
state = "{SOCKET.parent}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# A container may not get a better score than containerd has: only CAP_SYS_RESOURCE could give it, and not all have that.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{packages.cni_folder()}"
conf_dir = "{cni}"
""",
        encoding="utf-8",
    )
    return config


def kubelet_config(folder: Path, cgroup: str, server: Pair, client: Path) -> Path:
    """Write a kubelet's configuration to `folder`: its pods' cgroup, its certificate, and the client it obeys."""
    names = folder / "resolv.conf"
    names.write_text("", encoding="ascii")
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(client)}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(server.certificate),
        "tlsPrivateKeyFile": str(server.key),
        "clusterDNS": [str(DNS_SERVICE)],
        "clusterDomain": "cluster.local",
        "resolvConf": str(names),
        "cgroupRoot": f"/{cgroup}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        # A node whose disk is fuller than a kubelet likes would throw images away and refuse pods: here it is a
        # developer's disk, and what lies on it is no concern of the cluster's.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi"},
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return path


def kubelet_flags(folder: Path, config: Path, kubeconfig: Path, address: IPv4Address) -> list[str]:
    """Volumes and the kubelet's own notes are kept in `folder`."""
    return [
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={folder}",
        f"--hostname-override={NODE}",
        f"--node-ip={address}",
    ]


def kube_proxy_flags(kubeconfig: Path) -> list[str]:
    """Rules for services; limits of connection tracking, which are the whole machine's, are left alone."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NODE}",
        f"--cluster-cidr={POD_NETWORK}",
        "--proxy-mode=iptables",
        "--conntrack-max-per-core=0",
    ]
