"""A cluster of ours whose network enforces NetworkPolicies: a program in its namespaces that writes its node's rules.

`python -m testbed.cluster.enforcing KUBECONFIG STANDING` watches policies, pods and namespaces. Each event is only a
bell: then all of them are read and, if the rules (policies.py) are other ones, written at once. So nothing is missed or
comes in a wrong order. A pod that is new is isolated when its address is known, as in any network: some tenths of a
second after its start.

The rules stand in the cluster's own network namespace, and go with it.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kubernetes.client import ApiClient, ApiException, CoreV1Api, NetworkingV1Api
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from dedup.errors import PlatformError
from dedup_lab.systems import labs
from dedup_lab.systems.labs import Lab
from dedup_runners.waiting import until
from testbed.cluster import packages
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.clusters import Cluster
from testbed.cluster.namespaces import Namespaces
from testbed.cluster.policies import TABLE, Standing, ruleset

CHECKOUT: Final = Path(__file__).parents[2]
PROGRAM: Final = "network-policies"
WATCH_S: Final = 300
AGAIN_S: Final = 0.5
GATHER_S: Final = 0.05
"""How long events are gathered before the rules are made anew."""
READY_S: Final = 60.0
Listing = Callable[..., Any]


@contextmanager
def enforced(cluster: Cluster, folder: Path, standing: Standing = Standing.CUT) -> Iterator[None]:
    """The cluster enforces policies until the block ends; its log is put into `folder`.

    Of one of ours only: another tool's enforces them or does not. PlatformError: the program ended.
    """
    inside = cluster.inside
    assert inside is not None, "another tool's clusters have networks of their own"
    packages.install(packages.POLICIES)
    command = [sys.executable, "-m", "testbed.cluster.enforcing", str(cluster.kubeconfig.resolve()), standing.name]
    with labs.create(folder) as lab:
        lab.start(PROGRAM, inside.entering(command, CHECKOUT))
        try:
            until(lambda: _written(lab, inside), READY_S, "the node has the rules of policies", 0.2)
            yield
            lab.check()
        finally:
            lab.stop()
            if _stands(inside):
                inside.run("nft", "delete", "table", "ip", TABLE)


def _written(lab: Lab, inside: Namespaces) -> bool:
    lab.check()
    return _stands(inside)


def _stands(inside: Namespaces) -> bool:
    try:
        return TABLE in inside.run("nft", "list", "tables")
    except PlatformError:  # the namespaces are gone, and the table with them
        return False


def follow(client: ApiClient, standing: Standing) -> None:
    """Have the rules be what the objects say, for ever."""
    core, bell, written = CoreV1Api(client), threading.Event(), ""
    kinds: tuple[Listing, ...] = (
        NetworkingV1Api(client).list_network_policy_for_all_namespaces,
        core.list_pod_for_all_namespaces,
        core.list_namespace,
    )
    for listing in kinds:
        threading.Thread(target=_ring, args=(listing, bell), daemon=True).start()
    while True:
        bell.clear()
        try:
            policies, pods, namespaces = map(_listed, kinds)
        except (ApiException, HTTPError) as error:
            _again(error)
            continue
        rules = ruleset(policies, pods, namespaces, standing)
        if rules != written:
            subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True, timeout=READY_S)
            written = rules
            print(f"{len(policies)} policies: {rules.count('counter drop')} chains", flush=True)
        bell.wait()
        threading.Event().wait(GATHER_S)


def _listed(listing: Listing) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(listing(_preload_content=False).data)["items"]
    return items


def _ring(listing: Listing, bell: threading.Event) -> None:
    """Ring at every event, and whenever one may have been missed."""
    while True:
        try:
            for _ in Watch().stream(listing, timeout_seconds=WATCH_S, deserialize=False):
                bell.set()
        except (ApiException, HTTPError) as error:
            _again(error)
        bell.set()


def _again(error: Exception) -> None:
    print(f"asked again in {AGAIN_S:g} s: {error}", file=sys.stderr, flush=True)
    threading.Event().wait(AGAIN_S)


if __name__ == "__main__":
    kubeconfig, named = sys.argv[1:]
    with ApiServer(Path(kubeconfig)).client() as ours:
        follow(ours, Standing[named])
