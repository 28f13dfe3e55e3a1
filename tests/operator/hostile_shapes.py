"""Hostile shapes: keys that do not exist here, faults on what is not ours, numbers, lists and depths without an end.

And what stands in an object's metadata, which the operator never reads: it takes the name and the spec, and all else of
a resource is Kubernetes'.
"""

from typing import Any, Final

from testbed.specs import ABSENT
from tests.operator.hostile import FAULT, KAFKA, AtApply, Gate, Hostile, harmless

KILL: Final = (f"{FAULT}/killTCP", ABSENT)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


SMUGGLED: Final = tuple(
    Hostile(f"a key: {place.removeprefix('spec/')}", tries, ((place, value),))
    for place, value, tries in (
        ("spec/podTemplate", {"spec": {"hostNetwork": True}}, "use the node's network"),
        ("spec/template", {"spec": {"containers": [{"image": "evil"}]}}, "run another program"),
        ("spec/image", "evil:latest", "run another program"),
        ("spec/command", ["sh", "-c", "id"], "run a shell"),
        ("spec/env", [{"name": "LD_PRELOAD", "value": "/history/evil.so"}], "load a library"),
        ("spec/securityContext", {"privileged": True}, "have the node's rights"),
        ("spec/hostNetwork", True, "use the node's network"),
        ("spec/serviceAccount", "dedup-operator", "run with the operator's rights"),
        ("spec/namespace", "kube-system", "make objects in another namespace"),
        ("spec/owner", {"uid": "0"}, "belong to somebody else"),
        ("spec/sparkConf", {"spark.driver.extraJavaOptions": "-javaagent:evil.jar"}, "load a library into Spark"),
        ("spec/settings", {"runnerImage": {"repository": "evil", "tag": "x"}}, "say what the administrator says"),
        (f"{KAFKA}/deploy", {"chart": "oci://evil.io/chart", "values": {"command": ["sh"]}}, "install another chart"),
        (f"{KAFKA}/deploy/chart", "--post-renderer=/tmp/evil", "give helm a flag that runs a program"),
        (f"{KAFKA}/values", {"image": {"repository": "evil"}}, "give the chart values"),
        (f"{KAFKA}/kafka/image", "evil", "run another image"),
        (f"{KAFKA}/kafka/config", {"metric.reporters": "evil"}, "load a class into the broker"),
        (f"{KAFKA}/kafka/jvmOptions", "-javaagent:evil.jar", "load a library into the broker"),
        (f"{KAFKA}/client/command", "sh", "run another client"),
        (f"{KAFKA}/client/library", "../../evil", "load another module"),
        (f"{KAFKA}/client/path", "/history/evil.py", "load another module"),
        (f"{KAFKA}/network/address", "10.0.0.1", "stand in somebody else's path"),
        ("spec/workload/command", "sh", "run another producer"),
        ("spec/timeouts/grace", "0s", "leave a fault unhealed"),
    )
)

FAULTS: Final = (
    *(
        Hostile(f"a fault: {what}", tries, (KILL, (f"{FAULT}/{kind}", settings)))
        for what, kind, settings, tries in (
            ("of another namespace", "kill", {"restartAfter": "1s", "namespace": "others"}, "kill others' brokers"),
            ("of any pod", "podDelete", {"selector": {}}, "delete every pod of the namespace"),
            ("of a pod by name", "podDelete", {"pod": "dedup-operator-0"}, "delete the operator"),
            ("with a command", "kill", {"restartAfter": "1s", "command": "sh -c id"}, "run a command in a pod"),
            ("in a container", "kill", {"restartAfter": "1s", "container": "vault"}, "kill another program"),
            ("with a signal", "kill", {"restartAfter": "1s", "signal": "CONT"}, "send another signal"),
            ("of everybody", "kill", {"restartAfter": "1s", "target": "All"}, "kill more than one"),
            ("of a pattern", "kill", {"restartAfter": "1s", "target": "*"}, "kill more than one"),
            ("with a policy", "partition", {"by": "NetworkPolicy", "duration": "1s", "podSelector": {}}, "cut all off"),
            ("by other means", "partition", {"by": "sh", "duration": "1s"}, "run a program"),
            ("for ever", "partition", {"by": "NetworkPolicy", "duration": "999h"}, "leave a policy behind"),
            ("without an end", "kill", {"restartAfter": "999999999h"}, "keep a broker down"),
            ("of a node", "drain", {"node": "n"}, "drain a node"),
            ("with privileges", "partition", {"by": "NetFilter", "duration": "1s"}, "add NET_ADMIN unasked"),
        )
    ),
    Hostile(
        "a fault with privileges, allowed by its author",
        "add NET_ADMIN to a broker's pod without the administrator",
        (("spec/allowPrivilegedFaults", True), KILL, (f"{FAULT}/partition", {"by": "NetFilter", "duration": "1s"})),
        Gate.STALLED,
        AtApply.ACCEPTED,
    ),
    harmless(
        "a pod deleted at once",
        "delete others' pods",
        "only brokers' pods that consent by label are struck, by names that follow from the release",
        *(KILL, (f"{FAULT}/podDelete", {"gracePeriod": "0s"})),
    ),
)

