"""The Kubernetes platform: the stage machine's hands in a cluster.

Nothing here waits and nothing is remembered: what there is, is read from the API server each time, and what is made has
a name that follows from whose it is. So whatever is begun twice exists once. An object of that name which does not
belong to the experiment is never taken for ours.

A run is one Job (decision 012). Its first stage is done when all its programs have started, the next when the producer
has ended in order, and the rest with the Job. A Job that is deleted leaves a pod that still ends, and its watchdog may
still have a fault to heal; a pod that broke may leave a partition until its deadline. No other run of the experiment
begins beside either.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.deployments import STRIMZI
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, System
from dedup.experiment.stages import Observation, Stage, Status, Task
from dedup_operator import sights
from dedup_operator.clusters import Cluster, ClusterError, Object, Refused, UnknownKind
from dedup_operator.objects.accounts import accounts, needs_deadlines
from dedup_operator.objects.names import COMPONENT, LABEL, Owner, labels, name_of
from dedup_operator.objects.readiness import readiness, readiness_name
from dedup_operator.objects.reports import (
    bulletin_in,
    failures,
    failures_in,
    failures_name,
    home_name,
    report_name,
    report_objects,
    with_failure,
)
from dedup_operator.objects.runs import RUN, run_objects
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.systems import release_of, values
from dedup_operator.objects.verifications import verification
from dedup_operator.releases import DEPLOYED, RELEASE, Releases, secrets_of, state_of
from dedup_operator.sights import ABSENT, DONE, RUNNING, Told, Unattended

WORKLOADS: Final[tuple[str, ...]] = ("StatefulSet", "Deployment")
STRIMZI_WORKLOADS: Final[tuple[str, ...]] = ("Kafka", "Pod")
"""What is left of a Kafka of Strimzi's for a while: both are labelled with its name, which is the release's."""
STILL: Final = {"metadata": {"annotations": {"strimzi.io/pause-reconciliation": "true"}}}
LEVEL: Final = "pod-security.kubernetes.io/enforce"
"""The label of a namespace that says what pods it takes; without it, the cluster's default holds."""
PRIVILEGED: Final = "privileged"
PARTITIONS: Final = "dedup.dev/fault=partition"
"""How `dedup_runners.chaos` labels the policies that it makes."""
APPLICATION: Final = "sparkoperator.k8s.io/app-name"
"""By which Spark's operator labels the driver and its executors."""


