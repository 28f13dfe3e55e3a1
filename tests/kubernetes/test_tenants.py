"""Two tenants of one operator before a real API server: what docs/operator-chart.md says of who may do what.

Each has a namespace that the operator watches, an account with Kubernetes' own role for it, and an experiment with the
accounts that the operator made for its pods. Every request is made with an account's own token. What an account may do
in its namespace is the innocent twin of what it may not do in the other one.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient
from kubernetes.utils import create_from_dict
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import CHARTS, Helm
from testbed.requests import ask, forget
from testbed.specs import changed
from tests.core.evidences import experiment

from dedup_operator.objects.accounts import (
    accounts,
    deadline_account,
    driver_account,
    executor_account,
    report_account,
    reporting,
    run_account,
)
from dedup_operator.objects.names import Owner
from dedup_operator.objects.systems import release_of
from dedup_operator.schema import crd

pytestmark = pytest.mark.kubernetes

NAME: Final = f"dedup-test-{uuid4().hex[:8]}"
OPERATORS, OURS, THEIRS = (f"{NAME}-{part}" for part in ("operator", "ours", "theirs"))
CORE: Final = "/api/v1/namespaces"
GROUP: Final = f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
POLICIES: Final = "/apis/networking.k8s.io/v1/namespaces"
DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.PLURAL}.{crd.GROUP}"
WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
KEYS: Final = {"AWS_ACCESS_KEY_ID": "YQ==", "AWS_SECRET_ACCESS_KEY": "Yg=="}
FAULTS: Final = [
    {"name": "cut", "at": {"message": 100}, "killTCP": {"duration": "2s"}},
    {"name": "gone", "at": {"message": 100}, "podDelete": {"target": "Leader"}},
    {"name": "alone", "at": {"message": 100}, "partition": {"by": "NetworkPolicy", "duration": "5s"}},
]
MADE: Final = experiment(faults=FAULTS)
OWNERS: Final = {where: Owner(where, "trial", f"uid-{where}") for where in (OURS, THEIRS)}
BULLETIN: Final = "bulletin"
PEOPLE: Final = ("view", "edit", "admin")
"""Kubernetes' own roles, each of an account of that name."""
PROGRAMS: Final = {
    "run": run_account,
    "driver": driver_account,
    "executor": executor_account,
    "report": report_account,
    "deadline": deadline_account,
}
"""The accounts of an experiment's pods."""


class Request(NamedTuple):
    """A request in a namespace, which stands for {0}."""

    method: str
    path: str
    body: dict[str, Any] | None = None


def broker(where: str) -> str:
    """A pod that an experiment there would have."""
    return f"{release_of(OWNERS[where], MADE.spec.systems[0])}-0"


