"""The Kubernetes platform: the stage machine's hands in a cluster.

Nothing here waits and nothing is remembered: what there is, is read from the API server each time, and what is made has
a name that follows from whose it is. So whatever is begun twice exists once. An object of that name which does not
belong to the experiment is never taken for ours.

A run is one Job (decision 012). Its first stage is done when all its programs have started, the next when the producer
has ended in order, and the rest with the Job. A Job that is deleted leaves a pod that still ends, and its watchdog may
still have a fault to heal; a pod that broke may leave a partition until its deadline. No other run of the experiment
begins beside either. A Job that failed since its pod was taken away (a deletion, an eviction, a lost node) is a run
that was interrupted, and not one that failed: it is done again, as a new attempt.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.clients import is_program, libraries
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, Spec, System
from dedup.experiment.stages import Observation, Stage, State, Status, Task, current, finished
from dedup.faults.kinds import Need, Platform
from dedup.faults.registry import possible_on_existing
from dedup.refusals import short
from dedup_operator import sights
from dedup_operator.belongings import Belongings
from dedup_operator.clusters import Cluster, Object, Refused
from dedup_operator.locks import HERE, Home
from dedup_operator.objects.accounts import policies_of
from dedup_operator.objects.kafka import NOTHING, beside
from dedup_operator.objects.names import COMPONENT, LABEL, Owner, name_of
from dedup_operator.objects.own_experiments import check_own_experiments
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
from dedup_operator.objects.runs import RUN, deadlines_of, job_of, run_objects
from dedup_operator.objects.settings import Settings, bytes_of
from dedup_operator.objects.verifications import is_local, kind_of, verification
from dedup_operator.provision import provisioner
from dedup_operator.provision.consents import check_leave, check_still, has_locks, may_strike
from dedup_operator.provision.provisioner import Context, Provisioner
from dedup_operator.releases import Releases
from dedup_operator.sights import ABSENT, DONE, RUNNING, Told, Unattended

LEVEL: Final = "pod-security.kubernetes.io/enforce"
"""The label of a namespace that says what pods it takes; without it, the cluster's default holds."""
PRIVILEGED: Final = "privileged"
HELD: Final = 4
"""A part so small of a producer's memory may be messages that wait: its client copies them when it makes requests."""
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
        home: Home = HERE,
    ) -> None:
        self._cluster, self._now = cluster, now
        self._experiment, self._owner, self._settings = experiment, owner, settings
        self._belongings = Belongings(cluster, owner)
        self._context = Context(self._belongings, releases, experiment, settings, now, home)
        self.told: Told | None = None
        """What the report said, once it has been observed to be done."""

    def observe(self, task: Task, attempt: int) -> Observation:
        match task.stage:
            case Stage.PROVISION:
                return self._system(task).see()
            case Stage.TEARDOWN:
                return self._system(task).see_leaving()
            case Stage.VERIFY:
                return self._see_verification()
            case Stage.REPORT:
                return self._see_report()
            case _:
                return self._see_run(task, attempt)

    def start(self, task: Task, attempt: int) -> None:
        match task.stage:
            case Stage.PROVISION:
                self._system(task).start()
            case Stage.PREPARE:
                run = next(run for run in plan(self._experiment) if run.run_id == task.run_id)
                if policies_of(self._experiment):
                    # If the run's Job was refused before, this one is older than the run, and would end before it.
                    self._belongings.forget("Job", deadlines_of(self._owner, run.run_id, attempt))
                self._belongings.make(*run_objects(self._owner, self._experiment, run, attempt, self._settings))
            case Stage.TEARDOWN:
                self._system(task).leave()
            case Stage.VERIFY:
                self._forget_verification()
                self._belongings.make(verification(self._owner, self._experiment, self._settings))
            case Stage.REPORT:
                self._forget_report()
                failed = self._belongings.own("ConfigMap", failures_name(self._owner)) is not None
                messages = self._experiment.spec.workload.messages
                self._belongings.make(*report_objects(self._owner, self._settings, messages=messages, failed=failed))
            case _:
                pass  # a later stage of a run whose Job is gone: it will be seen to be absent, and begun anew

    def cancel(self, task: Task, attempt: int, reason: str) -> None:
        """End what runs. Whatever has ended by itself stays, for its log; and the report is told why."""
        if task.run_id is not None or task.stage is Stage.PROVISION:
            self._tell_report(task, reason)
        match task.stage:
            case Stage.PROVISION | Stage.TEARDOWN:
                self._system(task).cancel()
            case Stage.VERIFY:
                self._belongings.end(kind_of(self._experiment), name_of(self._owner, "verification"))
            case Stage.REPORT:
                self._belongings.end("Job", report_name(self._owner))
            case _:
                self._belongings.end("Job", self._job_of(task, attempt))

    def wait(self, timeout_s: float) -> None:
        """Nobody waits here: whoever asked asks again when something changed, or later."""

    def check(self, task: Task | None = None) -> None:
        """PlatformError if something is missing that only an administrator installs, for this task or for any.

        That is Spark's operator, unless the experiment is verified without it, and Strimzi's if a system is its. Other
        charts are of kinds that every cluster has.
        """
        check_leave(self._experiment.spec, self._settings)
        systems = [each for each in self._experiment.spec.systems if task is None or each.name == task.system]
        ways = {way.lacks: way for way in map(self._provisioner, systems)}  # what one way lacks is asked for once
        for system in systems:
            for variant in self._experiment.spec.variants:
                _check_client(system.of(variant))
            _check_existing(system, self._experiment.spec)
            may_strike(self._cluster, self._owner.namespace, system, self._experiment.spec)
        _check_memory(self._experiment.spec, self._settings.runner.memory)
        _check_faults(self._experiment.spec)
        _check_services(self._experiment.spec)
        check_own_experiments(self._experiment.spec, self._settings.chaos_images)
        for way in ways.values():
            way.check()
        if not is_local(self._experiment):
            self._belongings.require(
                "SparkApplication",
                rule="Spark's operator verifies histories, and no run is begun that nobody could verify",
                todo="install Spark's operator (kubeflow's, v2), and let it watch this namespace; "
                "or write verification: {engine: Local}",
            )
        if task is not None:
            self.check_faults(task)

    def check_faults(self, task: Task | None = None) -> None:
        """PlatformError for a fault that we may not do, or whose pods the namespace refuses.

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
        for system in self._systems():
            if system.see_leaving() != DONE:
                system.leave()

    def is_quiet(self) -> bool:
        """Whether no pod of a run is at work any more, and nothing that one has cut off is."""
        return not self._run_pods() and not self._cuts()

    def withdrawn(self, task: Task) -> PlatformError | None:
        """Why a run that is at work may not go on: an owner of pods that it may strike allows it no more, or its
        system's lock is gone."""
        if task.run_id is None:
            return None
        system = next(each for each in self._experiment.spec.systems if each.name == task.system)
        try:
            self._provisioner(system).check_had()
            check_still(self._cluster, self._owner.namespace, system, self._experiment.spec)
        except PlatformError as error:
            return error
        return None

    @property
    def has_locks(self) -> bool:
        """Whether its systems that are there already are locked, and what it makes there is removed."""
        return has_locks(self._experiment.spec, self._settings)

    def left_to_others(self) -> bool:
        """Leave the systems that were there before, a step at a time; whether nothing of ours is left on them."""
        for system in self._theirs():
            if system.see_leaving() != DONE:
                system.leave()
        return self.has_left_others()

    def has_left_others(self) -> bool:
        """Whether nothing of ours is left on the systems that were there before."""
        return all(system.see_leaving() == DONE for system in self._theirs())

    def waits_for(self) -> str:
        """What the leaving of such systems waits for, in words."""
        seen = [system.see_leaving().message for system in self._theirs()]
        return "; ".join(each for each in seen if each) or "what it has made on systems of others is being removed"

    def has_left(self) -> bool:
        """Whether nothing of any system is left."""
        return all(system.see_leaving() == DONE for system in self._systems())

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
            job = self._belongings.ours("Job", self._job_of(task, attempt))
            if job is not None and not sights.ended(job):
                if not self.carries(task, attempt):
                    self.cancel(task, attempt, reason)
                return False
        if not self.is_quiet():
            return False
        self.leave()
        return self.has_left()

    def carries(self, task: Task, attempt: int) -> bool:
        """Whether the run has come to its result, which only has to be carried to the store: it cannot be repeated."""
        job = self._belongings.ours("Job", self._job_of(task, attempt))
        return job is not None and sights.has_a_result(self._belongings.pods(job))

    # --- what can be seen ---

    def _see_verification(self) -> Observation:
        name = name_of(self._owner, "verification")
        if is_local(self._experiment):
            job = self._belongings.own("Job", name)
            return ABSENT if job is None else self._belongings.see_job(job)
        application = self._belongings.own("SparkApplication", name)
        if application is None:
            return ABSENT
        limit_s = self._experiment.spec.timeouts.verify_s
        sights.require_attention(application, "Spark's operator", self._now(), limit_s)
        if sights.lost_its_driver(application):
            return ABSENT
        if (seen := sights.judged(application)) != RUNNING:
            return seen
        pods = self._cluster.list("Pod", self._owner.namespace, f"{APPLICATION}={name}", sights.PENDING)
        return sights.because(seen, pods)

    def _see_run(self, task: Task, attempt: int) -> Observation:
        job = self._belongings.own("Job", self._job_of(task, attempt))
        if job is None:
            if not self._system(task).is_there():
                return Observation(status=Status.UNPROVISIONED)
            return sights.in_the_way(self._run_pods(), self._cuts()) if task.stage is Stage.PREPARE else ABSENT
        if sights.ended(job):
            pods = self._belongings.pods(job)
            if sights.taken_away(job, pods):
                return ABSENT
            return sights.seen(job, pods).model_copy(update={"missed": sights.missed(pods)})
        if task.stage is Stage.SETTLE:
            return DONE
        pods = self._belongings.pods(job)
        if task.stage is Stage.PREPARE and sights.begun(job, pods):
            return DONE
        if task.stage is Stage.PRODUCE and sights.has_ended("producer", pods):
            return DONE
        return sights.seen(job, pods).model_copy(update={"at_work": sights.at_work(pods)})

    def _see_report(self) -> Observation:
        """Done when the Job has ended in order and its bulletin is in its home; no pod is asked, and no log.

        A bulletin that is not there, or has no home, was lost: it is written again. One that says something else than
        a report on this experiment does is an error, and stays for people to look at.
        """
        job = self._belongings.own("Job", report_name(self._owner))
        home = self._belongings.own("ConfigMap", home_name(self._owner))
        if job is None:
            return ABSENT
        seen = self._belongings.see_job(job)
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

    def _tell_report(self, task: Task, reason: str) -> None:
        """A reason that may not be written is lost, and holds nothing up."""
        namespace, name = self._owner.namespace, failures_name(self._owner)
        with suppress(Refused, PlatformError):
            kept = self._belongings.own("ConfigMap", name)
            made = failures(self._owner, with_failure(failures_in(kept) if kept else {}, task, reason))
            if not self._cluster.create(made) and kept is not None:
                self._cluster.patch("ConfigMap", namespace, name, {"data": made["data"]})

    def _forget_report(self) -> None:
        """One that ended and left no bulletin, so that another can be made."""
        if (job := self._belongings.ours("Job", report_name(self._owner))) is not None and sights.ended(job):
            self._cluster.delete("Job", self._owner.namespace, job["metadata"]["name"])

    def _forget_verification(self) -> None:
        """An application whose driver was lost, so that another can be made."""
        if is_local(self._experiment):
            return
        name = name_of(self._owner, "verification")
        found = self._belongings.ours("SparkApplication", name)
        if found is not None and sights.lost_its_driver(found):
            self._cluster.delete("SparkApplication", self._owner.namespace, name)

    # --- what there is ---

    def _run_pods(self) -> list[Object]:
        """Those that have not ended, of this experiment: thousands may have."""
        of_runs = f"{LABEL}={self._owner.name},{COMPONENT}={RUN}"
        found = self._cluster.list("Pod", self._owner.namespace, of_runs, sights.NOT_ENDED)
        return [pod for pod in found if self._belongings.may_have_made(pod)]

    def _cuts(self) -> list[Object]:
        """The policies by which pods of this experiment's runs, ended or not, keep a broker cut off."""
        if not policies_of(self._experiment):
            return []
        policies = self._cluster.list("NetworkPolicy", self._owner.namespace, sights.PARTITIONS)
        return [each for each in policies if self._may_be_ours(each)]

    def _may_be_ours(self, policy: Object) -> bool:
        """A pod of ours made it, or one that is gone already: then the policy is about to go, too."""
        names = [each["name"] for each in policy["metadata"].get("ownerReferences") or () if each["kind"] == "Pod"]
        pods = [self._cluster.get("Pod", self._owner.namespace, name) for name in names]
        return any(not pod or (pod["metadata"].get("labels") or {}).get(LABEL) == self._owner.name for pod in pods)

    def _job_of(self, task: Task, attempt: int) -> str:
        return job_of(self._owner, str(task.run_id), attempt)

    def _system(self, task: Task) -> Provisioner:
        return next(self._provisioner(each) for each in self._experiment.spec.systems if each.name == task.system)

    def _systems(self) -> list[Provisioner]:
        return [self._provisioner(each) for each in self._experiment.spec.systems]

    def _theirs(self) -> list[Provisioner]:
        return [self._provisioner(each) for each in self._experiment.spec.systems if each.existing is not None]

    def _provisioner(self, system: System) -> Provisioner:
        return provisioner(self._context, system)


