"""charts/dedup-operator as Helm renders it and as an API server takes it: no pod is started here.

Most of all: what the operator's account may do is enough for everything that the operator makes, and no more.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import yaml
from kubernetes.client import ApiClient
from kubernetes.utils import create_from_dict
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import CHARTS, Helm, Refused, Values
from testbed.requests import ask, forget
from tests.core.evidences import experiment
from tests.kubernetes.charts import dry_run, named
from tests.operator.test_leases import Party
from tests.operator.test_listed import ENTRY, PULSARS

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup_operator.clusters import LiveCluster
from dedup_operator.objects import systems
from dedup_operator.objects.accounts import accounts, run_account
from dedup_operator.objects.events import event
from dedup_operator.objects.leftovers import leftovers
from dedup_operator.objects.listed import MADE
from dedup_operator.objects.names import Owner
from dedup_operator.objects.readiness import readiness
from dedup_operator.objects.reports import report
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.verifications import verification
from dedup_operator.schema import comparison_crd, crd

pytestmark = pytest.mark.kubernetes

CHART: Final = CHARTS / "dedup-operator"
NAMESPACE: Final = f"dedup-test-{uuid4().hex[:8]}"
ELSEWHERE: Final = f"{NAMESPACE}-other"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.PLURAL}.{crd.GROUP}"
S3: Final = {"bucket": "b", "prefix": "team/x", "endpoint": "http://minio.minio:9000", "region": "eu", "secret": "keys"}
IDENTITY: Final = {"audience": "minio.minio", "role": "arn:minio:iam:::role/reeFDUnitwBRPBk337yQUrnJxO0"}
ON_FAST_NODES: Final = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
PLACED: Final[Values] = {
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ON_FAST_NODES]}}
    },
    "priorityClassName": "tests",
    "annotations": {"team.example/of": "on"},
}
RIGHT: Final = {"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get"]}
VARIANTS: Final[dict[str, Values]] = {
    "as it comes": {},
    "every namespace": {"watch": {"all": True}},
    "two namespaces": {"watch": {"namespaces": [NAMESPACE, ELSEWHERE]}},
    "elsewhere": {
        "registry": "mirror.example:5000/dedup",
        "image": {"tag": "1.0.0", "pullPolicy": "Always"},
        "settings": {
            "artifacts": {"s3": S3},
            "runner": {"memory": "2Gi"},
            "spark": {"executors": 4, "memoryMi": 2048},
            "podTemplate": {"tolerations": [{"key": "tests"}], "imagePullSecrets": [{"name": "mirror"}]},
            "charts": {"kafka": {"heapMiB": 1024}},
            "concurrentExperiments": 9,
            "chaosImages": [{"name": "more", "image": {"repository": "r.example/x", "tag": "1"}, "sha256": ["0" * 64]}],
        },
        "allowPrivilegedFaults": True,
        "allowFaultsOnPodsOfOthers": True,
        "aggregateRoles": False,
        "comparisons": True,
        "podTemplate": {
            "nodeSelector": {"pool": "tools"},
            "tolerations": [{"key": "tools", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "mirror"}],
        },
    },
    "charts of others": {
        "watch": {"namespaces": [NAMESPACE, ELSEWHERE]},
        "settings": {"systems": [{**ENTRY, "objects": [*MADE]}, {**PULSARS, "gives": [RIGHT]}]},
        "chartFiles": "archives",
    },
    "two operators": {"replicas": 2},
    "policies": {
        "watch": {"namespaces": [NAMESPACE, ELSEWHERE]},
        "networkPolicies": {"enabled": True, "metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
    },
    "placed": {
        "replicas": 2,
        "settings": {
            "podTemplate": PLACED,
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "2"}},
        },
        "podTemplate": PLACED,
    },
}
WRONG: Final[list[tuple[Values, str]]] = [
    ({"replicas": 0}, r"/replicas': minimum: got 0, want 1"),
    ({"replicas": 6}, r"/replicas': maximum: got 6, want 5"),
    ({"watch": {"all": True}, "networkPolicies": {"enabled": True}}, r"networkPolicies.enabled: got true beside watch"),
    ({"settings": {"resources": {"limits": {"memory": "1Gi"}}}}, r"additional properties 'memory' not allowed"),
    ({"settings": {"podTemplate": {"affinity": {"node": {}}}}}, r"additional properties 'node' not allowed"),
    ({"registry": "-x"}, r"/registry': '-x' does not match pattern"),
    ({"image": {"command": ["sh"]}}, r"/image': additional properties 'command' not allowed"),
    ({"image": {"tag": ""}}, r"/image/tag': '' does not match pattern"),
    ({"watch": {"namespaces": ["Lab"]}}, r"/watch/namespaces/0': 'Lab' does not match pattern"),
    ({"watch": {"namespaces": ["a"], "all": True}}, r"watch: got all and namespaces"),
    ({"settings": {"artifacts": {"gcs": {}}}}, r"additional properties 'gcs' not allowed"),
    ({"settings": {"artifacts": {"s3": {"secret": "keys"}}}}, r"missing property 'bucket'"),
    ({"settings": {"accountAnnotations": {"a": 1}}}, r"/settings/accountAnnotations/a': got number, want string"),
    ({"image": {"tag": "1.0@sha256:abc"}}, r"/image/tag': '1.0@sha256:abc' does not match pattern"),
    ({"settings": {"artifacts": {"s3": S3, "volume": {"claim": "c"}}}}, r"maxProperties: got 2, want 1"),
    ({"settings": {"artifacts": {"s3": {**S3, "accessKey": "x"}}}}, r"additional properties 'accessKey' not allowed"),
    (
        {"settings": {"artifacts": {"s3": {**S3, "webIdentity": IDENTITY}}}},
        r"settings.artifacts.s3: got secret and webIdentity; a store knows pods by one of them; leave the other out",
    ),
    (
        {"settings": {"artifacts": {"s3": {"bucket": "b", "webIdentity": {"audience": "a"}}}}},
        r"/s3/webIdentity': missing property 'role'",
    ),
    (
        {
            "settings": {
                "artifacts": {"s3": {"bucket": "b", "webIdentity": {**IDENTITY, "role": "administrator-of-all"}}}
            }
        },
        r"/webIdentity/role': 'administrator-of-all' does not match pattern",
    ),
    ({"settings": {"spark": {"executors": 0}}}, r"/settings/spark/executors': minimum: got 0, want 1"),
    (
        {"settings": {"chaosImages": [{"name": "a", "rights": ["Secrets"], "sha256": ["0" * 64]}]}},
        r"rights/0': value must be 'DeleteBroker",
    ),
    ({"settings": {"chaosImages": [{"name": "a", "sha256": ["abc"]}]}}, r"sha256/0': 'abc' does not match pattern"),
    ({"settings": {"chaosImages": [{"name": "a"}]}}, r"missing property 'sha256'"),
    ({"watch": {"all": True}, "settings": {"systems": [ENTRY]}}, r"settings.systems: got entries beside watch.all"),
    ({"settings": {"charts": {"pulsar": {"tls": {"enabled": True}}}}}, r"settings.charts.pulsar.tls: got enabled"),
    ({"settings": {"systems": [{**ENTRY, "name": "kafka"}]}}, r"/systems/0/name': 'not' failed"),
    ({"settings": {"systems": [{**ENTRY, "digest": "sha256:1"}]}}, r"/digest': 'sha256:1' does not match pattern"),
    (
        {"settings": {"systems": [{**ENTRY, "objects": ["ClusterRole"]}]}},
        r"/objects/0': value must be one of 'ConfigMap'",
    ),
    ({"settings": {"systems": [{**ENTRY, "faults": ["partition"]}]}}, r"/faults/0': value must be one of 'killTCP'"),
    ({"settings": {"systems": [{**ENTRY, "command": "sh"}]}}, r"additional properties 'command' not allowed"),
    ({"settings": {"concurrentExperiments": 0}}, r"/settings/concurrentExperiments': minimum: got 0, want 1"),
    ({"metrics": {"port": 80}}, r"/metrics/port': minimum: got 80, want 1,?024"),
    ({"metrics": {"podMonitorLabels": {"a b": "c"}}}, r"/podMonitorLabels': additional properties 'a b' not allowed"),
    ({"metrics": {"podMonitorLabels": {"a": True}}}, r"/metrics/podMonitorLabels/a': got boolean, want string"),
    ({"comparisons": "yes"}, r"/comparisons': got string, want boolean"),
    ({"allowFaultsOnPodsOfOthers": 1}, r"/allowFaultsOnPodsOfOthers': got number, want boolean"),
    ({"allowPrivilegedFaults": "yes"}, r"/allowPrivilegedFaults': got string, want boolean"),
    ({"settings": {"podTemplate": {"hostNetwork": True}}}, r"additional properties 'hostNetwork' not allowed"),
    ({"settings": {"podTemplate": {"tolerations": [{"keys": "a"}]}}}, r"additional properties 'keys' not allowed"),
    ({"podTemplate": {"hostNetwork": True}}, r"/podTemplate': additional properties 'hostNetwork' not allowed"),
]
KILL: Final = {"name": "cut", "at": {"message": 100}}
ORDINARY: Final[list[dict[str, Any]]] = [
    {**KILL, "killTCP": {"duration": "2s"}},
    {**KILL, "name": "gone", "podDelete": {"target": "Leader"}},
    {**KILL, "name": "alone", "partition": {"target": "Leader", "by": "NetworkPolicy", "duration": "5s"}},
]
PRIVILEGED: Final[list[dict[str, Any]]] = [
    {**KILL, "partition": {"target": "Leader", "by": "NetFilter", "duration": "5s"}}
]


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(CHART, "op", NAMESPACE, tmp_path)


@pytest.fixture(scope="module")
def client(api_server: ApiServer) -> Iterator[ApiClient]:
    """A client of an API server with two namespaces; on a cluster of others, a definition that was there stays."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    with api_server.client() as client:
        known, _ = ask(client, "GET", DEFINITION)
        for name in (NAMESPACE, ELSEWHERE):
            ask(client, "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
            ask(client, "POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        yield client
        for name in (NAMESPACE, ELSEWHERE):
            ask(client, "DELETE", f"/api/v1/namespaces/{name}")
        if known == 404:
            forget(client, DEFINITION)


@pytest.fixture
def installed(helm: Helm, client: ApiClient, api_server: ApiServer) -> Iterator[Helm]:
    release = Helm(CHART, "op", NAMESPACE, helm.home, api_server.kubeconfig)
    release.upgrade({"resources": {"requests": {"cpu": "10m"}}})
    yield release
    release.uninstall()


@pytest.fixture
def operator(installed: Helm, api_server: ApiServer) -> Iterator[ApiClient]:
    """A client with the rights of the operator's account."""
    with api_server.client() as client:
        client.set_default_header("Impersonate-User", f"system:serviceaccount:{NAMESPACE}:op")
        yield client


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_the_chart_is_sound(helm: Helm, values: Values) -> None:
    assert "0 chart(s) failed" in helm.lint(values)


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_the_api_server_takes_every_object(helm: Helm, client: ApiClient, values: Values) -> None:
    for each in helm.render(values):
        where = each["metadata"].get("namespace", NAMESPACE)
        dry_run(client, {**each, "metadata": {**each["metadata"], "namespace": where}}, where)


def test_prometheus_operator_is_told_of_its_pod_if_asked(helm: Helm) -> None:
    """No API server of ours has that kind, so nobody but us looks at it."""
    assert not [each for each in helm.render({}) if each["kind"] == "PodMonitor"]
    rendered = helm.render({"metrics": {"podMonitor": True}})
    monitor, pod = named(rendered, "PodMonitor", "op"), named(rendered, "Deployment", "op")["spec"]["template"]
    chosen, (endpoint,) = monitor["spec"]["selector"]["matchLabels"], monitor["spec"]["podMetricsEndpoints"]
    assert chosen and chosen.items() <= pod["metadata"]["labels"].items()
    ports = pod["spec"]["containers"][0]["ports"]
    assert endpoint["path"] == "/metrics" and endpoint["port"] in [each["name"] for each in ports]


def test_a_prometheus_that_selects_by_label_finds_the_pod_monitor(helm: Helm) -> None:
    said = {"release": "prometheus", "team.example/of": "on", "app.kubernetes.io/part-of": "ours"}
    plain, more = (
        named(helm.render({"metrics": {"podMonitor": True, "podMonitorLabels": labels}}), "PodMonitor", "op")
        for labels in ({}, said)
    )
    assert plain["metadata"]["labels"]["app.kubernetes.io/part-of"] == "dedup"
    assert more["metadata"]["labels"] == {**plain["metadata"]["labels"], **said}
    assert more["spec"] == plain["spec"], "which pods are its is not theirs to say"


def test_a_dashboard_and_alerts_are_made_if_asked_as_their_files_have_them(helm: Helm) -> None:
    """What Grafana and Prometheus write in double braces is theirs, and Helm leaves it alone."""
    assert not [each for each in helm.render({}) if each["kind"] == "PrometheusRule" or "dashboard" in str(each)]
    asked = {"dashboard": True, "rules": True, "rulesLabels": {"release": "prometheus"}}
    rendered = helm.render({"metrics": asked})
    made = named(rendered, "ConfigMap", "op-dashboard")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(made["data"]["dedup-operator.json"]) == json.loads((CHART / "files/dashboard.json").read_text())
    rule = named(rendered, "PrometheusRule", "op")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load((CHART / "files/rules.yaml").read_text())


def test_its_pod_is_admitted_where_security_is_strictest(helm: Helm, client: ApiClient) -> None:
    template = named(helm.render({}), "Deployment", "op")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "op"}}
    pod["spec"]["serviceAccountName"] = "default"
    dry_run(client, pod, NAMESPACE)
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[json.dumps(values) for values, _ in WRONG])
def test_a_wrong_value_is_refused_by_name(helm: Helm, values: Values, words: str) -> None:
    with pytest.raises(Refused, match=words):
        helm.render(values)


