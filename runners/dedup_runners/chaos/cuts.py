"""Two ways to cut a broker off from the other brokers (and from bookies), which need pods; `kernel_cuts` has another.

`NetFilterCut` drops packets in the broker's own network: an ephemeral container with NET_ADMIN adds rules that drop
what comes from or goes to the members of a set, and each member expires by itself, so that the kernel heals the cut
even if nobody lives who remembers it. The container is added to every broker while the fault is being armed, since who
will lead is not known yet and a container takes seconds to start. A namespace that does not allow it refuses it then.

`PolicyCut` asks the cluster's network by a NetworkPolicy. Many networks enforce none; so a shell in the broker's
container tries to connect to each of the others, before and after; and to the broker itself, which no policy prevents:
one that does not reach even that shows nothing of the network.

Between arming and the cut pods may have been replaced, and owners may have changed their minds. So whom it cuts off,
and from whom, is asked anew at that moment.

A cut is believed by what it shows: packets that the kernel counted as dropped while it still lists whom it drops, or
connections that do not come about.
"""

import json
import math
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol
from uuid import uuid4

from dedup.errors import PlatformError
from dedup.experiment.endpoints import BrokerPod, Endpoints
from dedup.faults.partition import Way
from dedup_runners.admins.discoveries import addresses_of
from dedup_runners.chaos.clusters import Cluster, consenting, pod_of
from dedup_runners.chaos.containers import Shell
from dedup_runners.chaos.deadlines import DEADLINE, LABEL
from dedup_runners.waiting import until

IMAGE: Final = "DEDUP_IMAGE"
"""The environment's name for the image of the ephemeral container, which has nft and sleep: the runner's own."""
POD_NAME_LABELS: Final = ("statefulset.kubernetes.io/pod-name", "strimzi.io/pod-name")
TRIES: Final = 5
"""A kubelet that writes a pod's status changes its version."""
START_S: Final = 180.0
ANSWER_S: Final = 10.0
CONNECT_S: Final = 2
GRACE_S: Final = 5


class Cut(Protocol):
    """One way to cut off any broker. PlatformError for what is refused."""

    def prepare(self) -> None:
        """All that takes time, for every broker, before the fault is armed."""
        ...

    def begin(self, broker: str, duration_s: float) -> dict[str, str]:
        """Cut this one off; it heals after `duration_s` even if we are gone. By what, and its name."""
        ...

    def effect(self, broker: str) -> dict[str, Any]:
        """What the target shows of it now; empty if nothing."""
        ...

    def end(self, broker: str) -> bool:
        """Take the cut away; whether it is known to be gone."""
        ...


CLEARED: Final = (
    "nft list tables inet | while read _ _ table; do case $table in dedup-*) nft delete table inet $table;; esac; done"
)
"""Removes the tables of earlier runs: a cut whose injector was killed lasts until its own time is over.

No cut of this run is there yet: all faults are prepared before the first message.
"""


class NetFilterCut:
    """A `Cut` by nftables in the broker's own pod.

    `bookies` are the ids (HOST:PORT) of bookies whose pods are not known: the hosts in them say where they are.
    """

    def __init__(
        self,
        cluster: Cluster,
        endpoints: Endpoints,
        fault: str,
        bound_s: float,
        way: Way = Way.BOTH,
        bookies: Sequence[str] = (),
    ) -> None:
        self._cluster, self._endpoints, self._bound_s, self._way = cluster, endpoints, bound_s, way
        self._bookies = bookies
        self._name = f"dedup-{fault}-{uuid4().hex[:8]}"
        self._shells: dict[str, Shell] = {}
        self._entered: dict[str, str] = {}
        """The identities of the pods in which the shells are."""

    def prepare(self) -> None:
        image = os.environ.get(IMAGE)
        if not image:
            raise PlatformError(
                where=f"${IMAGE}",
                got="nothing",
                rule="it names the image of the container that drops packets",
                todo="set it to the runner's own image in the fault's container",
            )
        for bookie in self._bookies:
            _addresses_of(bookie)  # one that cannot be found is to be told before anything is done
        for broker in self._endpoints.brokers:
            pod = pod_of(self._endpoints, broker.id)
            container = netfilter_container(self._name, image, self._bound_s)
            if not any(
                self._cluster.add_container(pod, consenting(self._cluster, pod), container) for _ in range(TRIES)
            ):
                raise _unable(pod, f"a pod that changed each of {TRIES} times between its consent and the container")
        for broker in self._endpoints.brokers:
            pod = pod_of(self._endpoints, broker.id)
            self._shells[broker.id], self._entered[broker.id] = self._opened(pod)

    def begin(self, broker: str, duration_s: float) -> dict[str, str]:
        pod = pod_of(self._endpoints, broker)
        others = [*_others(self._cluster, self._endpoints, broker).values()]
        others += [address for bookie in self._bookies for address in _addresses_of(bookie)]
        if consenting(self._cluster, pod).uid != self._entered[broker]:
            raise _unable(pod, "another pod than the one that was prepared")
        said = self._ask(broker, f"nft '{drop_rules(self._name, others, duration_s, self._way)}' 2>&1 && echo done")
        if not said.endswith("done\n"):
            raise _unable(pod, said)
        return {"table": self._name, "pod": pod.name}

    def effect(self, broker: str) -> dict[str, Any]:
        listing = self._ask(broker, f"nft -j list table inet {self._name}")
        dropped = dropped_packets(listing)
        return {"packets_dropped": dropped} if dropped and still_dropped(listing) else {}

    def end(self, broker: str) -> bool:
        self._ask(broker, f"nft delete table inet {self._name} 2>&1")
        left = self._ask(broker, "nft list tables && echo able")
        return left.endswith("able\n") and self._name not in left  # in no list nothing is, either

    def _opened(self, pod: BrokerPod) -> tuple[Shell, str]:
        """A shell in the new container, in which nft works, and the identity of its pod."""
        uid = ""

        def started() -> bool:
            nonlocal uid
            seen = self._cluster.pod(pod)
            if seen is None or self._name in seen.ended:
                raise _unable(pod, "the ephemeral container ended")
            uid = seen.uid
            return self._name in seen.running

        until(started, START_S, f"the ephemeral container in pod {pod.name} runs")
        shell = self._cluster.shell(pod.model_copy(update={"container": self._name}))
        shell.send(f"{CLEARED}; nft list tables 2>&1 && echo able")
        if not (said := shell.answer(ANSWER_S)).endswith("able\n"):
            raise _unable(pod, said)
        return shell, uid

    def _ask(self, broker: str, command: str) -> str:
        self._shells[broker].send(command)
        return self._shells[broker].answer(ANSWER_S)


