"""The smallest Kubernetes: etcd, which stores, and kube-apiserver, which answers.

Everything else in a cluster (scheduler, controllers, kubelets) is a client of the API server. Without them it stores,
validates, authorises and notifies, which is all that a custom resource needs; but nothing acts: no pod is started, and
a namespace that is deleted stays `Terminating`, because emptying it is a controller's work.

How the two are put together:

- **etcd** keeps its data in a folder and listens on two Unix sockets in it, one for clients, one for other members (of
  which there are none). The folder is its owner's only, and so is etcd: it needs no password and no certificate.
- **kube-apiserver** listens on one free port of the loopback address. It makes its own certificate; clients that trust
  the server take it from the kubeconfig file. It signs service-account tokens with that certificate's key.
- **Who may do what**: there is one user, `admin`, known by a random token and a member of `system:masters`; all others
  are refused (401), but for the two documents by which a store may prove tokens of service accounts: who asks for these
  may be nobody (RBAC decides whether he gets them). RBAC decides about users that come later, such as service accounts.

Both run under keepers (dedup_lab.systems.keepers): they end with the process that started them, however it ends.
"""

import base64
import json
import os
import secrets
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from dedup.errors import EnvironmentError_
from dedup_lab.caches import Progress, silent
from dedup_lab.systems import labs
from dedup_lab.systems.jvms import with_another_try
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import free
from dedup_runners.waiting import until
from testbed.cluster import binaries
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.binaries import ETCD, KUBE_APISERVER

READY_TIMEOUT_S: Final = 300.0
ASK_TIMEOUT_S: Final = 5.0
SERVICE_NETWORK: Final = "10.96.0.0/16"
"""Where services get their addresses from. They lead somewhere only where kube-proxy runs (nodes.py)."""
CLIENTS: Final = "clients"
"""The socket in etcd's folder at which it answers."""
SOCKET_PATH_BYTES: Final = 107


CONTEXT: Final = "dedup-test"
ALONE: Final = (
    "--authorization-mode=RBAC",
    # This server is not published as a service: the service's endpoint may not be a loopback address.
    "--endpoint-reconciler-type=none",
)
"""An API server's further options when only tests use it."""
DISCOVERY: Final = ("/.well-known/openid-configuration", "/openid/v1/jwks")
"""Who issues the tokens of service accounts, and how they are signed."""
AUTHENTICATION: Final = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AuthenticationConfiguration",
    "anonymous": {"enabled": True, "conditions": [{"path": each} for each in DISCOVERY]},
}
Run = Callable[[str, Sequence[str]], object]
"""Starts a program, of a name, by its command line."""


@dataclass(frozen=True)
class User:
    """A user of the API server: a token, and the group that gives the rights."""

    name: str
    group: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


class ControlPlane(NamedTuple):
    """A control plane that runs: its processes and data, and the way in."""

    lab: Lab
    api_server: ApiServer


def check_machine() -> None:
    """EnvironmentError_ when this machine cannot run a control plane."""
    if sys.platform != "linux":
        raise EnvironmentError_(
            where="control plane",
            got=sys.platform,
            rule="etcd and kube-apiserver are run on Linux only",
            todo="name another cluster's kubeconfig file in DEDUP_TEST_KUBECONFIG",
        )
    if not (ETCD.path.exists() and KUBE_APISERVER.path.exists()):
        binaries.go()


def prepare(progress: Progress = silent) -> None:
    """Build a control plane's programs. DedupError: no Go, or a build that fails."""
    check_machine()
    binaries.find_all((ETCD, KUBE_APISERVER), progress)


@contextmanager
def running(folder: Path, progress: Progress = silent, flags: Sequence[str] = ()) -> Iterator[ControlPlane]:
    """A control plane of its own, ready to answer; at the end nothing is left of it but logs.

    The API server gets the `flags` too. Its kubeconfig file and logs are put into `folder`, and the kubeconfig file is
    taken away again. Any number of them run side by side. Raises DedupError: no Go, a build that fails, or a process
    that ended (quoting its log).
    """
    prepare(progress)
    with labs.create(folder) as lab:
        progress(f"start Kubernetes {KUBE_APISERVER.version}", 0, 1)
        kubeconfig = folder / "kubeconfig"
        try:
            with_another_try(lab, lambda: _start(lab, kubeconfig, flags))
            progress(f"start Kubernetes {KUBE_APISERVER.version}", 1, 1)
            yield ControlPlane(lab, ApiServer(kubeconfig))
        finally:
            kubeconfig.unlink(missing_ok=True)


