"""The push that makes a fault strike at its moment, and the word back that it did.

At full speed 200,000 messages are over in less than a second, so a fault that polls for progress strikes too late and
proves nothing. Therefore the chaos process listens, the producer connects before its first send, and the producer
pushes one line the moment its own counter passes N. It is not paused: what is in flight then is what the fault hits.
Afterwards the chaos process announces `injected` and `healed` on the same connection, and the producer stamps its own
counters at those moments: that is how a run proves that the fault overlapped traffic.

The protocol is JSON lines over TCP, one connection a fault: `Push` to the chaos process, `FaultLine` to the producer.
"""

import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.wire.clients import Milestone, Push
from dedup.wire.faults import Detail, FaultEvent, FaultLine
from dedup.wire.lines import Line
from dedup_runners.waiting import too_long

CONNECT_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 5.0

OnEvent = Callable[[FaultLine], None]


class ProducerGone(PlatformError):
    """The producer finished or vanished before it pushed its trigger: there is nothing left to strike."""


class TriggerServer:
    """The chaos process's end. Listens at once; `port` is the port in use."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connection: socket.socket | None = None
        self._connected, self._pushed, self._over = threading.Event(), threading.Event(), threading.Event()
        self._finished = False
        self._push: Push | None = None
        self._message: int | None = None
        self._thread = threading.Thread(target=self._serve, name="trigger-server", daemon=True)
        self._thread.start()

    def wait_connected(self, timeout_s: float) -> None:
        """Return when the producer has connected and named its fault; WaitedTooLong if it does not."""
        if not self._connected.wait(timeout_s):
            raise too_long("the producer connects to the trigger", timeout_s)

    def wait_message(self, timeout_s: float) -> Push:
        """The producer's push; ProducerGone if it finished or vanished before, WaitedTooLong after `timeout_s`."""
        if not self._pushed.wait(timeout_s):
            raise too_long("the producer reaches its trigger message", timeout_s)
        if self._push is None:
            raise ProducerGone(
                where="trigger" if self._message is None else f"trigger at message {self._message}",
                got="a producer that finished" if self._finished else "a producer that vanished",
                rule="a fault strikes only while messages flow",
                todo="choose an earlier moment, or look into producer.log",
            )
        return self._push

    def announce(self, event: FaultEvent, fault: str, **detail: Any) -> None:
        """Tell the producer what has just happened. A producer that is gone already is not an error."""
        if self._connection is not None:
            said, now_ns = Detail(**detail), time.monotonic_ns()
            _send(self._connection, FaultLine(event=event, fault=fault, monotonic_ns=now_ns, detail=said))

    def wait_finished(self, timeout_s: float) -> bool:
        """Wait for the producer's end: True if it said that it finished, False if it vanished."""
        if not self._over.wait(timeout_s):
            raise too_long("the producer finishes", timeout_s)
        return self._finished

    def is_over(self) -> bool:
        """Whether the producer has said that it finished, or has vanished."""
        return self._over.is_set()

    def close(self) -> None:
        """Close both sockets; waiting callers see a vanished producer."""
        _shut(self._listener)
        if self._connection is not None:
            _shut(self._connection)
        self._thread.join(CLOSE_TIMEOUT_S)

    def _serve(self) -> None:
        try:
            self._connection, _ = self._listener.accept()
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._connection.makefile("rb") as lines:
                for line in lines:
                    self._hear(Push.model_validate_json(line))
        except (OSError, ValueError):
            pass  # closed by us, or cut in the middle of a line: either way the producer is gone
        finally:
            self._over.set()
            self._pushed.set()

    def _hear(self, line: Push) -> None:
        match line.event:
            case Milestone.HELLO:
                self._message = line.message
                self._connected.set()
            case Milestone.MESSAGE:
                self._push = line
                self._pushed.set()
            case Milestone.FINISHED:
                self._finished = True


class TriggerClient:
    """The producer's end of one fault's trigger. Connects at once: before the first send, or not at all.

    `on_event` is called on a background thread for every announcement, the moment it arrives.
    """

    def __init__(self, host: str, port: int, fault: str, message: int | None, on_event: OnEvent) -> None:
        self.fault, self.message, self._on_event = fault, message, on_event
        try:
            self._socket = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise PlatformError(
                where=f"trigger of fault {fault!r} at {host}:{port}",
                got=str(error),
                rule="the chaos process must be armed before the producer starts",
                todo="look into the fault's log in the run's folder",
            ) from None
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _send(self._socket, Push(event=Milestone.HELLO, fault=fault, message=message))
        self._thread = threading.Thread(target=self._listen, name=f"trigger-{fault}", daemon=True)
        self._thread.start()

    def push(self, actual: int, acked: int) -> None:
        """Say that its moment has come: one short line into a socket's buffer, so the producer does not wait."""
        said, now_ns = Milestone.MESSAGE, time.monotonic_ns()
        _send(self._socket, Push(event=said, message=self.message, actual=actual, acked=acked, monotonic_ns=now_ns))

    def finish(self) -> None:
        """Say that the producer is done, and close."""
        _send(self._socket, Push(event=Milestone.FINISHED))
        _shut(self._socket)
        self._thread.join(CLOSE_TIMEOUT_S)

    def _listen(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self._on_event(FaultLine.model_validate_json(line))
        except (OSError, ValueError):
            return  # the chaos process is gone; its own journal says why


class Alarms:
    """Calls `ring` for each fault once, some time after what it waits for has come; for none after `close`.

    `times`: by fault what it waits for (another fault, or None for the first send), and how many seconds after that.
    """

    def __init__(self, times: Mapping[str, tuple[str | None, float]], ring: Callable[[str], None]) -> None:
        self._waiting, self._ring = dict(times), ring
        self._lock, self._timers, self._closed = threading.Lock(), list[threading.Timer](), False

    def come(self, event: str | None) -> None:
        """What some wait for has come; the second time nothing happens."""
        with self._lock:
            due = [(fault, after_s) for fault, (awaited, after_s) in self._waiting.items() if awaited == event]
            for fault, after_s in due if not self._closed else ():
                del self._waiting[fault]
                timer = threading.Timer(after_s, self._over, [fault])
                timer.daemon = True
                self._timers.append(timer)
                timer.start()

    def close(self) -> None:
        """Ring for nobody from now on."""
        with self._lock:
            self._closed = True
            for timer in self._timers:
                timer.cancel()

    def _over(self, fault: str) -> None:
        with self._lock:  # while it rings, the end waits
            if not self._closed:
                self._ring(fault)


def _send(connection: socket.socket, line: Line) -> None:
    try:
        connection.sendall(line.model_dump_json(exclude_unset=True).encode() + b"\n")
    except OSError:
        return  # the other side is gone; it is missed where it is waited for


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # never connected, or gone already
    connection.close()
