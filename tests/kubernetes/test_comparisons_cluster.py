"""Two clusters of packages side by side: a comparison from `kubectl apply` to its table, and nothing left on either.

The hub is the session's cluster; another one, with a control plane and a node of its own, is started beside it. Each
has an operator of its own, a store of its own and, while an experiment runs, brokers of its own. The way between is
made by the commands of docs/compare-clusters.md, as they are there. Meanwhile the hub's operator is killed.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
import pytest
import yaml
from testbed.cluster import api_servers, binaries, cables, clusters
from testbed.cluster.binaries import KUBECTL
from testbed.cluster.clusters import Cluster
from testbed.requests import ask
from tests.kubernetes import operated
from tests.kubernetes.operated import Document, Operated, condition
from tests.lab import harness

from dedup_operator.clusters import path_of
from dedup_operator.schema import comparison_crd, crd
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

PAGE: Final = harness.ROOT / "docs" / "compare-clusters.md"
EXAMPLE: Final = harness.ROOT / "gitops" / "comparison.yaml"
NAME: Final = "here-and-cloud"
MESSAGES: Final = 200_000
RUNS: Final = 2
SEEDS: Final = (42, 43)
OUTCOME_S: Final = 1500.0
LEFT_S: Final = 90.0
GIB: Final = float(1 << 30)


class Pair(NamedTuple):
    """The hub, and the cluster that its kubeconfigs call `cloud`; `folder` has a kubeconfig with both contexts."""

    here: Operated
    cloud: Operated
    folder: Path

    def shell(self, script: str) -> str:
        """What a script of a page prints. It stands where a person would, who may do everything in both clusters."""
        path = f"{Path(binaries.find(KUBECTL)).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "KUBECONFIG": str(self.folder / "both"), "KUBECACHEDIR": str(self.folder / "cache")}
        environment = os.environ | own | api_servers.direct()
        told = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(told, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{script}\n{done.stderr}"
        return done.stdout

    def comparison(self) -> Document | None:
        code, found = ask(self.here.place.client, "GET", path_of(comparison_crd.KIND, self.here.place.namespace, NAME))
        return found if code == 200 else None

    def status(self) -> Document:
        return dict((self.comparison() or {}).get("status", {}))


@pytest.fixture(scope="module")
def pair(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    if cluster.inside is None:
        pytest.skip("a second cluster is joined to one of ours only")
    homes = [tmp_path_factory.mktemp(each) for each in ("another", "here", "cloud", "pair")]
    with clusters.running(homes[0]) as other:
        cables.lay(cluster, other.cluster)
        with (
            operated.at(cluster, homes[1], ("kafka",), comparisons=True) as here,
            operated.at(other.cluster, homes[2], ("kafka",)) as cloud,
        ):
            made = Pair(here, cloud, homes[3])
            (made.folder / "both").write_text(json.dumps(both({"here": here, "cloud": cloud})))
            (made.folder / "gitops").symlink_to(harness.ROOT / "gitops")
            try:
                for block in blocks("cloud.kubeconfig"):
                    made.shell(
                        block.replace("--namespace lab", f"--namespace {cloud.place.namespace}").replace(
                            "--namespace=lab", f"--namespace={cloud.place.namespace}"
                        )
                    )
                yield made
            finally:
                forgotten(made)


def both(sides: dict[str, Operated]) -> Document:
    """A kubeconfig with a context for each, in its namespace; the first is the current one."""
    made: Document = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, side in sides.items():
        own = json.loads(side.place.cluster.kubeconfig.read_text())
        made["clusters"].append({"name": name, "cluster": own["clusters"][0]["cluster"]})
        made["users"].append({"name": name, "user": own["users"][0]["user"]})
        context = {"cluster": name, "user": name, "namespace": side.place.namespace}
        made["contexts"].append({"name": name, "context": context})
    return {**made, "current-context": next(iter(sides))}


def blocks(word: str) -> list[str]:
    """The page's blocks of commands in which there is that word."""
    every = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    found = [text for language, text in every if not language and word in text]
    assert found
    return found


def forgotten(pair: Pair) -> None:
    """A failed test's comparison does not hold its namespace up."""
    path = path_of(comparison_crd.KIND, pair.here.place.namespace, NAME)
    merge = {"Content-Type": "application/merge-patch+json"}
    ask(pair.here.place.client, "DELETE", path)
    ask(pair.here.place.client, "PATCH", path, {"metadata": {"finalizers": None}}, headers=merge)


def document(pair: Pair, seed: int) -> Document:
    """The page's example, smaller, with histories in each cluster's own store and without Spark."""
    made: Document = yaml.safe_load(EXAMPLE.read_text())
    spec, s3 = made["spec"]["template"]["spec"], pair.here.place.settings.artifacts.s3
    assert s3 is not None
    spec["workload"]["messages"] = MESSAGES
    spec |= {"runs": RUNS, "seed": seed, "verification": {"engine": "Local"}}
    store = {"bucket": s3.bucket, "prefix": NAME, "endpoint": s3.endpoint, "secretRef": {"name": s3.secret}}
    spec["artifacts"] = {"s3": store}
    made["spec"]["deadline"] = "30m"
    return made


