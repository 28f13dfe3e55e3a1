"""A Kubernetes API server as tests see it: a kubeconfig file, and clients made from it.

It hides whether the server is one that we started or one that `DEDUP_TEST_KUBECONFIG` names.
"""

import os
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import kubernetes

from testbed.cluster.slots import CABLES

VARIABLE: Final = "DEDUP_TEST_KUBECONFIG"
NEAR: Final = (IPv4Network("127.0.0.0/8"), CABLES)
"""Addresses of this machine's own."""


@dataclass(frozen=True)
class ApiServer:
    """The server that a kubeconfig file's current context leads to."""

    kubeconfig: Path

    def client(self) -> kubernetes.client.ApiClient:
        """A new client, with the rights of the kubeconfig's user; close it, or use it in a `with`."""
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(
            str(self.kubeconfig), client_configuration=configuration, persist_config=False
        )
        if _near(host := urlsplit(configuration.host).hostname or ""):
            configuration.no_proxy = host  # no HTTPS_PROXY leads to our own loopback, or to a cluster's cable
        return kubernetes.client.ApiClient(configuration)


def _near(host: str) -> bool:
    try:
        return any(ip_address(host) in network for network in NEAR)
    except ValueError:  # a name
        return False


def direct() -> dict[str, str]:
    """The settings by which programs, kubectl say, go past the user's proxy to this machine's own addresses."""
    theirs = os.environ.get("NO_PROXY") or os.environ.get("no_proxy")
    without = ",".join(filter(None, (theirs, *map(str, NEAR))))
    return {"NO_PROXY": without, "no_proxy": without}


def named() -> ApiServer | None:
    """The server that the user wants the tests to use; None: they start their own."""
    kubeconfig = os.environ.get(VARIABLE)
    return ApiServer(Path(kubeconfig).expanduser()) if kubeconfig else None
