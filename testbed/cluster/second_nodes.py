"""A second node of a cluster of ours, which can be lost as a machine is that loses its power.

It has namespaces of its own, as the cluster has (namespaces.py), with a kubelet, containerd and kube-proxy in them, and
a number of its own (slots.py) for cgroups and unpacked images. A cable joins both nodes; each has routes over it to the
other's address and to the other's pods. Only pods that tolerate its taint come to it.

To lose it is to kill its process 1: the kernel kills every other at that moment, and nothing is said to anybody. What
is sent to it from then on is swallowed, since a machine without power does not refuse either.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kubernetes.client import ApiException, CoreV1Api

from dedup_lab.systems import labs
from dedup_lab.systems.labs import Lab
from dedup_runners.waiting import until
from testbed.cluster import certificates, clusters, control_plane, images, nodes, slots
from testbed.cluster.clusters import CLIENT_PAIR, KUBELET_PAIR, READY_TIMEOUT_S, Cluster, kubeconfig_of
from testbed.cluster.namespaces import Namespaces, created, run
from testbed.cluster.slots import Slot

CABLE: Final = "node-2"
"""The interface at either end."""
TAINT: Final = {"key": "dedup.dev/second-node", "effect": "NoSchedule"}
HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True)
class SecondNode:
    """The node while it is part of the cluster."""

    cluster: Cluster
    inside: Namespaces
    slot: Slot
    name: str = nodes.SECOND

    def load(self, archive: Path) -> None:
        """Have it know the images in an OCI archive; at once if it does already."""
        clusters.load(self.inside, archive)

    def ready(self) -> str:
        """What the cluster says of it: True, False, Unknown; nothing if it has none."""
        with self.cluster.api_server.client() as client:
            found = CoreV1Api(client).list_node(field_selector=f"metadata.name={self.name}").items
            said = (each for node in found for each in node.status.conditions or () if each.type == "Ready")
            return next((str(each.status) for each in said), "")

    def lose(self) -> None:
        """Its programs and pods are gone at once, and nobody answers at its addresses."""
        assert self.cluster.inside is not None
        for network in networks(self.slot):
            self.cluster.inside.run("ip", "route", "replace", "blackhole", network, "metric", "1")
        os.kill(self.inside.pid, signal.SIGKILL)


def networks(slot: Slot) -> tuple[str, str]:
    """The second node's own address, and those of its pods."""
    return f"{slot.node}/32", nodes.POD_NETWORKS[nodes.SECOND]


@contextmanager
def joined(cluster: Cluster, folder: Path) -> Iterator[SecondNode]:
    """The node, ready for pods; its logs are put into `folder`. At the end it and the objects of its pods are gone."""
    assert cluster.inside is not None and cluster.told is not None, "another tool's clusters have nodes of their own"
    with labs.create(folder) as lab, slots.taken() as slot:
        views = clusters.views(lab, slot, nodes.SECOND)
        try:
            with created(lab, nodes.SECOND, views) as inside:
                node = SecondNode(cluster, inside, slot)
                slot.account()
                _join(node)
                _start(lab, node, cluster.told)
                yield node
        finally:
            _forget(cluster, slot)


def _join(node: SecondNode) -> None:
    """Lay the cable, with routes at both ends."""
    first, second = node.cluster.inside, node.inside
    assert first is not None
    ends = ("netns", str(first.pid), "type", "veth", "peer", "name", CABLE, "netns", str(second.pid))
    run("ip", "link", "add", CABLE, *ends)
    there = _address(node.cluster)
    own, pods = networks(node.slot)
    second.run("ip", "address", "add", own, "dev", CABLE)
    for here in (first, second):
        here.run("ip", "link", "set", CABLE, "up")
    for here, source, other, theirs in (
        (first, there, str(node.slot.node), pods),
        (second, str(node.slot.node), there, nodes.POD_NETWORKS[nodes.NODE]),
    ):
        here.run("ip", "route", "add", f"{other}/32", "dev", CABLE, "src", source)
        here.run("ip", "route", "add", theirs, "via", other, "dev", CABLE, "src", source, "onlink")
    second.run("ip", "route", "add", control_plane.SERVICE_NETWORK, "dev", CABLE)  # no matter where to (clusters.py)
    second.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")


def _address(cluster: Cluster) -> str:
    with cluster.api_server.client() as client:
        host: str | None = urlsplit(client.configuration.host).hostname
    assert host is not None
    return host


def _start(lab: Lab, node: SecondNode, told: Path) -> None:
    """Start what makes it a node, and wait until it takes pods."""

    def begin(program: str, argv: list[str]) -> None:
        lab.start(program, [*node.slot.joining, *node.inside.entering(argv, lab.data(program))])

    begin("containerd", nodes.containerd(lab.data("node"), node.slot.images, images.PAUSE.reference, node.name))
    until(lambda: clusters.answers(lab, node.inside), READY_TIMEOUT_S, "the second node's containerd answers")
    node.load(images.archive(images.PAUSE))
    own, client = (certificates.made(told, name) for name in (KUBELET_PAIR, CLIENT_PAIR))
    kubeconfig = kubeconfig_of(told, f"system:node:{node.name}")
    begin(
        "kubelet",
        nodes.kubelet(
            lab.data("kubelet"),
            kubeconfig,
            node.slot.node,
            node.slot.name,
            own,
            client.certificate,
            name=node.name,
            taints=[TAINT],
        ),
    )
    begin("kube-proxy", nodes.kube_proxy(kubeconfig_of(told, "system:kube-proxy"), node.name))

    def ready() -> bool:
        lab.check()
        return node.ready() == "True"

    until(ready, READY_TIMEOUT_S, "the second node is ready for pods", 0.2)


def _forget(cluster: Cluster, slot: Slot) -> None:
    """Take its object away and those of its pods, of which nobody would say that they have ended."""
    assert cluster.inside is not None
    with cluster.api_server.client() as client:
        core = CoreV1Api(client)
        with _unless_gone():
            core.delete_node(nodes.SECOND)
        for pod in core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={nodes.SECOND}").items:
            with _unless_gone():
                core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0)
    for network in networks(slot):
        cluster.inside.run("sh", "-c", f"ip route delete blackhole {network} 2>/dev/null || true")


@contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
