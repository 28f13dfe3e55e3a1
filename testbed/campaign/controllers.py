"""The controllers of a campaign: they lose pods and a node when they are asked to, and know what lies in the store.

A pod that is *deleted* is gone. One that is *evicted* stays, failed, and says what it was the target of. The pods of a
*node* that is lost are not ready, and nothing of theirs moves; some moves later they are given up, as pods of a node
that is gone are (PodGC), and made again elsewhere if they are still wanted. A Job takes a pod that it lost for one that
failed: beyond its `backoffLimit` it has failed itself, else it makes another. The driver of a SparkApplication is not
made again: Spark's operator says that its pod is not found.

In the store lies of each execution which runs have their result, and whether they were verified. A report says *Pass*
if nothing is missing there, else *Error*. So if the operator takes for done what was not, it gets no pass.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from dedup_operator.clusters import Object
from dedup_operator.objects.names import COMPONENT, EXECUTION
from dedup_operator.objects.runs import RUN
from dedup_operator.sights import DRIVER_GONE, ENDS, SPARK_FAILED, TOO_MANY_FAILED, ended
from dedup_operator.statuses import Judgement
from testbed.worlds import STAMP, TOLD, Player, document

AWAY_MOVES: Final = 4
"""How many moves a lost node's pods are not given up for."""
LATE_MOVES: Final = 4
"""How many moves work still takes whose end somebody has forged."""
NODE: Final = "node-1"
VERIFIED: Final = "verified"
OF_A_JOB: Final = "batch.kubernetes.io/job-name"
_SENT: Final = {
    "name": "producer",
    "image": "none",
    "imageID": "none",
    "ready": False,
    "restartCount": 0,
    "state": {"terminated": {"exitCode": 0, "startedAt": STAMP, "finishedAt": STAMP}},
}


