"""Who asks a store without keys of its own: MinIO and an API server as processes, and tokens between them.

A pod has the token of its account in a file, from its kubelet; here it is asked for by hand. MinIO's STS holds it
against what the API server says, to whoever asks, of its own signatures. Pods do the same in
test_store_identities_cluster.py.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import httpx
import pytest
from kubernetes.client import ApiClient, CoreV1Api, RbacAuthorizationV1Api
from testbed.cluster import control_plane
from testbed.cluster.addons.object_store import AUDIENCE, role
from testbed.cluster.control_plane import DISCOVERY
from tests.kubernetes.lent_keys import lent
from tests.runners import minio
from tests.runners.minio import ObjectStore

from dedup.errors import EnvironmentError_
from dedup.history.stores import Place, below, place, reached
from dedup_operator.objects.settings import SESSION_KEY, STORE_KEYS
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

NAMESPACE: Final = "lab"
ACCOUNT: Final = "run"
ANOTHER: Final = "another.store"
BOUND_S: Final = 60.0
RBAC: Final = "rbac.authorization.k8s.io"


class Issuer(NamedTuple):
    """An API server whose signatures everybody may learn, and an account of it."""

    client: ApiClient

    @property
    def url(self) -> str:
        return str(self.client.configuration.host)

    @property
    def authority(self) -> Path:
        """The certificate by which the server is trusted."""
        return Path(self.client.configuration.ssl_ca_cert)

    def token(self, audience: str) -> str:
        asked = {"spec": {"audiences": [audience]}}
        core = CoreV1Api(self.client)
        return str(core.create_namespaced_service_account_token(ACCOUNT, NAMESPACE, asked).status.token)

    def tells_nobody(self, path: str) -> int:
        """The status that a request gets which does not say who asks."""
        with httpx.Client(verify=False, trust_env=False) as client:
            return client.get(f"{self.url}{path}").status_code


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    try:
        control_plane.check_machine()
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    with control_plane.running(tmp_path_factory.mktemp("issuer")) as plane, plane.api_server.client() as client:
        made, core = Issuer(client), CoreV1Api(client)
        assert {made.tells_nobody(each) for each in DISCOVERY} == {403}, (
            "by itself Kubernetes lets accounts alone see it"
        )
        core.create_namespace({"metadata": {"name": NAMESPACE}})
        core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": ACCOUNT}})
        role_ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"}
        subject = {"apiGroup": RBAC, "kind": "Group", "name": "system:unauthenticated"}
        RbacAuthorizationV1Api(client).create_cluster_role_binding(
            {"metadata": {"name": "by-all"}, "roleRef": role_ref, "subjects": [subject]}
        )
        until(lambda: {made.tells_nobody(each) for each in DISCOVERY} == {200}, BOUND_S, "the binding is in force")
        yield made


@pytest.fixture(scope="module")
def store(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A MinIO that trusts the issuer, as the one of the cluster does (object-store.yaml)."""
    folder = tmp_path_factory.mktemp("minio")
    authorities = folder / "certificates" / "CAs"
    authorities.mkdir(parents=True)
    shutil.copy(issuer.authority, authorities / "ca.crt")
    told = {"CONFIG_URL": issuer.url + DISCOVERY[0], "CLIENT_ID": AUDIENCE, "ROLE_POLICY": "readwrite"}
    variables = {f"MINIO_IDENTITY_OPENID_{name}": value for name, value in told.items()}
    with minio.served(folder / "data", variables, ["--certs-dir", str(authorities.parent)]) as running:
        yield running


@pytest.fixture
def root(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place of the test's own in the store, for whom the environment says nothing of who asks."""
    for each in STORE_KEYS:
        monkeypatch.delenv(each)
    minio.forget()
    yield place(f"s3://{minio.BUCKET}/{uuid4().hex}")
    minio.forget()


@pytest.fixture
def token(root: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of which the environment says that the token is there."""
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", role())
    return tmp_path / "token"


def write(root: Place) -> list[str]:
    """What is in the place once something has been written there."""
    with reached(root):
        (root / "history").write_bytes(b"x")
        return below(root)


def test_nobody_is_told_more_than_how_tokens_are_signed(issuer: Issuer) -> None:
    assert {issuer.tells_nobody(each) for each in ("/version", "/healthz", "/api", "/openid/v1", "/openapi/v2")} == {
        401
    }


def test_a_token_of_an_account_opens_the_store(issuer: Issuer, root: Place, token: Path) -> None:
    token.write_text(issuer.token(AUDIENCE))
    assert write(root) == ["history"]


def test_one_for_another_audience_does_not_and_it_is_said_in_one_line(
    issuer: Issuer, root: Place, token: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    token.write_text(issuer.token(ANOTHER))
    with pytest.raises(EnvironmentError_) as refused:
        write(root)
    said = str(refused.value)
    assert "AssumeRoleWithWebIdentity" in said and "must match configured OpenID Client ID" in said
    assert (
        "check AWS_ENDPOINT_URL, AWS_ROLE_ARN and for which audience the token in AWS_WEB_IDENTITY_TOKEN_FILE is"
        in said
    )
    assert "\n" not in said and token.read_text() not in said and capfd.readouterr() == ("", "")


def test_a_token_that_was_renewed_is_read_again(issuer: Issuer, root: Place, token: Path) -> None:
    """By the same client: a kubelet writes another one into the file before the old one expires."""
    token.write_text(issuer.token(ANOTHER))
    with pytest.raises(EnvironmentError_):
        write(root)
    token.write_text(issuer.token(AUDIENCE))
    assert write(root) == ["history"]


def test_a_role_that_the_store_does_not_know_is_refused(
    issuer: Issuer, root: Place, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token.write_text(issuer.token(AUDIENCE))
    monkeypatch.setenv("AWS_ROLE_ARN", role(ANOTHER))
    with pytest.raises(EnvironmentError_, match="RoleArn"):
        write(root)


def test_keys_that_are_lent_open_it_with_their_token_only(
    store: ObjectStore, root: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in lent(store.url).items():
        monkeypatch.setenv(name, value)
    assert write(root) == ["history"]
    monkeypatch.delenv(SESSION_KEY)
    minio.forget()
    with pytest.raises(EnvironmentError_, match="of keys that are lent AWS_SESSION_TOKEN"):
        write(place(str(root)))