def test_values_of_an_older_release_lack_what_is_new_and_change_nothing(helm: Helm) -> None:
    """`helm upgrade --reuse-values` leaves out what is new; `null` takes a default away, which is the same."""
    older = ("accountAnnotations", "verifier", "resources", "systems")
    new = {"settings": dict.fromkeys(older), "networkPolicies": None, "chartFiles": None}
    more = ("dashboard", "dashboardLabels", "rules", "rulesLabels")
    new = {**new, "metrics": dict.fromkeys(more), "allowLoginsToAnyHost": None, "allowFaultsOnPodsOfOthers": None}
    of_pod = {"affinity": None, "priorityClassName": None, "annotations": None}
    assert helm.render({**new, "replicas": None, "podTemplate": of_pod}) == helm.render({})


def test_a_release_name_too_long_for_labels_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"release name: got o+; at most 45 characters"):
        Helm(CHART, "o" * 46, NAMESPACE, tmp_path).render({})
    assert Helm(CHART, "o" * 45, NAMESPACE, tmp_path).render({})


def test_a_name_stays_a_name_whatever_yaml_would_read_in_it(tmp_path: Path) -> None:
    rendered = Helm(CHART, "on", NAMESPACE, tmp_path).render({})
    assert all(isinstance(each["metadata"]["name"], str) for each in rendered)
    assert named(rendered, "Deployment", "on")["spec"]["template"]["spec"]["serviceAccountName"] == "on"


