"""The smallest thing that is a Kubernetes: etcd, which remembers, and kube-apiserver, which answers.

Everything else in a cluster (scheduler, controllers, kubelets) is a client of the API server. Without them it stores,
validates, authorises and notifies, which is all that a custom resource needs; but nobody acts: no pod is started, and
a namespace that is deleted stays `Terminating`, because emptying it is a controller's work.

How the two are put together:

- **etcd** keeps its data in a folder and listens on two Unix sockets in it, one for clients, one for other members (of
  which there are none). The folder is its owner's only, and so is etcd: it needs no password and no certificate.
- **kube-apiserver** listens on one free port of the loopback address. It makes its own certificate; whoever wants to
  trust the server takes it from the kubeconfig file. It signs service-account tokens with that certificate's key.
- **Who may do what**: there is one user, `admin`, known by a random token and a member of `system:masters`; everybody
  else is refused (401). RBAC decides about users that come later, such as service accounts.

Both stand under keepers (dedup_lab.keepers): they leave with the process that started them, however it ends.
"""

import base64
import json
import os
import secrets
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
from tests.kubernetes.cluster import binaries
from tests.kubernetes.cluster.api_servers import ApiServer
from tests.kubernetes.cluster.binaries import ETCD, KUBE_APISERVER

from dedup.errors import EnvironmentError_
from dedup_lab import labs
from dedup_lab.caches import Progress, silent
from dedup_lab.jvms import with_free_ports
from dedup_lab.labs import Lab
from dedup_lab.ports import free
from dedup_runners.waiting import until

READY_TIMEOUT_S: Final = 60.0
ASK_TIMEOUT_S: Final = 5.0
SERVICE_NETWORK: Final = "10.96.0.0/16"
"""Where services get their addresses from. No packet is ever sent there: nobody here makes services work."""
CLIENTS: Final = "clients"
"""The socket in etcd's folder at which it answers."""
SOCKET_PATH_BYTES: Final = 107


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


@contextmanager
def running(folder: Path, progress: Progress = silent) -> Iterator[ControlPlane]:
    """A control plane of its own, ready to answer; at the end nothing is left of it but logs.

    Its kubeconfig file and logs are put into `folder`, and the kubeconfig file is taken away again. Any number of them
    run side by side. Raises DedupError: no Go, a build that fails, or a process that ended (quoting its log).
    """
    check_machine()
    programs = {program: binaries.find(program, progress) for program in (ETCD, KUBE_APISERVER)}
    with labs.open_lab(folder) as lab:
        progress(f"start Kubernetes {KUBE_APISERVER.version}", 0, 1)
        kubeconfig = folder / "kubeconfig"
        try:
            with_free_ports(lab, lambda: _start(lab, programs[ETCD], programs[KUBE_APISERVER], kubeconfig))
            progress(f"start Kubernetes {KUBE_APISERVER.version}", 1, 1)
            yield ControlPlane(lab, ApiServer(kubeconfig))
        finally:
            kubeconfig.unlink(missing_ok=True)


def _start(lab: Lab, etcd: Path, kube_apiserver: Path, kubeconfig: Path) -> None:
    (port,) = free(1)
    token = secrets.token_urlsafe(32)
    memory, folder = lab.data("etcd"), lab.data("kube-apiserver")
    lab.start("etcd", [str(etcd), *etcd_flags(memory)])
    # It waits for etcd by itself.
    lab.start("kube-apiserver", [str(kube_apiserver), *apiserver_flags(folder, memory, port, token)])
    url = f"https://127.0.0.1:{port}"
    certificate = folder / "apiserver.crt"
    until(lambda: _ready(lab, url, certificate, token), READY_TIMEOUT_S, f"the API server at {url} is ready")
    _write_private(kubeconfig, json.dumps(kubeconfig_of(url, certificate.read_bytes(), token), indent=2))


def etcd_flags(folder: Path) -> list[str]:
    """One member, alone, that stands in `folder`. Its data die with it, so it need not wait for the disk."""
    return [
        f"--data-dir={folder / 'data'}",
        # Of the peers' URL etcd takes what stands where a host would, so a socket's name works and a path does not.
        f"--listen-client-urls=unix://{CLIENTS}",
        "--listen-peer-urls=unix://peers",
        # What it would tell clients that ask where its members are. It must be an address; ours do not ask.
        "--advertise-client-urls=http://localhost:2379",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver_flags(folder: Path, etcd: Path, port: int, token: str) -> list[str]:
    """Loopback only, nobody anonymous, one token; certificate and keys are made by the server in `folder`."""
    tokens = folder / "tokens.csv"
    _write_private(tokens, f"{token},admin,admin,system:masters\n")
    return [
        f"--etcd-servers={_socket(etcd / CLIENTS)}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        # Nothing is told of this server as a service: the service's endpoint may not be a loopback address.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        f"--cert-dir={folder}",
        f"--token-auth-file={tokens}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={folder / 'apiserver.key'}",
        f"--service-account-key-file={folder / 'apiserver.key'}",
    ]


def _socket(path: Path) -> str:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise EnvironmentError_(
            where="cache folder",
            got=f"one so deep that a socket in it would be {path}",
            rule=f"the path of a Unix socket has at most {SOCKET_PATH_BYTES} bytes",
            todo="name a shorter folder in DEDUP_CACHE",
        )
    return f"unix://{path}"


def _ready(lab: Lab, url: str, certificate: Path, token: str) -> bool:
    lab.check()
    try:
        trusted = ssl.create_default_context(cafile=str(certificate))
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{url}/readyz", headers=headers, verify=trusted, timeout=ASK_TIMEOUT_S, trust_env=False)
    except (FileNotFoundError, ssl.SSLError, httpx.TransportError):  # no certificate yet, half of it, or no server
        return False
    return answer.status_code == httpx.codes.OK


def kubeconfig_of(url: str, certificate: bytes, token: str) -> dict[str, Any]:
    """A kubeconfig file with one cluster, one user and one context; JSON is YAML too."""
    name = "control-plane"
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(certificate).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    }


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; it appears complete."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
