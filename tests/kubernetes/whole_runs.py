"""Whole runs on a cluster, done as docs/run-by-hand.md tells a person to: with helm, `kubectl apply`, and by waiting.

What is applied is what `python -m dedup_operator.objects` prints. The histories lie in the cluster's own store; a pod
of the runner's image, which waits for commands, makes the bucket and hands the histories over, so that they can be
judged here, by the naive oracle, and held against what Spark has said of the same files over there.
"""

import base64
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes.client import ApiClient, AppsV1Api, BatchV1Api, CoreV1Api, CustomObjectsApi
from testbed import pods
from testbed.cluster import api_servers, binaries, images
from testbed.cluster.binaries import KUBECTL
from testbed.cluster.clusters import Cluster
from testbed.cluster.helm import CHARTS, Helm
from testbed.cluster.images import Image
from testbed.requests import ask

from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Experiment, System
from dedup.history.histories import read_manifest
from dedup.history.reports import open_folder
from dedup.judgement.verdicts import Evidence, RunVerdict, Verdict, demand_of, judge_run
from dedup_operator.objects.__main__ import printed
from dedup_operator.objects.names import Owner, name_of
from dedup_operator.objects.pods import container, pod_security, store_environment, store_mounts, store_volumes
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.systems import release_of, values
from dedup_operator.objects.verifications import REPORT
from dedup_runners.waiting import until
from dedup_spark import oracle
from dedup_spark.evidence import Report

READY_S: Final = 600.0
RUN_S: Final = 900.0
JUDGED_S: Final = 600.0
KUBECTL_S: Final = 60
SECRET: Final = "store"
READER: Final = "reader"
BUCKET: Final = "dedup"
SPARK: Final = ("sparkoperator.k8s.io", "v1beta2")
IMAGES: Final[Mapping[str, Image]] = {"kafka": images.KAFKA, "pulsar": images.PULSAR}
KEYS: Final = {"AWS_ACCESS_KEY_ID": "dedup-test", "AWS_SECRET_ACCESS_KEY": "dedup-test-password"}
PACK: Final = """
import base64, io, sys, tarfile
from dedup.history.stores import below, place
root, packed = place(sys.argv[1]), io.BytesIO()
with tarfile.open(fileobj=packed, mode="w:gz") as archive:
    for name in below(root):
        if not (root / name).is_dir():
            content = (root / name).read_bytes()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
print(base64.b64encode(packed.getvalue()).decode())
"""
MAKE_BUCKET: Final = (
    "import sys; from dedup.history.stores import place; place(sys.argv[1]).mkdir(parents=True, exist_ok=True)"
)


@dataclass(frozen=True)
class Span:
    """One run's pod: how long it was there, and how long its stages took, in seconds."""

    pod_s: float
    stages: Mapping[str, float]

    @property
    def overhead_s(self) -> float:
        """What was neither producing, nor a fault and its heal, nor consuming."""
        return self.pod_s - sum(self.stages.get(stage, 0.0) for stage in ("produce", "heal", "consume"))


