"""Helm as tests play it: what it leaves in a cluster. A chart of ours is one workload here."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dedup.experiment.deployments import STRIMZI
from dedup_operator.clusters import Cluster, Object
from dedup_operator.objects.listed import ListedSystem


class NoList:
    """Helm where no administrator has a list of charts."""

    def render(self, entry: ListedSystem, release: str, namespace: str) -> list[Any]:
        raise AssertionError(f"{entry.name} is on no list")

    def install_rendered(
        self, entry: ListedSystem, release: str, namespace: str, objects: Sequence[Object], labels: Mapping[str, str]
    ) -> None:
        raise AssertionError(f"{entry.name} is on no list")


@dataclass
class ScriptedHelm:
    """What Helm leaves: its Secret, pending at first, and the chart's objects, one workload here."""

    cluster: Cluster
    installed: list[str] = field(default_factory=list)
    refuses: Exception | None = None
    charts: Mapping[str, list[Object] | Exception] = field(default_factory=dict)
    """What charts of the administrator's list render, by their entries; or what is said of one that cannot be."""

    def render(self, entry: ListedSystem, release: str, namespace: str) -> list[Any]:
        if isinstance(found := self.charts[entry.name], Exception):
            raise found
        return list(json.loads(json.dumps(found).replace("{release}", release)))

    def install_rendered(
        self, entry: ListedSystem, release: str, namespace: str, objects: Sequence[Object], marks: Mapping[str, str]
    ) -> None:
        self._install(release, namespace, objects, marks)

    def install(self, release: str, namespace: str, chart: str, values: Object, marks: Mapping[str, str]) -> None:
        made = (_kafka if chart == STRIMZI else workload)(release, namespace, values)
        self._install(release, namespace, [made], marks)

    def _install(self, release: str, namespace: str, objects: Sequence[Object], marks: Mapping[str, str]) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.installed.append(release)
        labels = {**marks, "owner": "helm", "name": release, "version": "1"}
        secret = {"name": f"sh.helm.release.v1.{release}.v1", "namespace": namespace}
        pending = {**secret, "labels": {**labels, "status": "pending-install"}}
        self.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": pending, "type": "helm.sh/release.v1"})
        for made in objects:
            self.cluster.create({**made, "metadata": {"namespace": namespace, **made["metadata"]}})
        self.cluster.patch("Secret", namespace, secret["name"], {"metadata": {"labels": {"status": "deployed"}}})


def workload(release: str, namespace: str, values: Object) -> Object:
    owner = {"apiVersion": "dedup.dev/v1alpha1", "kind": "DedupExperiment", **values["owner"]}
    labels = {"app.kubernetes.io/instance": release}
    pod = {"containers": [{"name": "broker", "image": "none"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": release, "namespace": namespace, "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "replicas": values["brokers"],
            "serviceName": release,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _kafka(release: str, namespace: str, values: Object) -> Object:
    made = workload(release, namespace, values)
    return {"apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": made["metadata"], "spec": {"kafka": {}}}
