"""A cable between two clusters of ours, by which the pods of one reach the API server of the other.

Clusters stand in namespaces of their own and do not meet (namespaces.py). The cable is one more pair of interfaces, an
end in each; over it lead two routes, to the nodes' addresses and to nothing else. Both have pods of the same addresses,
so what pods send over it goes under their node's address. It goes with either cluster.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from testbed.cluster.clusters import Cluster
from testbed.cluster.namespaces import run

INTERFACE: Final = "cable"


def lay(one: Cluster, other: Cluster) -> None:
    """Join two clusters of ours. Each may have one cable."""
    assert one.inside is not None and other.inside is not None, "another tool's clusters have networks of their own"
    run(*_pair(one.inside.pid, other.inside.pid))
    for here, there in ((one, other), (other, one)):
        assert here.inside is not None
        here.inside.run("ip", "link", "set", INTERFACE, "up")
        here.inside.run("ip", "route", "add", f"{address(there)}/32", "dev", INTERFACE, "src", address(here))
        here.inside.run(*_as_the_node(address(here)))


def address(cluster: Cluster) -> str:
    """Of its node, and of its API server."""
    with cluster.api_server.client() as client:
        host: str | None = urlsplit(client.configuration.host).hostname
    assert host is not None
    return host


def _pair(one: int, other: int) -> Sequence[str]:
    first = ["ip", "link", "add", INTERFACE, "netns", str(one), "type", "veth"]
    return [*first, "peer", "name", INTERFACE, "netns", str(other)]


def _as_the_node(node: str) -> Sequence[str]:
    pods = ["iptables", "--wait", "--table", "nat", "--append", "POSTROUTING", "--out-interface", INTERFACE]
    return [*pods, "--jump", "SNAT", "--to-source", node]