class PolicyCut:
    """A `Cut` by a NetworkPolicy, which a network may or may not enforce."""

    def __init__(self, cluster: Cluster, endpoints: Endpoints, fault: str, owner: dict[str, Any] | None) -> None:
        self._cluster, self._endpoints, self._owner = cluster, endpoints, owner
        self._name = f"dedup-{fault}-{uuid4().hex[:8]}"
        self._shells: dict[str, Shell] = {}
        self._labels: dict[str, tuple[str, str]] = {}
        self._addresses: dict[str, str] = {}

    def prepare(self) -> None:
        for broker in self._endpoints.others(None):
            if broker.pod is not None:
                self._labels[broker.id] = _own_label(broker.pod, consenting(self._cluster, broker.pod).labels)
                self._addresses[broker.id] = _address(self._cluster, broker.pod)
        for broker in self._endpoints.brokers:
            self._shells[broker.id] = self._cluster.shell(pod_of(self._endpoints, broker.id))
            if shut := self._shut(broker.id):
                raise PlatformError(
                    where=f"connections from pod {pod_of(self._endpoints, broker.id).name}",
                    got=f"none to {', '.join(shut)}",
                    rule="that a policy cuts brokers off is seen by connections that came about before",
                    todo="see that its container has bash and timeout, and that no other policy is in force",
                )

    def begin(self, broker: str, duration_s: float) -> dict[str, str]:
        others, pod = _others(self._cluster, self._endpoints, broker), pod_of(self._endpoints, broker)
        self._addresses |= others
        policy = isolation(
            self._name,
            _own_label(pod, consenting(self._cluster, pod).labels),
            [self._labels[each] for each in others],
            list(others.values()),
            deadline_unix_s=math.ceil(time.time() + duration_s + GRACE_S),
            owner=self._owner,
        )
        if (bearers := self._cluster.bearers(pod.namespace, self._labels[broker])) != [pod.name]:
            raise PlatformError(
                where=f"pod {pod.namespace}/{pod.name}",
                got=f"its label {'='.join(self._labels[broker])} at {', '.join(bearers) or 'no pod'}",
                rule="a NetworkPolicy selects pods by labels, and must not select any other",
                todo="take that label from the others, or use NetFilter",
            )
        self._cluster.put_policy(pod.namespace, policy)
        return {"policy": self._name}

    def effect(self, broker: str) -> dict[str, Any]:
        shut = self._shut(broker)
        others = sorted(each.id for each in self._endpoints.others(broker) if each.id in self._addresses)
        return {"unreachable": shut} if others and shut == others else {}

    def end(self, broker: str) -> bool:
        return self._cluster.remove_policy(pod_of(self._endpoints, broker).namespace, self._name)

    def _shut(self, broker: str) -> list[str]:
        """Whom no new connection reaches, the broker among them, as its own container finds."""
        others = [each for each in self._endpoints.others(broker) if each.id in self._addresses]
        tries = " ".join(
            f"(timeout {CONNECT_S} bash -c '</dev/tcp/{self._addresses[each.id]}/{each.client_port}' 2>/dev/null"
            f" || echo 'shut {each.id}') &"
            for each in (*others, self._endpoints.broker(broker))
        )
        self._shells[broker].send(f"{tries} wait")
        said = self._shells[broker].answer(ANSWER_S).splitlines()
        return sorted(line.removeprefix("shut ") for line in said if line.startswith("shut "))


