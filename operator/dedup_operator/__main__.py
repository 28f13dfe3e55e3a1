"""The operator: `python -m dedup_operator --settings FILE (--all-namespaces | --namespace NAME …)`.

It watches DedupExperiments in these namespaces, or everywhere, and takes each from `kubectl apply` to its verdict. The
settings are the administrator's (objects/settings.py); charts of systems lie in the image. There must be one operator
only: its Deployment has one replica, and the old one ends before a new one starts.
"""

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import Final

import kubernetes

from dedup.errors import EXIT_ERROR, DedupError
from dedup_operator.clusters import LiveCluster
from dedup_operator.objects import settings as settings_files
from dedup_operator.reconciliations import Reconciler
from dedup_operator.releases import HelmReleases
from dedup_operator.watching import serve

CHARTS: Final = Path("/usr/local/dedup/charts")
WORKERS: Final = 4
PORT: Final = 8080
HOMES: Final = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")


def client() -> kubernetes.client.ApiClient:
    """Of the cluster that we run in, else of the one that kubectl would ask."""
    configuration = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_incluster_config(client_configuration=configuration)
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config(client_configuration=configuration)
    return kubernetes.client.ApiClient(configuration)


def main() -> int:
    """Serve until a signal; the exit code is 0, or 4 with one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m dedup_operator", description="the operator of DedupExperiments")
    parser.add_argument("--settings", type=Path, required=True, metavar="FILE", help="the administrator's, in YAML")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--namespace", action="append", default=[], metavar="NAME", help="to watch, and again")
    where.add_argument("--all-namespaces", action="store_true", help="watch them all")
    parser.add_argument("--charts", type=Path, default=CHARTS, metavar="FOLDER", help="with kafka and pulsar in it")
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="N", help="experiments looked at at a time")
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help="of /healthz and /metrics")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("pyhelm3").setLevel(logging.WARNING)
    for home in HOMES:
        os.environ.setdefault(home, "/tmp/helm")
    try:
        defaults = settings_files.load_defaults(asked.settings)
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    reconciler = Reconciler(LiveCluster(client()), HelmReleases(asked.charts), defaults)
    serve(reconciler, workers=asked.workers, namespaces=asked.namespace, port=asked.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
