"""Replication over a link that is cut. A small HTTP server stands for the brokers of both clusters and the proxy."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.wire.manifests import Deduplication, EndPosition, Replicated
from dedup.workloads.replication import Replication
from dedup_runners.configs import ConsumerConfig, Second
from dedup_runners.recording.journals import Observer
from dedup_runners.workloads import replication
from dedup_runners.workloads.replication import replicate

TOPIC: Final = "persistent://public/dedup-on/t"
END: Final = EndPosition(partition=0, extents=((5, 600), (9, 400)))


class Two:
    """Two clusters: the second has 520 of 1,000 messages when the link is cut, of which the first knows 300."""

    def __init__(self) -> None:
        self.namespace: list[str] = ["dedup"]
        self.calls: list[tuple[str, str, Any]] = []
        self.enabled, self.cuts, self.looks, self.toxics = True, 0, 0, set[str]()
        self.stuck = self.stays = self.late = self.before = False
        self.hangs_up = 0

    @property
    def replicates(self) -> bool:
        return "second" in self.namespace

    @property
    def through(self) -> bool:
        return self.cuts > 0 and self.enabled and not self.stuck

    def get(self, path: str) -> object:
        if path == "/first/admin/v2/brokers/configuration/values":
            return {"replicationStartAt": "earliest"}
        if path.startswith("/first"):
            left = 0 if self.through else 700
            self.late = self.late and self.looks < 3
            self.looks += self.cuts
            told = {"connected": self.enabled or self.late, "replicationBacklog": left}
            return {"replication": {"second": told} if self.replicates else {}}
        # As 4.2.4: a replicator is no publisher, and is told of in the statistics of what is replicated.
        sends = (self.replicates and self.enabled) or self.stays
        replication = {"dedup": {"inboundConnection": "/127.0.0.1:1"}} if sends else {}
        return {"msgInCounter": 1_220 if self.through else 520, "publishers": [], "replication": replication}

    @property
    def entries(self) -> int:
        """What the second cluster has stored."""
        if not self.calls:
            return 3 if self.before else 0
        return 1_000 if self.through else 520

    def change(self, method: str, path: str, body: Any) -> None:
        self.calls.append((method, path, body))
        if "/namespaces/" in path:
            self.namespace = body
        elif path.endswith("/toxics"):
            self.toxics.add(body["name"])
        elif method == "DELETE":
            self.toxics.discard(path.rpartition("/")[2])
        elif path.startswith("/proxies/"):
            self.cuts += self.enabled and not body["enabled"]
            self.enabled = body["enabled"]


class Admin:
    """The operator of either cluster."""

    in_force, stands_at = True, [(9, 399)]
    two: Two

    def __init__(self, endpoints: Endpoints) -> None:
        self._second = endpoints.admin_urls[0].endswith("second")

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None: ...

    def topic_name(self, run_topic: str, deduplication: bool) -> str:
        return f"persistent://public/dedup-{'on' if deduplication else 'off'}/{run_topic}"

    def create_topic(self, topic: str, *, partitions: int, deduplication: bool) -> None:
        assert (topic, partitions, deduplication) == (TOPIC, 1, True)

    def end_positions(self, topic: str) -> list[EndPosition]:
        return [EndPosition(partition=0, extents=((2, self.two.entries),))] if self._second else [END]

    def mark_deleted(self, topic: str, subscription: str) -> list[tuple[int, int]]:
        assert subscription == "pulsar.repl.second"
        return self.stands_at

    def deduplication_in_force(self, topic: str, asked: bool) -> Deduplication:
        return Deduplication(asked=asked, in_force=self.in_force, proof="deduplicationStatus: Disabled")


@contextmanager
def served(two: Two) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            if path.startswith("/proxies/") and two.hangs_up:
                two.hangs_up -= 1
                self.close_connection = True
                return
            said: object = {}
            if self.command == "GET":
                said = two.get(path)
            else:
                two.change(self.command, path, json.loads(raw) if raw else None)
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _do

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def endpoints(url: str, cluster: str) -> Endpoints:
    return Endpoints(
        system="pulsar",
        client_bootstrap=f"pulsar://{cluster}:1",
        direct_bootstrap=f"pulsar://{cluster}:2",
        admin_urls=[f"{url}/{cluster}"],
        listener_name="client",
        toxiproxy_url=url,
        brokers=[Broker(id=cluster, client_port=1, proxy="link")],
    )


Done = tuple[ConsumerConfig, Replicated]


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Two], Done]:
    """Have it replicated: the config of the reader, and what came of it."""
    monkeypatch.setattr(replication, "PulsarAdmin", Admin)
    monkeypatch.setattr(replication, "GONE_S", 0.5)

    def replicated(two: Two) -> Done:
        Admin.two = two
        with served(two) as url:
            config = ConsumerConfig(
                run_id="r1",
                folder=tmp_path,
                endpoints=endpoints(url, "first"),
                topic=TOPIC,
                library="pulsar-client",
                timeout_s=1.5,
                replication=Replication.model_validate({"at": {"message": 500}, "delay": "1s", "duration": "100ms"}),
                beside=Second(cluster="second", first="dedup", endpoints=endpoints(url, "second")),
            )
            observer = Observer(tmp_path, "consumer")
            try:
                return replicate(config, observer)
            finally:
                observer.close()

    return replicated


def test_the_link_is_slow_is_cut_and_is_whole_and_the_second_cluster_is_read(done: Callable[[Two], Done]) -> None:
    config, told = done(two := Two())
    assert (told.source_entries, told.stored, told.acknowledged) == (1_000, 520, 300)
    assert told.proof == (
        "replicationBacklog 0, connected, cursors at 9:399; in the second cluster deduplicationStatus: Disabled"
    )
    assert (config.endpoints.direct_bootstrap, config.replication) == ("pulsar://second:2", None)
    assert (two.cuts, two.enabled, two.toxics, two.namespace) == (1, True, set(), ["dedup"])
    (known,) = [body for method, path, body in two.calls if path.endswith("/clusters/second")]
    assert (known["brokerServiceUrl"], known["listenerName"]) == ("pulsar://second:1", "client"), "over the link"
    paths = [path for _, path, _ in two.calls]
    assert paths.index("/proxies/link/toxics") < paths.index("/first/admin/v2/namespaces/public/dedup-on/replication")


def stuck(two: Two) -> None:
    two.stuck = True


def staying(two: Two) -> None:
    two.stays = True


def used(two: Two) -> None:
    two.before = True


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (stuck, "got 520 messages in the second cluster; replicationBacklog 700, connected; nothing is left to"),
        (staying, "the second cluster has noticed that the link is cut"),
        (used, "got 3 entries; the first cluster says None; it is empty, and nothing is replicated, until all is sent"),
    ],
)
def test_what_is_left_to_replicate_or_not_known_is_read_by_nobody(
    done: Callable[[Two], Done], changed: Callable[[Two], None], said: str
) -> None:
    changed(two := Two())
    with pytest.raises(PlatformError) as caught:
        done(two)
    assert said in str(caught.value)
    assert (two.enabled, two.toxics, two.namespace) == (True, set(), ["dedup"]), "the next run finds a whole link"


def test_a_proxy_that_has_closed_its_connection_is_asked_over_another_one(done: Callable[[Two], Done]) -> None:
    two = Two()
    two.hangs_up = 1
    _, told = done(two)
    assert (told.stored, two.cuts, two.enabled, two.hangs_up) == (520, 1, True, 0)


def test_the_first_cluster_may_notice_the_cut_late(done: Callable[[Two], Done]) -> None:
    two = Two()
    two.late = True
    _, told = done(two)
    assert (told.stored, told.acknowledged, two.late) == (520, 300, False)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("stands_at", [(9, 398)], "got [(9, 398)], while replicationBacklog is 0; they stand at the ends of the topic"),
        ("in_force", False, "got deduplicationStatus: Disabled; deduplication is on there, as in the first"),
    ],
)
def test_what_brokers_say_otherwise_is_an_error(
    done: Callable[[Two], Done], monkeypatch: pytest.MonkeyPatch, name: str, value: object, said: str
) -> None:
    monkeypatch.setattr(Admin, name, value)
    with pytest.raises(PlatformError) as caught:
        done(Two())
    assert said in str(caught.value)