def test_the_chart_brings_the_definition_that_the_models_make() -> None:
    assert yaml.safe_load((CHART / "crds" / "dedupexperiment.yaml").read_text()) == crd.definition()
    assert yaml.safe_load((CHART / "crds" / "dedupcomparison.yaml").read_text()) == comparison_crd.definition()


def test_there_is_one_operator_at_a_time(helm: Helm) -> None:
    spec = named(helm.render({}), "Deployment", "op")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert "topologySpreadConstraints" not in spec["template"]["spec"]
    assert not [each for each in helm.render({}) if each["kind"] in ("PodDisruptionBudget", "NetworkPolicy")]


def test_two_operators_are_replaced_and_drained_one_by_one_and_keep_apart(helm: Helm) -> None:
    rendered = helm.render({"replicas": 2})
    spec = named(rendered, "Deployment", "op")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    (apart,) = spec["template"]["spec"]["topologySpreadConstraints"]
    labels = spec["template"]["metadata"]["labels"].items()
    assert (apart["topologyKey"], apart["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert apart["labelSelector"]["matchLabels"].items() <= labels
    budget = named(rendered, "PodDisruptionBudget", "op")["spec"]
    assert budget["maxUnavailable"] == 1 and budget["selector"]["matchLabels"].items() <= labels


def test_pods_are_where_and_as_large_as_the_administrator_says(helm: Helm) -> None:
    rendered = helm.render(VARIANTS["placed"])
    template = named(rendered, "Deployment", "op")["spec"]["template"]
    assert (template["spec"]["affinity"], template["spec"]["priorityClassName"]) == (PLACED["affinity"], "tests")
    assert template["metadata"]["annotations"].items() > PLACED["annotations"].items()
    assert "topologySpreadConstraints" not in template["spec"], "an affinity is the administrator's own word"
    told = settings(rendered, artifacts={"s3": S3})
    assert told.pod_template.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True) == PLACED
    assert (told.resources.requests.cpu, told.resources.requests.memory, told.resources.limits.cpu) == (
        *("100m", "128Mi"),
        "2",
    )


def test_policies_let_nobody_reach_our_pods_and_say_nothing_of_those_of_systems(helm: Helm, tmp_path: Path) -> None:
    rendered = [each for each in helm.render(VARIANTS["policies"]) if each["kind"] == "NetworkPolicy"]
    where = sorted((each["metadata"]["namespace"], each["metadata"]["name"]) for each in rendered)
    named_so = [(place, name) for place in (NAMESPACE, ELSEWHERE) for name in ("op-pods", "op-verification")]
    assert where == sorted([*named_so, (NAMESPACE, "op")])
    assert all(each["spec"]["policyTypes"] == ["Ingress"] for each in rendered)
    told = settings([], artifacts={"s3": S3}, namespace=NAMESPACE)
    owner, made = Owner(NAMESPACE, "trial", "uid"), made_of(ORDINARY)
    jobs = [*run_objects(owner, made, plan(made)[0], 1, told)[1:], report(owner, told)]
    jobs += [readiness(owner, made, made.spec.systems[0], told), leftovers(owner, made.spec.systems[0], told)]
    local = verification(owner, made_of([], verification={"engine": "Local"}), told)
    parts = [each["spec"]["template"]["metadata"]["labels"]["dedup.dev/component"] for each in jobs]
    there = [each for each in rendered if each["metadata"]["namespace"] == ELSEWHERE]
    pods = named(there, "NetworkPolicy", "op-pods")["spec"]
    assert sorted(parts) == sorted(pods["podSelector"]["matchExpressions"][0]["values"])
    assert "ingress" not in pods
    spark = named(there, "NetworkPolicy", "op-verification")["spec"]
    chosen = spark["podSelector"]["matchLabels"]
    assert spark["ingress"] == [{"from": [{"podSelector": {"matchLabels": chosen}}]}]
    application = verification(owner, made, told)["spec"]
    for labels in (application["driver"]["labels"], application["executor"]["labels"], local["metadata"]["labels"]):
        assert chosen.items() <= labels.items()
    brokers = json.dumps(Helm(CHARTS / "kafka", "sys", NAMESPACE, tmp_path).render({}))
    assert "dedup.dev/component" not in brokers


def test_its_lease_has_its_name_and_lies_beside_it(helm: Helm) -> None:
    (container,) = named(helm.render({}), "Deployment", "op")["spec"]["template"]["spec"]["containers"]
    assert "--lease=op" in container["args"]
    told = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"] if "valueFrom" in each
    }
    assert told == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


