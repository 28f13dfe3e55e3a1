"""What objects of a chart of somebody else's may say: no account, Secret, name or host that is not the release's own.

Each rule takes one object and answers which part of it is not allowed, and why; `broken` asks them all. What is not
known to be harmless is refused. Of pods it is what Kubernetes calls *baseline* (Pod Security Standards).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from dedup_operator.objects.listed import ListedSystem

Object = dict[str, Any]
KEEP: Final = "helm.sh/resource-policy"
ACCOUNT: Final = "kubernetes.io/service-account.name"
SECRETS: Final = ("Opaque", "kubernetes.io/tls", "kubernetes.io/basic-auth", "kubernetes.io/dockerconfigjson")
"""Types of Secrets in which nobody writes a token of an account, nor Helm a release."""
CAPABILITIES: Final = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
"""What *baseline* lets a container add."""
_HOSTS: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")


class Chart(NamedTuple):
    """What a chart has rendered, as far as its objects may name each other."""

    entry: ListedSystem
    release: str
    accounts: frozenset[str]
    roles: frozenset[str]

    def has(self, name: object) -> bool:
        """Whether an object of that name is the release's."""
        return isinstance(name, str) and (name == self.release or name.startswith(f"{self.release}-"))


Broken = tuple[str, str]
"""What was found in an object, and the rule."""


def chart_of(entry: ListedSystem, release: str, objects: Sequence[Object]) -> Chart:
    named: dict[str, frozenset[str]] = {
        kind: frozenset(each["metadata"]["name"] for each in objects if each["kind"] == kind)
        for kind in ("ServiceAccount", "Role")
    }
    return Chart(entry, release, named["ServiceAccount"], named["Role"])


def broken(chart: Chart, made: Object) -> Broken | None:
    """The first rule that an object breaks; None if it breaks none."""
    return next(_broken(chart, made), None)


def _broken(chart: Chart, made: Object) -> Iterator[Broken]:
    kind, meta, spec = made["kind"], made["metadata"], made.get("spec") or {}
    notes = meta.get("annotations") or {}
    if not chart.has(meta["name"]):
        yield (
            "its name",
            f"it is {chart.release}, or begins so and a dash: what others have made is nobody's to take away",
        )
    if KEEP in notes or meta.get("finalizers"):
        yield f"{KEEP} or a finalizer", "all of a release goes with it"
    if kind == "Secret" and (made.get("type", "Opaque") not in SECRETS or ACCOUNT in notes):
        yield f"type {made.get('type')}", f"a Secret is of type {', '.join(SECRETS)}, and gets no account's token"
    if kind == "Service" and (spec.get("type", "ClusterIP") != "ClusterIP" or spec.get("externalIPs")):
        yield "a type other than ClusterIP, or externalIPs", "a system under test is for its own cluster"
    if kind == "Role":
        yield from _rules(chart, made)
    if kind == "RoleBinding":
        yield from _binding(chart, made)
    if isinstance(template := spec.get("template"), dict):
        yield from _pods(chart, template.get("spec"))


def _rules(chart: Chart, made: Object) -> Iterator[Broken]:
    for rule in _list(made.get("rules")):
        asked = [rule.get(key) for key in ("apiGroups", "resources", "verbs")] if isinstance(rule, dict) else [None]
        given = (
            all(isinstance(each, list) and set(each) <= set(has) for each, has in zip(asked, having, strict=False))
            for having in ((one.api_groups, one.resources, one.verbs) for one in chart.entry.gives)
        )
        if not isinstance(rule, dict) or "nonResourceURLs" in rule or not any(given):
            yield f"the rule {rule}", f"a Role gives what one of the entry's gives says: {_gives(chart.entry)}"


def _gives(entry: ListedSystem) -> str:
    return "; ".join(f"{each.verbs} of {each.resources} in {each.api_groups}" for each in entry.gives) or "nothing"


def _binding(chart: Chart, made: Object) -> Iterator[Broken]:
    role, subjects = made.get("roleRef"), _list(made.get("subjects"))
    if not isinstance(role, dict) or role.get("kind") != "Role" or role.get("name") not in chart.roles:
        yield f"the role {role}", "a binding is to a Role of the same chart"
    for each in subjects:
        if not isinstance(each, dict) or each.get("name") not in chart.accounts:
            yield f"the account {each}", "a binding is of an account of the same chart"


def _pods(chart: Chart, spec: object) -> Iterator[Broken]:
    if not isinstance(spec, dict):
        yield "no spec in its template", "what makes pods says which"
        return
    for key in ("serviceAccountName", "serviceAccount"):
        if (name := spec.get(key) or "default") not in {*chart.accounts, "default"}:
            yield f"account {name}", "pods are an account of the same chart, or of none"
    for key in _HOSTS:
        if spec.get(key):
            yield key, "pods have nothing of their node's, or of each other's processes"
    for volume in _list(spec.get("volumes")):
        yield from _volume(chart, volume)
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in _list(spec.get(key)):
            yield from _container(chart, container)


def _volume(chart: Chart, volume: object) -> Iterator[Broken]:
    if not isinstance(volume, dict) or "hostPath" in volume:
        yield "a volume of the node's", "pods have nothing of their node's"
        return
    named = [(volume.get("secret") or {}).get("secretName")] if "secret" in volume else []
    for source in _list((volume.get("projected") or {}).get("sources")):
        named += [(source.get("secret") or {}).get("name")] if "secret" in source else []
        if "serviceAccountToken" in source and (source["serviceAccountToken"] or {}).get("audience"):
            yield "a token for an audience", "pods speak to the API server as their account, and to nobody else"
    for name in named:
        if not chart.has(name):
            yield f"the Secret {name}", "pods get Secrets of their release only"


def _container(chart: Chart, container: object) -> Iterator[Broken]:
    if not isinstance(container, dict):
        yield "a container that is none", "a container is a map"
        return
    context = container.get("securityContext") or {}
    if context.get("privileged") or context.get("procMount", "Default") != "Default":
        yield "a privileged container", "containers have what baseline has"
    if more := {*((context.get("capabilities") or {}).get("add") or ())} - CAPABILITIES:
        yield f"capabilities {', '.join(sorted(map(str, more)))}", "containers have what baseline has"
    if any(port.get("hostPort") for port in _list(container.get("ports"))):
        yield "a port of the node's", "pods have nothing of their node's"
    named = [
        (each.get("secretRef") or {}).get("name") for each in _list(container.get("envFrom")) if "secretRef" in each
    ]
    for each in _list(container.get("env")):
        if wanted := (each.get("valueFrom") or {}).get("secretKeyRef"):
            named.append(wanted.get("name"))
    for name in named:
        if not chart.has(name):
            yield f"the Secret {name}", "pods get Secrets of their release only"


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []
