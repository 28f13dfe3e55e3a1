"""Another cluster's API server is not trusted: what is no answer of one is not shown, what does not end is not read."""

import io
import json
from typing import Any

import pytest

from dedup_operator.clusters import LiveCluster, Refused, UnknownKind, Unreachable
from dedup_operator.comparisons import remotes
from dedup_operator.comparisons.kubeconfigs import Way
from dedup_operator.comparisons.remotes import RemoteCluster, connected

PAGE = b"<html>the inner page of somebody else</html>"
LIVE = {
    "apiVersion": "dedup.dev/v1alpha1",
    "kind": "DedupExperiment",
    "metadata": {"name": "e", "namespace": "lab", "uid": "u"},
}


class Client:
    """A client whose every request has one answer."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.response = status, io.BytesIO(body)
        self.asked: dict[str, dict[str, str]] = {}

    def param_serialize(self, method: str, path: str, *, query_params: Any, **_: Any) -> tuple[str]:
        self.asked[method] = dict(query_params)
        return (path,)

    def call_api(self, *_: Any, **__: Any) -> "Client":
        return self

    def getheader(self, _name: str) -> None:
        return None

    def read(self) -> bytes:
        return self.response.read()


def said(message: str) -> bytes:
    return json.dumps({"kind": "Status", "metadata": {}, "message": message, "details": {"name": "e"}}).encode()


def test_an_experiment_is_read_as_from_any_cluster() -> None:
    client = Client(200, json.dumps(LIVE).encode())
    assert RemoteCluster(client).get("DedupExperiment", "lab", "e") == LIVE
    assert RemoteCluster(Client(404, said("not found"))).get("DedupExperiment", "lab", "e") is None


@pytest.mark.parametrize("metadata", [None, [], {}, {"uid": 7}, {"uid": "u" * 64}, {"uid": "u", "annotations": ["a"]}])
def test_an_answer_that_is_no_object_is_none_of_an_api_server(metadata: object) -> None:
    with pytest.raises(Unreachable, match="no API server"):
        RemoteCluster(Client(200, json.dumps({**LIVE, "metadata": metadata}).encode())).get("DedupExperiment", "l", "e")


@pytest.mark.parametrize("status", [200, 302, 403, 404, 500])
def test_a_page_of_another_server_is_shown_to_nobody(status: int) -> None:
    with pytest.raises((Refused, Unreachable)) as caught:
        RemoteCluster(Client(status, PAGE)).get("DedupExperiment", "lab", "e")
    assert "inner page" not in str(caught.value)


def test_its_twin_the_words_of_an_api_server_are() -> None:
    with pytest.raises(Refused, match='experiments "e" is forbidden'):
        RemoteCluster(Client(403, said('experiments "e" is forbidden'))).get("DedupExperiment", "lab", "e")


def test_a_cluster_without_the_definition_is_told_from_one_without_the_experiment() -> None:
    with pytest.raises(UnknownKind):
        RemoteCluster(Client(404, b"404 page not found\n")).get("DedupExperiment", "lab", "e")


def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    client = Client(200, b" " * (remotes.MOST_BYTES + (1 << 20)))
    with pytest.raises(Unreachable, match="too large"):
        RemoteCluster(client).get("DedupExperiment", "lab", "e")
    assert client.response.closed


@pytest.mark.parametrize("status", [200, 404, 500])
def test_an_answer_of_a_thousand_brackets_is_none_of_an_api_server(status: int) -> None:
    deep = '{"kind": "Status", "metadata": {}, "details": {"name": "e"}, "a": ' + "[" * 5000 + "]" * 5000 + "}"
    with pytest.raises((Refused, Unreachable)):
        RemoteCluster(Client(status, deep.encode())).get("DedupExperiment", "lab", "e")


def test_its_twin_with_a_few_is() -> None:
    live = {**LIVE, "spec": {"a": [[[[[[[[]]]]]]]]}}
    assert RemoteCluster(Client(200, json.dumps(live).encode())).get("DedupExperiment", "lab", "e") == live


def test_unknown_keys_are_to_be_refused_there() -> None:
    client = Client(201, json.dumps(LIVE).encode())
    assert RemoteCluster(client).create(LIVE)
    assert client.asked["POST"] == {"fieldValidation": "Strict"}
    own = Client(201, json.dumps(LIVE).encode())
    assert LiveCluster(own).create(LIVE)
    assert own.asked["POST"] == {}


def test_a_client_checks_the_server_and_follows_no_redirection() -> None:
    cluster = connected(Way("https://127.0.0.1:1", "t0k", None, None))
    assert isinstance(cluster, RemoteCluster)
    configuration = cluster._client.configuration
    assert (configuration.verify_ssl, configuration.retries) == (True, False)
    assert configuration.api_key == {"BearerToken": "Bearer t0k"}


def test_an_authority_that_is_no_certificate_is_unreachable_in_words() -> None:
    way = Way("https://127.0.0.1:1", "t0k", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n", None)
    with pytest.raises(Unreachable):
        connected(way).get("DedupExperiment", "lab", "e")
