"""The objects of an experiment before a real API server: every key is known, and the pods are of level "restricted".

An API server without nodes runs none of them (test_whole_runs_cluster.py does), but it refuses what it does not
know, and a pod that asks for more than its namespace allows.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import yaml
from kubernetes.client import ApiClient
from testbed.cluster.addons import spark_operator
from testbed.cluster.api_servers import ApiServer
from testbed.requests import Answer, apply, ask, forget

from dedup.experiment.plans import plan
from dedup.experiment.spec import load
from dedup_operator.objects.accounts import accounts
from dedup_operator.objects.names import Owner
from dedup_operator.objects.reports import report_objects
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.verifications import verification
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

WAIT_S: Final = 120
NAMESPACE: Final = f"objects-{uuid4().hex[:8]}"
DEFINITION: Final = "sparkapplications.sparkoperator.k8s.io"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS: Final = {
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "Job": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "SparkApplication": f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{NAMESPACE}/sparkapplications",
}
S3: Final = {"s3": {"bucket": "b", "endpoint": "http://store:9000", "secret": "keys"}}
SETTINGS: Final = Settings.model_validate({"namespace": NAMESPACE, "artifacts": S3})
IDENTITY: Final = {"audience": "store", "role": "arn:aws:iam::123456789012:role/dedup"}
IDENTIFIED: Final = Settings.model_validate(
    {"namespace": NAMESPACE, "artifacts": {"s3": {"bucket": "b", "webIdentity": IDENTITY}}}
)
EXPERIMENT: Final = load(Path(__file__).parents[2] / "examples" / "kafka-vs-pulsar.yaml")
OWNER: Final = Owner(NAMESPACE, EXPERIMENT.name, str(uuid4()))


@pytest.fixture(scope="module")
def client(api_server: ApiServer) -> Iterator[ApiClient]:
    """A client of an API server that knows SparkApplications, and a restricted namespace with our accounts."""
    with api_server.client() as client:
        known, _ = ask(client, "GET", f"{DEFINITIONS}/{DEFINITION}")
        if known == 404:
            file = spark_operator.chart() / "crds" / "sparkoperator.k8s.io_sparkapplications.yaml"
            apply(client, f"{DEFINITIONS}/{DEFINITION}", yaml.safe_load(file.read_text()))
        until(lambda: established(client), WAIT_S, "the definition is established")
        until(lambda: ask(client, "GET", PATHS["SparkApplication"])[0] == 200, WAIT_S, "applications can be listed")
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": NAMESPACE, "labels": labels}
        apply(
            client,
            f"/api/v1/namespaces/{NAMESPACE}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        )
        for each in accounts(OWNER, EXPERIMENT):
            status, said = create(client, each)
            assert status == 201, said
        yield client
        ask(client, "DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        if known == 404:
            forget(client, f"{DEFINITIONS}/{DEFINITION}")


def established(client: ApiClient) -> bool:
    _, definition = ask(client, "GET", f"{DEFINITIONS}/{DEFINITION}")
    said = definition.get("status", {}).get("conditions") or []
    return any((each["type"], each["status"]) == ("Established", "True") for each in said)


def create(client: ApiClient, document: dict[str, Any], **query: str) -> Answer:
    return ask(client, "POST", PATHS[document["kind"]], document, query={"fieldValidation": "Strict", **query})


def pod(job: dict[str, Any]) -> dict[str, Any]:
    """The pod that a Job's controller would make."""
    template = job["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "run"}, "spec": template["spec"]}


@pytest.mark.parametrize("system", ["kafka", "pulsar"])
def test_a_run_is_taken_as_it_is(client: ApiClient, system: str) -> None:
    run = next(run for run in plan(EXPERIMENT) if run.system == system)
    for each in run_objects(OWNER, EXPERIMENT, run, 1, SETTINGS):
        status, said = create(client, each)
        assert status == 201, said


def test_a_runs_pod_is_allowed_in_a_restricted_namespace(client: ApiClient) -> None:
    _, job = run_objects(OWNER, EXPERIMENT, plan(EXPERIMENT)[0], 1, SETTINGS)
    made = pod(job)
    status, said = create(client, made, dryRun="All")
    assert status == 201, said


def test_one_that_asks_for_a_capability_is_not(client: ApiClient) -> None:
    _, job = run_objects(OWNER, EXPERIMENT, plan(EXPERIMENT)[0], 1, SETTINGS)
    made = pod(job)
    made["spec"]["containers"][0]["securityContext"]["capabilities"] = {"add": ["NET_ADMIN"], "drop": ["ALL"]}
    status, said = create(client, made, dryRun="All")
    assert status == 403 and 'violates PodSecurity "restricted' in said["message"]


def test_the_verification_is_taken_as_it_is(client: ApiClient) -> None:
    status, said = create(client, verification(OWNER, EXPERIMENT, SETTINGS))
    assert status == 201, said


def test_a_report_is_taken_as_it_is(client: ApiClient) -> None:
    for each in report_objects(OWNER, SETTINGS, failed=True):
        status, said = create(client, each)
        assert status == 201, said


def test_so_are_pods_that_show_the_store_a_token(client: ApiClient) -> None:
    _, job = run_objects(OWNER, EXPERIMENT, plan(EXPERIMENT)[0], 1, IDENTIFIED)
    another = OWNER._replace(uid=str(uuid4()))
    for each in (pod(job), verification(another, EXPERIMENT, IDENTIFIED)):
        assert '"identity"' in json.dumps(each)
        status, said = create(client, each, dryRun="All")
        assert status == 201, said


def test_one_with_a_key_that_nobody_knows_is_not(client: ApiClient) -> None:
    wrong = verification(OWNER, EXPERIMENT, SETTINGS)
    wrong["spec"]["executors"] = 3
    status, said = create(client, wrong, dryRun="All")
    assert status == 400 and 'unknown field "spec.executors"' in said["message"]