def needs_verification(tasks: tuple[Task, ...], state: State) -> bool:
    """Whether what is to be begun next is of no use without it. A run that goes on is not stopped for that."""
    if finished(tasks, state):
        return False
    task, _ = current(tasks, state)
    return task.stage is Stage.VERIFY or (task.stage in (Stage.PROVISION, Stage.PREPARE) and not state.intended)


def _check_client(system: System) -> None:
    """PlatformError if the client is a program of the user's own, or one that would need a Secret."""
    if system.client.command is not None:
        raise PlatformError(
            where=f"system {system.name}: client.command",
            got=f"{short(system.client.command[0])}, a program of your own",
            rule="only `dedup run` starts it, on your machine; pods have the programs that dedup knows",
            todo=f"write client.library: {libraries(system.protocol)}, or use `dedup run` on one machine",
        )
    if is_program(system.library, system.client_version) and system.existing is not None and system.existing.secrets:
        raise PlatformError(
            where=f"system {system.name}: client.library",
            got=f"{system.library} {system.client_version}, a program",
            rule="in a cluster a program is given no password, no token and no certificate",
            todo="write the installed client, or name a listener that asks for none",
        )


def _check_services(spec: Spec) -> None:
    """PlatformError if no chart has what the workload needs: a database, a function worker, a second cluster, …"""
    if spec.workload.replicated:
        raise PlatformError(
            where="spec.workload.replication",
            got="a replication to a second cluster",
            rule="only `dedup run` starts two clusters, and the link between them",
            todo="take it out, or use `dedup run` on one machine",
        )
    listed = next((system for system in spec.systems if system.listed is not None), None)
    if listed is not None and spec.workload.works(spec.variants):
        raise PlatformError(
            where="spec.workload.consumer.function",
            got=f"a function of Pulsar, and system {listed.name} by the chart {short(listed.listed)}",
            rule="the chart of ours starts the worker that runs a function; what a chart of others starts is not known",
            todo="leave deploy out, or take the function out",
        )
    without = next((each for each in spec.systems if spec.served and beside(spec, each) == NOTHING), None)
    if without is not None:
        raise PlatformError(
            where="spec.workload.consumer.service",
            got=f"{', '.join(sorted(spec.served))}, and system {without.name} by the chart {short(without.chart)}",
            rule="our chart of a Kafka starts the database and the capture that a service needs; no other does",
            todo="leave deploy out, or take the service out",
        )
    deployed = [system.name for system in spec.systems if system.protocol == "pulsar" and system.existing is None]
    if spec.workload.coordinated and deployed:
        raise PlatformError(
            where="spec.workload",
            got=f"transactions, and system {deployed[0]}, a Pulsar",
            rule="the chart of a Pulsar starts no transaction coordinator",
            todo="use `dedup run` on one machine, or test the Kafka by itself",
        )


