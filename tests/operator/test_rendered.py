"""What a chart of the list may render: nothing that is not its own; each rule beside a chart that keeps it."""

import datetime
import json
from pathlib import Path
from typing import Any, Final

import pytest
from tests.operator.test_listed import BROKERS, CLUSTER_ROLE, POD, SETTING, changed_chart, documented, entry

from dedup.errors import PlatformError
from dedup_operator.clusters import Object
from dedup_operator.objects.rendered import check, without_later_hooks

RBAC: Final = "rbac.authorization.k8s.io/v1"
BINDING: Final[Object] = {
    "apiVersion": RBAC,
    "kind": "RoleBinding",
    "metadata": {"name": "r-b"},
    "roleRef": {"kind": "Role", "name": "r-role"},
    "subjects": [{"kind": "ServiceAccount", "name": "r-a"}],
}
ELSEWHERE: Final = {"kind": "ServiceAccount", "name": "r-a", "namespace": "kube-system"}
ROLE: Final[Object] = {
    "apiVersion": RBAC,
    "kind": "Role",
    "metadata": {"name": "r-role"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
}
ACCOUNT: Final[Object] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "r-a"}}
SECRET: Final[Object] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "r-s"}}
SERVICE: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "r"},
    "spec": {"type": "ClusterIP"},
}
WIDE: Final = {
    "objects": ["StatefulSet", "ConfigMap", "Role", "RoleBinding", "ServiceAccount", "Secret", "Service"],
    "gives": [{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list"]}],
}


def with_pods(**spec: Any) -> Object:
    """The brokers, whose pods say so, too."""
    (brokers,) = changed_chart()
    return {**brokers, "spec": {**BROKERS["spec"], "template": {**POD, "spec": {"containers": [], **spec}}}}


def with_profile(name: str) -> Object:
    """The brokers, whose container has that profile of AppArmor in the older way, by an annotation."""
    notes = {"container.apparmor.security.beta.kubernetes.io/broker": name}
    (brokers,) = changed_chart()
    template = {**POD, "metadata": {**POD["metadata"], "annotations": notes}}
    return {**brokers, "spec": {**BROKERS["spec"], "template": template}}


def with_container(**said: Any) -> Object:
    return with_pods(containers=[{"name": "broker", **said}])


GOOD_ONE: Final = with_pods(
    serviceAccountName="r-a",
    securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    volumes=[
        {"name": "s", "secret": {"secretName": "r-s"}},
        {"name": "e", "emptyDir": {}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "r-data"}},
        {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ],
    containers=[
        {
            "name": "broker",
            "ports": [{"containerPort": 9092}],
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "r-s", "key": "k"}}}],
            "securityContext": {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
        }
    ],
)


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        ({**SETTING, "metadata": {"name": "kafka"}}, "ConfigMap kafka: its name"),
        ({**SETTING, "metadata": {"name": "rest"}}, "ConfigMap rest: its name"),
        (
            {**SETTING, "metadata": {"name": "r-c", "annotations": {"helm.sh/resource-policy": "keep"}}},
            "resource-policy",
        ),
        ({**SETTING, "metadata": {"name": "r-c", "finalizers": ["a/b"]}}, "a finalizer"),
        ({**SETTING, "metadata": {"name": "r-c"}, "data": {"built": datetime.date(2024, 5, 1)}}, "what is no JSON"),
        ({**SECRET, "type": "kubernetes.io/service-account-token"}, "type kubernetes.io/service-account-token"),
        ({**SECRET, "type": "helm.sh/release.v1"}, "type helm.sh/release.v1"),
        ({**SERVICE, "spec": {"type": "LoadBalancer"}}, "other than ClusterIP"),
        ({**SERVICE, "spec": {"externalIPs": ["192.0.2.1"]}}, "externalIPs"),
        ({**ROLE, "rules": [{**ROLE["rules"][0], "verbs": ["get", "delete"]}]}, "the rule"),
        ({**ROLE, "rules": [{**ROLE["rules"][0], "resources": ["*"]}]}, "the rule"),
        ({**ROLE, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}, "the rule"),
        ({**ROLE, "rules": ["text"]}, "the rule text"),
        ({**BINDING, "roleRef": {"kind": "Role", "name": "theirs"}}, "the role"),
        ({**BINDING, "subjects": [{"kind": "ServiceAccount", "name": "default"}]}, "the account"),
        (with_pods(serviceAccountName="dedup-operator"), "account dedup-operator"),
        (with_pods(serviceAccount="dedup-operator"), "account dedup-operator"),
        (with_pods(hostNetwork=True), "hostNetwork"),
        (with_pods(volumes=[{"name": "h", "hostPath": {"path": "/"}}]), "a volume of kind hostPath"),
        (with_pods(volumes=[{"name": "h", "csi": {"driver": "d"}}]), "a volume of kind csi"),
        (
            with_pods(volumes=[{"name": "h", "persistentVolumeClaim": {"claimName": "histories"}}]),
            "the claim histories",
        ),
        (with_pods(volumes=[{"name": "p", "projected": {"sources": [{"podCertificate": {}}]}}]), "of podCertificate"),
        (with_pods(volumes=["text"]), "of another type"),
        (with_pods(securityContext={"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]}), "beyond baseline"),
        (with_pods(priorityClassName="system-node-critical"), "a priority"),
        (with_pods(imagePullSecrets=[{"name": "theirs"}]), "the Secret theirs"),
        (with_container(securityContext={"windowsOptions": {"hostProcess": True}}), "beyond baseline"),
        (with_container(securityContext={"seccompProfile": {"type": "Unconfined"}}), "beyond baseline"),
        (with_container(livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}), "another host"),
        ({**ACCOUNT, "metadata": {"name": "r-a", "annotations": {"eks.amazonaws.com/role-arn": "a"}}}, "annotations"),
        ({**ACCOUNT, "imagePullSecrets": [{"name": "theirs"}]}, "Secrets of others"),
        ({**SETTING, "metadata": {"name": "r-toxiproxy"}}, "ConfigMap r-toxiproxy: its name"),
        (
            {**SETTING, "metadata": {"name": "r-c", "labels": {"dedup.dev/component": "run"}}},
            "label dedup.dev/component",
        ),
        ({**SECRET, "metadata": {"name": "r-c", "labels": {"owner": "helm"}}}, "the label owner: helm"),
        (with_pods(volumes=[{"name": "s", "secret": {"secretName": "store"}}]), "the Secret store"),
        (
            with_pods(volumes=[{"name": "p", "projected": {"sources": [{"secret": {"name": "store"}}]}}]),
            "the Secret store",
        ),
        (with_pods(initContainers=[{"name": "i", "securityContext": {"privileged": True}}]), "a privileged container"),
        (with_container(securityContext={"capabilities": {"add": ["NET_ADMIN"]}}), "capabilities NET_ADMIN"),
        (with_container(ports=[{"containerPort": 1, "hostPort": 1}]), "a port of the node's"),
        (with_container(envFrom=[{"secretRef": {"name": "store"}}]), "the Secret store"),
        (
            with_container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "store", "key": "k"}}}]),
            "Secret store",
        ),
        (with_container(securityContext="text"), "of another type"),
        (with_profile("unconfined"), "the annotation container.apparmor.security.beta.kubernetes.io/broker"),
    ],
)
def test_a_chart_takes_nothing_that_is_not_its_own(wrong: Object, got: str) -> None:
    wide, good = entry(**WIDE), [GOOD_ONE, ACCOUNT, ROLE, BINDING, SECRET, SERVICE]
    check(wide, good, "r", "lab")
    same = (wrong["kind"], wrong["metadata"]["name"])
    others = [each for each in good if (each["kind"], each["metadata"]["name"]) != same]
    with pytest.raises(PlatformError) as refused:
        check(wide, [*others, wrong], "r", "lab")
    assert got in refused.value.got