NUMBERS: Final = (
    *(
        Hostile(f"a number: {place.removeprefix('spec/')} {str(value)[:12]}", tries, ((place, value),), at_apply=sent)
        for place, value, tries, sent in (
            ("spec/workload/messages", 10**30, "fill the store", AtApply.REFUSED),
            ("spec/workload/messages", -1, "count backwards", AtApply.REFUSED),
            ("spec/workload/inFlight", 10**9, "take all of the node's memory", AtApply.REFUSED),
            ("spec/workload/partitions", 10**6, "fill the brokers", AtApply.REFUSED),
            ("spec/runs", 10**6, "keep the operator busy for ever", AtApply.REFUSED),
            ("spec/seed", 2**64, "overflow", AtApply.REFUSED),
            ("spec/seed", 10**1000, "overflow", AtApply.REFUSED),
            ("spec/seed", float("nan"), "compare with nothing", AtApply.NOT_SENT),
            ("spec/confidencePercent", float("inf"), "never be reached", AtApply.NOT_SENT),
            ("spec/confidencePercent", 1e308, "overflow", AtApply.REFUSED),
            (f"{KAFKA}/kafka/brokers", 1000, "fill the nodes", AtApply.REFUSED),
            (f"{KAFKA}/network/latency", "999999999h", "never end", AtApply.REFUSED),
            ("spec/timeouts/run", "999999999h", "never end", AtApply.REFUSED),
            ("spec/timeouts/run", "1e9s", "be read differently by two programs", AtApply.REFUSED),
            ("spec/timeouts/run", "\u0661\u0660s", "be digits to one program and none to another", AtApply.REFUSED),
            (f"{FAULT}/at/message", 0, "strike before anything", AtApply.REFUSED),
        )
    ),
    Hostile(
        "as many runs as each bound lets through",
        "take all of the operator's memory for the plan",
        (
            ("spec/systems", [{"name": f"s{index}", "kafka": {}} for index in range(8)]),
            (
                "spec/variants",
                [{"name": f"v{index}", "deduplication": "Enabled", "expect": "None"} for index in range(8)],
            ),
            ("spec/runs", 1000),
        ),
    ),
    harmless(
        "no time at all",
        "be begun again without an end",
        "what is not ready in time has failed, and the experiment ends",
        *(("spec/timeouts", {"provision": "1ms", "run": "60s", "verify": "1ms", "teardown": "1ms"}),),
    ),
)

SIZES: Final = (
    Hostile(
        "a thousand faults",
        "fill a pod with containers",
        (("spec/faults", [{"name": f"f{n}", "at": {"message": 1}, "moveLeader": {}} for n in range(1000)]),),
    ),
    Hostile("nine systems", "fill the nodes", (("spec/systems", [{"name": f"s{n}", "kafka": {}} for n in range(9)]),)),
    Hostile(
        "a thousand settings",
        "fill etcd",
        ((f"{KAFKA}/client", {"properties": {f"p{n}": "x" for n in range(1000)}}),),
    ),
    Hostile("a long setting", "fill etcd", ((f"{KAFKA}/client", {"properties": {"client.id": "x" * 100_000}}),)),
    Hostile("a setting of a long name", "fill etcd", ((f"{KAFKA}/client", {"properties": {"x" * 100_000: ""}}),)),
    Hostile("a long name", "fill messages", ((f"{KAFKA}/name", "x" * 100_000),)),
    Hostile("a hundred lists in each other", "exhaust a stack", (("spec/seed", nested(100)),)),
    Hostile(
        "five thousand lists in each other",
        "exhaust a stack",
        (("spec/seed", nested(5000)),),
        at_apply=AtApply.NOT_SENT,
    ),
    Hostile("a list for a mapping", "break whoever looks for keys", (("spec/workload", [["messages", 1]]),)),
    Hostile("a text for the spec", "break whoever looks for keys", (("spec", "evil"),)),
    Hostile("a mapping for a text", "break whoever looks for letters", (("spec/runToken", {"a": "b"}),)),
    Hostile("a number for a name", "break whoever looks for letters", ((f"{KAFKA}/name", 7),)),
    Hostile("another kind", "have the operator make it", (("kind", "ClusterRoleBinding"),)),
    Hostile("another group", "be taken for another resource", (("apiVersion", "rbac.authorization.k8s.io/v1"),)),
)

METADATA: Final = tuple(
    Hostile(f"metadata: {key}", tries, ((f"metadata/{key}", value),), Gate.HARMLESS, at_apply, because)
    for key, value, tries, because, at_apply in (
        (
            "ownerReferences",
            [{"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": "0"}],
            "have our objects belong to another, or go with it",
            "children belong to the experiment, whoever it belongs to",
            AtApply.ACCEPTED,
        ),
        (
            "finalizers",
            ["evil.example/never"],
            "hang the operator at a deletion",
            "the operator waits for nobody: what is about to go is not looked at",
            AtApply.ACCEPTED,
        ),
        (
            "labels",
            {"dedup.dev/experiment": "theirs", "app.kubernetes.io/instance": "theirs", "dedup.dev/use": "true"},
            "have our objects found as another's",
            "labels of the experiment are copied nowhere",
            AtApply.ACCEPTED,
        ),
        (
            "annotations",
            {"meta.helm.sh/release-name": "theirs", "kubectl.kubernetes.io/default-container": "$(x)"},
            "have Helm take an object for another release's",
            "annotations of the experiment are copied nowhere",
            AtApply.ACCEPTED,
        ),
        (
            "generateName",
            "../",
            "be called by what is generated",
            "the name that was given counts",
            AtApply.REFUSED,
        ),
        (
            "namespace",
            "kube-system",
            "have objects made in another namespace",
            "the API server says in which namespace it is, and refuses another one",
            AtApply.REFUSED,
        ),
        (
            "managedFields",
            [{"manager": "dedup-operator", "operation": "Apply"}],
            "own what the operator writes",
            "the operator writes whole statuses",
            AtApply.NOT_SENT,
        ),
    )
)

SHAPES: Final = (*SMUGGLED, *FAULTS, *NUMBERS, *SIZES, *METADATA)