def test_whose_experiments_it_runs_is_on_its_command_line(helm: Helm) -> None:
    assert watched(helm.render({})) == [f"--namespace={NAMESPACE}"]
    assert watched(helm.render(VARIANTS["two namespaces"])) == [f"--namespace={NAMESPACE}", f"--namespace={ELSEWHERE}"]
    assert watched(helm.render({"watch": {"all": True}})) == ["--all-namespaces"]


def test_only_where_it_runs_experiments_it_has_rights(helm: Helm) -> None:
    assert roles(helm.render(VARIANTS["two namespaces"])) == [
        (kind, *where)
        for kind in ("Role", "RoleBinding")
        for where in ((NAMESPACE, "op"), (NAMESPACE, "op-lease"), (ELSEWHERE, "op"))
    ]
    assert roles(helm.render({"watch": {"all": True}})) == [
        ("Role", NAMESPACE, "op-lease"),
        ("RoleBinding", NAMESPACE, "op-lease"),
    ]
    bound = [each for each in helm.render({}) if each["kind"] == "ClusterRoleBinding"]
    assert bound == []


def test_its_settings_are_what_the_operator_reads(helm: Helm) -> None:
    told = settings(helm.render(VARIANTS["elsewhere"]))
    assert told.runner_image.reference == "mirror.example:5000/dedup/dedup-runner:dev"
    assert told.artifacts.root("trial") == "s3://b/team/x/trial"
    assert (told.spark.executors, told.charts["kafka"], told.runner.memory) == (4, {"heapMiB": 1024}, "2Gi")
    assert told.pod_template.tolerations[0].key == "tests"
    assert told.pod_template.image_pull_secrets[0].name == "mirror"
    assert told.concurrent_experiments == 9
    assert [each.image and each.image.reference for each in told.chaos_images] == ["r.example/x:1"]
    plain = settings(helm.render({}), artifacts={"volume": {"claim": "c"}})
    assert (plain.spark.executors, plain.concurrent_experiments) == (1, 4)