def _start(lab: Lab, kubeconfig: Path, flags: Sequence[str]) -> None:
    (port,) = free(1)
    url, admin = f"https://127.0.0.1:{port}", User("admin", "system:masters")
    write_kubeconfig(kubeconfig, url, start(lab, lab.start, url, [admin], (*ALONE, *flags)), admin)


def start(lab: Lab, run: Run, url: str, users: Sequence[User], flags: Sequence[str]) -> Path:
    """Start etcd and an API server at `url` and wait until that is ready; returns the certificate to trust it by.

    The first of the users must be allowed to ask whether it is ready.
    """
    memory, folder = lab.data("etcd"), lab.data("kube-apiserver")
    run("etcd", [str(ETCD.path), *etcd_flags(memory)])
    # It waits for etcd by itself.
    run("kube-apiserver", [str(KUBE_APISERVER.path), *apiserver_flags(folder, memory, url, users), *flags])
    certificate = folder / "apiserver.crt"
    ready = partial(_ready, lab, url, certificate, users[0].token)
    until(ready, READY_TIMEOUT_S, f"the API server at {url} is ready")
    return certificate


def etcd_flags(folder: Path) -> list[str]:
    """One member, alone, that stands in `folder`. Its data die with it, so it need not wait for the disk."""
    return [
        f"--data-dir={folder / 'data'}",
        # Of the peers' URL etcd takes what stands where a host would, so a socket's name works and a path does not.
        f"--listen-client-urls=unix://{CLIENTS}",
        "--listen-peer-urls=unix://peers",
        # The address that clients get when they ask for its members. It must be valid; ours do not ask.
        "--advertise-client-urls=http://localhost:2379",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver_flags(folder: Path, etcd: Path, url: str, users: Sequence[User]) -> list[str]:
    """One address, known users and nobody else; certificate and keys are made by the server in `folder`."""
    at = urlsplit(url)
    tokens = folder / "tokens.csv"
    write_private(tokens, "".join(f'{user.token},{user.name},{user.name},"{user.group}"\n' for user in users))
    write_private(folder / "authentication.json", json.dumps(AUTHENTICATION))
    return [
        f"--etcd-servers={_socket(etcd / CLIENTS)}",
        f"--bind-address={at.hostname}",
        f"--secure-port={at.port}",
        f"--advertise-address={at.hostname}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        f"--cert-dir={folder}",
        f"--token-auth-file={tokens}",
        f"--authentication-config={folder / 'authentication.json'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={folder / 'apiserver.key'}",
        f"--service-account-key-file={folder / 'apiserver.key'}",
    ]


def _socket(path: Path) -> str:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise EnvironmentError_(
            where="cache folder",
            got=f"a folder so deep that a socket in it would be {path}",
            rule=f"the path of a Unix socket has at most {SOCKET_PATH_BYTES} bytes",
            todo="name a shorter folder in DEDUP_CACHE",
        )
    return f"unix://{path}"


def _ready(lab: Lab, url: str, certificate: Path, token: str) -> bool:
    lab.check()
    try:
        trusted = ssl.create_default_context(cafile=str(certificate))
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(headers=headers, verify=trusted, timeout=ASK_TIMEOUT_S, trust_env=False) as client:
            answers = [client.get(f"{url}{path}") for path in ("/readyz", "/api/v1/namespaces/default")]
    except (FileNotFoundError, ssl.SSLError, httpx.TransportError):  # no certificate yet, half of it, or no server
        return False
    return all(answer.status_code == httpx.codes.OK for answer in answers)


def write_kubeconfig(path: Path, url: str, certificate: Path, user: User) -> None:
    """A kubeconfig file with one cluster, one user and one context, for its owner's eyes only; JSON is YAML too."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(certificate.read_bytes()).decode()}
    context = {"cluster": CONTEXT, "user": user.name}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": CONTEXT, "context": context}],
        "current-context": CONTEXT,
    }
    write_private(path, json.dumps(kubeconfig, indent=2))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; it appears complete."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