class KubernetesPlatform:
    """One execution of one experiment."""

    def __init__(
        self,
        cluster: Cluster,
        releases: Releases,
        experiment: Experiment,
        owner: Owner,
        settings: Settings,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cluster, self._releases, self._now = cluster, releases, now
        self._experiment, self._owner, self._settings = experiment, owner, settings
        self.told: Told | None = None
        """What the report said, once it has been observed to be done."""

    def observe(self, task: Task, attempt: int) -> Observation:
        match task.stage:
            case Stage.PROVISION:
                return self._see_system(self._system(task))
            case Stage.TEARDOWN:
                return self._see_leaving(self._system(task))
            case Stage.VERIFY:
                return self._see_verification()
            case Stage.REPORT:
                return self._see_report()
            case _:
                return self._see_run(task, attempt)

    def start(self, task: Task, attempt: int) -> None:
        match task.stage:
            case Stage.PROVISION:
                self._provision(self._system(task))
            case Stage.PREPARE:
                run = next(run for run in plan(self._experiment) if run.run_id == task.run_id)
                self._make(*run_objects(self._owner, self._experiment, run, attempt, self._settings))
            case Stage.TEARDOWN:
                self._leave(self._system(task))
            case Stage.VERIFY:
                self._make(verification(self._owner, self._experiment, self._settings))
            case Stage.REPORT:
                self._forget_report()
                failed = self._own("ConfigMap", failures_name(self._owner)) is not None
                self._make(*report_objects(self._owner, self._settings, failed=failed))
            case _:
                pass  # a later stage of a run whose Job is gone: it will be seen to be absent, and begun anew

    def cancel(self, task: Task, attempt: int, reason: str) -> None:
        """End what runs. Whatever has ended by itself stays, for its log; and the report is told why."""
        if task.run_id is not None or task.stage is Stage.PROVISION:
            self._tell_report(task, reason)
        match task.stage:
            case Stage.PROVISION | Stage.TEARDOWN:
                self._end("Job", readiness_name(self._owner, self._system(task)))
            case Stage.VERIFY:
                self._end("SparkApplication", name_of(self._owner, "verification"))
            case Stage.REPORT:
                self._end("Job", report_name(self._owner))
            case _:
                self._end("Job", self._job_of(task, attempt))

    def wait(self, timeout_s: float) -> None:
        """Nobody waits here: whoever asked asks again when something changed, or later."""

    def check(self, task: Task | None = None) -> None:
        """PlatformError if something is missing that only an administrator installs, for this task or for any.

        That is Spark's operator, and Strimzi's if a system is its. Other charts are of kinds that every cluster has.
        """
        systems = [each for each in self._experiment.spec.systems if task is None or each.name == task.system]
        if any(system.chart == STRIMZI for system in systems):
            self._require(
                "Kafka",
                rule="Strimzi's operator runs the Kafka of the chart strimzi-kafka",
                todo="install it (1.0 or later, which knows kafka.strimzi.io/v1), and let it watch this namespace",
            )
        self._require(
            "SparkApplication",
            rule="Spark's operator verifies histories, and no run is begun that nobody could verify",
            todo="install Spark's operator (kubeflow's, v2), and let it watch this namespace",
        )
        if task is not None:
            self.check_faults(task)

    def _require(self, kind: str, rule: str, todo: str) -> None:
        if not self._knows(kind):
            raise PlatformError(where=kind, got="a cluster that does not know this kind", rule=rule, todo=todo)

    def _knows(self, kind: str) -> bool:
        try:
            self._cluster.get(kind, self._owner.namespace, name_of(self._owner, "whether the kind is known"))
        except UnknownKind:
            return False
        return True

    def check_faults(self, task: Task | None = None) -> None:
        """PlatformError if a fault needs what the operator may not do, or pods that the namespace refuses.

        Of this task, or of any: only runs have faults.
        """
        if task is not None and task.stage in (Stage.TEARDOWN, Stage.VERIFY, Stage.REPORT):
            return
        if not (faults := self._experiment.spec.privileged_faults):
            return
        if not self._settings.allow_privileged_faults:
            raise PlatformError(
                where="spec.faults",
                got=f"{faults[0]}, a partition by NetFilter",
                rule="it adds a container with NET_ADMIN to a broker's pod, which this operator has no right to",
                todo="write by: NetworkPolicy, or have the operator's chart installed with allowPrivilegedFaults: true",
            )
        found = self._cluster.get("Namespace", "", self._owner.namespace) or {}
        level = (found.get("metadata", {}).get("labels") or {}).get(LEVEL, PRIVILEGED)
        if level != PRIVILEGED:
            raise PlatformError(
                where=f"Namespace {self._owner.namespace}",
                got=f"Pod Security level {level}",
                rule=f"fault {faults[0]} adds a container with NET_ADMIN to a broker's pod, which that level refuses",
                todo=f"write by: NetworkPolicy, or label the namespace {LEVEL}={PRIVILEGED}",
            )

    def leave(self) -> None:
        """End every system, whatever became of the experiment."""
        for system in self._experiment.spec.systems:
            if self._see_leaving(system) != DONE:
                self._leave(system)

    def rest(self, task: Task, attempt: int, reason: str) -> bool:
        """End what runs, for as long as the experiment cannot go on; whether nothing is left of it.

        The run first, whose pods heal and carry until they have ended, and then its system. A verification or report
        comes to its own end.
        """
        if task.stage in (Stage.VERIFY, Stage.REPORT):
            try:
                return self.observe(task, attempt).status is not Status.RUNNING
            except Unattended:  # it could begin whenever somebody looks at it
                self.cancel(task, attempt, reason)
                return True
        if task.run_id is not None:
            job = self._ours("Job", self._job_of(task, attempt))
            if job is not None and not sights.ended(job):
                if not self.carries(task, attempt):
                    self.cancel(task, attempt, reason)
                return False
        if self._run_pods() or self._cuts():
            return False
        self.leave()
        return all(self._see_leaving(system) == DONE for system in self._experiment.spec.systems)

    def carries(self, task: Task, attempt: int) -> bool:
        """Whether the run has come to its result, which only has to be carried to the store: it cannot be repeated."""
        job = self._ours("Job", self._job_of(task, attempt))
        return job is not None and sights.has_a_result(self._pods(job))

    # --- what can be seen ---

    def _see_system(self, system: System) -> Observation:
        if not self._is_there(system):
            return self._see_remains(system)
        if system.chart == STRIMZI and (waits := self._see_strimzi(system)) != DONE:
            return sights.because(waits, self._system_pods(system))
        job = self._own("Job", readiness_name(self._owner, system))
        if job is None:
            return ABSENT
        proof = self._see_job(job)
        if system.existing is not None:
            return proof
        if proof == DONE and system.chart == STRIMZI:
            return self._see_stillness(system)
        seen = self._see_workloads(system) if proof == DONE else proof
        return seen if seen == DONE else sights.because(seen, self._system_pods(system))

    def _see_job(self, job: Object) -> Observation:
        return sights.seen(job, self._pods(job))

    def _see_workloads(self, system: System) -> Observation:
        workloads = sights.ready(self._workloads(system))
        return RUNNING if workloads == ABSENT else workloads

    def _see_strimzi(self, system: System) -> Observation:
        kafka = self._kafka(system)
        if kafka is None:
            return RUNNING
        sights.require_attention(kafka, "Strimzi's operator", self._now(), self._experiment.spec.timeouts.provision_s)
        return sights.strimzi(kafka, self._now())

    def _see_stillness(self, system: System) -> Observation:
        """Nothing is hurt before Strimzi has said that it will not mend it."""
        if (kafka := self._kafka(system)) is not None and sights.keeps_still(kafka):
            return DONE
        return Observation(
            status=Status.RUNNING, message="Strimzi's operator has not said that it leaves the Kafka alone"
        )

    def _see_remains(self, system: System) -> Observation:
        """Pods of a Kafka that was taken away belong to one of the same name: none is made beside them."""
        if system.chart == STRIMZI and self._state(system) is None and self._workloads(system):
            return Observation(status=Status.RUNNING, message="what is left of an earlier Kafka is still going")
        return ABSENT

    def _see_verification(self) -> Observation:
        name = name_of(self._owner, "verification")
        application = self._own("SparkApplication", name)
        if application is None:
            return ABSENT
        limit_s = self._experiment.spec.timeouts.verify_s
        sights.require_attention(application, "Spark's operator", self._now(), limit_s)
        if (seen := sights.judged(application)) != RUNNING:
            return seen
        pods = self._cluster.list("Pod", self._owner.namespace, f"{APPLICATION}={name}", sights.PENDING)
        return sights.because(seen, pods)

    def _see_leaving(self, system: System) -> Observation:
        if self._state(system) is not None or self._own("Job", readiness_name(self._owner, system)):
            return ABSENT
        return RUNNING if self._workloads(system) else DONE

    def _see_run(self, task: Task, attempt: int) -> Observation:
        job = self._own("Job", self._job_of(task, attempt))
        if job is None:
            if not self._is_there(self._system(task)):
                return Observation(status=Status.UNPROVISIONED)
            return sights.in_the_way(self._run_pods(), self._cuts()) if task.stage is Stage.PREPARE else ABSENT
        if sights.ended(job):
            pods = self._pods(job)
            return sights.seen(job, pods).model_copy(update={"missed": sights.missed(pods)})
        match task.stage:
            case Stage.PREPARE:
                return DONE if sights.begun(job) else self._see_job(job)
            case Stage.PRODUCE:
                pods = self._pods(job)
                return DONE if sights.has_ended("producer", pods) else sights.seen(job, pods)
            case Stage.SETTLE:
                return DONE
            case _:
                return RUNNING

    def _see_report(self) -> Observation:
        """Done when the Job has ended in order and its bulletin is in its home; no pod is asked, and no log.

        A bulletin that is not there, or has no home, was lost: it is written again. One that says something else than
        a report on this experiment does is an error, and stays for people to look at.
        """
        job, home = self._own("Job", report_name(self._owner)), self._own("ConfigMap", home_name(self._owner))
        if job is None:
            return ABSENT
        seen = self._see_job(job)
        if seen.status is Status.RUNNING:
            return seen
        if home is None or (seen == DONE and bulletin_in(home) is None):
            return ABSENT
        if seen != DONE:
            return seen
        self.told, wrong = sights.told(str(bulletin_in(home)), self._experiment.digest())
        return (
            Observation(status=Status.FAILED, message=f"ConfigMap {home_name(self._owner)}: {wrong}") if wrong else seen
        )

    # --- what is done ---

    def _provision(self, system: System) -> None:
        """Make the release whole before the Job that proves it: once there is the Job, nothing is left to do.

        A Kafka of Strimzi's is proven when Strimzi says that it is ready, and asked to be left alone from then on.
        """
        self._make(*accounts(self._owner, self._experiment, self._settings.account_annotations))
        if system.existing is None:
            self._deploy(system)
        if system.chart == STRIMZI:
            if self._see_strimzi(system) != DONE:
                return  # when it is, there is no Job yet, and this is begun again
            self._keep_still(system)
        self._make(readiness(self._owner, self._experiment, system, self._settings))

    def _deploy(self, system: System) -> None:
        """Make a release whole. Helm's records of one that did not become so are the experiment's all the same."""
        release = release_of(self._owner, system)
        try:
            if not self._installed(system, release):
                return
        except ClusterError:
            self._adopt(release)
            raise
        self._adopt(release)

    def _installed(self, system: System, release: str) -> bool:
        """Whether it is now; nothing is installed beside pods that an earlier one left."""
        namespace = self._owner.namespace
        if (state := self._state(system)) == DEPLOYED:
            return True
        self._forget_readiness(system)  # which was another release's
        if state is not None:
            self._releases.uninstall(release, namespace)
        if system.chart == STRIMZI and self._workloads(system):
            return False
        marks = labels(self._owner, RELEASE, uid=str(self._owner.uid))
        self._releases.install(release, namespace, system.chart, values(system, self._settings, self._owner), marks)
        return True

    def _adopt(self, release: str) -> None:
        namespace = self._owner.namespace
        for secret in secrets_of(self._cluster, release, namespace):
            if not secret["metadata"].get("ownerReferences"):
                owned = {"metadata": {"ownerReferences": [self._owner.reference]}}
                self._cluster.patch("Secret", namespace, secret["metadata"]["name"], owned)

    def _keep_still(self, system: System) -> None:
        """Ask Strimzi's operator to leave a Kafka alone: it would mend what a fault breaks."""
        self._cluster.patch("Kafka", self._owner.namespace, release_of(self._owner, system), STILL)

    def _tell_report(self, task: Task, reason: str) -> None:
        """A reason that may not be written is lost, and holds nothing up."""
        namespace, name = self._owner.namespace, failures_name(self._owner)
        with suppress(Refused, PlatformError):
            kept = self._own("ConfigMap", name)
            made = failures(self._owner, with_failure(failures_in(kept) if kept else {}, task, reason))
            if not self._cluster.create(made) and kept is not None:
                self._cluster.patch("ConfigMap", namespace, name, {"data": made["data"]})

    def _leave(self, system: System) -> None:
        """Helm cannot take away what the cluster does not know any more: then only its records are left, and go."""
        namespace, release = self._owner.namespace, release_of(self._owner, system)
        self._forget_readiness(system)
        if self._state(system) is None:
            return
        if system.chart != STRIMZI or self._knows("Kafka"):
            self._releases.uninstall(release, namespace)
            return
        for secret in secrets_of(self._cluster, release, namespace):
            self._cluster.delete("Secret", namespace, secret["metadata"]["name"])

    def _forget_readiness(self, system: System) -> None:
        if (job := self._ours("Job", readiness_name(self._owner, system))) is not None:
            self._cluster.delete("Job", self._owner.namespace, job["metadata"]["name"])

    def _forget_report(self) -> None:
        """One that ended and left no bulletin, so that another can be made."""
        if (job := self._ours("Job", report_name(self._owner))) is not None and sights.ended(job):
            self._cluster.delete("Job", self._owner.namespace, job["metadata"]["name"])

    def _make(self, *objects: Object) -> None:
        for made in objects:
            if not self._cluster.create(made):
                self._own(made["kind"], made["metadata"]["name"])

    def _end(self, kind: str, name: str) -> None:
        found = self._ours(kind, name)
        if found is None or (kind == "Job" and sights.ended(found)):
            return
        if kind == "Job" or sights.judged(found).status is Status.RUNNING:
            self._cluster.delete(kind, self._owner.namespace, name)

    # --- what there is ---

    def _ours(self, kind: str, name: str) -> Object | None:
        """The object of that name if it is ours, and not about to go."""
        found = self._cluster.get(kind, self._owner.namespace, name)
        return found if found and self._owns(found) and not found["metadata"].get("deletionTimestamp") else None

    def _owns(self, found: Object) -> bool:
        return any(each["uid"] == self._owner.uid for each in found["metadata"].get("ownerReferences") or ())

    def _own(self, kind: str, name: str) -> Object | None:
        """The object of that name, which must be ours."""
        found = self._cluster.get(kind, self._owner.namespace, name)
        if found is not None and not self._owns(found):
            raise PlatformError(
                where=f"{kind} {name}",
                got="one that does not belong to this experiment",
                rule="what carries the name of an experiment's part is its own",
                todo="find out who made it, and delete it",
            )
        return found if found is None or not found["metadata"].get("deletionTimestamp") else None

    def _pods(self, job: Object) -> list[Object]:
        """The pods that the Job has made: anybody who may create pods can give his own the Job's label."""
        meta = job["metadata"]
        found = self._cluster.list("Pod", self._owner.namespace, f"batch.kubernetes.io/job-name={meta['name']}")
        return [
            pod
            for pod in found
            if any(each["uid"] == meta["uid"] for each in pod["metadata"].get("ownerReferences") or ())
        ]

    def _system_pods(self, system: System) -> list[Object]:
        return self._cluster.list("Pod", self._owner.namespace, self._selector(system))

    def _run_pods(self) -> list[Object]:
        """Those that have not ended, of this experiment: thousands may have."""
        of_runs = f"{LABEL}={self._owner.name},{COMPONENT}={RUN}"
        return self._cluster.list("Pod", self._owner.namespace, of_runs, sights.NOT_ENDED)

    def _cuts(self) -> list[Object]:
        """The policies by which pods of this experiment's runs, ended or not, keep a broker cut off."""
        if not needs_deadlines(self._experiment):
            return []
        policies = self._cluster.list("NetworkPolicy", self._owner.namespace, PARTITIONS)
        return [each for each in policies if self._may_be_ours(each)]

    def _may_be_ours(self, policy: Object) -> bool:
        """A pod of ours made it, or one that is gone already: then the policy is about to go, too."""
        names = [each["name"] for each in policy["metadata"].get("ownerReferences") or () if each["kind"] == "Pod"]
        pods = [self._cluster.get("Pod", self._owner.namespace, name) for name in names]
        return any(not pod or (pod["metadata"].get("labels") or {}).get(LABEL) == self._owner.name for pod in pods)

    def _workloads(self, system: System) -> list[Object]:
        selector, kinds = self._selector(system), WORKLOADS
        if system.chart == STRIMZI:
            kinds = STRIMZI_WORKLOADS if self._knows("Kafka") else ("Pod",)
        return [each for kind in kinds for each in self._cluster.list(kind, self._owner.namespace, selector)]

    def _selector(self, system: System) -> str:
        return f"app.kubernetes.io/instance={release_of(self._owner, system)}"

    def _kafka(self, system: System) -> Object | None:
        return self._cluster.get("Kafka", self._owner.namespace, release_of(self._owner, system))

    def _is_there(self, system: System) -> bool:
        return system.existing is not None or self._state(system) == DEPLOYED

    def _state(self, system: System) -> str | None:
        """Helm's word for its release; none of a system that is there already, which is never ours to take away."""
        if system.existing is not None:
            return None
        return state_of(self._cluster, release_of(self._owner, system), self._owner.namespace)

    def _job_of(self, task: Task, attempt: int) -> str:
        return name_of(self._owner, "run", str(task.run_id), str(attempt))

    def _system(self, task: Task) -> System:
        return next(system for system in self._experiment.spec.systems if system.name == task.system)
