"""What a drain, an autoscaler and the end of an experiment do to systems' pods and claims: the three charts alike."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes.client import ApiClient
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import CHARTS, Helm, Values
from testbed.played import PlayedCluster, namespace_on
from testbed.requests import ask
from tests.kubernetes.charts import pods_of

from dedup_operator.objects.pods import STAYS

pytestmark = pytest.mark.kubernetes

SYSTEMS: Final = ("kafka", "pulsar", "strimzi-kafka")
OWNER: Final = {"owner": {"name": "e", "uid": "6f1c0000-0000-4000-8000-000000000000"}}
CLAIMS: Final[Values] = {"storage": {"type": "PersistentVolume", "size": "1Gi"}}
GOES: Final = {"whenDeleted": "Delete", "whenScaled": "Retain"}
BUDGETS: Final = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


def rendered(chart: str, folder: Path, values: Values) -> list[dict[str, Any]]:
    return Helm(CHARTS / chart, "k", "lab", folder).render(values)


def kept_pods(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The templates of pods that an experiment cannot lose."""
    for each in objects:
        match each["kind"]:
            case "StatefulSet":
                yield each["spec"]["template"]["metadata"]
            case "KafkaNodePool":
                yield each["spec"]["template"]["pod"]["metadata"]


def budgets(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The bounds that Kubernetes is told, or that Strimzi tells it."""
    ours = [each["spec"] for each in objects if each["kind"] == "PodDisruptionBudget"]
    kafkas = [each["spec"]["kafka"] for each in objects if each["kind"] == "Kafka"]
    return ours + [each["template"]["podDisruptionBudget"] for each in kafkas if "template" in each]


@pytest.mark.parametrize("chart", SYSTEMS)
def test_pods_of_a_system_are_not_moved_unless_the_administrator_allows_it(chart: str, tmp_path: Path) -> None:
    refused, allowed = (rendered(chart, tmp_path, {"evictions": each}) for each in ("Refused", "Allowed"))
    assert refused == rendered(chart, tmp_path, {})
    kept = list(kept_pods(refused))
    assert kept and len(kept) == len(list(kept_pods(allowed)))
    for meta in kept:
        assert meta["annotations"].items() >= STAYS.items()
    assert {each["maxUnavailable"] for each in budgets(refused)} == {0}
    assert not any(STAYS.keys() & (meta.get("annotations") or {}).keys() for meta in kept_pods(allowed))
    assert budgets(allowed) == []


@pytest.mark.parametrize("chart", SYSTEMS)
def test_values_of_a_release_before_this_setting_refuse_evictions_too(chart: str, tmp_path: Path) -> None:
    """`helm upgrade --reuse-values` leaves out what is new; `null` takes a default away, which is the same."""
    assert rendered(chart, tmp_path, {"evictions": None}) == rendered(chart, tmp_path, {})


@pytest.mark.parametrize("chart", ["kafka", "pulsar"])
def test_each_of_its_pods_has_one_budget(chart: str, tmp_path: Path) -> None:
    objects = rendered(chart, tmp_path, {})
    chosen = [each["selector"]["matchLabels"].items() for each in budgets(objects)]
    kept = list(kept_pods(objects))
    assert kept
    for meta in kept:
        assert sum(each <= meta["labels"].items() for each in chosen) == 1


@pytest.mark.parametrize("chart", ["kafka", "pulsar"])
def test_claims_of_an_experiments_system_go_with_it_and_those_of_a_person_stay(chart: str, tmp_path: Path) -> None:
    for values, policy in (({**CLAIMS, **OWNER}, GOES), (CLAIMS, None)):
        sets = [each["spec"] for each in rendered(chart, tmp_path, values) if each["kind"] == "StatefulSet"]
        claiming = [each for each in sets if "volumeClaimTemplates" in each]
        assert claiming
        assert all(each.get("persistentVolumeClaimRetentionPolicy") == policy for each in claiming)


def test_strimzi_is_told_the_same(tmp_path: Path) -> None:
    for values, goes in (({**CLAIMS, **OWNER}, True), (CLAIMS, False)):
        (pool,) = [each for each in rendered("strimzi-kafka", tmp_path, values) if each["kind"] == "KafkaNodePool"]
        assert pool["spec"]["storage"]["deleteClaim"] is goes


@pytest.fixture
def client(api_server: ApiServer) -> Iterator[ApiClient]:
    with api_server.client() as made:
        yield made


def test_a_drain_is_refused_and_a_deletion_is_not(client: ApiClient, tmp_path: Path) -> None:
    """The operator deletes, and so does the fault podDelete: neither asks a budget."""
    with namespace_on(PlayedCluster(client)) as namespace:
        objects = rendered("kafka", tmp_path, {})
        (budget,) = [each for each in objects if each["kind"] == "PodDisruptionBudget"]
        pod, path = (
            next(pods_of(each for each in objects if each["kind"] == "StatefulSet")),
            f"/api/v1/namespaces/{namespace}/pods",
        )
        assert ask(client, "POST", path, pod)[0] == 201
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        live = ask(client, "GET", f"{path}/k-0")[1]
        assert ask(client, "PUT", f"{path}/k-0/status", {**live, "status": running})[0] == 200
        code, made = ask(client, "POST", BUDGETS.format(namespace), budget)
        assert code == 201
        counted = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        counted["observedGeneration"] = 1  # as its controller would
        where = f"{BUDGETS.format(namespace)}/{budget['metadata']['name']}/status"
        assert ask(client, "PUT", where, {**made, "status": counted})[0] == 200
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "k-0"}}
        code, said = ask(client, "POST", f"{path}/k-0/eviction", eviction)
        assert (code, "disruption budget" in said["message"]) == (429, True)
        assert ask(client, "DELETE", f"{path}/k-0")[0] == 200
