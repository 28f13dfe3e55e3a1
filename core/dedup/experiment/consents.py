"""Whose pods are the brokers of a system that is there already, and may they be struck? Proven, never guessed.

The experiment names pods by their labels. Their owner says of each that faults are allowed, by the label
`dedup.dev/faults: allowed`; which of several containers is the broker, and in which folder the start looks for a
hold, by annotations. Which broker is in which pod is told by addresses: the one at which a broker has clients come,
looked up, is the pod's own. An address that leads to a Service, a load balancer or a node proves nothing, and then
nothing is struck.

Pure: whoever asks the API server and the brokers brings what they said.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from dedup.errors import PlatformError
from dedup.experiment.endpoints import BrokerPod
from dedup.faults.kinds import FaultKind

CONSENT: Final = ("dedup.dev/faults", "allowed")
"""The label by which a pod's owner allows faults."""
CONTAINER: Final = "dedup.dev/container"
"""The annotation that names the broker's container, where a pod has several."""
HOLD: Final = "dedup.dev/hold"
"""The annotation that names the folder in which the container's start looks for `until` and writes `pid`."""
_FOLDER: Final = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+")
KEEPERS: Final = ("StatefulSet", "StrimziPodSet")
"""Controllers that make a pod anew under its name."""
MOST_NAMED: Final = 5


class Candidate(NamedTuple):
    """A pod that the experiment's selector has found."""

    namespace: str
    name: str
    addresses: frozenset[str]
    consents: bool
    containers: tuple[str, ...]
    annotations: Mapping[str, str]
    keeps_name: bool
    """Its controller gives the pod that takes its place the same name."""

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> Self:
        """From the API server's JSON."""
        meta, status = pod["metadata"], pod.get("status") or {}
        found = [each.get("ip") for each in status.get("podIPs") or ()] or [status.get("podIP")]
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            addresses=frozenset(each for each in found if each),
            consents=(meta.get("labels") or {}).get(CONSENT[0]) == CONSENT[1],
            containers=tuple(each["name"] for each in (pod.get("spec") or {}).get("containers") or ()),
            annotations=meta.get("annotations") or {},
            keeps_name=any(each["kind"] in KEEPERS for each in meta.get("ownerReferences") or ()),
        )


def consenting(selector: str, pods: Sequence[Candidate], faults: Iterable[FaultKind]) -> dict[str, BrokerPod]:
    """The brokers' containers by their pods' names; PlatformError if one of them may not, or cannot, be struck."""
    if not pods:
        rule = "podSelector names the brokers' pods, in the experiment's namespace"
        raise _unable(f"pods {selector}", "none with these labels", rule, "them, and the namespace")
    if silent := sorted(each.name for each in pods if not each.consents):
        named = ", ".join(silent[:MOST_NAMED]) + (
            f" and {len(silent) - MOST_NAMED} more" if silent[MOST_NAMED:] else ""
        )
        label = "=".join(CONSENT)
        raise PlatformError(
            where=f"pods {selector}",
            got=f"no label {label} at {named}",
            rule="faults strike pods of others only if their owner allows it, at each of them",
            todo=f"have their owner label them ({label}, at the pod template), or narrow podSelector",
        )
    found = {each.name: _container(each) for each in pods}
    asked = [each for each in faults if each.on_consent]
    for pod in pods:
        if found[pod.name].hold is None and any(each.needs_hold for each in asked):
            raise PlatformError(
                where=f"pod {pod.name}",
                got=f"no annotation {HOLD}",
                rule="without a hold the kubelet starts a killed broker again at once, so restartAfter cannot be kept",
                todo="write restartAfter: 0s, or have its owner name the folder of a hold (docs/charts.md)",
            )
        if not pod.keeps_name and any(each.replaces_pod for each in asked):
            raise PlatformError(
                where=f"pod {pod.name}",
                got="no owner that makes it anew under its name",
                rule=f"a deleted pod is known to be back by its name, which a {' or '.join(KEEPERS)} keeps",
                todo="write kill, or have the brokers run in a StatefulSet",
            )
    return found


def placed(brokers: Mapping[str, Iterable[str]], pods: Sequence[Candidate]) -> dict[str, str]:
    """The name of each broker's pod, by the broker's id; PlatformError if one cannot be proven.

    `brokers` are the addresses (IP) to which each broker's advertised host leads.
    """
    if not brokers:
        raise _unable("brokers", "no word where they are", "a round trip tells where brokers are", "the log of its Job")
    found: dict[str, str] = {}
    for broker, addresses in brokers.items():
        wanted = frozenset(addresses)
        here = [each.name for each in pods if each.addresses & wanted]
        if len(here) != 1 or not wanted <= next(each.addresses for each in pods if each.name == here[0]):
            said = ", ".join(sorted(wanted)) or "nowhere"
            raise PlatformError(
                where=f"broker {broker}",
                got=f"an advertised address that leads to {said}, "
                + (f"the address of {' and '.join(here)}" if here else "no address of a selected pod"),
                rule="a broker's pod is proven by its address: the advertised host leads to that pod and to no other",
                todo="name a listener that advertises the pods themselves (of a headless Service), or mend podSelector",
            )
        found[broker] = here[0]
    if len(set(found.values())) < len(found):
        words = ", ".join(f"{broker} in {pod}" for broker, pod in sorted(found.items()))
        raise _unable("brokers", words, "each broker runs in a pod of its own", "the addresses that brokers advertise")
    return found


def _container(pod: Candidate) -> BrokerPod:
    named, hold = pod.annotations.get(CONTAINER), pod.annotations.get(HOLD)
    if named is None and len(pod.containers) != 1:
        raise PlatformError(
            where=f"pod {pod.name}",
            got=f"the containers {', '.join(pod.containers)}",
            rule="which of several containers is the broker is not guessed",
            todo=f"have its owner name it in the annotation {CONTAINER}",
        )
    if named is not None and named not in pod.containers:
        todo = f"have its owner write one of {', '.join(pod.containers)}"
        raise PlatformError(
            where=f"pod {pod.name}, annotation {CONTAINER}",
            got=named,
            rule="it names a container of the pod",
            todo=todo,
        )
    if hold is not None and not _FOLDER.fullmatch(hold):
        raise PlatformError(
            where=f"pod {pod.name}, annotation {HOLD}",
            got=hold,
            rule="it is the absolute path of a folder: letters, digits, dots, dashes, underlines and /",
            todo="have its owner mend it, or take it out",
        )
    return BrokerPod(namespace=pod.namespace, name=pod.name, container=named or pod.containers[0], hold=hold)


def _unable(where: str, got: str, rule: str, about: str) -> PlatformError:
    return PlatformError(where=where, got=got, rule=rule, todo=f"check {about}")