@dataclass(frozen=True)
class Place:
    """A namespace of a cluster, and where the histories of its experiments go."""

    cluster: Cluster
    client: ApiClient
    settings: Settings
    home: Path
    pod_seconds: dict[str, float] = field(default_factory=dict)
    """How long the pod of each run was there, by the run's id."""

    @property
    def namespace(self) -> str:
        return self.settings.namespace

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """What kubectl says in the namespace; it must succeed."""
        at: list[str | Path] = ["--kubeconfig", self.cluster.kubeconfig, "--namespace", self.namespace]
        done = subprocess.run(
            [binaries.find(KUBECTL), *at, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=KUBECTL_S,
            check=False,
            env=os.environ | {"KUBECACHEDIR": str(self.home)} | api_servers.direct(),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, text: str) -> None:
        """`kubectl apply`."""
        self.kubectl("apply", "--server-side", "--validate=strict", "--filename=-", text=text)

    def ask(self, script: str, *arguments: str, timeout_s: float = 120.0) -> str:
        """What a Python script says in the waiting pod."""
        return pods.execute(
            self.client, self.namespace, READER, READER, ["python", "-c", script, *arguments], timeout_s
        )

    def install(self, experiment: Experiment, system: System) -> Helm:
        """The system's chart as a release, all of whose pods are ready."""
        release = release_of(Owner(self.namespace, experiment.name), system)
        helm = Helm(CHARTS / system.kind, release, self.namespace, self.home, self.cluster.kubeconfig)
        helm.upgrade(values(system, self.settings))
        apps = AppsV1Api(self.client)

        def ready() -> bool:
            selector = f"app.kubernetes.io/instance={release}"
            sets = apps.list_namespaced_stateful_set(self.namespace, label_selector=selector).items
            return bool(sets) and all(each.status.ready_replicas == each.spec.replicas for each in sets)

        until(ready, READY_S, f"{system.name} is ready", 0.5)
        return helm

    def carry_out(self, experiment: Experiment, run: Run, attempt: int = 1) -> None:
        """Apply one attempt of a run and wait for its Job, which must succeed."""
        self.apply(printed("run", run.run_id, attempt, experiment, self.settings))
        name = name_of(Owner(self.namespace, experiment.name), "run", run.run_id, str(attempt))
        ended = until(lambda: self._ended(name), RUN_S, f"the Job of {run.run_id} ends", 0.2)
        assert ended == "Complete", f"{run.run_id}: {ended}\n{self.words_of(name)}"
        self.pod_seconds[run.run_id] = self._pod_seconds(name)

    def start_again(self, experiment: Experiment, run: Run) -> int:
        """Start the pod of a run's first attempt a second time, as Kubernetes may; the exit code of its conductor."""
        job = list(yaml.safe_load_all(printed("run", run.run_id, 1, experiment, self.settings)))[-1]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "again"},
            "spec": job["spec"]["template"]["spec"],
        }
        core = CoreV1Api(self.client)
        core.create_namespaced_pod(self.namespace, pod)

        def over() -> bool:
            phase = core.read_namespaced_pod("again", self.namespace).status.phase
            return phase in ("Succeeded", "Failed")

        until(over, RUN_S, "the second pod ends", 0.2)
        code = pods.container(self.client, self.namespace, "again", "conductor").state.terminated.exit_code
        core.delete_namespaced_pod("again", self.namespace)
        return int(code)

    def _ended(self, job: str) -> str | None:
        said = BatchV1Api(self.client).read_namespaced_job_status(job, self.namespace).status.conditions or []
        return next((each.type for each in said if each.type in ("Complete", "Failed") and each.status == "True"), None)

    def pod_of(self, job: str) -> Any:
        """The one pod of a Job."""
        (pod,) = CoreV1Api(self.client).list_namespaced_pod(self.namespace, label_selector=f"job-name={job}").items
        return pod

    def words_of(self, job: str) -> str:
        """The last words of all containers of a Job's pod."""
        pod, core = self.pod_of(job), CoreV1Api(self.client)
        names = [each.name for each in (*pod.spec.init_containers, *pod.spec.containers)]
        said = (
            core.read_namespaced_pod_log(pod.metadata.name, self.namespace, container=name, tail_lines=8)
            for name in names
        )
        return "\n".join(f"{name}: {words}" for name, words in zip(names, said, strict=True))

    def _pod_seconds(self, job: str) -> float:
        """From the first program's start to the last one's end, sidecars included."""
        status = self.pod_of(job).status
        states = [each.state.terminated for each in (*status.init_container_statuses, *status.container_statuses)]
        began: list[datetime] = [each.started_at for each in states]
        ended: list[datetime] = [each.finished_at for each in states]
        return (max(ended) - min(began)).total_seconds()

    def verify(self, experiment: Experiment) -> None:
        """Apply the SparkApplication and wait until it has COMPLETED."""
        self.apply(printed("verification", None, 1, experiment, self.settings))
        name = name_of(Owner(self.namespace, experiment.name), "verification")
        custom = CustomObjectsApi(self.client)

        def ended() -> str | None:
            found = custom.get_namespaced_custom_object(*SPARK, self.namespace, "sparkapplications", name)
            state = found.get("status", {}).get("applicationState", {})
            return str(state) if state.get("state") in ("COMPLETED", "FAILED") else None

        state = until(ended, JUDGED_S, f"the SparkApplication of {experiment.name} ends", 0.5)
        assert "COMPLETED" in str(state), f"{state}; kubectl logs {name}-driver tells more, if it has begun"

    def fetch(self, experiment: Experiment, folder: Path) -> Path:
        """Everything of the experiment in the store, as a folder here."""
        root = self.settings.artifacts.root(experiment.name)
        packed = base64.b64decode(self.ask(PACK, root, timeout_s=JUDGED_S))
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        return folder


