"""A client for Python as a program (docs/write-a-client.md): in another version, or as a session that can be killed.

`python -P -m dedup_runners.clients.serving LIBRARY VERSION FOLDER`. The folder holds that version of the library and is
searched before everything else; all other packages are those that are installed. The Producer is the same as without a
version: what differs between two versions is the library, and not how we call it.

It may be one session of a run with sessions (dedup_runners.workloads.sessions), and without arguments, with the library
that is installed, it is. Three things differ: its first line is a producer's whole config, or nothing if the run needs
no such session; its payloads name the session; and the order `after V,V,…` says which messages are its own: of each
stream those above V, in the order of the run.

One thread sends and records. Another takes the orders, since `stop` and `count` come while the first one sends. An
answer to `count` must not say that more is in flight than is: while one is made, no frame names a number of messages
sent that is higher than it was when the answer began, and every outcome that had come by then is said before it.
"""

import gc
import importlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import numpy as np

from dedup.errors import EXIT_ERROR, DedupError, EnvironmentError_, SpecificationError, one_line
from dedup.experiment.clients import CLIENTS, Library
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.wire.clients import Noticed
from dedup_runners import clients
from dedup_runners.clients import MODULES, Chunk, Outcomes, ProducerClient, chunk_of, chunk_of_sends, named
from dedup_runners.clients import frames as wire
from dedup_runners.clients.frames import Kind, Published, Ready, Witnessed
from dedup_runners.clients.programs import REFUSED
from dedup_runners.configs import ProducerConfig

PACKAGES: Final[Mapping[Library, str]] = {"confluent-kafka": "confluent_kafka", "pulsar-client": "pulsar"}
"""What each library is imported as."""
CONNECT_S: Final = 55.0
"""Less than the tester waits for us: our own words say more than that we were late."""
SERVE_S: Final = 0.005
"""How long an outcome may wait while there is nothing to send."""
COUNT_S: Final = 4.0
ROWS_A_FRAME: Final = 400_000
CHUNK: Final = 8192
"""Messages that the producer is handed at once: after so many we say how far we are."""


