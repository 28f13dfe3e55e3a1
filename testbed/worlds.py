"""A cluster for the operator's tests: a store of objects, and a player that simulates the controllers.

The player is the same before the fake store and before a real API server: it sets the status of Jobs, StatefulSets
and SparkApplications as Kubernetes, its Job controller and Spark's operator would, and plays Helm with the objects that
Helm leaves. No pod runs. `Crashing` stands between the operator and its cluster, and dies before or after any write.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from dedup.wire.identities import Identity
from dedup_operator.clusters import Cluster, Conflict, Object, Refused, UnknownKind
from dedup_operator.objects.reports import BULLETIN
from dedup_operator.objects.settings import STORE_KEYS, Settings
from dedup_operator.reconciliations import LOOK_AGAIN_S, Reconciler
from dedup_operator.releases import Releases
from dedup_operator.sights import Told
from dedup_operator.statuses import Judgement, SystemStatus, VariantStatus
from testbed import copies as copy
from testbed.helms import ScriptedHelm as ScriptedHelm

NAMESPACE: Final = "lab"
MAX_LOOKS: Final = 400
STORE: Final = "store"
"""The Secret with the store's keys, which every namespace of experiments has."""
SETTINGS: Final = Settings.model_validate(
    {"namespace": NAMESPACE, "artifacts": {"s3": {"bucket": "b", "secret": STORE}}}, by_alias=True
)
LOCKING: Final = SETTINGS.model_copy(update={"allow_faults_on_pods_of_others": True})
"""The same, of an administrator who lets pods of others be struck."""
ANY: Final = "0" * 64
"""The digest of whatever experiment is reported on: the player writes the real one in its place."""
TOLD: Final = Told(
    spec_digest=ANY,
    verdict=Judgement.PASS,
    reasons=["every expectation was met"],
    systems=[SystemStatus(name="kafka", variants=[VariantStatus(name="dedup", runs=1, finished_runs=1)])],
)


def document(told: Told) -> str:
    """The bulletin that a report leaves, in the words of `dedup_spark.report` (held against it in its own test)."""
    return json.dumps(
        {"experiment": "e", "exitCode": 0, **told.model_dump(mode="json", by_alias=True, exclude_none=True)}
    )


def store_secret(namespace: str, name: str = STORE) -> Object:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": dict.fromkeys(STORE_KEYS, "c2VjcmV0")}


SOMEBODY: Final = Identity(cluster="c-1")
FIRST_S: Final = 1_800_000_000.0
"""The clock's start, in seconds since 1970."""
STAMP: Final = "2026-11-21T12:00:00Z"


class Crash(BaseException):
    """The operator has ended there. Nothing of its own catches that."""


class Played(Cluster, Protocol):
    """A cluster whose controllers a test simulates."""

    def set_status(self, made: Object, status: Object) -> None: ...


@dataclass
class FakeCluster:
    """Objects by kind, namespace and name."""

    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    versions: int = 0
    unknown: set[str] = field(default_factory=set)
    """Kinds whose definitions are not installed."""
    clock: Callable[[], float] = lambda: FIRST_S

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        self._must_know(kind)
        return copy.deepcopy(self.objects.get((kind, namespace, name)))

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        self._must_know(kind)
        wanted = dict(each.split("=") for each in selector.split(",") if each)
        phases = [each.removeprefix("status.phase!=") for each in fields.split(",") if each]
        found = sorted(
            key
            for key, made in self.objects.items()
            if key[0] == kind
            and namespace in ("", key[1])
            and wanted.items() <= (made["metadata"].get("labels") or {}).items()
            and (made.get("status") or {}).get("phase") not in phases
        )
        return [copy.deepcopy(self.objects[key]) for key in (found[:most] if most else found)]

    def create(self, made: Object) -> bool:
        key = (made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])
        self._must_know(key[0])
        if key in self.objects:
            return False
        since = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # What is made again under its old name is another object.
        given = {"uid": f"uid-{key[2]}-{self.versions}", "generation": 1, "creationTimestamp": since}
        self._put(key, {**made, "metadata": {**given, **made["metadata"]}})
        return True

    def _must_know(self, kind: str) -> None:
        if kind in self.unknown:
            raise UnknownKind(f"no {kind} here")

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """What has finalizers is marked, and goes when the last one is taken away."""
        key = (kind, namespace, name)
        if (made := self.objects.get(key)) is None:
            return
        if not made["metadata"].get("finalizers"):
            del self.objects[key]
        elif not made["metadata"].get("deletionTimestamp"):
            stamp = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._put(key, _merged(made, {"metadata": {"deletionTimestamp": stamp}}))

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        if (made := self.objects.get((kind, namespace, name))) is None:
            raise Refused(f"{kind} {name}: not found")
        read = change.get("metadata", {}).get("resourceVersion")
        if read not in (None, made["metadata"]["resourceVersion"]):
            raise Conflict("the object has been modified")
        changed = _merged(made, change)
        if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
            del self.objects[kind, namespace, name]
            return
        self._put((kind, namespace, name), changed)

    def replace_status(self, made: Object) -> Object:
        key = (made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])
        if (now := self.objects.get(key)) is None:
            raise Refused(f"{key[0]} {key[2]}: not found")
        if now["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        self._put(key, {**now, "status": made["status"]})
        return copy.deepcopy(self.objects[key])

    def set_status(self, made: Object, status: Object) -> None:
        key = (made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])
        if self.objects[key].get("status") != status:  # an API server writes nothing where nothing changes
            self._put(key, {**self.objects[key], "status": status})

    def _put(self, key: tuple[str, str, str], made: Object) -> None:
        self.versions += 1
        made = copy.deepcopy(made)
        made["metadata"]["resourceVersion"] = str(self.versions)
        self.objects[key] = made