def test_an_image_may_be_pinned_by_its_digest(helm: Helm) -> None:
    tag = f"1.0@sha256:{'a' * 64}"
    rendered = helm.render({"image": {"tag": tag}, "settings": {"runnerImage": {"tag": tag}}})
    (container,) = named(rendered, "Deployment", "op")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"localhost/dedup-operator:{tag}"
    told = settings(rendered, artifacts={"s3": S3})
    assert told.runner_image.reference == f"localhost/dedup-runner:{tag}"
    (kafka,) = experiment(systems=[{"name": "kafka", "kafka": {}}]).spec.systems
    assert systems.values(kafka, told)["tools"]["image"]["tag"] == tag


def test_the_registry_is_in_front_of_our_images_only(helm: Helm, tmp_path: Path) -> None:
    """Those of systems are named one by one."""
    ours, told = "mirror.example/dedup/dedup-runner:dev", {"registry": "mirror.example/dedup"}
    assert images(helm.render(told), tmp_path) == {"apache/kafka:4.3.1", "apachepulsar/pulsar:4.2.4", ours}
    mirrored = {"kafka": {"image": {"repository": "mirror.example/kafka"}}}
    more = helm.render({**told, "settings": {"charts": mirrored}})
    assert images(more, tmp_path) == {"mirror.example/kafka:4.3.1", "apachepulsar/pulsar:4.2.4", ours}


