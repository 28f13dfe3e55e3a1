"""The operator at work in a cluster: installed from its chart, asked by `kubectl apply`, answering by a status."""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname
from uuid import uuid4

import yaml
from kubernetes.client import CoreV1Api
from testbed import pods
from testbed.cluster import api_servers, binaries, images
from testbed.cluster.binaries import KUBECTL
from testbed.cluster.clusters import Cluster
from testbed.cluster.helm import CHARTS, Helm
from testbed.requests import ask, forget
from tests.kubernetes import whole_runs
from tests.kubernetes.whole_runs import Place
from tests.lab import harness

from dedup.experiment.spec import parse
from dedup.experiment.stages import Stage, schedule
from dedup.judgement.verdicts import EXIT_CODES, Verdict
from dedup_lab.cluster import resources
from dedup_operator import sights
from dedup_operator.clusters import path_of
from dedup_operator.objects.names import COMPONENT, LABEL, Owner
from dedup_operator.objects.runs import RUN
from dedup_operator.objects.settings import Settings
from dedup_operator.schema import comparison_crd, crd
from dedup_runners.waiting import until

Document = dict[str, Any]
RELEASE: Final = "operator"
SELECTOR: Final = f"app.kubernetes.io/instance={RELEASE}"
READY_S: Final = 600.0
VERDICT_S: Final = 1500.0
LEFT_S: Final = 60.0
"""Issue 6: after this nothing of a deleted experiment is left."""
DEFINITIONS: Final = tuple(
    f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each}.{crd.GROUP}"
    for each in (crd.PLURAL, comparison_crd.PLURAL)
)
PASSING: Final = ("events", "events.events.k8s.io", "pods.metrics.k8s.io", "leases.coordination.k8s.io")
"""Kinds that come and go by themselves."""

LIST: Final = "import sys; from dedup.history.stores import below, place; print(*below(place(sys.argv[1])))"


class Missed(Exception):
    """A stage went by between two looks."""