def _version(made: Object) -> int:
    return int(made["metadata"]["resourceVersion"])


def _merged(old: Any, change: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(change, dict):
        return change
    made = {**old, **{key: _merged(old.get(key), each) for key, each in change.items()}}
    return {key: each for key, each in made.items() if change.get(key, ...) is not None}


@dataclass
class Crashing:
    """The operator's way to its cluster, which breaks once, at one of its moments: before and after each write."""

    inner: Cluster
    crash_at: int = 0
    moment: int = 0

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self.inner.get(kind, namespace, name)

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        return self.inner.list(kind, namespace, selector, fields, most)

    def create(self, made: Object) -> bool:
        return bool(self._around(lambda: self.inner.create(made)))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._around(lambda: self.inner.delete(kind, namespace, name))

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        self._around(lambda: self.inner.patch(kind, namespace, name, change))

    def replace_status(self, made: Object) -> Object:
        return dict(self._around(lambda: self.inner.replace_status(made)))

    def _around(self, write: Callable[[], Any]) -> Any:
        self._may_crash()
        done = write()
        self._may_crash()
        return done

    def _may_crash(self) -> None:
        self.moment += 1
        if self.moment == self.crash_at:
            raise Crash


Fails = Callable[[Object], bool]


def rests(again_s: float | None) -> bool:
    """Whether nothing is left to do now: at most a later cleanup, or a wait for other experiments."""
    return again_s is None or again_s > LOOK_AGAIN_S


@dataclass
class Player:
    """Kubernetes' controllers and Spark's operator: each move takes every object one step on."""

    cluster: Played
    namespace: str = NAMESPACE
    fails: Fails = lambda _job: False
    ending_moves: int = 0
    """How many more moves a pod takes to end once its Job is gone."""
    strimzi: tuple[Object, ...] | None = None
    """The conditions that Strimzi's operator gives a Kafka; None: there is no such operator."""
    pauses: bool = True
    """Whether it leaves a Kafka alone when it is asked to."""
    verifies: bool = True
    """Whether Spark's operator is up."""
    says: Callable[[], str | None] = lambda: document(TOLD)
    """The bulletin that a report leaves; None: it leaves none."""
    met: Identity = SOMEBODY
    """Who a system that is there already says it is."""
    jobs: dict[str, str] = field(default_factory=dict)
    """The Jobs that ever started, by name, with their runs."""
    overlaps: list[tuple[str, str]] = field(default_factory=list)
    """Jobs of runs that began while a pod of another run had not ended."""
    ending: dict[str, int] = field(default_factory=dict)

    def move(self) -> None:
        self._end_pods()
        for made in self._those("StatefulSet"):
            replicas = made["spec"]["replicas"]
            there = {"observedGeneration": made["metadata"]["generation"], "replicas": replicas}
            self.cluster.set_status(made, {**there, "readyReplicas": replicas})
        if self.strimzi is not None:
            self._move_kafkas(list(self.strimzi))
        for made in self._those("Job"):
            self._move_job(made)
        for made in self._those("SparkApplication") if self.verifies else ():
            self._move_application(made)

    def _those(self, kind: str) -> list[Object]:
        """The objects of a kind that it moves on."""
        return self.cluster.list(kind, self.namespace, "")

    def _move_application(self, made: Object) -> None:
        self.cluster.set_status(made, {"applicationState": {"state": "COMPLETED"}})

    def _move_kafkas(self, conditions: list[Object]) -> None:
        for made in self.cluster.list("Kafka", self.namespace, ""):
            notes = made["metadata"].get("annotations") or {}
            paused = notes.get("strimzi.io/pause-reconciliation") == "true" and self.pauses
            said = [{"type": "ReconciliationPaused", "status": "True"}] if paused else conditions
            observed = {"observedGeneration": made["metadata"]["generation"], "conditions": said}
            self.cluster.set_status(made, observed)

    def _end_pods(self) -> None:
        """Ends pods as Kubernetes does when their Job is gone, some moves later. Another may have its name already."""
        there = {made["metadata"]["uid"] for made in self.cluster.list("Job", self.namespace, "")}
        for pod in self._those("Pod"):
            name, job = pod["metadata"]["name"], pod["metadata"]["labels"].get("batch.kubernetes.io/job-name")
            if job is None or any(each["uid"] in there for each in pod["metadata"].get("ownerReferences") or ()):
                continue
            moves = self.ending[name] = self.ending.get(name, 0) + 1
            if moves > self.ending_moves:
                self.cluster.delete("Pod", self.namespace, name)

    def _living(self, run_job: str) -> list[str]:
        """The pods of other runs that have not ended."""
        return [
            pod["metadata"]["name"]
            for pod in self.cluster.list("Pod", self.namespace, "dedup.dev/component=run")
            if pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") != run_job
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def _move_job(self, made: Object) -> None:
        status = made.get("status") or {}
        name, labels = made["metadata"]["name"], made["metadata"]["labels"]
        if status.get("conditions"):
            return
        if made["spec"].get("suspend"):
            for pod in self.cluster.list("Pod", self.namespace, f"batch.kubernetes.io/job-name={name}"):
                self.cluster.delete("Pod", self.namespace, pod["metadata"]["name"])
            self.cluster.set_status(made, {"startTime": STAMP, "conditions": [_condition("Suspended")]})
            return
        if not status.get("ready"):
            self.jobs[name] = (made["metadata"].get("annotations") or {}).get("dedup.dev/run", "")
            if self.jobs[name]:
                self.overlaps += [(name, pod) for pod in self._living(name)]
            self.cluster.create(_pod(made, self.namespace, labels))
            self.cluster.set_status(made, {"startTime": STAMP, "active": 1, "ready": 1, "uncountedTerminatedPods": {}})
            return
        for pod in self._pods(name):
            self.cluster.set_status(pod, self._ended(made))
        if self.fails(made):
            ends = [_condition("FailureTarget"), _condition("Failed")]
            self.cluster.set_status(made, {"startTime": STAMP, "failed": 1, "ready": 0, "conditions": ends})
        else:
            self._report(made)
            ends = [_condition("SuccessCriteriaMet"), _condition("Complete")]
            counts = {"startTime": STAMP, "completionTime": STAMP, "succeeded": 1, "ready": 0}
            self.cluster.set_status(made, {**counts, "conditions": ends})

    def _pods(self, job: str) -> list[Object]:
        """The pods of a Job that end with it."""
        return self.cluster.list("Pod", self.namespace, f"batch.kubernetes.io/job-name={job}")

    def _ended(self, job: Object) -> Object:
        """How its pod ended. A round trip leaves word which system it has met."""
        if self.fails(job):
            return {"phase": "Failed"}
        if job["metadata"]["labels"].get("dedup.dev/component") != "readiness":
            return {"phase": "Succeeded"}
        end = {"exitCode": 0, "message": self.met.word()}
        return {"phase": "Succeeded", "containerStatuses": [{"name": "round-trip", "state": {"terminated": end}}]}

    def _report(self, job: Object) -> None:
        """What a report leaves before it ends: its bulletin, in its home."""
        if job["metadata"]["labels"].get("dedup.dev/component") != "report" or (said := self.says()) is None:
            return
        pod = job["spec"]["template"]["spec"]
        program = pod["containers"][0]["command"]
        (config,) = (each["configMap"]["name"] for each in pod["volumes"] if each["name"] == "config")
        run = self.cluster.get("ConfigMap", self.namespace, config)
        assert run is not None
        text = said.replace(ANY, run["metadata"]["annotations"]["dedup.dev/digest"])
        with suppress(Refused):  # its home is gone
            home = program[program.index("--result") + 1]
            self.cluster.patch("ConfigMap", self.namespace, home, {"data": {BULLETIN: text}})


def _condition(kind: str) -> Object:
    return {"type": kind, "status": "True", "reason": "Played", "message": "as the script says", **_TIMES}


_TIMES: Final = {"lastTransitionTime": STAMP, "lastProbeTime": STAMP}


def _pod(job: Object, namespace: str, labels: dict[str, str]) -> Object:
    meta = job["metadata"]
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-pod",
            "namespace": namespace,
            "labels": {**labels, "batch.kubernetes.io/job-name": meta["name"]},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}],
        },
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "report", "image": "none", "securityContext": security}],
        },
    }