def _check_faults(spec: Spec) -> None:
    """PlatformError if a fault is of a kind, or has a setting, that is not for pods."""
    for where, fault in spec.written_faults:
        if fault.given.not_in_pods:
            raise PlatformError(
                where=f"spec.{where}.{fault.kind}",
                got=f"fault {fault.name}",
                rule=f"only `dedup run` can do it; pods {fault.given.not_in_pods}",
                todo="take it out, or use `dedup run` on one machine",
            )
        for choice in fault.given.chosen:
            if choice.need is Need.PROCESSES:
                raise PlatformError(
                    where=f"spec.{where}.{fault.kind}.{fault.given.alias(choice.field)}",
                    got=choice.value.value,
                    rule=choice.rule,
                    todo=choice.todo,
                )


def _check_existing(system: System, spec: Spec) -> None:
    """PlatformError if a fault is for systems of others only where it is not a pod's."""
    if system.existing is None:
        return
    for at, fault in spec.written_faults:
        allowed = fault.given.on_consent and system.existing.pod_selector is not None
        if Platform.PODS not in fault.given.on_existing and not allowed:
            raise PlatformError(
                where=f"spec.{at}.{fault.kind}",
                got=f"fault {fault.name}, of a system that is there already",
                rule="in a cluster it acts on brokers that are pods of the experiment's own, and those of "
                f"{system.name} are not; only `dedup run` can do it there",
                todo=f"write {possible_on_existing(Platform.PODS)}, or use `dedup run` on one machine",
            )


def _check_memory(spec: Spec, memory: str) -> None:
    """PlatformError if what a client may hold unacknowledged does not fit into a producer's container."""
    in_flight = spec.workload.in_flight
    held = (spec.workload.payload_bytes or 0) * in_flight
    if (most := bytes_of(memory) // HELD) < held:
        raise PlatformError(
            where="spec.workload.payload.bytes",
            got=f"{held:,} bytes in {in_flight:,} messages that may be unacknowledged",
            rule=f"a producer's container has {memory} (settings.runner.memory), of which they may take {most:,} bytes",
            todo="lower inFlight, make the messages smaller, or have the operator's chart give runners more memory",
        )