def images(rendered: list[dict[str, Any]], home: Path) -> set[str]:
    """What the pods of a Kafka and a Pulsar are made of, as the operator deploys them."""
    told = settings(rendered, artifacts={"s3": S3})
    both = experiment(systems=[{"name": "kafka", "kafka": {}}, {"name": "pulsar", "pulsar": {}}]).spec.systems
    made = [Helm(CHARTS / each.chart, "sys", NAMESPACE, home).render(systems.values(each, told)) for each in both]
    return set(re.findall(r'"image": "([^"]+)"', json.dumps(made)))


def test_other_settings_start_it_anew(helm: Helm) -> None:
    plain, other = (
        named(helm.render(values), "Deployment", "op")["spec"]["template"]["metadata"]["annotations"]
        for values in ({}, {"settings": {"spark": {"executors": 2}}})
    )
    assert plain != other


def test_every_rule_says_what_it_is_for() -> None:
    lines = (CHART / "templates" / "_rules.tpl").read_text().splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("- apiGroups")]
    assert len(rules) > 10
    assert all(lines[number - 1].startswith("# ") for number in rules)


def test_it_may_make_what_an_experiment_consists_of(operator: ApiClient, tmp_path: Path) -> None:
    owner, made = Owner(NAMESPACE, "trial", "uid"), made_of(ORDINARY)
    whole = settings([], artifacts={"s3": S3}, namespace=NAMESPACE)
    for each in accounts(owner, made):  # a binding is taken only where its role is
        create_from_dict(operator, each, namespace=NAMESPACE)
    for each in run_objects(owner, made, plan(made)[0], 1, whole):
        dry_run(operator, each, NAMESPACE)
    for chart in ("kafka", "pulsar"):
        rendered = Helm(CHARTS / chart, "sys", NAMESPACE, tmp_path).render({"tls": {"enabled": True}})
        for each in rendered:
            dry_run(operator, each, NAMESPACE)