@dataclass
class World:
    """An operator, its cluster and its player; each of the player's moves advances the clock."""

    cluster: Played
    namespace: str = NAMESPACE
    fails: Fails = lambda _job: False
    refuses: Exception | None = None
    now_s: float = FIRST_S
    move_s: float = 1.0
    installed: list[str] = field(default_factory=list)
    moments: int = 0
    charts: Mapping[str, list[Object] | Exception] = field(default_factory=dict)
    """What charts of the administrator's list render (ScriptedHelm)."""
    settings: Settings = SETTINGS
    """The administrator's settings, as an operator reads them when it begins."""

    def __post_init__(self) -> None:
        self.player = Player(self.cluster, self.namespace, self.fails)
        if isinstance(self.cluster, FakeCluster):
            self.cluster.clock = lambda: self.now_s
            self.cluster.create(store_secret(self.namespace))
        else:  # which stamps what is created with the time of day
            self.now_s = time.time()

    def apply(self, document: Object) -> None:
        metadata = {"uid": "6f1c", **document["metadata"], "namespace": self.namespace}
        self.cluster.create({**document, "metadata": metadata})

    def live(self, name: str = "e") -> Object:
        found = self.cluster.get("DedupExperiment", self.namespace, name)
        assert found is not None
        return found

    def status(self) -> Object:
        return dict(self.live().get("status") or {})

    def condition(self, kind: str) -> tuple[str, str]:
        (found,) = (each for each in self.status()["conditions"] if each["type"] == kind)
        return found["status"], found["reason"]

    def events(self) -> list[tuple[str, str]]:
        """Reason and message of each, in the order in which they were written."""
        found = sorted(self.cluster.list("Event", self.namespace, ""), key=lambda each: _version(each))
        return [(each["reason"], each["message"]) for each in found]

    def operator(self, crash_at: int = 0) -> tuple[Reconciler, Crashing]:
        way = Crashing(self.cluster, crash_at)
        helm: Releases = ScriptedHelm(way, self.installed, self.refuses, self.charts)
        return Reconciler(way, helm, self.settings, lambda: self.now_s, (self.namespace,)), way

    def run(self, *, crash_at: int = 0, until: Callable[[Object], bool] = lambda _status: False) -> bool:
        """To the end, or until the status says so. Whether the operator crashed on the way; a new one went on then."""
        operator, way = self.operator(crash_at)
        crashed = False
        for _ in range(MAX_LOOKS):
            try:
                again_s = operator.look((self.namespace, "e"))
            except Crash:
                operator, way = self.operator()
                crashed = True
                self.now_s += 60
                continue
            self.moments = way.moment
            if rests(again_s) or until(self.status()):
                return crashed
            if again_s:
                self.player.move()
                self.now_s += self.move_s
        raise AssertionError(f"the course does not end: {self.status()}")

    def orphans(self) -> list[str]:
        """What would stay if the experiment were deleted now, pods apart, which belong to Jobs."""
        kinds = ("ConfigMap", "Secret", "ServiceAccount", "Role", "RoleBinding", "Job", "StatefulSet")
        uid = self.live()["metadata"]["uid"]
        return [
            f"{kind} {made['metadata']['name']}"
            for kind in (*kinds, "SparkApplication")
            for made in self.cluster.list(kind, self.namespace, "")
            if made["metadata"]["name"] not in ("default", "kube-root-ca.crt", STORE)
            and all(each["uid"] != uid for each in made["metadata"].get("ownerReferences") or ())
        ]
