"""Who may do what: accounts for the pods of runs, for Spark's driver, for the report, for who removes policies in time.

A run looks at pods and runs commands in the brokers' (that is how a broker is killed and how its sockets are read),
unless all its systems are there already; the clients in the same pod have no token. Some kinds of faults need more, and
only experiments with such faults give it. What changes a pod, or enters it, is a right to the brokers' pods by name.
Pods of others are in a role of their own, which lasts as long as the execution has their system. The driver makes
executors. The report writes into one ConfigMap. None may read Secrets.

Where pods have an identity of their cloud's, annotations of their accounts say which. Those of runs, of Spark and of
reports have it, which reach the store.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dedup.experiment.spec import Experiment, System
from dedup.experiment.verifications import Method
from dedup.faults.kinds import Need
from dedup_operator.objects.listed import ListedSystem
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.own_experiments import granted
from dedup_operator.objects.pods import Object
from dedup_operator.objects.settings import ChaosImage
from dedup_operator.objects.systems import endpoints, release_of, worker

RBAC: Final = "rbac.authorization.k8s.io"
Rule = dict[str, list[str]]


def _rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> Rule:
    rule = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return rule if names is None else {**rule, "resourceNames": names}


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
    """Of Spark's executors, which need no right: without one of their own they would have the driver's.

    Of who verifies without Spark, too.
    """
    return name_of(owner, "account", "executor")


def deadline_account(owner: Owner) -> str:
    return name_of(owner, "account", "deadline")


def report_account(owner: Owner) -> str:
    return name_of(owner, "account", "report")


def policies_of(experiment: Experiment) -> int:
    """How many NetworkPolicies the faults of a run make. If a fault dies, somebody else has to remove its policy."""
    return sum(fault.given.needs(Need.POLICIES) for fault in experiment.spec.all_faults)


def accounts(
    owner: Owner,
    experiment: Experiment,
    annotations: Mapping[str, str] | None = None,
    images: Sequence[ChaosImage] = (),
    listed: Sequence[ListedSystem] = (),
) -> list[Object]:
    """The accounts, each with its role and the binding between them. Those that reach the store are annotated.

    `images` is the administrator's list for experiments of users' own, `listed` that of charts of others.
    """
    by_spark = experiment.spec.verification.engine is Method.SPARK
    made = [
        *_account(owner, run_account(owner), "run", list(_run_rules(owner, experiment, images, listed))),
        *(_account(owner, driver_account(owner), "verification", list(DRIVER_RULES)) if by_spark else []),
        _service_account(metadata(owner, executor_account(owner), "verification"), mounted=False),
    ]
    made = _identified(made, annotations)
    if policies_of(experiment):
        made += _account(owner, deadline_account(owner), "deadline", [DEADLINE_RULE])
    return made


def reporting(owner: Owner, home: str, annotations: Mapping[str, str] | None = None) -> list[Object]:
    """The account of the report: it may write its bulletin into the ConfigMap `home`, and do nothing else."""
    made = _account(owner, report_account(owner), "report", [_rule("", ["configmaps"], ["patch"], [home])])
    return _identified(made, annotations)


def _identified(made: list[Object], annotations: Mapping[str, str] | None) -> list[Object]:
    if not annotations:
        return made
    marked = {"annotations": dict(annotations)}
    return [
        {**each, "metadata": {**each["metadata"], **marked}} if each["kind"] == "ServiceAccount" else each
        for each in made
    ]


def strikes_name(owner: Owner, system: System) -> str:
    return name_of(owner, "account", "strikes", system.name)


def strikes(owner: Owner, experiment: Experiment, system: System, pods: Sequence[str]) -> list[Object]:
    """What a run may do to these pods of a system that is there already: a role, and its binding to the run's account.

    The pods are proven to be the system's brokers, and their owner allows it; there is at least one.
    """
    rights = {right for fault in experiment.spec.all_faults for right in fault.given.all_rights if right.by_name}
    rules = [
        *_entered(list(pods)),
        *(_rule(each.group, [each.resource], [*each.verbs], list(pods)) for each in sorted(rights)),
    ]
    name = strikes_name(owner, system)
    return _role(metadata(owner, name, "run", system=system.name), rules, run_account(owner), owner.namespace)


def _run_rules(
    owner: Owner, experiment: Experiment, images: Sequence[ChaosImage], listed: Sequence[ListedSystem]
) -> Iterator[Rule]:
    struck = _struck(owner, experiment, listed)
    if names := [*struck, *_workers(owner, experiment)]:
        yield from _entered(names)
    yield from _fault_rules(experiment, struck, images)


def _entered(names: list[str]) -> Iterator[Rule]:
    """To look at pods, and to run commands in those of these names."""
    yield _rule("", ["pods"], ["get", "list", "watch"])
    # A websocket asks to `get`, as Kubernetes has it up to 1.34; later ones ask whether one may `create`.
    yield _rule("", ["pods/exec"], ["get", "create"], names)


def _struck(owner: Owner, experiment: Experiment, listed: Sequence[ListedSystem]) -> list[str]:
    """The pods that faults may strike: brokers and bookies of the experiment's own systems."""
    systems = experiment.spec.systems
    told = [endpoints(each, release_of(owner, each), owner.namespace, listed=listed) for each in systems]
    parts = (part for each in told for part in (*each.brokers, *each.bookies))
    return [each.pod.name for each in parts if each.pod is not None]


def _workers(owner: Owner, experiment: Experiment) -> list[str]:
    """The pods of function workers, whose process the life of a function kills: no fault strikes them."""
    spec = experiment.spec
    found = (worker(spec, each, release_of(owner, each), owner.namespace) for each in spec.systems)
    return [each.process.pod.name for each in found if each is not None and each.process.pod is not None]


def _fault_rules(experiment: Experiment, names: list[str], images: Sequence[ChaosImage]) -> Iterator[Rule]:
    """What only some kinds of faults need. A right that names nothing would be one to everything."""
    wanted = {right for fault in experiment.spec.all_faults for right in fault.given.all_rights}
    wanted.update(granted(experiment, images))
    for right in sorted(wanted):
        if names or not right.by_name:
            yield _rule(right.group, [right.resource], [*right.verbs], names if right.by_name else None)


def _account(owner: Owner, name: str, component: str, rules: list[Rule]) -> list[Object]:
    meta = metadata(owner, name, component)
    return [
        _service_account(meta, mounted=name == driver_account(owner)),
        *_role(meta, rules, name, owner.namespace),
    ]


def _role(meta: Object, rules: list[Rule], account: str, namespace: str) -> list[Object]:
    """A role of that metadata, and its binding to the account."""
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": meta["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    ]


def _service_account(meta: Object, *, mounted: bool) -> Object:
    """Pods of ours mount a token where they need one; into the driver's, which Spark makes, Kubernetes has to."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": mounted}