class Sayings:
    """Everything that we say, as frames on one stream; it is what the client reports to (`Witnesses`), too."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._writing = stream, threading.Lock()

    def frame(self, kind: Kind, body: bytes = b"") -> None:
        """Write one frame; without a tester who reads it, this process ends."""
        try:
            with self._writing:
                self._stream.write(kind.value + len(body).to_bytes(4, "big") + body)
                self._stream.flush()
        except (OSError, ValueError):
            os._exit(EXIT_ERROR)

    def log(self, line: str) -> None:
        self.frame(Kind.LOG, line.encode()[: 1 << 16])

    def disturbed(
        self,
        kind: Noticed,
        detail: str,
        monotonic_ns: int | None = None,
        *,
        broker: str | None = None,
        since_ns: int | None = None,
    ) -> None:
        at_ns = time.monotonic_ns() if monotonic_ns is None else monotonic_ns
        since = None if since_ns is None else _unix(since_ns)
        said = Witnessed(kind=kind, detail=detail, unix_ns=_unix(at_ns), broker=broker, since_unix_ns=since)
        self.frame(Kind.WITNESS, said.model_dump_json(exclude_none=True).encode())


class Server:
    """Carries out the tester's orders with one producer."""

    def __init__(self, config: ProducerConfig, say: Sayings, make: Callable[..., ProducerClient]) -> None:
        self._config, self._streams, self._say = config, config.streams, say
        self._plan = np.arange(config.messages if config.sends else 0, dtype=np.int64)
        self._sent = self._said = self._recorded = 0
        self._changed = threading.Condition()
        self._counting = False
        self._finished = False
        self._orders: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._counts: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._producer = make(config, self._record, say)

    def serve(self, orders: BinaryIO) -> None:
        """Connect, say so, and do what the orders say until `finish`."""
        self._producer.connect(CONNECT_S)
        told = Ready(
            version=self._producer.library_version,
            settings=self._producer.effective_config,
            last_sequence_ids=tuple(getattr(self._producer, "last_sequence_ids", ())),
        )
        self._say.frame(Kind.READY, told.model_dump_json().encode())
        for work in (lambda: self._listen(orders), self._answer_counts):
            threading.Thread(target=work, daemon=True).start()
        while True:
            try:
                order, what = self._orders.get(timeout=SERVE_S)
            except queue.Empty:
                self._let_outcomes_come()
                continue
            if order == "finish":
                break
            if order == "after":
                self._begin_after(np.array(what.split(","), np.int64))
            else:
                self._send(int(what))
        self._producer.finish()
        if self._config.sends:  # a session that is closed in order; a program of another kind just ends
            self._producer.close()
        self._finished = True
        self._say.frame(Kind.FINISHED)

    def _listen(self, orders: BinaryIO) -> None:
        for line in orders:
            order, _, what = line.decode().strip().partition(" ")
            match order:
                case "count":
                    self._counts.put(int(what))
                case "stop":
                    self._producer.stop()
                case "send" | "after" | "finish":
                    self._orders.put((order, what))
                case _:
                    _end(f"an order that is none: {line[:80]!r}")
        if not self._finished:
            os._exit(EXIT_ERROR)  # the tester is gone

    def _begin_after(self, values: Any) -> None:
        """Of each stream the messages above its value are ours."""
        messages = np.arange(self._config.messages, dtype=np.int64)
        streams, own = named(messages, self._streams)
        self._plan = messages[own > values[streams]]

    def _chunk(self, first: int, last: int) -> Chunk:
        if not self._config.sends:
            return chunk_of(first, last, self._streams)
        own = self._plan[first:last]
        attempts, size = np.zeros(len(own), np.int32), self._config.message_bytes
        return chunk_of_sends(*named(own, self._streams), self._config.life.session, attempts, size)

    def _send(self, last: int) -> None:
        stopped = False
        while self._sent < last and not stopped:
            until = min(last, self._sent + CHUNK)
            self._sent += self._producer.send(self._chunk(self._sent, until))
            stopped = self._sent < until
            if until < last:
                self._say_on_the_way()
        while not self._say_sent():
            self._let_outcomes_come()
            time.sleep(SERVE_S)

    def _say_on_the_way(self) -> None:
        """Say how many were sent, whether outcomes have come or not; not while a count is being made."""
        with self._changed:
            if not self._counting:
                self._said = max(self._said, self._sent)
                self._say.frame(Kind.OUTCOMES, self._said.to_bytes(wire.COUNT_BYTES, "big"))

    def _say_sent(self) -> bool:
        """Answer `send`, unless a count is being made, which waits for outcomes."""
        with self._changed:
            if not self._counting:
                self._said = max(self._said, self._sent)
                self._say.frame(Kind.SENT, self._sent.to_bytes(wire.COUNT_BYTES, "big"))
            return not self._counting

    def _let_outcomes_come(self) -> None:
        self._producer.send(chunk_of(0, 0, self._streams))

    def _record(self, outcomes: Outcomes) -> None:
        with self._changed:
            if not self._counting:
                self._said = max(self._said, self._producer.progress().sent)
        rows = wire.rows_of(outcomes)
        size = ROWS_A_FRAME * wire.ROW.itemsize
        for first in range(0, len(rows), size):
            self._say.frame(Kind.OUTCOMES, self._said.to_bytes(wire.COUNT_BYTES, "big") + rows[first : first + size])
        if self._config.sends:
            self._say_published()
        with self._changed:
            self._recorded += len(outcomes.values)
            self._changed.notify_all()

    def _say_published(self) -> None:
        """Say the last sequence ids as the client of a session has them now, if it has any."""
        if last := tuple(getattr(self._producer, "published", ())):
            self._say.frame(Kind.PUBLISHED, Published(last_sequence_ids=last).model_dump_json().encode())

    def _answer_counts(self) -> None:
        while True:
            asked = self._counts.get()
            with self._changed:
                self._counting, sent = True, self._producer.progress().sent
            try:
                self._producer.in_flight(None)  # takes what has come
                come = self._producer.progress().acked
                with self._changed:
                    counted = self._changed.wait_for(lambda come=come: self._recorded >= come, COUNT_S)  # type: ignore[misc]
                if counted:  # else the tester hears nothing, and claims nothing
                    self._said = max(self._said, sent)
                    self._say.frame(Kind.OUTCOMES, self._said.to_bytes(wire.COUNT_BYTES, "big"))
                    self._say.frame(Kind.COUNTED, asked.to_bytes(wire.COUNT_BYTES, "big"))
            finally:
                self._counting = False


