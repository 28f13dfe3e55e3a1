"""Who may do what: accounts for the pods of runs, for Spark's driver, for the report, for who removes policies in time.

A run looks at the brokers' pods and runs commands in them (that is how a broker is killed and how its sockets are
read), unless all its systems are there already; the clients in the same pod have no token. Some kinds of faults need
more, and only experiments with such faults give it. The driver makes executors. The report writes into one ConfigMap.
None may read Secrets.
"""

from collections.abc import Iterator
from typing import Final

from dedup.experiments import Experiment
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import Object

RBAC: Final = "rbac.authorization.k8s.io"
Rule = dict[str, list[str]]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


RUN_RULES: Final = (
    _rule("", ["pods"], ["get", "list", "watch"]),
    # A websocket asks to `get`, as Kubernetes has it up to 1.34; later ones ask whether one may `create`.
    _rule("", ["pods/exec"], ["get", "create"]),
)
DRIVER_RULES: Final = (
    _rule(
        "",
        ["pods", "services", "configmaps", "persistentvolumeclaims"],
        ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
    ),
)
DEADLINE_RULE: Final = _rule("networking.k8s.io", ["networkpolicies"], ["list", "delete"])


def run_account(owner: Owner) -> str:
    return name_of(owner, "account", "run")


def driver_account(owner: Owner) -> str:
    return name_of(owner, "account", "driver")


def executor_account(owner: Owner) -> str:
    """Of Spark's executors, which need no right: without one of their own they would have the driver's."""
    return name_of(owner, "account", "executor")


def deadline_account(owner: Owner) -> str:
    return name_of(owner, "account", "deadline")


def report_account(owner: Owner) -> str:
    return name_of(owner, "account", "report")


def needs_deadlines(experiment: Experiment) -> bool:
    """Whether a fault makes NetworkPolicies, which somebody has to remove if it dies."""
    return any(fault.by_policy for fault in experiment.spec.faults)


def accounts(owner: Owner, experiment: Experiment) -> list[Object]:
    """The accounts, each with its role and the binding between them."""
    touched = any(system.existing is None for system in experiment.spec.systems)
    made = [
        *_account(owner, run_account(owner), "run", [*(RUN_RULES if touched else ()), *_fault_rules(experiment)]),
        *_account(owner, driver_account(owner), "verification", list(DRIVER_RULES)),
        _service_account(metadata(owner, executor_account(owner), "verification"), mounted=False),
    ]
    if needs_deadlines(experiment):
        made += _account(owner, deadline_account(owner), "deadline", [DEADLINE_RULE])
    return made


def reporting(owner: Owner, home: str) -> list[Object]:
    """The account of the report: it may write its bulletin into the ConfigMap `home`, and do nothing else."""
    writes = {**_rule("", ["configmaps"], ["patch"]), "resourceNames": [home]}
    return _account(owner, report_account(owner), "report", [writes])


def _fault_rules(experiment: Experiment) -> Iterator[Rule]:
    """What only some kinds of faults need."""
    faults = experiment.spec.faults
    if any(fault.pod_delete is not None for fault in faults):
        yield _rule("", ["pods"], ["delete"])
    if any(fault.privileged for fault in faults):
        yield _rule("", ["pods/ephemeralcontainers"], ["patch"])
    if needs_deadlines(experiment):
        yield _rule("networking.k8s.io", ["networkpolicies"], ["get", "create", "delete"])


def _account(owner: Owner, name: str, component: str, rules: list[Rule]) -> list[Object]:
    meta = metadata(owner, name, component)
    return [
        _service_account(meta, mounted=name == driver_account(owner)),
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": owner.namespace}],
        },
    ]


def _service_account(meta: Object, *, mounted: bool) -> Object:
    """Pods of ours mount a token where they need one; into the driver's, which Spark makes, Kubernetes has to."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": mounted}
