"""The nftables rules by which a node enforces NetworkPolicies, made of the objects as the API server has them.

A pod that a policy selects is isolated, in one direction or both: it gets a chain for each, which ends in `drop`, and
each rule of each such policy lets something through. What goes from one pod to another must pass the first one's chain
and the other one's. Answers always pass. All of it is one table, replaced at once whenever something has changed.

Only what the node forwards is looked at, as Kubernetes has it: a node always reaches its own pods, and they it.

Whether a connection that is there when a policy comes is cut, Kubernetes leaves to the network (`Standing`).

The rules are for IPv4, which is all that the test cluster has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_network
from typing import Any, Final

Document = Mapping[str, Any]
TABLE: Final = "dedup-policies"
ENDED: Final = ("Succeeded", "Failed")


class Standing(Enum):
    """What becomes of connections that stand already, by nft's words for what passes without a look at policies."""

    CUT = "ct direction reply accept"
    """Each packet of who began the connection is looked at (as Cilium and OVN do)."""
    KEPT = "ct state established accept"
    """New connections are looked at, nothing else (as Calico and kube-network-policies do)."""


@dataclass(frozen=True)
class Way:
    """One direction: the field of a policy's spec, that of each of its rules, and whose address the others' is."""

    name: str
    others: str
    theirs: str
    own: str


INGRESS: Final = Way("ingress", "from", "saddr", "daddr")
EGRESS: Final = Way("egress", "to", "daddr", "saddr")


def ruleset(
    policies: Sequence[Document], pods: Sequence[Document], namespaces: Sequence[Document], standing: Standing
) -> str:
    """What `nft -f` reads: the whole table, in the place of the one before."""
    there = [pod for pod in pods if _has_address(pod)]
    labels = {each["metadata"]["name"]: _labels(each) for each in namespaces}
    chains, jumps = list[str](), list[str]()
    for way in (EGRESS, INGRESS):
        isolated = {}
        for pod in there:
            if theirs := [policy for policy in policies if _isolates(policy, pod, way)]:
                lines = [line for policy in theirs for line in _let(policy, pod, way, there, labels)]
                own = f"ip {way.theirs} {_address(pod)} return"  # no policy keeps a pod from itself
                isolated[_address(pod)] = [own, *dict.fromkeys(lines), "counter drop"]
        chains += [_chain(f"{way.name}-{address}", lines) for address, lines in sorted(isolated.items())]
        if isolated:
            members = ", ".join(f"{address} : jump {way.name}-{address}" for address in sorted(isolated))
            jumps.append(f"ip {way.own} vmap {{ {members} }}")
    hook = "type filter hook forward priority filter; policy accept;"
    chains.append(_chain("forward", [hook, "ct state related accept", standing.value, *jumps]))
    return f"add table ip {TABLE}\ndelete table ip {TABLE}\ntable ip {TABLE} {{\n{''.join(chains)}}}\n"


def _chain(name: str, lines: Iterable[str]) -> str:
    inner = "".join(f"    {line}\n" for line in lines)
    return f"  chain {name} {{\n{inner}  }}\n"


def _has_address(pod: Document) -> bool:
    """Whether it stands in a network of its own that it has not left."""
    status = pod.get("status", {})
    own = not pod["spec"].get("hostNetwork", False)
    return own and status.get("phase") not in ENDED and bool(status.get("podIP"))


def _address(pod: Document) -> str:
    return str(pod["status"]["podIP"])


def _labels(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def _isolates(policy: Document, pod: Document, way: Way) -> bool:
    spec = policy["spec"]
    named = [
        each.lower() for each in spec.get("policyTypes") or ("Ingress", *(("Egress",) if "egress" in spec else ()))
    ]
    same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and way.name in named and selects(spec.get("podSelector") or {}, _labels(pod))


def _let(
    policy: Document, pod: Document, way: Way, pods: Sequence[Document], namespaces: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """What a policy lets through to a pod that it selects, or from it."""
    lines, anybody = list[str](), dict[str, Any]()
    for rule in policy["spec"].get(way.name) or ():
        others = [
            match
            for peer in rule.get(way.others) or [anybody]
            for match in _matches(peer, policy["metadata"]["namespace"], way, pods, namespaces)
        ]
        at = [match for port in rule.get("ports") or ({"any": True},) for match in _ports(port, pod, way, pods)]
        lines += [" ".join(filter(None, (other, port, "return"))) for other in others for port in at]
    return lines


def _matches(
    peer: Document, namespace: str, way: Way, pods: Sequence[Document], namespaces: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """How the other side is known; nothing if there is no such pod now."""
    if not peer:
        return [""]
    if block := peer.get("ipBlock"):
        if ip_network(block["cidr"]).version != 4:
            return []
        outside = "".join(f" ip {way.theirs} != {each}" for each in block.get("except") or ())
        return [f"ip {way.theirs} {block['cidr']}{outside}"]
    among = peer.get("namespaceSelector")
    found = [
        _address(each)
        for each in pods
        if (home := each["metadata"]["namespace"])
        if (home == namespace if among is None else selects(among, namespaces.get(home, {})))
        if selects(peer.get("podSelector") or {}, _labels(each))
    ]
    return [f"ip {way.theirs} {{ {', '.join(sorted(found))} }}"] if found else []


def _ports(port: Document, pod: Document, way: Way, pods: Sequence[Document]) -> list[str]:
    """How the port is known: a name means another number at each pod that is connected to."""
    if port.get("any"):
        return [""]
    protocol, number = port.get("protocol", "TCP").lower(), port.get("port")
    if number is None:
        return [f"meta l4proto {protocol}"]
    if isinstance(number, int):
        return [f"{protocol} dport {number}" + (f"-{port['endPort']}" if port.get("endPort") else "")]
    called = [pod] if way is INGRESS else pods
    return [
        f"ip daddr {_address(each)} {protocol} dport {own}"
        for each in called
        for own in _numbers(each, str(number), protocol)
    ]


def _numbers(pod: Document, name: str, protocol: str) -> list[int]:
    spec = pod["spec"]
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    ports = [port for container in containers for port in container.get("ports") or ()]
    return [
        port["containerPort"]
        for port in ports
        if port.get("name") == name and port.get("protocol", "TCP").lower() == protocol
    ]


def selects(selector: Document, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects who has these labels; an empty one selects everybody."""
    same = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return same and all(_holds(each, labels) for each in selector.get("matchExpressions") or ())


def _holds(expression: Document, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(f"{expression['operator']} is no operator of a label selector")
