"""The operator: `python -m dedup_operator --settings FILE WHERE LEASE`.

WHERE is nothing for the namespace of its own pod, `--namespace NAME` as often as needed, or `--all-namespaces`. LEASE
is `--lease NAME`, or `--no-lease`. It watches DedupExperiments there, and takes each from `kubectl apply` to its
verdict. The settings are the administrator's (objects/settings.py); charts of systems lie in the image.

Of all operators with one lease one acts and the others wait. Without a lease there must be no other, and nothing sees
to that.
"""

import argparse
import gc
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

import kubernetes

from dedup.errors import EXIT_ERROR, DedupError
from dedup_operator import logs
from dedup_operator.clusters import LiveCluster
from dedup_operator.comparisons.controllers import Comparer
from dedup_operator.comparisons.remotes import connected
from dedup_operator.entries import Accounts
from dedup_operator.fences import FencedCluster, FencedReleases
from dedup_operator.leases import Alone, Holding, Lease
from dedup_operator.locks import Home
from dedup_operator.metrics import Metrics
from dedup_operator.objects import settings as settings_files
from dedup_operator.reconciliations import Reconciler
from dedup_operator.releases import HelmReleases
from dedup_operator.watching import serve

CHARTS: Final = Path("/usr/local/dedup/charts")
SPARE: Final = 12
"""Workers beside those that Helm may keep busy, which takes up to minutes: one for each experiment that has begun."""
MOST_WORKERS: Final = 64
"""More experiments than that may run all the same: a worker has one for the moment of a look."""
PORT: Final = 8080
LEASE_TIMEOUT_S: Final = 5.0
HOMES: Final = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")


def client() -> kubernetes.client.ApiClient:
    """Of the cluster that we run in, else of the one that kubectl would ask."""
    configuration = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_incluster_config(client_configuration=configuration)
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config(client_configuration=configuration)
    # Whoever asks again looks first. The HTTP library would send the same request three times more, and take as long.
    configuration.retries = False
    return kubernetes.client.ApiClient(configuration)


def lease_of(asked: argparse.Namespace, api: kubernetes.client.ApiClient) -> Holding:
    """The lease that was asked for, for a holder whose name no other process has, not even in the same pod."""
    if asked.no_lease:
        return Alone()
    cluster = LiveCluster(api, LEASE_TIMEOUT_S)
    identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid4()}"
    return Lease(cluster, asked.lease_namespace, asked.lease, identity, wall=cluster.now)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line asks for; a wrong one ends the program with code 2."""
    parser = argparse.ArgumentParser(prog="python -m dedup_operator", description="the operator of DedupExperiments")
    parser.add_argument("--settings", type=Path, required=True, metavar="FILE", help="the administrator's, in YAML")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--namespace", action="append", default=[], metavar="NAME", help="to watch, and again; else $POD_NAMESPACE"
    )
    where.add_argument(
        "--all-namespaces", action="store_true", help="watch them all: wants rights that are an administrator's"
    )
    fence = parser.add_mutually_exclusive_group(required=True)
    fence.add_argument("--lease", metavar="NAME", help="of the Lease that all operators share of whom one may act")
    fence.add_argument("--no-lease", action="store_true", help="there is no other operator: you see to it")
    own = os.environ.get("POD_NAMESPACE")
    parser.add_argument("--lease-namespace", default=own, metavar="NAME", help="its namespace; else $POD_NAMESPACE")
    parser.add_argument(
        "--charts", type=Path, default=CHARTS, metavar="FOLDER", help="with the charts of systems in it"
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help=f"experiments looked at at a time; else as many as may run, and {SPARE}",
    )
    parser.add_argument(
        "--comparisons", action="store_true", help="carry out DedupComparisons too: they reach other clusters"
    )
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help="of /healthz, /readyz and /metrics")
    asked = parser.parse_args(words)
    if not asked.namespace and not asked.all_namespaces:
        if not own:
            parser.error("--namespace: got none; it watches its own pod's then; say which, or set POD_NAMESPACE")
        asked.namespace = [own]
    if asked.lease and not asked.lease_namespace:
        parser.error("--lease: got no namespace; a Lease lies in one; say --lease-namespace NAME, or set POD_NAMESPACE")
    return asked


def main() -> int:
    """Serve until a signal; the exit code is 0, or 4 with one line on stderr."""
    asked = arguments()
    logs.configure()
    for chatty in ("pyhelm3", "kopf.objects"):  # each command; and that a handler of an event has succeeded
        logging.getLogger(chatty).setLevel(logging.WARNING)
    for home in HOMES:
        os.environ.setdefault(home, "/tmp/helm")
    try:
        defaults = settings_files.load_defaults(asked.settings)
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    if defaults.allow_faults_on_pods_of_others and asked.all_namespaces and not asked.lease_namespace:
        print(
            "--all-namespaces: got no namespace for the locks of systems; say --lease-namespace NAME", file=sys.stderr
        )
        return EXIT_ERROR
    api = client()
    metrics = Metrics()
    lease = lease_of(asked, api)
    cluster = LiveCluster(api, took=lambda method, seconds: metrics.add("request_seconds", seconds, method))
    entries = Accounts(cluster, api, asked.lease_namespace or "", f"{asked.lease or 'dedup'}-system")
    helm = HelmReleases(asked.charts, held=lease.held, account=entries.kubeconfig)
    releases = FencedReleases(helm, lease.held)
    fenced = FencedCluster(cluster, lease.held)
    locks = Home(asked.lease_namespace or (asked.namespace or [""])[0], f"{asked.lease or 'dedup'}-systems")
    reconciler = Reconciler(fenced, releases, defaults, cluster.now, asked.namespace, metrics, locks)
    workers = asked.workers or min(defaults.concurrent_experiments + SPARE, MOST_WORKERS)
    comparer = Comparer(fenced, connected, cluster.now, lease.held) if asked.comparisons else None
    gc.freeze()  # what there is now stays: to look through its 90,000 objects takes 50 ms, in which no thread goes on
    serve(reconciler, lease, workers=workers, namespaces=asked.namespace, port=asked.port, comparer=comparer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
