"""A session of a producer as a process of its own: a client program (docs/write-a-client.md) around a client in Python.

`python -m dedup_runners.workloads.session_program`. It differs from other programs in three things: its first line is a
producer's whole config; its payloads name their session; and `after V,V,…` says which messages are its own: of each
stream those above V, in the order of the run. sessions.py orders it.
"""

import json
import os
import queue
import struct
import sys
import threading
import time
from typing import Final

import numpy as np

from dedup.errors import DedupError
from dedup.payloads import VALUE_BITS
from dedup.wire.clients import Noticed
from dedup_runners import clients, programs
from dedup_runners.clients import Int64s, Outcomes, chunk_of, chunk_of_sends, make_producer
from dedup_runners.clients import frames as wire
from dedup_runners.clients.frames import Kind
from dedup_runners.configs import ProducerConfig

PART: Final = 512
"""So many messages are handed to the client before orders that came meanwhile are looked at."""
LOOK_S: Final = 0.005
ORPHANED: Final = 70
CONNECT_S: Final = 60.0


class Voice:
    """What the process says, in frames; any thread may speak. It is what the client reports to, too (Witnesses)."""

    def __init__(self, descriptor: int) -> None:
        self._out, self._lock = os.fdopen(descriptor, "wb"), threading.Lock()

    def say(self, kind: Kind, body: bytes = b"") -> None:
        with self._lock:
            self._out.write(kind.value + struct.pack(">I", len(body)) + body)
            self._out.flush()

    def disturbed(
        self,
        kind: Noticed,
        detail: str,
        monotonic_ns: int | None = None,
        *,
        broker: str | None = None,
        since_ns: int | None = None,
    ) -> None:
        now_ns, unix_ns = time.monotonic_ns(), time.time_ns()
        at_ns = now_ns if monotonic_ns is None else monotonic_ns
        told = {"kind": kind.value, "detail": detail, "unix_ns": unix_ns - (now_ns - at_ns), "broker": broker}
        if since_ns is not None:
            told["since_unix_ns"] = unix_ns - (now_ns - since_ns)
        self.say(Kind.WITNESS, json.dumps(told).encode())

    def log(self, line: str) -> None:
        self.say(Kind.LOG, line.encode())


class Life:
    """The process: one client, and the orders that it obeys."""

    def __init__(self, config: ProducerConfig, voice: Voice) -> None:
        self._config, self._voice = config, voice
        self._plan: Int64s = np.arange(config.messages, dtype=np.int64)
        self._sent = 0
        self._orders: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._counts: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._client = make_producer(config, self._tell, voice)

    def run(self) -> None:
        """Connect, and obey until the order to finish."""
        self._client.connect(CONNECT_S)
        told = {
            "version": self._client.library_version,
            "settings": self._client.effective_config,
            "last_sequence_ids": getattr(self._client, "last_sequence_ids", ()),
        }
        self._voice.say(Kind.READY, json.dumps(told).encode())
        threading.Thread(target=self._listen, name="orders", daemon=True).start()
        while self._obey(*self._order()):
            pass

    def _listen(self) -> None:
        for line in sys.stdin:
            order, _, what = line.strip().partition(" ")
            if order == "count":
                self._counts.put(int(what))
            elif order == "stop":
                self._client.stop()
            else:
                self._orders.put((order, what))
        if self._orders.empty():
            os._exit(ORPHANED)

    def _order(self) -> tuple[str, str]:
        """The next order; outcomes are told meanwhile."""
        while True:
            try:
                return self._orders.get(timeout=LOOK_S)
            except queue.Empty:
                self._client.send(chunk_of(0, 0, self._config.streams))
                self._answer()

    def _obey(self, order: str, what: str) -> bool:
        match order:
            case "after":
                after = np.array(what.split(","), np.int64)
                messages = np.arange(self._config.messages, dtype=np.int64)
                streams = self._config.streams
                self._plan = messages[messages // streams + 1 > after[messages % streams]]
            case "send":
                self._send(int(what))
                self._voice.say(Kind.SENT, struct.pack(">Q", self._sent))
            case "finish":
                self._client.finish()
                self._answer()
                self._voice.say(Kind.FINISHED)
                return False
        return True

    def _send(self, until: int) -> None:
        streams = self._config.streams
        while self._sent < until:
            messages = self._plan[self._sent : min(until, self._sent + PART)]
            none = np.zeros(len(messages), np.int32)
            named = (messages % streams).astype(np.int32), messages // streams + 1
            count = self._client.send(chunk_of_sends(*named, self._config.life.session, none))
            self._sent += count
            self._answer()
            if count < len(messages):
                return

    def _answer(self) -> None:
        while not self._counts.empty():
            self._voice.say(Kind.COUNTED, struct.pack(">Q", self._counts.get()))

    def _tell(self, outcomes: Outcomes) -> None:
        sent = self._client.progress().sent
        rows = np.empty(len(outcomes.values), wire.ROW)
        rows["message"] = outcomes.streams.astype(np.uint64) << np.uint64(VALUE_BITS) | outcomes.values.astype(
            np.uint64
        )
        for name, column in zip(wire.ROW.names[1:], outcomes[2:], strict=True):  # type: ignore[index]
            rows[name] = column
        self._voice.say(Kind.OUTCOMES, struct.pack(">Q", sent) + rows.tobytes())


def main() -> int:
    """The exit code of the process."""
    clients.import_all()
    voice = Voice(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no frame
    if not (line := sys.stdin.readline()):
        return 0  # the run ended before it had a second session
    try:
        Life(ProducerConfig.model_validate_json(line), voice).run()
    except DedupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    programs.leave(main())