def in_namespace(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


EXPERIMENT: Final = changed(("metadata/name", "new"))
POD: Final = in_namespace(
    "new", "Pod", spec={"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
)
READ: Final = {
    "read experiments": Request("GET", GROUP + "/{0}/dedupexperiments"),
    "read an experiment": Request("GET", GROUP + "/{0}/dedupexperiments/trial"),
    "read pods": Request("GET", CORE + "/{0}/pods"),
    "read logs": Request("GET", CORE + "/{0}/pods/{1}/log"),
    "read bulletins": Request("GET", CORE + "/{0}/configmaps/" + BULLETIN),
}
SECRETS: Final = {
    "read the store's keys": Request("GET", CORE + "/{0}/secrets/store"),
    "read secrets": Request("GET", CORE + "/{0}/secrets"),
}
WRITE: Final = {
    "make an experiment": Request("POST", GROUP + "/{0}/dedupexperiments", EXPERIMENT),
    "change an experiment": Request("PATCH", GROUP + "/{0}/dedupexperiments/trial", {"spec": {"suspend": True}}),
    "delete an experiment": Request("DELETE", GROUP + "/{0}/dedupexperiments/trial"),
    "change the keys": Request("PATCH", CORE + "/{0}/secrets/store", {"data": KEYS}),
    "write a bulletin": Request("PATCH", CORE + "/{0}/configmaps/" + BULLETIN, {"data": {"a": "b"}}),
    "make a pod with the runs' account": Request("POST", CORE + "/{0}/pods", POD),
    "be the runs' account": Request("POST", CORE + "/{0}/serviceaccounts/{2}/token", {"spec": {}}),
    "enter a broker": Request("POST", CORE + "/{0}/pods/{1}/exec"),
    "delete a broker": Request("DELETE", CORE + "/{0}/pods/{1}"),
    "make a policy": Request(
        "POST", POLICIES + "/{0}/networkpolicies", {"metadata": {"name": "new"}, "spec": {"podSelector": {}}}
    ),
}
NOBODY: Final = {
    "write a verdict": Request("PATCH", GROUP + "/{0}/dedupexperiments/trial/status", {"status": {"verdict": "Pass"}}),
    "add a container to a broker": Request("PATCH", CORE + "/{0}/pods/{1}/ephemeralcontainers", {"spec": {}}),
}
ALL: Final = {**READ, **SECRETS, **WRITE, **NOBODY}
MAY: Final[dict[str, set[str]]] = {
    "view": {*READ},
    "edit": {*READ, *SECRETS, *WRITE},
    "admin": {*READ, *SECRETS, *WRITE},
    "run": {"read pods", "enter a broker", "delete a broker", "make a policy"},
    "driver": {
        *("read pods", "read bulletins", "write a bulletin", "make a pod with the runs' account", "delete a broker"),
    },
    "executor": set(),
    "report": {"write a bulletin"},
    "deadline": set(),
}
"""What each may do in its own namespace. No account may do anything in the other one."""


@pytest.fixture(scope="module")
def admin(api_server: ApiServer) -> Iterator[ApiClient]:
    """The administrator's client; the namespaces are there, and the definition goes if it was not there before."""
    with api_server.client() as client:
        known, _ = ask(client, "GET", DEFINITION)
        for where in (OPERATORS, OURS, THEIRS):
            ask(client, "POST", CORE, {"metadata": {"name": where}})
            for account in ("default", *PEOPLE):
                ask(client, "POST", f"{CORE}/{where}/serviceaccounts", {"metadata": {"name": account}})
        yield client
        for where in (OPERATORS, OURS, THEIRS):
            ask(client, "DELETE", f"{CORE}/{where}")
        if known == 404:
            forget(client, DEFINITION)


@pytest.fixture(scope="module")
def tenants(admin: ApiClient, api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both, with all that they have: rights, keys, and an experiment of which the operator has made the accounts."""
    release = Helm(CHARTS / "dedup-operator", "op", OPERATORS, tmp_path_factory.mktemp("helm"), api_server.kubeconfig)
    release.upgrade({"watch": {"namespaces": [OURS, THEIRS]}})
    for where in (OURS, THEIRS):
        for person in PEOPLE:
            bind(admin, where, person)
        created(admin, f"{CORE}/{where}/secrets", in_namespace("store", "Secret", data=KEYS))
        created(admin, f"{CORE}/{where}/configmaps", in_namespace(BULLETIN, "ConfigMap"))
        with acting(api_server, where, "edit") as tenant:
            created(tenant, f"{GROUP}/{where}/dedupexperiments", changed(("metadata/name", "trial")))
        with acting(api_server, OPERATORS, "op") as operator:
            for each in (*accounts(OWNERS[where], MADE), *reporting(OWNERS[where], BULLETIN)):
                create_from_dict(operator, each, namespace=where)
    yield
    release.uninstall()


def bind(client: ApiClient, where: str, role: str) -> None:
    """Give the account of that name Kubernetes' role: what is aggregated to it, with controllers or without.

    `view` is aggregated to `edit`, and that to `admin`; where no controller adds them up, their own parts are bound.
    """
    labels = [f"rbac.authorization.k8s.io/aggregate-to-{each}=true" for each in PEOPLE[: PEOPLE.index(role) + 1]]
    answers = [ask(client, "GET", f"{RBAC}/clusterroles", query={"labelSelector": each})[1] for each in labels]
    for name in sorted({each["metadata"]["name"] for said in answers for each in said["items"]}):
        binding = {
            "metadata": {"name": f"{role}-{name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": where}],
        }
        created(client, f"{RBAC}/namespaces/{where}/rolebindings", binding)


def created(client: ApiClient, path: str, document: dict[str, Any]) -> None:
    status, said = ask(client, "POST", path, document)
    assert status == 201, said


@contextmanager
def acting(api_server: ApiServer, where: str, account: str) -> Iterator[ApiClient]:
    """A client that shows that account's token."""
    with api_server.client() as admin:
        status, said = ask(admin, "POST", f"{CORE}/{where}/serviceaccounts/{account}/token", {"spec": {}})
        assert status == 201, said
        shows = admin.configuration
    shows.cert_file = shows.key_file = shows.refresh_api_key_hook = None  # or it would be the administrator still
    shows.api_key = {"BearerToken": f"Bearer {said['status']['token']}"}
    with ApiClient(shows) as client:
        _, me = ask(client, "POST", WHO_AM_I, {})
        assert me["status"]["userInfo"]["username"] == f"system:serviceaccount:{where}:{account}"
        yield client


def allowed(client: ApiClient, where: str, names: Sequence[str] = (*ALL,)) -> set[str]:
    """Which of these requests the API server does not forbid there. Nothing is changed."""
    found = set()
    for name in names:
        each = ALL[name]
        path = each.path.format(where, broker(where), run_account(OWNERS[where]))
        dry = {} if each.method == "GET" or path.endswith(("/exec", "/token")) else {"dryRun": "All"}
        body = each.body
        if body is POD:
            body = {**POD, "spec": {**POD["spec"], "serviceAccountName": run_account(OWNERS[where])}}
        status, said = ask(
            client, each.method, path, body, headers=MERGE if each.method == "PATCH" else None, query=dry
        )
        assert status in (200, 201, 400, 403, 404, 422), (name, said)
        if status != 403:
            found.add(name)
    return found


def account_of(who: str, where: str) -> str:
    return PROGRAMS[who](OWNERS[where]) if who in PROGRAMS else who


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize("who", MAY)
def test_an_account_may_do_its_part_in_its_namespace_and_nothing_in_anothers(who: str, api_server: ApiServer) -> None:
    with acting(api_server, OURS, account_of(who, OURS)) as client:
        assert allowed(client, THEIRS) == set()
        assert allowed(client, OURS) == MAY[who]


@pytest.mark.usefixtures("tenants")
def test_a_run_enters_its_own_brokers_and_a_report_writes_its_own_bulletin(api_server: ApiServer) -> None:
    """In the namespace itself, too, there are other pods and other ConfigMaps."""
    with ExitStack() as stack:
        run, report = (
            stack.enter_context(acting(api_server, OURS, PROGRAMS[who](OWNERS[OURS]))) for who in ("run", "report")
        )
        for pod, status in ((broker(OURS), 404), ("somebodys", 403)):
            assert ask(run, "POST", f"{CORE}/{OURS}/pods/{pod}/exec")[0] == status
            assert ask(run, "DELETE", f"{CORE}/{OURS}/pods/{pod}")[0] == status
        written = (BULLETIN, 200), ("kube-root-ca.crt", 403)
        for name, status in written:
            path = f"{CORE}/{OURS}/configmaps/{name}"
            assert ask(report, "PATCH", path, {"data": {"a": "b"}}, headers=MERGE)[0] == status


@pytest.mark.usefixtures("tenants")
def test_only_the_operator_may_write_a_status(api_server: ApiServer) -> None:
    """Its twin is all people of the namespace, above."""
    with acting(api_server, OPERATORS, "op") as operator:
        for where in (OURS, THEIRS):
            assert allowed(operator, where, ["write a verdict"]) == {"write a verdict"}
        assert allowed(operator, where, ["change an experiment", "delete an experiment"]) == set()


@pytest.mark.usefixtures("tenants")
def test_nobody_makes_themselves_a_role_that_reaches_further(api_server: ApiServer) -> None:
    """An admin of a namespace may make roles there, of what they have: the status is not among it."""
    verdicts = {"apiGroups": [crd.GROUP], "resources": [f"{crd.PLURAL}/status"], "verbs": ["patch"]}
    reads = {**verdicts, "resources": [crd.PLURAL], "verbs": ["get"]}
    with acting(api_server, OURS, "admin") as client:
        for where, rule, status in ((OURS, reads, 201), (OURS, verdicts, 403), (THEIRS, reads, 403)):
            role = {"metadata": {"name": "further"}, "rules": [rule]}
            assert ask(client, "POST", f"{RBAC}/namespaces/{where}/roles", role, query={"dryRun": "All"})[0] == status
