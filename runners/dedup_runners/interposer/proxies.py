"""The interposer itself: ports on the loopback interface, one for each broker and session of a client.

It speaks plaintext to the client, hence the loopback only; to the broker it may speak TLS. It runs in a thread of its
own with an event loop, so that a program can put it between itself and its brokers. A session is a name: the client
that is given its ports is known by them, whatever client id it sends.
"""

import asyncio
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, TypeVar

from dedup.errors import PlatformError
from dedup_runners.closing import Closing
from dedup_runners.interposer.connections import POLL_S, Connection, Lasting, Strike
from dedup_runners.interposer.conversations import Conversation, Done, Unrecorded
from dedup_runners.interposer.protocols import Address, Frame, Speech
from dedup_runners.interposer.rules import Rule, Rules, Uncounted

LOOPBACK: Final = "127.0.0.1"
CALL_S: Final = 30.0
BACKLOG: Final = 128
NO_ROUTES: Final[Mapping[Address, Address]] = {}
ROUNDS: Final = 5
"""So many rounds of the event loop an accepted connection takes to be served, or an ended one to close."""

T = TypeVar("T")
Admits = Callable[[tuple[str, int], tuple[str, int]], bool]
OnStrike = Callable[[Rule, Frame, Strike], None]


class Interposer(Closing):
    """A running interposer; `close` ends every connection through it, and its ports.

    `problems` lists what it could not do or understand: each is a reason not to trust a run through it. `on_strike` is
    called in its thread just before a rule's frame is lost, or when it is held. `routes`: the proxy through which a
    broker is reached, by the address that brokers give. Without `recorded` no rule strikes and nothing is remembered.
    `admits` says of a client's address and the port's whether it is served.
    """

    def __init__(
        self,
        speech: Speech,
        rules: Iterable[Rule] = (),
        tls: ssl.SSLContext | None = None,
        on_strike: OnStrike = lambda rule, frame, strike: None,
        *,
        routes: Mapping[Address, Address] = NO_ROUTES,
        recorded: bool = True,
        admits: Admits = lambda client, door: True,
    ) -> None:
        self.admits = admits
        self._on_strike = on_strike
        self.conversation = Conversation() if recorded else Unrecorded()
        self.rules = Rules(rules) if recorded else Uncounted()
        self.tls, self.routes = tls, routes
        self.problems: list[str] = []
        self.reached: set[Address] = set()
        """The brokers that could be reached at least once: one that cannot be any more is down."""
        self.unanswered: Counter[tuple[str, str]] = Counter()
        self.held = 0
        """How many frames are held now; nothing is held when the end of a topic is taken."""
        self.speech = speech
        self._sessions: dict[str, _Session] = {}
        self._events: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="interposer", daemon=True)
        self._thread.start()

    def bootstrap(self, session: str, brokers: Sequence[Address]) -> list[Address]:
        """Where a session's client finds these brokers; the others it will be told of."""
        return self._ask(lambda: [self._session(session).inside(each) for each in brokers])

    def release(self, event: str) -> None:
        """Let something have happened: what is held until this event is passed on."""
        self._ask(lambda: self.happen(event))

    def has_happened(self, event: str) -> bool:
        """Whether an event has happened: a rule has struck, or `release` was called."""
        return event in self.rules.happened

    def connections(self, session: str) -> int:
        """How many connections of a session are open on either side."""
        return self._ask(lambda: self._session(session).connections)

    def close(self) -> None:
        if self._thread.is_alive():
            _answer(asyncio.run_coroutine_threadsafe(self._stop(), self._loop))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_S)
            self._loop.close()

    # What connections ask for, in the event loop.

    def happen(self, event: str) -> None:
        self.rules.happened.add(event)
        self._event(event).set()

    def strike(self, rule: Rule, frame: Frame, strike: Strike) -> None:
        self._on_strike(rule, frame, strike)
        self.happen(rule.name)

    def note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    async def hold(self, rule: Rule, session: str) -> Done:
        """Return when the rule's event has happened and nothing is in the way any more, or its deadline has come."""
        self.held += 1
        try:
            async with asyncio.timeout(rule.deadline_s):
                await self._event(rule.until or f"the deadline of {rule.name}").wait()
                while any(self.unanswered[session, api] for api in rule.clear_of):
                    await asyncio.sleep(POLL_S)
            return Done.HELD
        except TimeoutError:
            return Done.HELD_TO_DEADLINE
        finally:
            self.held -= 1

    def begin(self, session: "_Session", broker: Address, reader: "_Reader", writer: "_Writer") -> None:
        """Serve a client that has connected to a broker's port."""
        self._connections += 1
        connection = Connection(
            self._connections, session.name, broker, self.speech(), session, self, (reader, writer)
        )  # fmt: skip
        session.connections += 1
        task = asyncio.ensure_future(connection.serve())
        task.add_done_callback(session.ended)
        task.add_done_callback(lambda _: writer.transport.abort())  # a task that is cancelled before it began does not
        self.keep(task)

    def keep(self, task: "asyncio.Task[None]") -> None:
        """Hold on to a task until it has ended."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _session(self, name: str) -> "_Session":
        return self._sessions.setdefault(name, _Session(name, self))

    def _event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())

    async def _stop(self) -> None:
        for session in self._sessions.values():
            session.accept_no_more()
        for _ in range(ROUNDS):
            for task in self._tasks:
                task.cancel()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:  # the event loop's own, too: by one each it takes a connection, which begins ours
                await asyncio.wait(others)
            await asyncio.sleep(0)
        for session in self._sessions.values():  # not before: a server that is closed loses what it has just accepted
            session.close()

    def _ask(self, work: Callable[[], T]) -> T:
        async def asked() -> T:
            return work()

        return _answer(asyncio.run_coroutine_threadsafe(asked(), self._loop))


def _answer(asked: Future[T]) -> T:
    """What the event loop has done; PlatformError if it does not come to it in time."""
    try:
        return asked.result(CALL_S)
    except TimeoutError:
        raise PlatformError(
            where="the interposer",
            got=f"no answer within {CALL_S:g} s",
            rule="its event loop gets to run",
            todo="run less beside it on this machine",
        ) from None


_Reader = asyncio.StreamReader
_Writer = asyncio.StreamWriter


class _Session:
    """The ports of one client: its `Addresses`."""

    def __init__(self, name: str, interposer: Interposer) -> None:
        self.name = name
        self.connections = 0
        self._interposer = interposer
        self._inside: dict[Address, Address] = {}
        self._outside: dict[Address, Address] = {}
        self._servers: list[asyncio.Server] = []
        self._sockets: list[socket.socket] = []

    @property
    def over_tls(self) -> bool:
        return self._interposer.tls is not None

    def inside(self, broker: Address) -> Address:
        if broker not in self._inside:
            listening = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
            self._sockets.append(listening)
            door = Address(LOOPBACK, listening.getsockname()[1])
            self._inside[broker], self._outside[door] = door, broker
            self._interposer.keep(asyncio.ensure_future(self._open(listening, broker)))
        return self._inside[broker]

    def ended(self, _task: "asyncio.Task[None]") -> None:
        """One connection less."""
        self.connections -= 1

    def outside(self, door: Address) -> Address:
        return self._outside.get(door, door)

    def accept_no_more(self) -> None:
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for listening in self._sockets:
            with suppress(OSError):
                listening.close()

    async def _open(self, listening: socket.socket, broker: Address) -> None:
        def connected(reader: _Reader, writer: _Writer) -> None:
            ends = [writer.get_extra_info(end) for end in ("peername", "sockname")]
            if all(ends) and self._interposer.admits(*(end[:2] for end in ends)):  # without an end it has left already
                self._interposer.begin(self, broker, reader, writer)
            else:
                writer.transport.abort()

        def served() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(Lasting(), connected)

        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(served, sock=listening, backlog=BACKLOG))
