"""A function of Pulsar: its two lives, and what is taken down of its outputs. A small HTTP server stands for worker and
brokers; a keeper keeps a process that sleeps, and is killed in the worker's place.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest

from dedup.experiment.endpoints import Broker, Endpoints, Worker
from dedup.history.histories import PROCESSINGS
from dedup.wire.manifests import Application, Deduplication, EndPosition
from dedup.workloads.consumer import Consumer
from dedup.workloads.functions import Function, Guarantee
from dedup.workloads.restart import End, RestartAt
from dedup_lab.systems.keepers import Kept, Program
from dedup_runners.configs import ConsumerConfig
from dedup_runners.recording.journals import Observer
from dedup_runners.recording.recorders import Columns, Recorder
from dedup_runners.workloads import functions, outputs
from dedup_runners.workloads.functions import OfProcesses, Working

MESSAGES: Final = 10
ON: Final = "persistent://public/dedup-on/"
TOPIC: Final = f"{ON}t"
SLEEPS: Final = "import time; time.sleep(60)"
END: Final = (EndPosition(partition=0, extents=((5, MESSAGES),)),)


class Pulsar:
    """The worker and the brokers. Six outputs are stored and four inputs acknowledged until it is killed, then all."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self.registered: dict[str, Any] = {}
        self.removed = False
        self.guarantee = ""
        self.stays = False
        self.restarts = 0
        self.shown = set[str | None]()

    @property
    def killed(self) -> bool:
        status = self._kept.status()
        return status is not None and bool(status.exits)

    @property
    def back(self) -> bool:
        status = self._kept.status()
        return status is not None and status.starts == 2

    def get(self, path: str) -> object:
        path = path.partition("?")[0]
        if path.endswith("/status"):
            status = {"latestSystemExceptions": [{"exceptionString": "no room"}], "numRestarts": self.restarts}
            return {"instances": [{"status": status}]}
        if "/functions/" in path:
            told = self.guarantee or self.registered["processingGuarantees"]
            return {"processingGuarantees": told, "runtime": "JAVA", "parallelism": 1, "autoAck": True}
        if path.endswith("t-outputs/stats"):
            return {"msgInCounter": 12 if self.back else 6}
        done = self.back and not self.stays
        consumers: list[Any] = [] if self.killed or self.removed else [{}]
        subscription: dict[str, Any] = {"msgBacklog": 0 if done else 6, "consumers": consumers}
        return {"subscriptions": {"function-of-t": subscription}}

    def post(self, body: bytes) -> None:
        text = body.decode()
        self.registered = json.loads(text[text.index("{") : text.rindex("}") + 1])


@contextmanager
def served(pulsar: Pulsar) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def _say(self, code: int, body: object = None) -> None:
            raw = json.dumps(body).encode() if body is not None else b""
            self.send_response(code)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def do_GET(self) -> None:
            pulsar.shown.add(self.headers["Authorization"])
            self._say(200, pulsar.get(self.path))

        def do_POST(self) -> None:
            pulsar.post(self.rfile.read(int(self.headers["Content-Length"])))
            self._say(204)

        def do_DELETE(self) -> None:
            pulsar.removed = True
            self._say(204)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Admin:
    """It makes and removes topics, and says so."""

    def __init__(self) -> None:
        self.made: list[tuple[str, bool]] = []
        self.in_force = True

    def topic_name(self, run_topic: str, deduplication: bool) -> str:
        return f"{ON if deduplication else 'persistent://public/dedup-off/'}{run_topic}"

    def create_topic(self, topic: str, *, partitions: int, deduplication: bool) -> None:
        self.made.append((topic, deduplication))

    def delete_topic(self, topic: str) -> None: ...

    def deduplication_in_force(self, topic: str, asked: bool) -> Deduplication:
        assert topic.endswith("-outputs")
        return Deduplication(asked=asked, in_force=self.in_force and asked, proof="deduplicationStatus: Disabled")


class Client:
    """A reader of outputs that finds nothing foreign."""

    foreign = ()

    def close(self) -> None: ...


