"""The way to another version of the API, v1beta1 say, on an API server: docs/decisions/146-the-way-to-v1beta1.md.

Both versions have one schema, so the API server converts by the name alone, and today's operator needs no change.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes.client import ApiClient
from testbed import copies
from testbed.cluster import control_plane
from testbed.requests import apply, ask, try_to_apply
from testbed.specs import changed
from tests.operator.gates import STATUSES

from dedup_operator.schema import crd
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

WAIT_S: Final = 60
NEXT: Final = "v1beta1"
DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.PLURAL}.{crd.GROUP}"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}


def at(version: str, name: str = "") -> str:
    return f"/apis/{crd.GROUP}/{version}/namespaces/default/{crd.PLURAL}/{name}".rstrip("/")


def definition(*versions: str, stored: str) -> dict[str, Any]:
    """The definition with today's schema under each of these versions."""
    made = crd.definition()
    (today,) = made["spec"]["versions"]
    made["spec"]["versions"] = [
        {**copies.deepcopy(today), "name": version, "storage": version == stored} for version in versions
    ]
    return made


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ApiClient]:
    """Of an API server that has an experiment of today, which has passed."""
    with control_plane.running(tmp_path) as plane, plane.api_server.client() as client:
        apply(client, DEFINITION, definition(crd.VERSION, stored=crd.VERSION))
        until(lambda: ask(client, "GET", at(crd.VERSION))[0] == 200, WAIT_S, "the kind is known")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        apply(client, "/api/v1/namespaces/default", namespace)
        assert ask(client, "POST", at(crd.VERSION), changed())[0] == 201
        told = STATUSES["Pass"].model_dump(mode="json", by_alias=True, exclude_none=True)
        status, said = ask(client, "PATCH", f"{at(crd.VERSION, 'cut')}/status", {"status": told}, headers=MERGE)
        assert status == 200, said
        yield client


def read(client: ApiClient, version: str) -> dict[str, Any]:
    status, said = ask(client, "GET", at(version, "cut"))
    assert status == 200 and said["apiVersion"] == f"{crd.GROUP}/{version}", said
    return {"spec": said["spec"], "status": said["status"], "generation": said["metadata"]["generation"]}


def test_an_experiment_of_today_is_one_of_the_next_version_and_back_no_verdict_is_lost(client: ApiClient) -> None:
    before = read(client, crd.VERSION)
    apply(client, DEFINITION, definition(crd.VERSION, NEXT, stored=NEXT))
    until(lambda: ask(client, "GET", at(NEXT))[0] == 200, WAIT_S, "the next version is served")
    assert read(client, NEXT) == read(client, crd.VERSION) == before

    # What users of the next version apply, today's operator reads and writes as before.
    newer = changed(("metadata/name", "newer")) | {"apiVersion": f"{crd.GROUP}/{NEXT}"}
    assert ask(client, "POST", at(NEXT), newer)[0] == 201
    _, seen = ask(client, "GET", at(crd.VERSION, "newer"))
    assert seen["apiVersion"] == f"{crd.GROUP}/{crd.VERSION}"
    told = {"status": {"observedGeneration": 1}}
    assert ask(client, "PATCH", f"{at(crd.VERSION, 'newer')}/status", told, headers=MERGE)[0] == 200

    # Back: the older definition alone is refused while something may be stored in the next version.
    alone = definition(crd.VERSION, stored=crd.VERSION)
    status, said = try_to_apply(client, DEFINITION, alone)
    assert status == 422 and "storedVersions" in said["message"], said
    apply(client, DEFINITION, definition(crd.VERSION, NEXT, stored=crd.VERSION))
    for name in ("cut", "newer"):  # stored anew
        status, _ = ask(
            client, "PATCH", at(crd.VERSION, name), {"metadata": {"labels": {"stored": "anew"}}}, headers=MERGE
        )
        assert status == 200
    stored = {"status": {"storedVersions": [crd.VERSION]}}
    assert ask(client, "PATCH", f"{DEFINITION}/status", stored, headers=MERGE)[0] == 200
    apply(client, DEFINITION, alone)
    assert read(client, crd.VERSION) == before