def test_a_run_may_enter_its_brokers_and_no_other_pod(
    operator: ApiClient, client: ApiClient, api_server: ApiServer
) -> None:
    owner, made = Owner(NAMESPACE, "narrow", "uid-narrow"), made_of(ORDINARY)
    for each in accounts(owner, made):
        create_from_dict(operator, each, namespace=NAMESPACE)
    broker = f"{systems.release_of(owner, made.spec.systems[0])}-0"
    with api_server.client() as run:
        run.set_default_header("Impersonate-User", f"system:serviceaccount:{NAMESPACE}:{run_account(owner)}")
        for pod, codes in ((broker, (404, 404, 404)), ("somebodys", (403, 403, 403))):
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}"
            asked = (("GET", f"{path}/exec"), ("POST", f"{path}/exec"), ("DELETE", path))
            assert tuple(ask(run, verb, where)[0] for verb, where in asked) == codes


def test_it_may_take_renew_and_release_its_lease(operator: ApiClient, client: ApiClient) -> None:
    lease = Party(LiveCluster(operator), "me", namespace=NAMESPACE).lease
    for _ in range(2):
        lease.ask()
        assert lease.held()
    lease.close()
    lease.release()
    assert ask(client, "DELETE", f"{LEASES}/op")[0] == 200


def test_it_may_tell_in_events_and_change_none(operator: ApiClient) -> None:
    now = datetime.now(UTC)
    told = event(Owner(NAMESPACE, "trial", "uid"), ("begun",), "Begun", "2 runs on kafka", warns=False, now=now)
    dry_run(operator, told, NAMESPACE)
    path = f"/api/v1/namespaces/{NAMESPACE}/events"
    assert ask(operator, "GET", path)[0] == ask(operator, "DELETE", f"{path}/a")[0] == 403


def test_it_may_look_whether_the_store_is_there(operator: ApiClient) -> None:
    cluster = LiveCluster(operator)
    for kind in ("Secret", "PersistentVolumeClaim"):
        assert cluster.get(kind, NAMESPACE, "histories") is None


