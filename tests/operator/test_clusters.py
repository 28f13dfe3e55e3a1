"""What becomes of an answer of the API server: whose word is believed, for how long, and whose time it is."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

import pytest
from kubernetes.client import ApiClient, Configuration

from dedup_operator.clusters import Conflict, Forbidden, LiveCluster, Object, Refused, UnknownKind, Unreachable

DATE: Final = "Sun, 09 Sep 2001 01:46:40 GMT"
DATE_S: Final = 1_000_000_000
PAGE: Final = "404 page not found\n"
NO_OBJECT: Final = '{"kind": "Status", "message": "jobs.batch \\"a\\" not found", "details": {"name": "a"}}'
MADE: Final[Object] = {"kind": "SparkApplication", "metadata": {"namespace": "n", "name": "a"}}


class Answering(LiveCluster):
    """An API server that gives one answer to everything."""

    def __init__(self, status: int, said: str) -> None:
        self.answer = status, said

    def _ask(self, *_request: Any, **_more: Any) -> tuple[int, str]:
        return self.answer


class Answers(BaseHTTPRequestHandler):
    """Nothing is there, and it is always the same time."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()
        self.wfile.write(NO_OBJECT.encode())

    def date_time_string(self, timestamp: float | None = None) -> str:
        return DATE

    def log_message(self, *_arguments: object) -> None:
        """Nobody wants to read of it."""


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with ApiClient(Configuration(host=f"http://127.0.0.1:{server.server_port}")) as client:
            yield LiveCluster(client)
        server.shutdown()


def test_its_time_is_the_api_servers(cluster: LiveCluster) -> None:
    assert cluster.now() > DATE_S + 3600
    assert cluster.get("Lease", "ops", "op") is None
    assert DATE_S <= cluster.now() < DATE_S + 3600


def test_an_object_that_is_not_there_is_none() -> None:
    cluster = Answering(404, NO_OBJECT)
    assert cluster.get("SparkApplication", "n", "a") is None
    cluster.delete("SparkApplication", "n", "a")


def test_a_kind_that_nobody_installed_is_not_an_object_that_is_not_there() -> None:
    """The API server answers with a page, and not in its own words."""
    cluster = Answering(404, PAGE)
    with pytest.raises(UnknownKind):
        cluster.get("SparkApplication", "n", "a")
    with pytest.raises(UnknownKind):
        cluster.list("SparkApplication", "n", "")
    with pytest.raises(UnknownKind):
        cluster.create(MADE)
    cluster.delete("SparkApplication", "n", "a")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Refused),
        (401, Unreachable),
        (403, Forbidden),
        (408, Unreachable),
        (409, Conflict),
        (422, Refused),
        (429, Unreachable),
        (503, Unreachable),
    ],
)
def test_an_answer_is_final_or_not(status: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="no, since") as caught:
        Answering(status, '{"kind": "Status", "message": "no, since"}').get("Pod", "n", "a")
    assert (error is Refused) == (type(caught.value) is Refused)


def test_a_token_that_is_not_known_is_told_with_what_to_do() -> None:
    with pytest.raises(Unreachable, match="HTTP 401: Unauthorized; if that lasts, give it a token that"):
        Answering(401, '{"kind": "Status", "message": "Unauthorized"}').get("Pod", "n", "a")


WEBHOOK: Final = 'admission webhook "policies.example.com" denied the request: no'
POLICY: Final = "jobs \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"


@pytest.mark.parametrize(
    ("status", "words", "error"),
    [
        (400, WEBHOOK, Forbidden),
        (401, WEBHOOK, Forbidden),
        (409, WEBHOOK, Forbidden),
        (409, "the object has been modified; the request was denied", Conflict),
        (422, WEBHOOK, Forbidden),
        (422, POLICY, Forbidden),
        (422, POLICY.replace(" with binding 'b'", ""), Forbidden),
        (429, WEBHOOK, Unreachable),
        (500, 'failed calling webhook "policies.example.com": EOF', Unreachable),
        (400, "spec.template: the request was denied", Refused),
        (422, 'spec.webhook: "admission webhook" denied the request', Refused),
    ],
)
def test_a_rule_of_the_cluster_may_be_mended_by_whatever_code_it_denies(
    status: int, words: str, error: type[Exception]
) -> None:
    """A webhook that gives no code denies by 400, a policy that gives no reason by 422."""
    with pytest.raises(error) as caught:
        Answering(status, json.dumps({"kind": "Status", "message": words})).create(MADE)
    assert type(caught.value) is error and words in str(caught.value)


def test_what_is_there_already_is_not_made() -> None:
    assert not Answering(409, '{"reason": "AlreadyExists", "message": "there"}').create(MADE)