class Reading:
    """Reads these outputs: the value, and whether the first process made it, else the second."""

    end = (EndPosition(partition=0, extents=((7, 2),)),)
    undelivered = ()

    def __init__(self, found: Any, processes: list[int]) -> None:
        self._found, self._processes = found, processes

    def run(self) -> None:
        made = [(value, self._processes[0]) for value in range(1, 7)]
        made += [(value, self._processes[1]) for value in range(5, MESSAGES + 1)]
        self._found.write("received", columns(made))

    def unread(self) -> None: ...

    def stop(self) -> None: ...


def columns(made: list[tuple[int, int]]) -> Columns:
    """All in one batch, that of entry 0."""
    rows = [(n, 0, 7, 0, n, 0, value, pid >> 16, pid & 0xFFFF) for n, (value, pid) in enumerate(made)]
    return tuple(np.array(each) for each in zip(*rows, strict=True))


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    (keepers := tmp_path / "keepers").mkdir()
    program = Program("worker", [sys.executable, "-c", SLEEPS], tmp_path / "worker.log", tmp_path, {})
    kept = Kept(program, keepers)
    kept.wait_started()
    yield kept
    kept.close()
    kept.wait_closed()


Worked = Callable[..., tuple[Application, Pulsar, Admin]]


@pytest.fixture
def worked(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worked:
    """Let a function work: the application, and what was asked for."""
    monkeypatch.setattr(functions, "DOWN_S", 0.5)
    monkeypatch.setattr(outputs, "make_consumer", lambda *_: Client())

    def work(
        function: Function, *, messages: int = MESSAGES, timeout_s: float = 20.0, topic: str = TOPIC, **changes: Any
    ) -> tuple[Application, Pulsar, Admin]:
        pulsar, admin = Pulsar(kept), Admin()
        stranger = changes.pop("stranger", 0)
        admin.in_force = changes.pop("in_force", True)
        for name, value in changes.items():
            setattr(pulsar, name, value)

        def reads(_config: object, _client: object, _admin: object, found: Any) -> Reading:
            status = kept.status()
            assert status is not None and status.pid is not None
            return Reading(found, [status.exits[0].pid, stranger or status.pid])

        with served(pulsar) as url:
            config = configured(tmp_path, url, kept, topic, function)
            observer, recorder = Observer(tmp_path, "consumer"), Recorder(tmp_path)
            working = Working(config, END, messages, admin, recorder, observer, reads)  # type: ignore[arg-type]
            application = working.run(timeout_s)
            observer.close()
            recorder.close()
        return application, pulsar, admin

    return work


def configured(folder: Path, url: str, kept: Kept, topic: str, function: Function) -> ConsumerConfig:
    (folder / "token").write_text("t0ken")
    process = Broker(id="worker", client_port=1, status_file=kept.status_file, hold_file=kept.hold_file)
    return ConsumerConfig(
        run_id="r1",
        folder=folder,
        endpoints=Endpoints(
            system="pulsar",
            client_bootstrap="pulsar://127.0.0.1:1",
            direct_bootstrap="pulsar://127.0.0.1:1",
            admin_urls=[url],
            brokers=[],
        ),
        topic=topic,
        library="pulsar-client",
        consumer=Consumer(at=RestartAt(message=6), end=End.KILL, function=function),
        beside=Worker(
            url=url,
            token_file=str(folder / "token"),
            version="4.2.4",
            package="file:///f.jar",
            function="F",
            process=process,
        ),
    )


LEAST: Final = Function(guarantee=Guarantee.AT_LEAST_ONCE)


def test_its_worker_is_killed_comes_back_and_each_output_is_of_the_process_that_made_it(
    worked: Worked, tmp_path: Path
) -> None:
    application, pulsar, admin = worked(LEAST)
    first, second = application.lives
    assert (first.ended, first.processed, first.written, first.committed) == ("killed", 6, 6, 4)
    assert (second.ended, second.processed, second.committed, second.written) == ("closed", 6, 6, 6)
    assert (first.began, second.began) == (
        "the beginning of the topic, by the subscription's acknowledgements",
        "message 5, by the subscription's acknowledgements",
    )
    assert (application.reached_end, application.problems, application.processed) == (True, (), 12)
    assert application.output is not None and not list(application.output.unread()) and pulsar.removed
    (path,) = tmp_path.glob("**/processed/*.parquet")
    rows = pq.read_table(path).cast(PROCESSINGS).to_pylist()
    assert [(row["life"], row["value"]) for row in rows if row["value"] in (5, 6)] == [(0, 5), (0, 6), (1, 5), (1, 6)]
    assert admin.made == [(f"{TOPIC}-outputs", True)]


def test_it_asks_for_what_the_workload_says(worked: Worked) -> None:
    once = Function(guarantee=Guarantee.EFFECTIVELY_ONCE, batches=False)
    application, pulsar, admin = worked(once, topic="persistent://public/dedup-off/t")
    asked = pulsar.registered
    assert (asked["processingGuarantees"], asked["inputs"]) == ("EFFECTIVELY_ONCE", ["persistent://public/dedup-off/t"])
    assert asked["producerConfig"] == {"batchingConfig": {"enabled": False}}
    assert admin.made == [("persistent://public/dedup-off/t-outputs", False)], "as the topic of its inputs"
    assert application.effective_config == {"runtime": "JAVA", "parallelism": "1", "autoAck": "True"}


def test_of_inputs_in_batches_it_is_not_known_how_many_were_acknowledged(worked: Worked) -> None:
    application, _, _ = worked(LEAST, messages=100)
    assert [life.committed for life in application.lives] == [None, None] and application.reached_end


def test_one_that_does_not_come_to_its_end_has_no_outputs_and_its_worker_says_why(worked: Worked) -> None:
    application, pulsar, _ = worked(LEAST, timeout_s=1.5, stays=True)
    assert (application.reached_end, application.output, len(application.lives)) == (False, None, 1)
    (problem,) = application.problems
    assert "brokers have the acknowledgement of every message" in problem and "no room" in problem
    assert pulsar.removed


def test_one_that_has_another_guarantee_than_was_asked_for_is_a_problem(worked: Worked) -> None:
    application, pulsar, _ = worked(LEAST, guarantee="ATMOST_ONCE")
    (problem,) = application.problems
    assert "got processingGuarantees ATMOST_ONCE" in problem and application.lives == () and pulsar.removed
    assert not application.reached_end


def test_an_output_of_another_process_is_a_problem(worked: Worked) -> None:
    application, _, _ = worked(LEAST, stranger=77_777)
    assert application.problems == ("the outputs: some are of process 77777, no life of the worker",)


def test_one_whose_worker_has_started_it_again_besides_is_a_problem(worked: Worked) -> None:
    application, pulsar, _ = worked(LEAST, restarts=1)
    (problem,) = application.problems
    assert "got 1 starts besides" in problem and not application.reached_end and pulsar.removed


def test_outputs_whose_topic_does_not_deduplicate_as_asked_are_a_problem(worked: Worked) -> None:
    application, _, _ = worked(LEAST, in_force=False)
    (problem,) = application.problems
    assert "got deduplicationStatus: Disabled" in problem and not application.reached_end


def test_outputs_that_came_in_batches_and_should_not_are_a_problem(worked: Worked) -> None:
    one_by_one = Function(guarantee=Guarantee.AT_LEAST_ONCE, batches=False)
    application, pulsar, _ = worked(one_by_one)
    assert application.problems == ("the outputs: some came in batches, and they were to come one by one",)
    assert pulsar.shown == {"Bearer t0ken"}


def test_outputs_of_one_batch_are_rows_of_their_own_and_those_read_again_are_not(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    found = OfProcesses(recorder)
    found.processes = (70_000, 8)
    found.write("received", columns([(1, 70_000), (2, 8)]))
    found.write("received", columns([(1, 70_000), (2, 8), (3, 8)]))
    recorder.close()
    assert found.of_lives == {0: 1, 1: 2} and found.strangers() == ()