def test_it_may_hand_on_privileged_faults_only_where_the_administrator_allowed_them(
    operator: ApiClient, installed: Helm
) -> None:
    made = accounts(Owner(NAMESPACE, "apart", "another"), made_of(PRIVILEGED, allowPrivilegedFaults=True))
    (role,) = [each for each in made if each["kind"] == "Role" and "ephemeralcontainers" in json.dumps(each)]
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"
    status, said = ask(operator, "POST", path, role, query={"dryRun": "All"})
    assert (status, "pods/ephemeralcontainers" in said["message"]) == (403, True)
    installed.upgrade({"allowPrivilegedFaults": True})
    assert ask(operator, "POST", path, role, query={"dryRun": "All"})[0] == 201


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", f"/api/v1/namespaces/{ELSEWHERE}/secrets"),
        ("GET", f"/api/v1/namespaces/{ELSEWHERE}/pods"),
        ("GET", "/api/v1/nodes"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ("POST", f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces/{NAMESPACE}/{crd.PLURAL}"),
        ("DELETE", f"/api/v1/namespaces/{NAMESPACE}"),
        ("GET", LEASES),
        ("GET", f"{LEASES}/another"),
        ("DELETE", f"{LEASES}/op"),
    ],
    ids=[
        "secrets elsewhere",
        "pods elsewhere",
        "nodes",
        "roles of the cluster",
        "make an experiment",
        "delete its namespace",
        "leases",
        "the lease of another",
        "delete its lease",
    ],
)
def test_it_may_do_nothing_else(operator: ApiClient, verb: str, path: str) -> None:
    assert ask(operator, verb, path, {} if verb == "POST" else None)[0] == 403


def test_the_definition_stays_when_the_release_goes(installed: Helm, client: ApiClient) -> None:
    assert ask(client, "GET", DEFINITION)[0] == 200
    installed.uninstall()
    try:
        assert ask(client, "GET", DEFINITION)[0] == 200
    finally:
        installed.upgrade({})


def test_a_newer_definition_takes_the_place_of_helms_by_force_only(installed: Helm, client: ApiClient) -> None:
    """What the notes say: Helm, or whoever brought it, owns the fields that change."""
    newer = crd.definition()
    newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "as of a later version"
    headers = {"Content-Type": "application/apply-patch+yaml"}
    answers = {}
    for force in ("false", "true"):
        query = {"fieldManager": "kubectl", "force": force, "dryRun": "All"}
        answers[force], _ = ask(client, "PATCH", DEFINITION, newer, headers=headers, query=query)
    assert answers == {"false": 409, "true": 200}
    assert "--server-side --force-conflicts --filename charts/dedup-operator/crds/" in installed.upgrade({})


def test_the_notes_say_what_to_do_next(installed: Helm) -> None:
    notes = installed.upgrade({})
    assert f"runs the DedupExperiments of {NAMESPACE}." in notes
    assert "kubectl wait --for=condition=Finished" in notes
    assert "each experiment has to say it (spec.artifacts)" in notes
    assert "spec.artifacts" not in installed.upgrade({"settings": {"artifacts": {"s3": S3}}})


def test_the_notes_say_what_watching_all_gives(helm: Helm, client: ApiClient, api_server: ApiServer) -> None:
    """The account is an administrator's in effect, and nobody should learn it from the list of rules."""
    release = Helm(CHART, "op", NAMESPACE, helm.home, api_server.kubeconfig)
    try:
        assert "an administrator\nof the cluster" in release.upgrade({"watch": {"all": True}})
        assert "administrator" not in release.upgrade({"watch": {"all": False}})
    finally:
        release.uninstall()


def roles(rendered: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Kind, namespace and name of those that are of a namespace."""
    return sorted(
        (each["kind"], each["metadata"]["namespace"], each["metadata"]["name"])
        for each in rendered
        if each["kind"] in ("Role", "RoleBinding")
    )


def watched(rendered: list[dict[str, Any]]) -> list[str]:
    (container,) = named(rendered, "Deployment", "op")["spec"]["template"]["spec"]["containers"]
    return [each for each in container["args"] if "namespace" in each]


def settings(rendered: list[dict[str, Any]], namespace: str = "lab", **more: Any) -> Settings:
    """What the operator reads, for an experiment of that namespace."""
    told = yaml.safe_load(named(rendered, "ConfigMap", "op")["data"]["settings.yaml"]) if rendered else {}
    return Settings.model_validate({**told, **more, "namespace": namespace}, by_alias=True, by_name=False)


def made_of(faults: list[dict[str, Any]], **spec: Any) -> Experiment:
    return experiment(faults=faults, **spec)