def config_of(library: Library, document: Mapping[str, Any]) -> ProducerConfig:
    """What the Producer is told, from the document that a program is told."""
    brokers = [Broker(id=each, client_port=port) for each, port in document.get("brokers", {}).items()]
    return ProducerConfig(
        run_id="of-the-tester",
        folder=Path(document["folder"]),
        endpoints=Endpoints(
            system=CLIENTS[library].protocol,
            client_bootstrap=document["bootstrap"],
            direct_bootstrap=document["bootstrap"],
            listener_name=document.get("listener"),
            brokers=brokers,
        ),
        topic=document["topic"],
        library=library,
        properties=document["properties"],
        streams=document["streams"],
        deduplication=document["deduplication"],
        producer_name=document["client_name"],
        messages=document["messages"],
        in_flight=document["in_flight"],
        delivery_timeout_s=document["delivery_timeout_ms"] / 1000,
    )


def load(library: Library, version: str, folder: Path) -> Any:
    """Our module of the library, which has imported exactly that version from the folder."""
    sys.path.insert(0, str(folder))
    package = importlib.import_module(PACKAGES[library])
    if not Path(str(package.__file__)).is_relative_to(folder) or package.__version__ != version:
        raise EnvironmentError_(
            where=f"{library} {version}",
            got=f"version {package.__version__} from {package.__file__}",
            rule=f"it is to be the one of {folder}",
            todo="remove that folder, and run again",
        )
    return importlib.import_module(MODULES[library])


def main(arguments: list[str], orders: BinaryIO, answers: BinaryIO) -> int:
    """Do what the tester orders; the exit code."""
    try:
        if not arguments:
            clients.import_all()
            return session(orders.readline(), orders, answers, clients.make_producer)
        library, version, folder = arguments
        module, line = load(library, version, Path(folder)), orders.readline()
        document = json.loads(line) if line else {}
        if "check" not in document:
            return session(line, orders, answers, module.Producer)
        if document["check"]:
            module.check(document["properties"], document["deduplication"], document["in_flight"])
        else:
            Server(config_of(library, document), Sayings(answers), module.Producer).serve(orders)
    except SpecificationError as error:
        print(_in_its_own_words(error), file=sys.stderr)
        return REFUSED
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return 0


def session(line: bytes, orders: BinaryIO, answers: BinaryIO, make: Callable[..., ProducerClient]) -> int:
    """Be one session of a run; the exit code. What the client needs is loaded before its config comes, in `line`."""
    if line:
        Server(ProducerConfig.model_validate_json(line), Sayings(answers), make).serve(orders)
    return 0


def _in_its_own_words(error: SpecificationError) -> str:
    refusal, of_library, words = error.got.partition("a refusal by ")
    if of_library and not refusal:
        return one_line(words.partition(": ")[2])
    return one_line(f"{error.where}: got {error.got}; {error.rule}")


def _unix(monotonic_ns: int) -> int:
    """A time of the monotonic clock on the wall clock, as far as both agree at this moment."""
    return time.time_ns() - (time.monotonic_ns() - monotonic_ns)


def _end(why: str) -> NoReturn:
    print(why, file=sys.stderr, flush=True)
    os._exit(EXIT_ERROR)


if __name__ == "__main__":
    gc.disable()  # nothing in the loop makes cycles; scanning hundreds of thousands of messages would cost a tenth
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is for people
    code = main(sys.argv[1:], sys.stdin.buffer, frames)
    frames.flush()
    sys.stderr.flush()
    os._exit(code)  # a client that is stuck must not keep us