@dataclass
class Controllers(Player):
    """A run's producer has ended some time before its Job is complete."""

    runs: frozenset[str] = frozenset()
    """Those that are planned."""
    results: set[tuple[str, str]] = field(default_factory=set)
    """What lies in the store, by execution: its runs that have their result, and that it was verified."""
    said: Judgement | None = None
    """What the last report said."""
    theirs: Collection[str] = ()
    """The UIDs of what is not of the operator's making: nobody moves it."""
    away: int = 0
    """For how many moves the lost node's pods are not given up yet."""
    on_it: set[str] = field(default_factory=set)
    """The UIDs of what is on the lost node, and of whose pods are."""
    failed: dict[str, int] = field(default_factory=dict)
    """How many pods a Job has lost, by its UID."""
    late: dict[str, int] = field(default_factory=dict)
    """For how many moves that still goes on whose end was forged, by its UID."""

    def fork(self, cluster: Any) -> "Controllers":
        """The same, with a cluster of its own."""
        return Controllers(
            cluster,
            self.namespace,
            self.fails,
            jobs=dict(self.jobs),
            overlaps=list(self.overlaps),
            runs=self.runs,
            results=set(self.results),
            said=self.said,
        )

    def move(self) -> None:
        super().move()
        for uid in list(self.late):
            self._move_late(uid)
        if self.away:
            self.away -= 1
            if not self.away:
                self._give_up()

    def standing(self) -> Any:
        """All that it goes on from, but for what is in the cluster."""
        lost = sorted(map(name_in, self.on_it))
        counts = [{name_in(uid): count for uid, count in each.items()} for each in (self.failed, self.late)]
        return self.away, lost, counts, sorted(self.results), self.said, self.overlaps

    # --- what is lost ---

    def living(self) -> list[Object]:
        """The pods that are at work for a Job of ours."""
        found = self.cluster.list("Pod", self.namespace, "")
        return [
            pod
            for pod in found
            if pod["metadata"]["uid"] not in self.theirs
            and OF_A_JOB in pod["metadata"]["labels"]
            and (pod.get("status") or {}).get("phase") not in ENDS
        ]

    def driving(self) -> list[Object]:
        """The applications whose drivers are at work."""
        return [each for each in self._those("SparkApplication") if not each.get("status")]

    def at_work(self) -> bool:
        """Whether there is a pod that can be lost."""
        return bool(self.living() or self.driving())

    def on_a_node(self) -> bool:
        return self.at_work() or bool(self._those("StatefulSet"))

    def delete_pod(self) -> None:
        """Somebody deletes the pods that are at work."""
        for pod in self.living():
            self._lose(pod)
        self._lose_drivers()

    def evict_pod(self) -> None:
        """A node has too little memory or disk for the pods that are at work, and ends them."""
        for pod in self.living():
            self._lose(pod)
            meta = pod["metadata"]
            made = {**pod, "metadata": {key: meta[key] for key in ("namespace", "labels", "ownerReferences")}}
            made["metadata"]["name"] = f"{meta['name']}-evicted"
            made.pop("status", None)
            self.cluster.create(made)
            evicted = self.cluster.get("Pod", self.namespace, made["metadata"]["name"])
            assert evicted is not None
            self.cluster.set_status(evicted, _EVICTED)
        self._lose_drivers()

    def lose_node(self) -> None:
        """The node with all pods stops to answer."""
        self.away, self.on_it = AWAY_MOVES, set()
        for pod in self.living():
            self._unhear(pod, pod.get("status") or {})
            for each in pod["metadata"].get("ownerReferences") or ():
                job = self.cluster.get("Job", self.namespace, each["name"])
                if job is not None and job["metadata"]["uid"] == each["uid"] and not ended(job):
                    self.on_it.add(each["uid"])
                    self.cluster.set_status(job, {**(job.get("status") or {}), "ready": 0})
        for system in self._those("StatefulSet"):
            self.on_it.add(system["metadata"]["uid"])
            if system.get("status"):
                self.cluster.set_status(system, {**system["status"], "readyReplicas": 0})
            self._unhear(self._broker(system), {})
        self.on_it |= {each["metadata"]["uid"] for each in self.driving()}

    def _unhear(self, pod: Object, status: Object) -> None:
        self.on_it.add(pod["metadata"]["uid"])
        self.cluster.set_status(pod, {**status, "phase": "Running", "conditions": _UNHEARD})

    def _broker(self, system: Object) -> Object:
        """A pod of a system. There was one before, of which nothing was to be told."""
        meta = system["metadata"]
        name = f"{meta['name']}-0"
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"]}
        made = {"name": name, "namespace": self.namespace, "labels": dict(meta["labels"]), "ownerReferences": [owner]}
        spec = {"nodeName": NODE, "containers": [{"name": "broker", "image": "none"}]}
        self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec})
        found = self.cluster.get("Pod", self.namespace, name)
        assert found is not None
        return found

    def _give_up(self) -> None:
        """Nobody expects the lost node back."""
        lost, self.on_it = self.on_it, set()
        for pod in self.cluster.list("Pod", self.namespace, ""):
            if pod["metadata"]["uid"] in lost:
                self._lose(pod)
        self._lose_drivers(lost)

    def _lose(self, pod: Object) -> None:
        self.cluster.delete("Pod", self.namespace, pod["metadata"]["name"])
        for each in pod["metadata"].get("ownerReferences") or ():
            job = self.cluster.get(each["kind"], self.namespace, each["name"]) if each["kind"] == "Job" else None
            if job is not None and job["metadata"]["uid"] == each["uid"] and not ended(job):
                self._count(job)

    def _count(self, job: Object) -> None:
        uid = job["metadata"]["uid"]
        self.failed[uid] = self.failed.get(uid, 0) + 1
        counts = {"startTime": STAMP, "failed": self.failed[uid], "ready": 0}
        if self.failed[uid] <= job["spec"]["backoffLimit"]:
            self.cluster.set_status(job, {**counts, "active": 0, "uncountedTerminatedPods": {}})
            return
        said = {"reason": TOO_MANY_FAILED, "message": "Job has reached the specified backoff limit"}
        ends = [{**_TRUE, **said, "type": each} for each in ("FailureTarget", "Failed")]
        self.cluster.set_status(job, {**counts, "conditions": ends})

    def _lose_drivers(self, lost: Collection[str] | None = None) -> None:
        for each in self.driving():
            if lost is None or each["metadata"]["uid"] in lost:
                failed = {"state": SPARK_FAILED, "errorMessage": DRIVER_GONE}
                self.cluster.set_status(each, {"applicationState": failed})

    # --- what goes on ---

    def complete(self, execution: str) -> bool:
        """Whether nothing of that execution is missing in the store."""
        return {(execution, each) for each in (*self.runs, VERIFIED)} <= self.results

    def _those(self, kind: str) -> list[Object]:
        others = {*self.theirs, *self.on_it}
        return [each for each in super()._those(kind) if each["metadata"]["uid"] not in others]

    def _pods(self, job: str) -> list[Object]:
        return [pod for pod in super()._pods(job) if (pod.get("status") or {}).get("phase") not in ENDS]

    def _living(self, run_job: str) -> list[str]:
        """Anybody can give a pod of his own our labels."""
        pods = self.cluster.list("Pod", self.namespace, "") if self.theirs else []
        theirs = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["uid"] in self.theirs]
        return [name for name in super()._living(run_job) if name not in theirs]

    def _move_job(self, made: Object) -> None:
        made = _labelled(made)
        name, goes_on = made["metadata"]["name"], (made.get("status") or {}).get("ready")
        if goes_on and self.jobs.get(name) and not self.fails(made):
            for pod in self._pods(name):
                if not (pod.get("status") or {}).get("containerStatuses"):
                    self.cluster.set_status(pod, {"phase": "Running", "containerStatuses": [_SENT]})
                    return
        if goes_on:
            self._keep(made)
        super()._move_job(made)

    def _move_application(self, made: Object) -> None:
        if made["metadata"]["uid"] in self.late or (made.get("status") or {}).get("applicationState"):
            return
        self._keep(made)
        super()._move_application(made)

    def _keep(self, made: Object) -> None:
        """What it leaves in the store. That a run fails as the script says is its result, too."""
        labels = made["metadata"].get("labels") or {}
        run = (made["metadata"].get("annotations") or {}).get("dedup.dev/run")
        if labels.get(COMPONENT) == RUN and run:
            self.results.add((labels[EXECUTION], run))
        if made["kind"] == "SparkApplication":  # it is told of the execution's folder
            self.results.add((made["spec"]["arguments"][-1].rpartition("/")[2], VERIFIED))

    def _report(self, job: Object) -> None:
        if job["metadata"]["labels"].get(COMPONENT) == "report":
            whole = self.complete(job["metadata"]["labels"][EXECUTION])
            told = TOLD if whole else TOLD.model_copy(update={"verdict": Judgement.ERROR, "reasons": [_MISSING]})
            self.said, self.says = told.verdict, lambda: document(told)
        super()._report(job)

    def forged(self, made: Object) -> None:
        """Somebody says that it has ended. Its own controller leaves it, and its pod goes on."""
        self.late[made["metadata"]["uid"]] = LATE_MOVES

    def _move_late(self, uid: str) -> None:
        found = [each for kind in ("Job", "SparkApplication") for each in self.cluster.list(kind, self.namespace, "")]
        made = next((each for each in found if each["metadata"]["uid"] == uid), None)
        self.late[uid] -= 1
        if made is None or self.late[uid]:
            if made is None:
                del self.late[uid]
            return
        del self.late[uid]
        if made["kind"] == "SparkApplication":
            self._keep(made)
            return
        made = _labelled(made)
        for pod in self._pods(made["metadata"]["name"]):
            if any(each["uid"] == uid for each in pod["metadata"].get("ownerReferences") or ()):
                self._keep(made)
                self._report(made)
                self.cluster.set_status(pod, self._ended(made))


def name_in(uid: str) -> str:
    """A UID without the number that makes it another one each time, on the fake cluster."""
    return uid.rpartition("-")[0]


def _labelled(job: Object) -> Object:
    """The Job with its pods' labels if it has lost its own: nobody can change these, and they say the same."""
    if COMPONENT in (job["metadata"].get("labels") or {}):
        return job
    return {**job, "metadata": {**job["metadata"], "labels": job["spec"]["template"]["metadata"]["labels"]}}


_TRUE: Final = {"status": "True", "lastTransitionTime": STAMP, "lastProbeTime": STAMP}
_UNHEARD: Final = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
_EVICTED: Final = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on resource: memory.",
    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
    "containerStatuses": [
        {"name": "c", "state": {"terminated": {"exitCode": 137, "startedAt": STAMP, "finishedAt": STAMP}}}
    ],
}
_MISSING: Final = "a run has no result, or was not verified"