def experiments(side: Operated) -> list[Document]:
    code, found = ask(side.place.client, "GET", path_of(crd.KIND, side.place.namespace))
    assert code == 200, found
    return list(found["items"])


def compared(pair: Pair, seed: int, tell: Callable[[str], None]) -> Document:
    """Apply it, kill the hub's operator while both run, and wait for the outcome. Its status."""
    began, most = time.monotonic(), 0.0
    (pair.folder / "comparison.yaml").write_text(yaml.safe_dump(document(pair, seed)))
    pair.shell("kubectl apply --server-side --filename comparison.yaml")

    def running() -> bool:
        steps = {each["name"]: each["step"] for each in pair.status().get("clusters", ())}
        return steps == {"here": "Running", "cloud": "Running"}

    until(running, operated.READY_S, "both clusters run it", 1.0)
    tell(f"{NAME}: both run after {time.monotonic() - began:.0f} s")
    operators = f"--namespace={pair.here.namespace} pod --selector={operated.SELECTOR}"
    pair.shell(f"kubectl delete {operators} --wait=false")

    def over() -> bool:
        nonlocal most
        most = max(most, psutil.virtual_memory().total - psutil.virtual_memory().available)
        return condition(pair.status(), "Finished") == "True"

    try:
        until(over, OUTCOME_S, f"{NAME} is Finished", 2.0)
    except Exception as error:
        told = [yaml.safe_dump(pair.status()), pair.here.log(), pair.cloud.log()]
        raise AssertionError("\n".join([str(error), *told])) from None
    status = pair.status()
    tell(
        f"{NAME}, seed {seed}: {status['outcome']} after {time.monotonic() - began:.0f} s; "
        f"the machine had at most {most / GIB:.1f} GiB in use"
    )
    return status


def deleted(pair: Pair, before: tuple[set[str], set[str]], tell: Callable[[str], None]) -> None:
    """Of the comparison, its experiments and all that these made nothing is left in either cluster."""
    began = time.monotonic()
    assert pair.cloud.objects() - before[1], "there is something that could be left"
    pair.shell(f"kubectl delete dedupcmp {NAME} --wait=false")
    until(lambda: pair.comparison() is None, LEFT_S, "the comparison is gone", 1.0)
    assert (pair.here.left(before[0]), pair.cloud.left(before[1])) == (set(), set())
    tell(f"{NAME}: nothing is left in either after {time.monotonic() - began:.0f} s")


@pytest.mark.timeout(len(SEEDS) * 1800)
def test_from_kubectl_apply_to_the_table_and_nothing_left(
    pair: Pair, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    before = (pair.here.objects(), pair.cloud.objects())
    for seed in SEEDS:
        status = compared(pair, seed, tell)
        if status["outcome"] == "NothingWorse" or seed == SEEDS[-1]:
            break
        tell(next(str(each["message"]) for each in status["conditions"] if each["type"] == "Finished"))
        deleted(pair, before, tell)
    assert status["outcome"] == "NothingWorse", yaml.safe_dump(status)
    pair.shell(f"kubectl wait --for=condition=Finished --timeout=10s dedupcmp/{NAME}")
    tell(pair.shell("kubectl get dedupcmp"))
    table = pair.shell(
        f"kubectl get configmap {NAME}-comparison --output go-template='{{{{index .data \"comparison.md\"}}}}'"
    )
    tell(table)
    assert all(each.startswith(f"{RUNS} of {RUNS}") for each in row(table, "effective runs")[1:]), table
    assert row(table, "with copies")[1].startswith(f"{RUNS} of {RUNS}"), table

    code, said, problem = harness.dedup(
        "results", NAME, *pair.here.told(), "--format", "markdown", environment=api_servers.direct()
    )
    assert (code, said.startswith(table.rstrip())) == (0, True), problem

    # One execution of one experiment in each, though the operator that had asked for them was killed.
    folders = {}
    for name, side in (("here", pair.here), ("cloud", pair.cloud)):
        (made,) = experiments(side)
        assert len(made["status"]["history"]) == 1
        folders[name] = side.fetched(made["metadata"]["name"], tmp_path / name)

    # The whole summaries of both stores, compared here, say what the hub says of those that it was told.
    code, said, problem = harness.dedup(
        "compare", *(f"{name}={folder}" for name, folder in folders.items()), "--format", "markdown"
    )
    assert code == 0, problem
    for heading in ("effective runs", "failed", "with copies", "with losses", "messages/s", "longest pause", "verdict"):
        assert rows(said, heading) == rows(table, heading)
    deleted(pair, before, tell)


def rows(table: str, heading: str) -> list[list[str]]:
    """The cells of all rows of that heading, in Markdown: one a variant."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line]
    return [each for each in cells if each[0] == heading]


def row(table: str, heading: str) -> list[str]:
    found: list[Any] = rows(table, heading)
    assert found, table
    return list(found[0])
