"""The bounds that everything keeps which the operator makes, whatever an experiment says.

`breaches` walks objects as they are sent to the API server, and values as they are given to Helm, and tells of whatever
is out of bounds. It knows what our objects consist of, and takes the rest for a breach: a new kind of volume, a new
program or a new right has to be let in here, by somebody who asks what a hostile experiment could make of it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.spec import parse
from dedup_operator.objects.reports import FAILURES_FILE, failures_in
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.snapshots import FILE, SETTINGS

LABEL: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+){1,3}(-[A-Za-z0-9.]+)?")
PART: Final = re.compile(r"d-[a-z2-7]{10}(-toxiproxy)?")
KINDS: Final = {"ConfigMap", "ServiceAccount", "Role", "RoleBinding", "Job", "SparkApplication", "Event", "Lease"}
LOCKS: Final = "dedup-systems"
"""The Lease of the locks of systems that are there already: it is the operator's, and belongs to no experiment."""
VOLUMES: Final = {"configMap", "emptyDir", "projected", "persistentVolumeClaim", "secret"}
CREDENTIALS: Final = {"ca.crt", "username", "password", "token"}
"""What of a Secret of a system that is there already is mounted."""
PROGRAMS: Final = {"python", "python3", "toxiproxy-server"}
MODULES: Final = {
    "round_trips",
    "conductor",
    "producer",
    "consumer",
    "chaos",
    "chaos.deadlines",
    "courier",
    "leftovers",
}
FLAGS: Final = (
    *(
        "-m",
        "-I",
        "-S",
        "--serve",
        "--identify",
        "-host=127.0.0.1",
        "-config=/etc/toxiproxy/toxiproxy.json",
        "--experiment",
    ),
    *("--clients=", "--direct=", "--admin=", "--listener=", "--timeout-s=", "--output", "--keep", "--findings"),
    *("--failures", "--result"),
)
ENDPOINTS: Final = "--endpoints="
"""And one JSON document, of a system that is there already."""
ENVIRONMENT: Final = {
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT_URL"),
    *("DEDUP_SHARED", "DEDUP_IMAGE"),
}
KEYS: Final = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
FORBIDDEN: Final = {
    *(
        "hostPath",
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "hostPort",
        "hostAliases",
        "hostUsers",
        "nodeName",
        "privileged",
    ),
    *("envFrom", "lifecycle", "externalIPs", "loadBalancerIP", "shareProcessNamespace", "procMount", "sysctls"),
    *("finalizers", "managedFields", "generateName"),
}
NAMED: Final = {"pods/exec", "pods/ephemeralcontainers"}
"""Rights that are given to pods by their names only."""
RIGHTS: Final = {
    ("", "pods"): {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
    ("", "pods/exec"): {"get", "create"},
    ("", "pods/ephemeralcontainers"): {"patch"},
    ("", "services"): {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
    ("", "configmaps"): {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
    ("", "persistentvolumeclaims"): {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
    ("networking.k8s.io", "networkpolicies"): {"get", "list", "create", "delete"},
}
VALUES: Final = {"version", "tools", "brokers", "bookies", "loopback", "owner"}


class Bounds(NamedTuple):
    """What one experiment may reach."""

    namespace: str
    name: str
    uid: str
    secrets: frozenset[str]
    claims: frozenset[str]
    images: frozenset[str]
    accounts: frozenset[str]
    privileged: bool = False


class Installed(NamedTuple):
    """What Helm was told."""

    release: str
    namespace: str
    chart: str
    values: Mapping[str, Any]


def breaches(objects: Sequence[Mapping[str, Any]], bounds: Bounds) -> list[str]:
    """What is out of bounds in objects of an experiment, in words."""
    return [
        f"{each['kind']}: {breach}"
        for each in objects
        for found in (_of_metadata(each, bounds), _anywhere(each, bounds), _of_kind(each, bounds))
        for breach in found
    ]


def breaches_of_helm(told: Installed, bounds: Bounds) -> Iterator[str]:
    """The same of what Helm was told: typed values only, and nothing that could be a flag or a template."""
    if not PART.fullmatch(told.release) or told.namespace != bounds.namespace or told.chart not in ("kafka", "pulsar"):
        yield f"release {told.release} of {told.chart} in {told.namespace}"
    if more := told.values.keys() - VALUES:
        yield f"values {more}"
    if not VERSION.fullmatch(told.values["version"]):
        yield f"version {told.values['version']!r}"
    if told.values.get("owner") != {"name": bounds.name, "uid": bounds.uid}:
        yield f"owner {told.values.get('owner')}"
    tools = told.values["tools"]["image"]
    if f"{tools['repository']}:{tools['tag']}" not in bounds.images or told.values["tools"].keys() != {"image"}:
        yield f"tools {told.values['tools']}"
    numbers = [told.values.get("brokers"), told.values.get("bookies", 0), told.values["loopback"]["firstPort"]]
    if any(type(each) is not int for each in numbers):
        yield f"numbers {numbers}"


def _of_metadata(made: Mapping[str, Any], bounds: Bounds) -> Iterator[str]:
    meta = made["metadata"]
    if made["kind"] not in KINDS:
        yield "a kind that we do not make"
    if meta.keys() > {"name", "namespace", "labels", "annotations", "ownerReferences"}:
        yield f"metadata {sorted(meta)}"
    if meta["namespace"] != bounds.namespace:
        yield f"namespace {meta['namespace']}"
    if made["kind"] != "Lease" and not PART.fullmatch(meta["name"]):
        yield f"name {meta['name']!r}"
    if made["kind"] == "Event":
        yield from _of_event(made, bounds)
        return
    if made["kind"] == "Lease":
        if (meta["name"], meta["annotations"], made["spec"]) != (LOCKS, {}, {}):
            yield f"a Lease {meta['name']}, or one with more than locks"
        return
    if [each["uid"] for each in meta["ownerReferences"]] != [bounds.uid]:
        yield f"owner {meta['ownerReferences']}"
    if any(not key.startswith("dedup.dev/") for key in meta.get("annotations", {})):
        yield f"annotations {meta['annotations']}"
    if meta["labels"]["dedup.dev/experiment"] != bounds.name:
        yield f"labels {meta['labels']}"


def _of_event(made: Mapping[str, Any], bounds: Bounds) -> Iterator[str]:
    """It belongs to nobody, and is about the experiment. Its words are for people, who see letters and no more."""
    if made["involvedObject"].get("uid") != bounds.uid or made["metadata"].keys() != {"name", "namespace"}:
        yield f"an Event about {made['involvedObject']}"


def _anywhere(tree: Any, bounds: Bounds, key: str = "") -> Iterator[str]:
    """What no key may be called, and no value may hold, wherever it stands."""
    if isinstance(tree, Mapping):
        if found := FORBIDDEN & tree.keys():
            yield f"{', '.join(sorted(found))} below {key}"
        if "namespace" in tree and tree["namespace"] != bounds.namespace:
            yield f"namespace {tree['namespace']} below {key}"
        if tree.get("allowPrivilegeEscalation", False) or tree.get("runAsNonRoot", True) is not True:
            yield f"privilege below {key}"
        if key == "labels":
            yield from (f"label {each!r}" for each in tree.values() if not LABEL.fullmatch(each) or len(each) > 63)
        if key != "data":  # of a ConfigMap: one JSON document, which is read as such below
            for name, each in tree.items():
                yield from _anywhere(each, bounds, name)
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from _anywhere(each, bounds, key)
    elif isinstance(tree, str) and ("$(" in tree or "{{" in tree or "`" in tree or not tree.isprintable()):
        yield f"text {tree!r} below {key}"


def _of_kind(made: Mapping[str, Any], bounds: Bounds) -> Iterator[str]:
    match made["kind"]:
        case "ConfigMap":
            yield from _of_config(made)
        case "ServiceAccount":
            if made["metadata"]["name"] not in bounds.accounts:
                yield f"account {made['metadata']['name']}"
        case "Role":
            yield from _of_rights(made["rules"], bounds)
        case "RoleBinding":
            if [each["name"] for each in made["subjects"]] != [made["roleRef"]["name"]]:
                yield f"a binding of {made['roleRef']} to {made['subjects']}"
        case "Job":
            pod = made["spec"]["template"]["spec"]
            yield from _of_volumes(pod["volumes"], bounds)
            yield from _of_account(pod, bounds)
            for each in [*pod.get("initContainers", ()), *pod["containers"]]:
                yield from _of_container(each, bounds)
        case "SparkApplication":
            yield from _of_spark(made["spec"], bounds)


def _of_config(made: Mapping[str, Any]) -> Iterator[str]:
    """A text that is one JSON document, with an experiment in it that may be read again, means what was written.

    Why runs came to nothing is written down as they do, and is no experiment: letters by names.
    """
    if "data" not in made:
        return  # the home of a bulletin, which its report writes
    if made["data"].keys() == {FAILURES_FILE}:
        told = failures_in(dict(made))
        yield from (f"a failure {each!r}" for each in told.values() if not each.isprintable())
        return
    text, *more = made["data"].values()
    if (more and set(made["data"]) != {FILE, SETTINGS}) or made["immutable"] is not True:
        yield "more files than an experiment and its settings, or some that may be changed"
    for each in more:
        Settings.model_validate_json(each, by_alias=True, by_name=False)
    document = json.loads(text)
    parse(document.get("experiment", document), source="a ConfigMap")


def _of_rights(rules: Iterable[Mapping[str, Any]], bounds: Bounds) -> Iterator[str]:
    for rule in rules:
        names = rule.get("resourceNames")
        if rule.keys() - {"resourceNames"} != {"apiGroups", "resources", "verbs"}:
            yield f"a rule of {sorted(rule)}"
        if set(rule["resources"]) & NAMED and not names:
            yield f"the right to {rule['verbs']} any {rule['resources']}"
        if names is not None and not (names and all(PART.match(each) for each in names)):
            yield f"a right to {names}"
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                known = RIGHTS.get((group, resource), set())
                if set(rule["verbs"]) - known or (resource == "pods/ephemeralcontainers" and not bounds.privileged):
                    yield f"the right to {rule['verbs']} {resource}"


def _of_volumes(volumes: Iterable[Mapping[str, Any]], bounds: Bounds) -> Iterator[str]:
    for each in volumes:
        (kind,) = each.keys() - {"name"}
        if kind not in VOLUMES:
            yield f"a volume of {kind}"
        if kind == "configMap" and not PART.fullmatch(each[kind]["name"]):
            yield f"ConfigMap {each[kind]['name']}"
        if kind == "persistentVolumeClaim" and each[kind]["claimName"] not in bounds.claims:
            yield f"claim {each[kind]['claimName']}"
        if kind == "secret":
            yield from _of_credentials(each, bounds)
        if kind == "projected" and any("secret" in source for source in each[kind]["sources"]):
            yield "a Secret as a volume"


def _of_credentials(volume: Mapping[str, Any], bounds: Bounds) -> Iterator[str]:
    """A Secret that the experiment names, and has the label: those keys of it that a client logs in with."""
    keys = {each["key"] for each in volume["secret"].get("items", ())}
    if volume["secret"].get("secretName") not in bounds.secrets or not keys or keys - CREDENTIALS:
        yield f"a volume of secret {volume['secret']}"


def _of_account(pod: Mapping[str, Any], bounds: Bounds) -> Iterator[str]:
    if pod["automountServiceAccountToken"] is not False:
        yield "a token for all of a pod's containers"
    if "serviceAccountName" in pod and pod["serviceAccountName"] not in bounds.accounts:
        yield f"account {pod['serviceAccountName']}"


def _of_container(made: Mapping[str, Any], bounds: Bounds) -> Iterator[str]:
    if made["image"] not in bounds.images:
        yield f"image {made['image']}"
    if made["securityContext"]["capabilities"] != {"drop": ["ALL"]}:
        yield f"capabilities {made['securityContext']}"
    if not NAME.fullmatch(made["name"]) or len(made["name"]) > 63:
        yield f"container {made['name']!r}"
    yield from _of_environment(made.get("env", ()), bounds)
    tini, end, program, *arguments = made["command"]
    if (tini, end) != ("tini", "--") or program not in PROGRAMS or "args" in made:
        yield f"program {made['command']}"
    if program != "toxiproxy-server" and "-m" in arguments:
        module = arguments[arguments.index("-m") + 1]
        if module not in {*(f"dedup_runners.{each}" for each in MODULES), "dedup_spark.report"}:
            yield f"module {module}"
    yield from _of_arguments(arguments)


def _of_arguments(arguments: Iterable[str]) -> Iterator[str]:
    for each in arguments:
        if each.startswith(ENDPOINTS):
            Endpoints.model_validate_json(each.removeprefix(ENDPOINTS))
            continue
        if each.startswith("-") and not any(each == flag or (flag[-1] == "=" and flag in each) for flag in FLAGS):
            yield f"flag {each}"
        if ".." in each.split("/") or re.search(r"[\s;|&<>*?\\'\"]", each):
            yield f"argument {each!r}"


def _of_environment(environment: Iterable[Mapping[str, Any]], bounds: Bounds) -> Iterator[str]:
    for each in environment:
        if each["name"] not in ENVIRONMENT:
            yield f"variable {each['name']}"
        if "valueFrom" not in each:
            continue
        reference = each["valueFrom"].get("secretKeyRef", {})
        if reference.get("name") not in bounds.secrets or reference.get("key") not in KEYS:
            yield f"Secret {each['valueFrom']}"


def _of_spark(spec: Mapping[str, Any], bounds: Bounds) -> Iterator[str]:
    if spec["image"] not in bounds.images or not spec["mainApplicationFile"].startswith("local:///usr/local/dedup/"):
        yield f"program {spec['image']} {spec['mainApplicationFile']}"
    if spec["sparkConf"].keys() != {"spark.kubernetes.driver.pod.excludedFeatureSteps", "spark.ui.enabled"}:
        yield f"settings {spec['sparkConf']}"
    yield from _of_arguments(spec["arguments"])
    yield from _of_volumes(spec["volumes"], bounds)
    for part in (spec["driver"], spec["executor"]):
        yield from _of_environment(part["env"], bounds)
        if part["serviceAccount"] not in bounds.accounts:
            yield f"account {part['serviceAccount']}"
