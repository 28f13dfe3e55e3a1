"""Somebody else with rights in the namespace, who makes objects that look like the operator's, or changes its own.

An API server lets whoever may create objects give them any name, label and owner that is there; and whoever may update
them, or their status, change what is not immutable. What is forged stands in the way, or not. If it does, the operator
is to say so: then its maker, or somebody who reads that, takes it away. If not, its maker does some looks later. Until
then nobody may have touched it.

Not here: who names the experiment as the owner of what he makes, and gives it our labels besides. Nothing tells that
from ours; what is judged then is what lies in the store.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dedup_operator.clusters import Object
from dedup_operator.executions import REPLACED
from dedup_operator.objects.names import COMPONENT, EXECUTION, LABEL, UID, Owner, labels, name_of
from dedup_operator.objects.runs import RUN
from dedup_operator.objects.snapshots import snapshot_name
from dedup_operator.sights import SPARK_FAILED, ended
from testbed.campaign.controllers import OF_A_JOB, Controllers
from testbed.worlds import STAMP, Played

STAYS_LOOKS: Final = 5
"""How many looks after which the operator waits what is forged is left there."""
API: Final = {
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
}
MARKS: Final = (LABEL, COMPONENT, EXECUTION, UID, "owner", "name", "status", "app.kubernetes.io/instance")


@dataclass
class Forger:
    """What somebody else has made or changed, until it is gone again."""

    cluster: Played
    namespace: str
    controllers: Controllers
    whose: Callable[[], tuple[Owner, list[str]]]
    """Whose objects he imitates, and the names of the releases."""
    coming: Sequence[tuple[str, str]] = ()
    """Kinds and names of what the operator will create next."""
    made: dict[str, Object] = field(default_factory=dict)
    """What there is of his, by UID."""
    changed: list[tuple[Object, Object]] = field(default_factory=list)
    """Objects of ours that he has changed, as they were, and what puts them right."""
    wrongs: list[str] = field(default_factory=list)
    patient: bool = False
    """Whether he takes nothing away before somebody minds."""
    looks: int = 0
    stalls: int = 0
    """How often the operator has said that it cannot go on."""

    # --- what he does ---

    def take_name(self) -> None:
        """What the operator will create next is there already, and not its own."""
        kind, name = self._free()[0]
        self.patient = True
        self._make(kind, name, {}, **_BODIES.get(kind, {}))

    def make_pod(self) -> None:
        """A pod with the labels of a run, and of the pods of its Job, whose programs have ended."""
        ends: list[Object] = [
            {"name": name, "state": {"terminated": {"exitCode": 0, "message": "missed: nothing was under way"}}}
            for name in ("conductor", "producer", "consumer")
        ]
        for number, job in enumerate(["none", *(each["metadata"]["name"] for each in self._jobs())]):
            marks = {**self._labels(RUN), OF_A_JOB: job}
            self._make("Pod", f"theirs-{number}", marks, status={"phase": "Running", "containerStatuses": ends})

    def make_work(self) -> None:
        """A Job with the labels of a run, a pod of it, and workloads with the labels of our systems."""
        uid = self._make("Job", "theirs", self._labels(RUN), **_BODIES["Job"])
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": uid}
        marks = {**self._labels(RUN), OF_A_JOB: "theirs"}
        self._make("Pod", "theirs-pod", marks, owners=[owner], status={"phase": "Running"})
        for number, release in enumerate(self.whose()[1]):
            marks = {"app.kubernetes.io/instance": release}
            self._make("StatefulSet", f"theirs-{number}", marks, **_BODIES["StatefulSet"])

    def make_record(self) -> None:
        """Records of our releases, as Helm has them, that say that all is deployed."""
        for number, release in enumerate(self.whose()[1]):
            marks = {"owner": "helm", "name": release, "status": "deployed", "version": "9"}
            self._make("Secret", f"sh.helm.release.v1.theirs.v{number}", marks, type="helm.sh/release.v1")

    def disown(self) -> None:
        """What is at work has no owner any more."""
        for each in self._at_work():
            self._change(each, {"ownerReferences": None}, {"ownerReferences": each["metadata"]["ownerReferences"]})

    def unlabel(self) -> None:
        """What is at work has no labels of ours any more."""
        for each in self._at_work():
            there = {key: value for key, value in (each["metadata"].get("labels") or {}).items() if key in MARKS}
            self._change(each, {"labels": dict.fromkeys(there)}, {"labels": there})

    def mark_used(self) -> None:
        """What the execution runs is marked as that of one which another runToken has ended."""
        snapshot = self._snapshot()
        assert snapshot is not None
        notes = REPLACED["metadata"]["annotations"]
        self._change(snapshot, {"annotations": notes}, {"annotations": dict.fromkeys(notes)})

    def say_complete(self) -> None:
        """The status of what is at work says that it is done."""
        ends = [{**_TRUE, "type": each} for each in ("SuccessCriteriaMet", "Complete")]
        counts = {"startTime": STAMP, "completionTime": STAMP, "succeeded": 1, "ready": 0}
        self._say({**counts, "conditions": ends}, {"state": "COMPLETED"})

    def say_failed(self) -> None:
        """The status of what is at work says that it has failed."""
        ends = [{**_TRUE, "type": each} for each in ("FailureTarget", "Failed")]
        self._say(
            {"startTime": STAMP, "failed": 1, "ready": 0, "conditions": ends},
            {"state": SPARK_FAILED, "errorMessage": "somebody says so"},
        )

    # --- whether there is something to do ---

    def is_free(self) -> bool:
        """Whether there is a next name that nobody has yet."""
        return bool(self._free())

    def has_work(self) -> bool:
        return bool(self._at_work())

    def has_snapshot(self) -> bool:
        return self._snapshot() is not None

    def can_say(self) -> bool:
        return bool(self._going())

    @property
    def is_gone(self) -> bool:
        """Whether nothing of his is left."""
        return not self.made and not self.changed

    def standing(self) -> Any:
        """What is left of it, and how it went so far."""
        made = sorted((each["kind"], each["metadata"]["name"]) for each in self.made.values())
        changed = [(each["metadata"]["name"], right) for each, right in self.changed]
        return made, changed, self.looks, self.patient, self.wrongs

    # --- what becomes of it ---

    def looked(self, status: Object, waits: bool) -> None:
        """After a look: what stands in the way goes when the operator has said so, all else some looks later."""
        if self.is_gone:
            return
        if status.get("phase") == "Stalled":
            self._clear(next(each["message"] for each in status["conditions"] if each["type"] == "Stalled"))
        elif waits and not self.patient:
            self.looks += 1
            if self.looks > STAYS_LOOKS:
                self.leave()

    def leave(self) -> None:
        """Take away what is left, and see whether it is as it was made."""
        for uid in list(self.made):
            self._take_away(uid)
        self._put_right()

    def _clear(self, words: str) -> None:
        self.stalls += 1
        named = [uid for uid, made in self.made.items() if _told(made, words)]
        for uid in named:
            self._take_away(uid)
        if not named and not any(_told(made, words) for made, _ in self.changed):
            self.wrongs.append(f"stalled, but not by what was forged: {words}")
            self.leave()
        self._put_right()

    def _take_away(self, uid: str) -> None:
        made = self.made.pop(uid)
        kind, name = made["kind"], made["metadata"]["name"]
        found = self.cluster.get(kind, self.namespace, name)
        if found is None or found["metadata"]["uid"] != uid:
            self.wrongs.append(f"{kind} {name}, somebody else's, was deleted")
            return
        if _seen(found) != _seen(made):
            self.wrongs.append(f"{kind} {name}, somebody else's, was changed")
        self.cluster.delete(kind, self.namespace, name)

    def _put_right(self) -> None:
        for made, right in self.changed:
            kind, meta = made["kind"], made["metadata"]
            found = self.cluster.get(kind, self.namespace, meta["name"])
            if found is not None and found["metadata"]["uid"] == meta["uid"]:
                self.cluster.patch(kind, self.namespace, meta["name"], {"metadata": right})
        self.changed = []

    # --- how ---

    def _make(self, kind: str, name: str, marks: Object, owners: Any = None, status: Any = None, **body: Any) -> str:
        meta: Object = {"name": name, "namespace": self.namespace, "labels": marks}
        if owners:
            meta["ownerReferences"] = owners
        new = self.cluster.create({"apiVersion": API.get(kind, "v1"), "kind": kind, "metadata": meta, **body})
        assert new, f"{kind} {name} is there"
        made = self.cluster.get(kind, self.namespace, name)
        assert made is not None
        if status is not None:
            self.cluster.set_status(made, status)
        uid = str(made["metadata"]["uid"])
        self.made[uid] = made
        return uid

    def _change(self, made: Object, wrong: Object, right: Object) -> None:
        self.changed.append((made, right))
        self.cluster.patch(made["kind"], self.namespace, made["metadata"]["name"], {"metadata": wrong})

    def _say(self, job: Object, application: Object) -> None:
        for each in self._going():
            self.controllers.forged(each)
            self.cluster.set_status(each, job if each["kind"] == "Job" else {"applicationState": application})

    def _free(self) -> list[tuple[str, str]]:
        return [each for each in self.coming if self.cluster.get(each[0], self.namespace, each[1]) is None]

    def _jobs(self) -> list[Object]:
        found = self.cluster.list("Job", self.namespace, "")
        return [each for each in found if not ended(each) and each["metadata"]["uid"] not in self.made]

    def _going(self) -> list[Object]:
        """What does work that has not come to its end."""
        found = self.cluster.list("SparkApplication", self.namespace, "")
        driven = [each for each in found if not (each.get("status") or {}).get("applicationState")]
        return [*self._jobs(), *driven]

    def _at_work(self) -> list[Object]:
        """What does work, or else the records of releases."""
        owned = [each for each in self._going() if each["metadata"].get("ownerReferences")]
        if owned:
            return owned
        found = self.cluster.list("Secret", self.namespace, "owner=helm")
        return [each for each in found if each["metadata"].get("ownerReferences")]

    def _snapshot(self) -> Object | None:
        return self.cluster.get("ConfigMap", self.namespace, snapshot_name(self.whose()[0]))

    def _labels(self, component: str) -> Object:
        return labels(self.whose()[0], component, system="kafka", variant="control", run="1", attempt="1")


def failures_of(owner: Owner) -> str:
    """The name of the ConfigMap that tells a report of failures."""
    return name_of(owner, "failures")


def _seen(made: Object) -> Object:
    """What nobody but its maker has a reason to change."""
    meta = made["metadata"]
    kept = {key: meta.get(key) for key in ("labels", "annotations", "ownerReferences", "deletionTimestamp")}
    return {**{key: made.get(key) for key in ("spec", "data", "type")}, **kept}


def _told(made: Object, words: str) -> bool:
    """Whether these words are about it. Helm names an object of a chart, but of its own record it says it exists."""
    kind, name = made["kind"], made["metadata"]["name"]
    record = name.startswith("sh.helm.release") and "release: already exists" in words
    used = kind == "ConfigMap" and "which was used before" in words
    return f"{kind} {name}" in words or f'{kind} "{name}"' in words or record or used


_TRUE: Final = {"status": "True", "reason": "Forged", "message": "somebody says so", "lastTransitionTime": STAMP}
_TEMPLATE: Final = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}
_BODIES: Final[dict[str, Object]] = {
    "ConfigMap": {"data": {"experiment.yaml": "{}"}},
    "Job": {"spec": {"backoffLimit": 0, "template": _TEMPLATE}},
    "StatefulSet": {"spec": {"replicas": 3, "serviceName": "theirs", "template": _TEMPLATE}},
    "SparkApplication": {"spec": {"type": "Python"}},
    "Role": {"rules": []},
    "RoleBinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "theirs"}},
}