@pytest.mark.parametrize("profile", ["runtime/default", "localhost/brokers"])
def test_a_profile_that_baseline_has_is_let_pass(profile: str) -> None:
    check(entry(), [with_profile(profile)], "r", "lab")


@pytest.mark.parametrize(
    "wrong",
    [
        {"roleRef": {"kind": "ClusterRole", "name": "admin"}},
        {"subjects": [ELSEWHERE]},
        {"subjects": [{"kind": "User", "name": "mallory"}]},
    ],
)
def test_a_binding_stays_in_the_namespace(wrong: Object) -> None:
    binds, others = entry(**WIDE), [*changed_chart(), ROLE, ACCOUNT]
    check(binds, [*others, BINDING], "r", "lab")
    with pytest.raises(PlatformError, match="RoleBinding r-b"):
        check(binds, [*others, {**BINDING, **wrong}], "r", "lab")


# --- a chart that people have -----------------------------------------------------------------------------------

APACHES: Final[list[Object]] = [
    json.loads(each) for each in Path(__file__).with_name("apache-pulsar-4.7.0.jsonl").read_text().splitlines()
]
"""What Helm 3.19 renders of the Apache Pulsar chart 4.7.0 as release `r` in `lab`, with the values of docs/charts.md.

Only what is judged is kept: of programs, settings, probes and sizes there is nothing.
"""
MONITOR: Final = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "PodMonitor",
    "metadata": {"name": "r-pulsar-broker"},
}
CERTIFICATE: Final = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "r-pulsar-ca"}}


def test_the_apache_pulsar_chart_is_let_pass_with_the_values_of_the_documentation() -> None:
    objects = without_later_hooks(APACHES)
    assert (len(APACHES), len(objects)) == (30, 22)
    assert {each["kind"] for each in objects} == {*documented().objects}, "no kind is named that it does not need"
    check(documented(), objects, "r", "lab")


@pytest.mark.parametrize(
    ("more", "got"),
    [
        ([MONITOR], "PodMonitor r-pulsar-broker"),
        ([CERTIFICATE], "Certificate r-pulsar-ca"),
        ([CLUSTER_ROLE], "ClusterRole all"),
        (APACHES, "r-pulsar-broker-sts-cleanup in lab, a hook"),
    ],
    ids=["monitors, as it comes", "TLS by cert-manager", "rights in the cluster", "its hooks of upgrades"],
)
def test_it_is_refused_with_what_those_values_switch_off(more: list[Object], got: str) -> None:
    with pytest.raises(PlatformError) as refused:
        check(documented(), [*without_later_hooks(APACHES), *more], "r", "lab")
    assert got in refused.value.got


@pytest.mark.parametrize(
    ("changes", "got"),
    [
        ({"gives": []}, "Role r-pulsar-broker-role: the rule"),
        ({"objects": ["StatefulSet", "ConfigMap"]}, "PodDisruptionBudget r-pulsar-bookie"),
    ],
)
def test_it_is_refused_if_the_entry_does_not_say_what_it_is_made_of(changes: Object, got: str) -> None:
    less = documented().model_copy(update=changes)
    with pytest.raises(PlatformError) as refused:
        check(less, without_later_hooks(APACHES), "r", "lab")
    assert got in refused.value.got
