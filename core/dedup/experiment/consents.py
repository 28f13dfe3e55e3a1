"""Whose pods are the brokers of a system that is there already, and may they be struck? Proven, never guessed.

The experiment names pods by their labels. Their owner says of each that faults are allowed, by the label
`dedup.dev/faults: allowed`; which of several containers is the broker, and in which folder the start looks for a
hold, by annotations. Which broker is in which pod is told by addresses: the one at which a broker has clients come,
looked up, is the pod's own. An address that leads to a Service, a load balancer or a node proves nothing, and then
nothing is struck.

A consent is no fact to remember: the label is read again, of that very pod, at the moment of each strike
(`may_strike`). A pod that an experiment has brought has the label, too, but its owner is that experiment, and it is not
struck by others.

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
EXPERIMENT: Final = "dedup.dev/experiment"
"""The label of a pod that an experiment has brought: the experiment's name."""
ENDS: Final = ("Succeeded", "Failed")
"""Phases of a pod that has ended: its address may be another pod's by now."""
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
    uid: str = ""
    controller: str = ""
    """The identity of the object that made it and would make it anew; empty: nobody would."""
    experiment: str = ""
    """The experiment that has brought it; empty: none has."""
    shares: str = ""
    """What it shares with its node, and so with pods of anybody: hostNetwork, hostPID; empty: neither."""

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> Self:
        """From the API server's JSON."""
        meta, status, spec = pod["metadata"], pod.get("status") or {}, pod.get("spec") or {}
        found = [each.get("ip") for each in status.get("podIPs") or ()] or [status.get("podIP")]
        owners = meta.get("ownerReferences") or ()
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            addresses=frozenset(each for each in found if each),
            consents=(meta.get("labels") or {}).get(CONSENT[0]) == CONSENT[1],
            containers=tuple(each["name"] for each in spec.get("containers") or ()),
            annotations=meta.get("annotations") or {},
            keeps_name=any(each["kind"] in KEEPERS for each in owners),
            uid=meta.get("uid", ""),
            controller=next((each.get("uid", "") for each in owners if each.get("controller")), ""),
            experiment=(meta.get("labels") or {}).get(EXPERIMENT, ""),
            shares=next((each for each in ("hostNetwork", "hostPID") if spec.get(each)), ""),
        )


def living(pods: Iterable[Mapping[str, Any]]) -> list[Candidate]:
    """Those of the API server's pods that are there to stay: neither ended nor about to go."""
    return [
        Candidate.of(each)
        for each in pods
        if not each["metadata"].get("deletionTimestamp") and (each.get("status") or {}).get("phase") not in ENDS
    ]


class Found(NamedTuple):
    """A pod at the moment of a strike, as the API server tells it then."""

    uid: str
    consents: bool
    controller: str = ""
    leaving: bool = False
    """It is being deleted already."""
    shares: str = ""
    """What it shares with its node: hostNetwork, hostPID; empty: neither."""
    experiment: str = ""
    """The experiment that has brought it; empty: none has."""
    containers: frozenset[str] = frozenset()


def may_strike(pod: BrokerPod, now: Found) -> None:
    """PlatformError unless this very pod may be struck now.

    Of a pod of others: the one that was proven, or the one that the same controller has put in its place.
    """
    where = f"pod {pod.namespace}/{pod.name}"
    if not now.consents:
        raise PlatformError(
            where=where,
            got=f"no label {'='.join(CONSENT)}",
            rule="only pods that consent are hurt",
            todo="label the pod",
        )
    if pod.uid is None:
        return
    if got := _unproven(pod, now):
        raise PlatformError(
            where=where,
            got=got,
            rule="a pod of others is struck if it is the broker's, which each run proves at its beginning",
            todo="see who deletes or replaces it; the next run proves the pods anew",
        )


def _unproven(pod: BrokerPod, now: Found) -> str:
    """Why it is not what was proven to be the broker's; empty if it is, or is the next one of its controller's.

    That one is held to what the first one was.
    """
    if now.leaving:
        return "a pod that is being deleted"
    if now.uid == pod.uid:
        return ""
    if not pod.controller or now.controller != pod.controller:
        return "another pod than the one that was proven"
    if now.shares:
        return f"another pod than the one that was proven, with {now.shares}: true"
    if now.experiment:
        return f"another pod than the one that was proven, of experiment {now.experiment}"
    return (
        "" if pod.container in now.containers else f"another pod than the one that was proven, without {pod.container}"
    )


def consenting(selector: str, pods: Sequence[Candidate], faults: Iterable[FaultKind]) -> dict[str, BrokerPod]:
    """The brokers' containers by their pods' names; PlatformError if one of them may not, or cannot, be struck."""
    if not pods:
        rule = "podSelector names the brokers' pods, in the experiment's namespace"
        raise _unable(f"pods {selector}", "none with these labels", rule, "them, and the namespace")
    check_allowed(selector, pods)
    for pod in pods:
        if pod.shares:
            raise PlatformError(
                where=f"pod {pod.name}",
                got=f"{pod.shares}: true",
                rule="what a fault does in a pod must stay in it, and an address of a node proves no pod",
                todo="have the brokers run in pods with a network and processes of their own",
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


def check_allowed(selector: str, pods: Sequence[Candidate]) -> None:
    """PlatformError names the pods that may not be struck; none are all right."""
    if silent := sorted(each.name for each in pods if not each.consents):
        label = "=".join(CONSENT)
        raise PlatformError(
            where=f"pods {selector}",
            got=f"no label {label} at {_named(silent)}",
            rule="faults strike pods of others only if their owner allows it, at each of them",
            todo=f"have their owner label them ({label}, at the pod template), or narrow podSelector",
        )
    if brought := sorted(f"{each.name} (of {each.experiment})" for each in pods if each.experiment):
        raise PlatformError(
            where=f"pods {selector}",
            got=f"pods that experiments have brought: {_named(brought)}",
            rule="the label of such a pod allows the faults of its own experiment, and of no other",
            todo="name pods of a system that is there already in podSelector",
        )


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


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
    if strangers := sorted(each.name for each in pods if each.name not in found.values()):
        raise PlatformError(
            where="podSelector",
            got=f"pods of no broker: {_named(strangers)}",
            rule="it names the brokers' pods and no other: a fault has a right to each of them",
            todo="narrow podSelector, or wait until every broker is registered",
        )
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
    return BrokerPod(
        namespace=pod.namespace,
        name=pod.name,
        container=named or pod.containers[0],
        hold=hold,
        uid=pod.uid,
        controller=pod.controller or None,
    )


def _unable(where: str, got: str, rule: str, about: str) -> PlatformError:
    return PlatformError(where=where, got=got, rule=rule, todo=f"check {about}")