def netfilter_container(name: str, image: str, bound_s: float) -> dict[str, Any]:
    """The ephemeral container: root with NET_ADMIN and nothing else, asleep until it is told."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["tini-static", "--", "sleep", str(math.ceil(bound_s))],
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def drop_rules(table: str, addresses: Iterable[str], duration_s: float, way: Way = Way.BOTH) -> str:
    """nft's commands that drop, and count, what passes that way between this network and `addresses` for so long."""
    members = ", ".join(f"{each} timeout {math.ceil(duration_s * 1000)}ms" for each in addresses)
    chains = (
        (Way.TO_LEADER, "incoming", "input", "saddr"),
        (Way.FROM_LEADER, "outgoing", "output", "daddr"),
    )
    return "; ".join(
        [
            f"add table inet {table}",
            f"add set inet {table} cut {{ type ipv4_addr; flags timeout; }}",
            f"add element inet {table} cut {{ {members} }}",
            *(
                f"add chain inet {table} {chain} {{ type filter hook {hook} priority -10; }}; "
                f"add rule inet {table} {chain} ip {end} @cut counter drop"
                for each, chain, hook, end in chains
                if way in (each, Way.BOTH)
            ),
        ]
    )


def dropped_packets(listing: str) -> int:
    """The packets that the rules of a table (nft's JSON) have counted; 0 for what is no table."""
    try:
        rules = [each["rule"]["expr"] for each in json.loads(listing)["nftables"] if "rule" in each]
    except (ValueError, KeyError):
        return 0
    return sum(part["counter"]["packets"] for expressions in rules for part in expressions if "counter" in part)


def still_dropped(listing: str) -> list[str]:
    """Whose packets the table (nft's JSON) drops: the members of its set that have not expired yet."""
    try:
        sets = [each["set"].get("elem", []) for each in json.loads(listing)["nftables"] if "set" in each]
    except (ValueError, KeyError):
        return []
    return [str(member["elem"]["val"]) for members in sets for member in members]


def isolation(
    name: str,
    target: tuple[str, str],
    others: list[tuple[str, str]],
    addresses: list[str],
    *,
    deadline_unix_s: int,
    owner: dict[str, Any] | None,
) -> dict[str, Any]:
    """The NetworkPolicy that lets the target talk with everything but the others, by their labels and addresses."""
    keys = sorted({key for key, _ in others})
    expressions = [
        {"key": key, "operator": "NotIn", "values": [value for each, value in others if each == key]} for key in keys
    ]
    everything_else = [
        {"namespaceSelector": {}, "podSelector": {"matchExpressions": expressions}},
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [f"{each}/32" for each in addresses]}},
    ]
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {LABEL: "partition", "app.kubernetes.io/managed-by": "dedup"},
        "annotations": {DEADLINE: str(deadline_unix_s)},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata | ({"ownerReferences": [owner]} if owner else {}),
        "spec": {
            "podSelector": {"matchLabels": {target[0]: target[1]}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": everything_else}],
            "egress": [{"to": everything_else}],
        },
    }


def _others(cluster: Cluster, endpoints: Endpoints, broker: str) -> dict[str, str]:
    """The addresses, as they are now, of all others that have pods, by their ids."""
    return {each.id: _address(cluster, each.pod) for each in endpoints.others(broker) if each.pod is not None}


def _address(cluster: Cluster, pod: BrokerPod) -> str:
    seen = consenting(cluster, pod)
    if not seen.address or ":" in seen.address:
        raise PlatformError(
            where=f"pod {pod.namespace}/{pod.name}",
            got=f"address {seen.address or 'none'}",
            rule="brokers are cut off from each other by their IPv4 addresses",
            todo="wait until the pod has one; on a network of IPv6 alone use podDelete",
        )
    return seen.address


def _addresses_of(bookie: str) -> list[str]:
    found = sorted(each for each in addresses_of(bookie.rpartition(":")[0]) if ":" not in each)
    if not found:
        raise PlatformError(
            where=f"bookie {bookie}",
            got="no IPv4 address to which its id leads",
            rule="a broker is cut off from bookies by the hosts in their ids, HOST:PORT",
            todo="let bookies have their addresses for ids, as they do unless bookieId is set; or use kill or pause",
        )
    return found


def _own_label(pod: BrokerPod, labels: Any) -> tuple[str, str]:
    """The label that no other pod has: the one that its controller gave it with its name."""
    for key in POD_NAME_LABELS:
        if labels.get(key) == pod.name:
            return key, pod.name
    raise PlatformError(
        where=f"pod {pod.namespace}/{pod.name}",
        got=f"none of the labels {', '.join(POD_NAME_LABELS)} with its name",
        rule="a NetworkPolicy selects pods by labels, and must not select any other",
        todo="use NetFilter, or brokers of a StatefulSet",
    )


def _unable(pod: BrokerPod, said: str) -> PlatformError:
    return PlatformError(
        where=f"pod {pod.namespace}/{pod.name}",
        got=" ".join(said.split())[:300] or "no answer",
        rule="nft must work in the ephemeral container",
        todo="see that the node's kernel has nf_tables and that the image has nft",
    )
