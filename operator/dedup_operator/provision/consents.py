"""The pods of systems that are there already: which an experiment may strike, as their owner says now.

Asked before anything is begun, before each run, and while one is at work: an owner who takes the label away ends the
run, which heals, and stalls the experiment. The injector asks besides, at each strike (`dedup_runners.chaos`).
"""

from dedup.errors import PlatformError
from dedup.experiment.consents import CONSENT, Candidate, check_allowed, consenting, living
from dedup.experiment.endpoints import BrokerPod
from dedup.experiment.spec import Spec, System
from dedup.experiment.stages import Stage, Task
from dedup.faults.kinds import FaultKind
from dedup.refusals import short
from dedup_operator.clusters import Cluster, Object
from dedup_operator.objects.settings import Defaults, Settings


def check_leave(spec: Spec, allowed: Defaults) -> None:
    """PlatformError if an experiment names pods of others, and the administrator has not allowed that."""
    for system in spec.systems:
        if system.existing is None or system.existing.pod_selector is None or allowed.allow_faults_on_pods_of_others:
            continue
        raise PlatformError(
            where=f"system {system.name}: deploy.existing.podSelector",
            got=short(system.existing.pod_selector.written),
            rule="faults on pods of a system that is there already are a preview, which is not allowed here",
            todo="take podSelector out, or have the operator's chart installed with allowFaultsOnPodsOfOthers: true",
        )


def check_today(spec: Spec, begun_with: Settings, today: Defaults, task: Task) -> None:
    """PlatformError if the administrator's word has changed so that no other part of the execution may begin.

    An execution that began without locks has none, and must not test a system beside one that relies on its own.
    """
    if task.stage not in (Stage.PROVISION, Stage.PREPARE):
        return
    check_leave(spec, today)
    theirs = [each.name for each in spec.systems if each.existing is not None]
    if theirs and today.allow_faults_on_pods_of_others and not begun_with.allow_faults_on_pods_of_others:
        raise PlatformError(
            where=f"system {theirs[0]}",
            got="an execution that was begun without its lock",
            rule="with allowFaultsOnPodsOfOthers one experiment at a time tests a system that is there already",
            todo="choose another spec.runToken: it begins anew, with the lock",
        )


def has_locks(spec: Spec, settings: Defaults) -> bool:
    """Whether its systems that are there already are locked, and what it makes there is removed."""
    return settings.allow_faults_on_pods_of_others and any(each.existing is not None for each in spec.systems)


def candidates(cluster: Cluster, namespace: str, system: System) -> list[Candidate]:
    """The living pods that the system's selector names, in the experiment's namespace; none if it names none."""
    return living(_selected(cluster, namespace, system))


def may_strike(cluster: Cluster, namespace: str, system: System, spec: Spec) -> dict[str, BrokerPod]:
    """The containers that faults of the experiment may strike, by their pods; PlatformError says what is missing."""
    if system.existing is None or system.existing.pod_selector is None or not (faults := striking(spec)):
        return {}
    pods = _selected(cluster, namespace, system)
    found = consenting(system.existing.pod_selector.written, living(pods), faults)
    if any(each.replaces_pod for each in faults):
        _check_templates(cluster, namespace, pods)
    return found


def check_still(cluster: Cluster, namespace: str, system: System, spec: Spec) -> None:
    """PlatformError if one of the pods that are there while a run is at work may not be struck any more."""
    if system.existing is not None and system.existing.pod_selector is not None and striking(spec):
        check_allowed(system.existing.pod_selector.written, candidates(cluster, namespace, system))


def striking(spec: Spec) -> list[FaultKind]:
    """The experiment's faults that strike pods of others."""
    return [each.given for _, each in spec.written_faults if each.given.on_consent]


def _selected(cluster: Cluster, namespace: str, system: System) -> list[Object]:
    if system.existing is None or system.existing.pod_selector is None:
        return []
    return cluster.list("Pod", namespace, system.existing.pod_selector.written)


def _check_templates(cluster: Cluster, namespace: str, pods: list[Object]) -> None:
    """PlatformError if a pod that takes a deleted one's place would not consent. Strimzi's templates cannot be read."""
    owners = {
        each["name"]
        for pod in pods
        for each in pod["metadata"].get("ownerReferences") or ()
        if each["kind"] == "StatefulSet"
    }
    for name in sorted(owners):
        found = cluster.get("StatefulSet", namespace, name)
        labels = ((found or {}).get("spec", {}).get("template", {}).get("metadata") or {}).get("labels") or {}
        if found is not None and labels.get(CONSENT[0]) != CONSENT[1]:
            raise PlatformError(
                where=f"StatefulSet {name}",
                got=f"no label {'='.join(CONSENT)} in its pod template",
                rule="podDelete lets it make another pod, which must consent as the deleted one did",
                todo="have its owner label the pod template, or write kill",
            )