@dataclass(frozen=True)
class Operated:
    """A namespace whose experiments an operator carries out."""

    place: Place
    helm: Helm
    """The operator's own release."""

    @cached_property
    def kinds(self) -> str:
        """Every kind of object that a namespace may have."""
        every = self.place.kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
        return ",".join(each for each in every if each not in PASSING)

    def example(self, name: str, *, messages: int, runs: int) -> Document:
        """An example of ours, smaller, with its histories in the cluster's store."""
        document: Document = harness.document(name, messages=messages)
        spec, s3 = document["spec"], self.place.settings.artifacts.s3
        assert s3 is not None
        spec["runs"] = runs
        store = {"bucket": s3.bucket, "prefix": s3.prefix, "endpoint": s3.endpoint}
        spec["artifacts"] = {"s3": store | {"secretRef": {"name": whole_runs.SECRET}}}
        return document

    def apply(self, document: Document) -> None:
        self.place.apply(yaml.safe_dump(document))

    def live(self, name: str) -> Document | None:
        """The experiment as it is now."""
        code, found = ask(self.place.client, "GET", path_of(crd.KIND, self.place.namespace, name))
        return found if code == 200 else None

    def status(self, name: str) -> Document:
        """What is said of an experiment; nothing of one that is not there, or that nobody has looked at."""
        return dict((self.live(name) or {}).get("status", {}))

    def patch(self, name: str, spec: Document) -> None:
        """`kubectl patch`, as docs/resource.md has it."""
        self.place.kubectl("patch", crd.PLURAL, name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    def verdict(self, name: str) -> Document:
        """The status of an experiment that has come to its end."""
        kept: list[Document] = []

        def ended() -> bool:
            status = self.status(name)
            kept[:] = [status]
            return condition(status, "Finished") == "True"

        try:
            until(ended, VERDICT_S, f"{name} is Finished", 1.0)
        except Exception as error:
            raise AssertionError(f"{error}\n{yaml.safe_dump(kept)}\n{self.log()}") from None
        return kept[0]

    @contextmanager
    def store_here(self) -> Iterator[str]:
        """The address by which this machine reaches the store, as a person gets one: from `kubectl port-forward`."""
        at = ["--kubeconfig", str(self.place.cluster.kubeconfig), "--namespace", "minio"]
        command = [str(binaries.find(KUBECTL)), *at, "port-forward", "service/minio", ":9000"]
        environment = os.environ | api_servers.direct()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as door:
            try:
                assert door.stdout is not None
                said = door.stdout.readline()  # "Forwarding from 127.0.0.1:40123 -> 9000", or nothing when it ends
                assert said.startswith("Forwarding from 127.0.0.1:"), said
                yield f"http://{said.split()[2]}"
            finally:
                door.terminate()

    def told(self) -> list[object]:
        """How the `dedup` command is told where the experiments are."""
        return ["--kubeconfig", self.place.cluster.kubeconfig, "--namespace", self.place.namespace]

    def files(self, root: str) -> list[str]:
        """What is in the store below an address of it."""
        return self.place.ask(LIST, root).split()

    def fetched(self, name: str, folder: Path) -> Path:
        """Everything of an experiment in the store, by `dedup results`, whose exit code is the verdict's."""
        status = self.status(name)
        with self.store_here() as address:
            keys = {**whole_runs.KEYS, resources.ENDPOINT: address, **api_servers.direct()}
            code, said, problem = harness.dedup(
                "results", name, *self.told(), "--output", folder, "--histories", environment=keys
            )
        assert code == EXIT_CODES[Verdict(status["verdict"].lower())], (said, problem)
        return folder

    def opened(self, name: str, folder: Path) -> Path:
        """The page that `dedup results NAME --open` gives to the browser, which is a program of the test's."""
        browser, said = folder / "browser", folder / "address"
        folder.mkdir(parents=True)
        browser.write_text(f'#!/bin/sh\nprintf %s "$1" >{said}\n')
        browser.chmod(0o755)
        status = self.status(name)
        with self.store_here() as address:
            shown = {"BROWSER": f"{browser} %s", "DEDUP_CACHE": str(folder / "cache"), resources.ENDPOINT: address}
            keys = {**whole_runs.KEYS, **shown, **api_servers.direct()}
            code, _, problem = harness.dedup("results", name, *self.told(), "--open", environment=keys)
        assert code == EXIT_CODES[Verdict(status["verdict"].lower())], problem
        return Path(url2pathname(urlsplit(said.read_text()).path))

    def log(self) -> str:
        """The operator's last lines."""
        return self.place.kubectl("logs", f"deployment/{RELEASE}", "--tail=60", "--namespace", self.namespace)

    @property
    def namespace(self) -> str:
        """The operator's own."""
        return self.helm.namespace

    def install(self, watch: Document | None = None, **more: Any) -> None:
        """The operator's chart as a release, whose pod is ready. It watches this namespace, or as is said.

        `more` are further values.
        """
        settings = self.place.settings
        watched = watch or {"namespaces": [settings.namespace]}
        self.helm.upgrade({"watch": watched, "settings": {"charts": settings.charts}, **more})
        until(lambda: self.ready() == 1, READY_S, "the operator is ready", 0.5)

    def ready(self) -> int:
        """How many of its pods are."""
        return pods.ready(self.place.client, self.namespace, SELECTOR)

    def reached(self, document: Document, stage: Stage) -> None:
        """Wait until an experiment's current task is of that stage, and begun; Missed if it is over before.

        That a run is read the operator may hear of when it is over (pods do not call it): that is asked of the pod.
        """
        name, tasks = document["metadata"]["name"], schedule(parse(document, source="test"))

        def there() -> bool:
            status = self.status(name)
            if condition(status, "Finished") == "True":
                raise Missed(f"{name} is over, and was never seen at {stage}")
            if stage is Stage.CONSUME:
                return sights.has_ended("producer", self.run_pods(name))
            state = status.get("state", {})
            cursor = state.get("cursor", 0)
            return bool(state.get("intended")) and cursor < len(tasks) and tasks[cursor].stage == stage

        until(there, VERDICT_S, f"{name} is at {stage}")

    def run_pods(self, name: str) -> list[Document]:
        """The pods of an experiment's runs."""
        asked = {"labelSelector": f"{LABEL}={name},{COMPONENT}={RUN}"}
        _, found = ask(self.place.client, "GET", path_of("Pod", self.place.namespace), query=asked)
        return list(found["items"])

    def owner(self, name: str) -> Owner:
        live = self.live(name)
        assert live is not None
        return Owner(self.place.namespace, name, live["metadata"]["uid"], live["spec"].get("runToken") or "")

    def delete(self, name: str) -> None:
        self.place.kubectl("delete", crd.PLURAL, name, "--wait=false")

    def objects(self) -> set[str]:
        """Everything in the namespace, as kind/name."""
        return set(self.place.kubectl("get", self.kinds, "--output=name", "--ignore-not-found").split())

    def left(self, before: set[str]) -> set[str]:
        """What is still there of what came since, if it does not go in time."""
        try:
            until(lambda: self.objects() <= before, LEFT_S, "nothing is left", 1.0)
        except Exception:
            return self.objects() - before
        return set()


def reason(status: Document, kind: str) -> str | None:
    """Why a condition is what it is, in one word."""
    return next((each["reason"] for each in status.get("conditions", ()) if each["type"] == kind), None)


def condition(status: Document, kind: str) -> str | None:
    """Whether a condition is True, False or Unknown."""
    return next((each["status"] for each in status.get("conditions", ()) if each["type"] == kind), None)


@contextmanager
def at(
    cluster: Cluster, home: Path, kinds: Iterable[str] = tuple(whole_runs.IMAGES), **more: Any
) -> Iterator[Operated]:
    """A namespace for experiments on these kinds of systems, one for the operator, whose chart gets the values `more`.

    Both go at the end, and the definitions that were not there.
    """
    settings = _settings(f"lab-{uuid4().hex[:8]}")
    cluster.load(images.archive(images.OPERATOR))
    with whole_runs.at(cluster, settings, home, kinds) as place:
        new = [each for each in DEFINITIONS if ask(place.client, "GET", each)[0] == 404]
        namespace = f"{settings.namespace}-operator"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        core = CoreV1Api(place.client)
        core.create_namespace({"metadata": {"name": namespace, "labels": labels}})
        made = Operated(place, Helm(CHARTS / "dedup-operator", RELEASE, namespace, home, cluster.kubeconfig))
        try:
            made.install(**more)
            yield made
        finally:
            ask(place.client, "DELETE", f"/api/v1/namespaces/{namespace}")
            for each in new:
                forget(place.client, each)


def _settings(namespace: str) -> Settings:
    """The cluster's images of the systems, and its store."""
    charts = {kind: whole_runs.chart_of(kind) for kind in whole_runs.IMAGES}
    s3 = {"bucket": whole_runs.BUCKET, "prefix": namespace, "endpoint": "http://minio.minio:9000"}
    artifacts = {"s3": s3 | {"secret": whole_runs.SECRET}}
    return Settings.model_validate({"namespace": namespace, "artifacts": artifacts, "charts": charts})
