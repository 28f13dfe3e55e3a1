"""The pods of systems that are there already: which an experiment may strike, as their owner says now.

Asked before anything is begun, and before each run: an owner who takes the label away stalls the experiment.
"""

from collections.abc import Iterator

from dedup.experiment.consents import Candidate, consenting
from dedup.experiment.endpoints import BrokerPod
from dedup.experiment.spec import Spec, System
from dedup.faults.kinds import FaultKind
from dedup_operator.clusters import Cluster


def candidates(cluster: Cluster, namespace: str, system: System) -> list[Candidate]:
    """The pods that the system's selector names, in the experiment's namespace; none if it names none."""
    if system.existing is None or system.existing.pod_selector is None:
        return []
    found = cluster.list("Pod", namespace, system.existing.pod_selector.written)
    return [Candidate.of(each) for each in found if not each["metadata"].get("deletionTimestamp")]


def may_strike(cluster: Cluster, namespace: str, system: System, spec: Spec) -> dict[str, BrokerPod]:
    """The containers that faults of the experiment may strike, by their pods; PlatformError says what is missing."""
    faults = striking(spec)
    if system.existing is None or system.existing.pod_selector is None or not faults:
        return {}
    return consenting(system.existing.pod_selector.written, candidates(cluster, namespace, system), faults)


def striking(spec: Spec) -> list[FaultKind]:
    """The experiment's faults that strike pods of others."""
    return [each.given for _, each in spec.written_faults if each.given.on_consent]


def struck(cluster: Cluster, namespace: str, spec: Spec) -> Iterator[str]:
    """The names of all pods of others that the experiment's faults may strike."""
    for system in spec.systems:
        yield from may_strike(cluster, namespace, system, spec)
