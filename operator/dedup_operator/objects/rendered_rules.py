"""What objects of a chart of somebody else's may say: no account, Secret, name or host that is not the release's own.

Each rule takes one object and answers which part of it is not allowed, and why; `broken` asks them all. Of pods it is
what Kubernetes calls *baseline* (Pod Security Standards), and which volumes, accounts and Secrets they have.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from dedup_operator.objects.listed import ListedSystem
from dedup_operator.schema.crd import GROUP

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
APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
"""Before a container's name: the annotation of a pod that names its profile."""
VOLUMES: Final = ("configMap", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
SOURCES: Final = ("configMap", "downwardAPI", "secret", "serviceAccountToken")
OWN_LABELS: Final = frozenset({f"{GROUP}/faults"})
"""Of ours the labels that a chart may give."""
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
    if meta["name"] == f"{chart.release}-toxiproxy":
        yield "its name", "clients find the proxies there, which are made from the entry"
    yield from _labels(meta)
    if KEEP in notes or meta.get("finalizers"):
        yield f"{KEEP} or a finalizer", "all of a release goes with it"
    if kind == "Secret" and ((made.get("type") or "Opaque") not in SECRETS or ACCOUNT in notes):
        yield f"type {made.get('type')}", f"a Secret is of type {', '.join(SECRETS)}, and gets no account's token"
    if kind == "ServiceAccount" and (notes or not all(map(chart.has, _secrets_of(made)))):
        yield "annotations, or Secrets of others", "an account has no rights of a cloud's, and no Secret of others"
    if kind == "PersistentVolumeClaim":
        yield from _claim(spec)
    if kind == "Service" and ((spec.get("type") or "ClusterIP") != "ClusterIP" or spec.get("externalIPs")):
        yield "a type other than ClusterIP, or externalIPs", "a system under test is for its own cluster"
    if kind == "Role":
        yield from _rules(chart, made)
    if kind == "RoleBinding":
        yield from _binding(chart, made)
    for claim in _list(spec.get("volumeClaimTemplates")):
        yield from _claim(claim.get("spec") or {})
    if isinstance(template := spec.get("template"), dict):
        yield from _labels(template.get("metadata") or {})
        yield from _annotations(template.get("metadata") or {})
        yield from _pods(chart, template.get("spec"))


def _labels(meta: Object) -> Iterator[Broken]:
    labels = meta.get("labels") or {}
    if ours := [each for each in labels if each.startswith(f"{GROUP}/") and each not in OWN_LABELS]:
        yield f"the label {ours[0]}", "the operator finds its own by these"
    if labels.get("owner") == "helm":
        yield "the label owner: helm", "Helm finds its releases by it"


def _annotations(meta: Object) -> Iterator[Broken]:
    """Of pods: the older way to say what a securityContext says, which Kubernetes still reads."""
    for key, value in (meta.get("annotations") or {}).items():
        if key.startswith(APP_ARMOR) and value == "unconfined":
            yield f"the annotation {key}", "containers have what baseline has: nothing unconfined"


def _secrets_of(made: Object) -> list[Any]:
    return [each.get("name") for key in ("secrets", "imagePullSecrets") for each in _list(made.get(key))]


def _claim(spec: Object) -> Iterator[Broken]:
    if any(spec.get(key) for key in ("dataSource", "dataSourceRef", "volumeName")):
        yield "a claim with data of others", "claims begin empty"


def _rules(chart: Chart, made: Object) -> Iterator[Broken]:
    given = {each for one in chart.entry.gives for each in product(one.api_groups, one.resources, one.verbs)}
    for rule in _list(made.get("rules")):
        asked = [rule.get(key) for key in ("apiGroups", "resources", "verbs")] if isinstance(rule, dict) else [None]
        lists = all(isinstance(each, list) for each in asked)
        if not lists or "nonResourceURLs" in rule or not set(product(*asked)) <= given:
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
    if str(spec.get("priorityClassName") or "").startswith("system-"):
        yield "a priority of the system's", "a system under test evicts nobody's pods"
    yield from _context(spec.get("securityContext") or {})
    for each in _list(spec.get("imagePullSecrets")):
        if not chart.has(each.get("name")):
            yield f"the Secret {each.get('name')}", "pods get Secrets of their release only"
    for volume in _list(spec.get("volumes")):
        yield from _volume(chart, volume)
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in _list(spec.get(key)):
            yield from _container(chart, container)


def _volume(chart: Chart, volume: Object) -> Iterator[Broken]:
    kinds = volume.keys() - {"name"}
    if not kinds <= {*VOLUMES}:
        yield f"a volume of kind {', '.join(sorted(kinds))}", f"a volume is one of {', '.join(VOLUMES)}"
    if "secret" in volume:
        yield from _secret(chart, volume["secret"].get("secretName"))
    if "persistentVolumeClaim" in volume and not chart.has(name := volume["persistentVolumeClaim"].get("claimName")):
        yield f"the claim {name}", "pods get claims of their release only"
    if "ephemeral" in volume:
        yield from _claim((volume["ephemeral"].get("volumeClaimTemplate") or {}).get("spec") or {})
    for source in _list((volume.get("projected") or {}).get("sources")):
        if not source.keys() <= {*SOURCES}:
            yield f"a projected volume of {', '.join(sorted(source))}", f"its sources are {', '.join(SOURCES)}"
        if "secret" in source:
            yield from _secret(chart, source["secret"].get("name"))
        if (source.get("serviceAccountToken") or {}).get("audience"):
            yield "a token for an audience", "pods speak to the API server as their account, and to nobody else"


def _secret(chart: Chart, name: object) -> Iterator[Broken]:
    if not chart.has(name):
        yield f"the Secret {name}", "pods get Secrets of their release only"


def _context(context: Object) -> Iterator[Broken]:
    """A securityContext, of a pod or a container."""
    unconfined = [(context.get(key) or {}).get("type") for key in ("seccompProfile", "appArmorProfile")]
    host = (context.get("windowsOptions") or {}).get("hostProcess")
    if "Unconfined" in unconfined or host or context.get("seLinuxOptions") or context.get("sysctls"):
        yield "a securityContext beyond baseline", "no sysctls, no SELinux options, no host process, nothing unconfined"
    if context.get("privileged") or (context.get("procMount") or "Default") != "Default":
        yield "a privileged container", "containers have what baseline has"
    if more := {*((context.get("capabilities") or {}).get("add") or ())} - CAPABILITIES:
        yield f"capabilities {', '.join(sorted(map(str, more)))}", "containers have what baseline has"


def _container(chart: Chart, container: Object) -> Iterator[Broken]:
    yield from _context(container.get("securityContext") or {})
    if any(port.get("hostPort") for port in _list(container.get("ports"))):
        yield "a port of the node's", "pods have nothing of their node's"
    hooks = [container.get(key) or {} for key in ("livenessProbe", "readinessProbe", "startupProbe")]
    hooks += [each for each in (container.get("lifecycle") or {}).values() if isinstance(each, dict)]
    if any((each.get(key) or {}).get("host") for each in hooks for key in ("httpGet", "tcpSocket")):
        yield "a probe of another host", "a node asks the pod itself"
    for each in _list(container.get("envFrom")):
        if "secretRef" in each:
            yield from _secret(chart, each["secretRef"].get("name"))
    for each in _list(container.get("env")):
        if wanted := (each.get("valueFrom") or {}).get("secretKeyRef"):
            yield from _secret(chart, wanted.get("name"))


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []
