"""All of ours is removed from a system of others, and nothing else: found by its names, asked for until it is gone.

Pulsar's REST interface and Kafka's admin are played by stand-ins that keep names. On real brokers:
tests/lab/test_existing_live.py.
"""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaException

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup_runners.admins import removals

OURS = "dedup-run-1a2b3c4d"
OTHERS = f"{OURS}5"
TOPIC = "persistent://public/{}/t"


class Rest:
    """A Pulsar's namespaces with their topics. A namespace that has topics is not deleted; `stuck` ones never are."""

    def __init__(self, namespaces: dict[str, list[str]], stuck: tuple[str, ...] = ()) -> None:
        self.namespaces, self.stuck = namespaces, stuck
        self.asked: list[str] = []

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        kind, _, rest = path.removeprefix("/admin/v2/").partition("?")[0].partition("/")
        if method == "GET" and kind == "namespaces":
            return 200, list(self.namespaces)
        if method == "GET":
            namespace = rest.removesuffix("/partitioned")
            return 200, [] if path.endswith("/partitioned") else self.namespaces.get(namespace, [])
        self.asked.append(path)
        if kind == "namespaces":
            if self.namespaces.get(rest) or rest in self.stuck:
                return 409, {"reason": "not empty"}
            self.namespaces.pop(rest, None)
        else:
            namespace, _, _ = rest.rpartition("/")
            self.namespaces[namespace].remove(f"{kind}://{rest}")
        return 204, None


@contextmanager
def serving(rest: Rest) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_DELETE(self) -> None:
            self._answer("DELETE")

        def _answer(self, method: str) -> None:
            code, said = rest.answer(method, self.path)
            self.send_response(code)
            self.end_headers()
            if said is not None:
                self.wfile.write(json.dumps(said).encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def endpoints(system: str, names: str = OURS, **more: Any) -> Endpoints:
    told = {"system": system, "client_bootstrap": "x:1", "direct_bootstrap": "x:1", "brokers": [], "names": names}
    return Endpoints.model_validate({**told, **more})


def test_namespaces_of_ours_go_with_their_topics_and_those_of_others_stay() -> None:
    others = {
        "public/default": [TOPIC.format("default")],
        f"public/{OTHERS}": [TOPIC.format(OTHERS)],
    }
    own = {f"public/{OURS}-on": [TOPIC.format(f"{OURS}-on")], f"public/{OURS}-probe-0": []}
    rest = Rest({**others, **own})
    with serving(rest) as url:
        removals.remove(endpoints("pulsar", admin_urls=[url]))
    assert rest.namespaces == others
    assert all(OURS in path for path in rest.asked), "nothing else is even asked for"


def test_what_stays_is_named() -> None:
    rest = Rest({f"public/{OURS}-on": []}, stuck=(f"public/{OURS}-on",))
    with serving(rest) as url, pytest.raises(PlatformError, match=f"got still there: namespace public/{OURS}-on;"):
        removals.remove(endpoints("pulsar", admin_urls=[url]), within_s=0.0)


@pytest.mark.parametrize(("listed", "words"), [("namespaces/public", "nobody knows what: .*404"), ("none", "")])
def test_who_does_not_know_the_tenant_is_no_pulsar_without_namespaces_of_ours(listed: str, words: str) -> None:
    """A web server in front of brokers that are away answers so. Twin: a namespace that went meanwhile."""

    class Front(Rest):
        def answer(self, method: str, path: str) -> tuple[int, Any]:
            if path.endswith((listed, "persistent/public/default")):
                return 404, {"reason": "not found"}
            return super().answer(method, path)

    with serving(Front({})) as url:
        told = endpoints("pulsar", admin_urls=[url])
        with pytest.raises(PlatformError, match=words) if words else nullcontext():
            removals.remove(told, within_s=0.0)


class Admin:
    """Kafka's admin, with the topics and groups of the class."""

    topics: ClassVar[set[str]] = set()
    groups: ClassVar[set[str]] = set()
    refuses = False
    errors: ClassVar[list[KafkaException]] = []

    def __init__(self, settings: dict[str, Any]) -> None:
        assert settings["bootstrap.servers"] == "x:1"

    def list_topics(self, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics=dict.fromkeys(self.topics))

    def list_consumer_groups(self, request_timeout: float) -> "Future[Any]":
        found = [SimpleNamespace(group_id=each) for each in self.groups]
        return _done(SimpleNamespace(valid=found, errors=self.errors))

    def delete_topics(self, names: list[str], request_timeout: float) -> dict[str, "Future[Any]"]:
        return self._deleted(self.topics, names)

    def delete_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, "Future[Any]"]:
        return self._deleted(self.groups, names)

    def _deleted(self, kept: set[str], names: list[str]) -> dict[str, "Future[Any]"]:
        if not self.refuses:
            kept -= set(names)
        return {name: _done(None) for name in names}


def _done(result: Any) -> "Future[Any]":
    found: Future[Any] = Future()
    found.set_result(result)
    return found


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> type[Admin]:
    monkeypatch.setattr(removals, "AdminClient", Admin)
    monkeypatch.setattr(Admin, "topics", {"orders", f"{OURS}-kafka-dedup-001-1", f"{OURS}-probe", f"{OTHERS}-x"})
    monkeypatch.setattr(Admin, "groups", {"shop", f"{OURS}-kafka-dedup-001-1-application"})
    return Admin


def test_topics_and_groups_of_ours_go_and_those_of_others_stay(admin: type[Admin]) -> None:
    removals.remove(endpoints("kafka"))
    assert (admin.topics, admin.groups) == ({"orders", f"{OTHERS}-x"}, {"shop"})


def test_a_broker_that_does_not_delete_is_told_with_what_stays(
    admin: type[Admin], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "refuses", True)
    with pytest.raises(PlatformError, match=f"topic {OURS}-probe") as caught:
        removals.remove(endpoints("kafka"), within_s=0.0)
    assert "orders" not in str(caught.value)


def test_a_broker_that_does_not_say_what_there_is_leaves_it_unknown(
    admin: type[Admin], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is not emptiness."""

    def silent(_self: Admin, timeout: float) -> None:
        raise KafkaException("Broker transport failure")

    monkeypatch.setattr(admin, "list_topics", silent)
    with pytest.raises(PlatformError, match=r"nobody knows what: .*transport failure"):
        removals.remove(endpoints("kafka"), within_s=0.0)


def test_a_broker_that_does_not_say_which_groups_it_has_leaves_it_unknown(
    admin: type[Admin], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "errors", [KafkaException("broker 2 is silent")])
    with pytest.raises(PlatformError, match=r"nobody knows what: .*broker 2 is silent"):
        removals.remove(endpoints("kafka"), within_s=0.0)


@pytest.mark.parametrize("names", ["dedup", "dedu", "", "dedup-run", "dedup-run-", f"{OURS}0"])
def test_by_a_name_that_others_have_nothing_is_removed(names: str, admin: type[Admin]) -> None:
    with pytest.raises(PlatformError, match="only what one execution has made"):
        removals.remove(endpoints("kafka", names))
    assert "orders" in admin.topics and f"{OURS}-probe" in admin.topics
