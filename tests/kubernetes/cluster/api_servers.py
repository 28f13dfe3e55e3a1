"""A Kubernetes API server as tests see it: a kubeconfig file, and clients made from it.

It does not tell whether the server is one that we started or one that `DEDUP_TEST_KUBECONFIG` names.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import kubernetes

VARIABLE: Final = "DEDUP_TEST_KUBECONFIG"


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
        if urlsplit(configuration.host).hostname == "127.0.0.1":
            configuration.proxy = None  # as in kubectl: no HTTPS_PROXY leads to this host's own loopback
        return kubernetes.client.ApiClient(configuration)


def named() -> ApiServer | None:
    """The server that the user wants the tests to use; None: they start their own."""
    kubeconfig = os.environ.get(VARIABLE)
    return ApiServer(Path(kubeconfig).expanduser()) if kubeconfig else None