@contextmanager
def at(cluster: Cluster, settings: Settings, home: Path, kinds: Iterable[str]) -> Iterator[Place]:
    """A restricted namespace with the keys of the store and a bucket, or with a volume; it goes at the end."""
    for image in (images.RUNNER, images.SPARK, *(IMAGES[kind] for kind in kinds)):
        cluster.load(images.archive(image))
    with cluster.api_server.client() as client:
        core, place = CoreV1Api(client), Place(cluster, client, settings, home)
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        core.create_namespace({"metadata": {"name": settings.namespace, "labels": labels}})
        try:
            accounts = core.list_namespaced_service_account
            until(lambda: accounts(settings.namespace).items, READY_S, "the namespace has an account", 0.2)
            place.apply(yaml.safe_dump_all([*_store(settings), _reader(settings)]))
            until(lambda: pods.ready(client, settings.namespace, f"app={READER}") == 1, READY_S, "the pod waits", 0.2)
            if settings.artifacts.s3 is not None:
                place.ask(MAKE_BUCKET, f"s3://{settings.artifacts.s3.bucket}")
            yield place
        finally:
            ask(client, "DELETE", f"/api/v1/namespaces/{settings.namespace}")  # a test may have done so


def chart_of(kind: str) -> dict[str, Any]:
    """What a system's chart is told of the images that stand in for others."""
    beside = {"postgres": images.POSTGRES, "connect": images.CONNECT} if kind == "kafka" else {}
    return _with(IMAGES[kind]) | {name: _with(image) for name, image in beside.items()}


def _with(image: Image) -> dict[str, Any]:
    repository, tag = image.reference.rsplit(":", 1)
    return {"image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}}


def _store(settings: Settings) -> list[dict[str, Any]]:
    """The Secret with the store's keys; or the claim."""
    if settings.artifacts.s3 is not None:
        meta = {"name": SECRET, "labels": {"dedup.dev/use": "true"}}
        return [{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": KEYS}]
    assert settings.artifacts.volume is not None
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": settings.artifacts.volume.claim}
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}]


def _reader(settings: Settings) -> dict[str, Any]:
    artifacts = settings.artifacts
    waiting = container(
        READER,
        settings.runner_image,
        ["sleep", "infinity"],
        memory="1Gi",
        mounts={"tmp": "/tmp", **store_mounts(artifacts)},
        env=store_environment(artifacts),
    )
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": pod_security(),
        "containers": [waiting],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *store_volumes(artifacts)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": READER, "labels": {"app": READER}}, "spec": spec}


@dataclass(frozen=True)
class Judged:
    """One run: what both judges say of its history, and the verdict that follows."""

    run: Run
    folder: Path
    evidence: Evidence
    verdict: RunVerdict


def judged(experiment: Experiment, results: Path, root: str) -> dict[str, Judged]:
    """Every planned run, judged by Spark over there and by the oracle here, by its id."""
    report = Report.model_validate_json((results / REPORT).read_bytes())
    assert not report.problems, report.problems
    said = {each.path: each for each in report.runs}
    found = {}
    for run in plan(experiment):
        where = f"runs/{run.run_id}/attempt-1"
        folder = results / where
        there = said[f"{root}/{where}"].model_copy(update={"path": str(folder)})
        evidence = open_folder(folder).model_copy(update={"spark": there, "oracle": oracle.judge(folder)})
        found[run.run_id] = Judged(run, folder, evidence, judge_run(evidence, demand_of(experiment, run)))
    return found


def span(place: Place, judged: Judged) -> Span:
    """How long its pod was there, and what it did meanwhile."""
    return Span(place.pod_seconds[judged.run.run_id], read_manifest(judged.folder).stage_seconds)


def told(place: Place, judged: Iterable[Judged]) -> list[str]:
    """What was measured, one line a run, for people."""
    lines = []
    for each in judged:
        took = span(place, each)
        counts = each.evidence.said.counts if each.evidence.said else None
        stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in took.stages.items())
        lines.append(
            f"{each.run.run_id}: {each.verdict.verdict}; pod {took.pod_s:.0f} s, overhead {took.overhead_s:.1f} s "
            f"({stages}); duplicates {counts and counts.values_with_duplicates}, lost {counts and counts.not_received}"
            + "".join(f"; {reason}" for reason in each.verdict.reasons if each.verdict.verdict is not Verdict.PASS)
        )
    return lines
