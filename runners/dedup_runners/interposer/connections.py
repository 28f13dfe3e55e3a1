"""One connection between a client and a broker, with the interposer in the middle: two streams of frames.

Bytes are passed on frame by frame, each when it is whole, in their order. What a rule asks for is done here. When the
client leaves, in order or not, what it sent before is still passed on, also what is held, as a network would do.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Final, NamedTuple, Protocol

from dedup.errors import PlatformError
from dedup_runners.interposer.conversations import Conversation, Done, Moment, now
from dedup_runners.interposer.protocols import Address, Addresses, Dialogue, Direction, Frame, Unreadable
from dedup_runners.interposer.rules import OF_REPLIES, UNASKED, Act, Decision, Place, Rule, Rules

READ_BYTES: Final = 1 << 18
CONNECT_S: Final = 10.0
LAST_REPLIES_S: Final = 5.0
"""So long a broker may take to close a connection whose client has left, and over TLS to answer before that."""
POLL_S: Final = 0.002


class Strike(NamedTuple):
    """Where a rule has struck: on which connection of which session to which broker, and which parts of a request."""

    connection: int
    session: str
    broker: Address
    places: tuple[Place, ...]


class Surroundings(Protocol):
    """What all connections of an interposer share; its methods are called in its event loop."""

    conversation: Conversation
    rules: Rules
    tls: ssl.SSLContext | None
    routes: Mapping[Address, Address]
    reached: set[Address]
    unanswered: Counter[tuple[str, str]]
    """How many requests wait for their answers: of a session, and of an API."""

    def happen(self, event: str) -> None: ...
    def strike(self, rule: Rule, frame: Frame, strike: Strike) -> None: ...
    def note(self, problem: str) -> None: ...
    async def hold(self, rule: Rule, session: str) -> Done: ...


class Connection:
    """`serve` returns when both sides are closed; it raises nothing, and notes what went wrong."""

    def __init__(
        self,
        number: int,
        session: str,
        broker: Address,
        dialogue: Dialogue,
        addresses: Addresses,
        surroundings: Surroundings,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._number, self._session, self._broker = number, session, broker
        self._dialogue, self._addresses, self._ = dialogue, addresses, surroundings
        self._from_client, self._to_client = client
        self._waiting: dict[Hashable, tuple[Frame, Decision]] = {}
        self._client_is_there = True
        self._broker_has_left = False
        self._hiding = 0
        """How many frames are held while the broker may not know that the client has gone: at most one a direction."""
        self._nothing_held = asyncio.Event()
        self._nothing_held.set()
        self._reply_is_held = False

    async def serve(self) -> None:
        """Connect to the broker and pass frames on until one side has left."""
        try:
            async with asyncio.timeout(CONNECT_S):  # `wait_for` of Python 3.11 may forget that it was cancelled
                await self._connect()
        except (OSError, TimeoutError) as error:
            if self._broker not in self._.reached:  # else it is down, and the client may know
                self._.note(str(_unreachable(self._broker, error)))
            self._to_client.transport.abort()
            return
        except asyncio.CancelledError:
            self._to_client.transport.abort()
            raise
        self._.reached.add(self._broker)
        for writer in (self._to_client, self._to_broker):
            unbuffered(writer)
        try:
            await self._pass_on()
        finally:
            self._end()

    async def _connect(self) -> None:
        way = self._.routes.get(self._broker, self._broker)
        self._from_broker, self._to_broker = await asyncio.open_connection(*way)
        self._wire = self._to_broker.transport
        if self._.tls is not None:
            await self._to_broker.start_tls(self._.tls, server_hostname=self._broker.host)

    async def _pass_on(self) -> None:
        upward = asyncio.create_task(self._pump(self._from_client, Direction.REQUEST, self._request))
        downward = asyncio.create_task(self._pump(self._from_broker, Direction.REPLY, self._reply))
        try:
            await asyncio.wait({upward, downward}, return_when=asyncio.FIRST_COMPLETED)
            if upward.done() and await upward:
                await self._until_nothing_is_held(downward)
                if self._.tls is None:
                    self._to_broker.write_eof()
                else:  # TLS closes both directions at once
                    await self._until_answered(downward)
                    self._to_broker.close()
                await asyncio.wait({downward}, timeout=LAST_REPLIES_S)
        except OSError:
            pass  # the broker has closed the connection, too
        finally:
            for task in (upward, downward):
                task.cancel()
            await asyncio.gather(upward, downward, return_exceptions=True)

    async def _until_nothing_is_held(self, downward: "asyncio.Task[bool]") -> None:
        """A broker hears nothing of a client that was cut off while a reply is held."""
        quiet = asyncio.ensure_future(self._nothing_held.wait())
        try:
            await asyncio.wait({downward, quiet}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            quiet.cancel()

    async def _until_answered(self, downward: "asyncio.Task[bool]") -> None:
        """The broker has answered all that it can: what comes behind a reply that is held is not read."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LAST_REPLIES_S
        while self._waiting and not (self._reply_is_held or downward.done()) and loop.time() < deadline:
            await asyncio.sleep(POLL_S)

    async def _pump(
        self, source: asyncio.StreamReader, direction: Direction, pass_on: Callable[[bytes], Awaitable[bool]]
    ) -> bool:
        """Pass on what comes; whether that is all that will come."""
        try:
            while data := await source.read(READ_BYTES):
                for raw in self._dialogue.split(direction, data):
                    if not await pass_on(raw):
                        return False
            self._broker_has_left |= direction is Direction.REPLY
            return True
        except OSError:  # of the broker, whichever direction this is: what a client resets is a `Lasting`
            self._broker_has_left |= direction is Direction.REPLY
            return False
        except Unreadable as error:
            self._.note(str(error))
            return False
        except Exception as error:  # it must be known, and must not pass for a fault of the network
            self._.note(f"the interposer failed: {type(error).__name__}: {error}")
            return False

    async def _request(self, raw: bytes) -> bool:
        moment = now()
        frame = self._dialogue.request(raw, self._addresses)
        decision = self._.rules.decide(self._session, frame)
        rule, done = decision.rule, Done.PASSED
        if rule is not None and rule.act is Act.LOSE_REQUEST:
            self._strike(rule, frame, decision)
            self._note(frame, decision.places, moment, Done.LOST, rule)
            return False
        if rule is not None and rule.act is Act.STALL_REQUEST:
            done = await self._hold(frame, decision, moment, rule)
        if frame.answered:
            self._await_answer(frame, decision)
        self._note(frame, decision.places, moment, done, None if done is Done.PASSED else rule)
        self._to_broker.write(frame.raw)
        await self._to_broker.drain()
        while self._wire.get_write_buffer_size() and not self._wire.is_closing():
            await asyncio.sleep(POLL_S)  # TLS only: `drain` waits until all is encrypted, not until it is sent
        return True

    async def _reply(self, raw: bytes) -> bool:
        moment = now()
        frame = self._dialogue.reply(raw, self._addresses)
        _, decision = self._waiting.get(frame.key, (None, Decision((UNASKED,))))
        rule, done = decision.rule, Done.PASSED
        if frame.put_off:
            self._.rules.put_off(self._session, frame, decision)
            rule = None if rule is None or rule.act in OF_REPLIES else rule
        if rule is not None and rule.act is Act.LOSE_REPLY:
            if rule.until is None:
                self._strike(rule, frame, decision)
            else:
                await self._hold(frame, decision, moment, rule)
            self._answered(frame.key)
            self._note(frame, decision.places, moment, Done.LOST, rule)
            return False
        if rule is not None and rule.act is Act.STALL_REPLY:
            done = await self._hold(frame, decision, moment, rule)
        reached = await self._reached_client(frame.raw)
        overdue = done is Done.HELD_TO_DEADLINE and rule is not None and rule.cut
        if not reached and not overdue:  # a client that was cut off is never reached: what was not in time is said
            done = Done.UNANSWERED
        if not reached or self._client_has_left():
            self._.rules.unheard(self._session, frame)
        self._answered(frame.key)  # not before: if the connection ends meanwhile, it counts as unanswered
        self._note(frame, decision.places, moment, done, None if done is Done.PASSED else rule)
        self._arrived(rule)
        if reached:
            for event in self._.rules.answered(self._session, frame, decision.places):
                self._.happen(event)
        return True

    def _await_answer(self, frame: Frame, decision: Decision) -> None:
        self._.unanswered[self._session, frame.api] += frame.key not in self._waiting
        self._waiting[frame.key] = frame, decision

    def _answered(self, key: Hashable) -> None:
        """A request was answered, or never will be."""
        if key in self._waiting:
            request, _ = self._waiting.pop(key)
            self._.unanswered[self._session, request.api] -= 1

    def _strike(self, rule: Rule, frame: Frame, decision: Decision) -> None:
        """It is told before it is done: no client can notice it earlier."""
        self._.strike(rule, frame, Strike(self._number, self._session, self._broker, decision.places))

    def _arrived(self, rule: Rule | None) -> None:
        """What a rule held was answered, or never will be."""
        if rule is not None and rule.act is Act.STALL_REQUEST:
            self._.happen(rule.arrived)

    async def _hold(self, frame: Frame, decision: Decision, moment: Moment, rule: Rule) -> Done:
        self._strike(rule, frame, decision)
        if rule.cut:
            self._hiding += 1
            self._nothing_held.clear()
            self._to_client.transport.abort()
        self._reply_is_held |= frame.direction is Direction.REPLY
        try:
            return await self._.hold(rule, self._session)
        except asyncio.CancelledError:
            if frame.direction is Direction.REQUEST:  # a reply is still waited for, and will be unanswered
                self._note(frame, decision.places, moment, Done.LOST, rule)
                self._arrived(rule)
            raise
        finally:
            self._reply_is_held &= frame.direction is Direction.REQUEST
            self._hiding -= rule.cut
            if not self._hiding:
                self._nothing_held.set()

    async def _reached_client(self, raw: bytes) -> bool:
        """Whether a reply could be given to the client. What a broker says to one that has left is still read."""
        try:
            if self._client_is_there:
                self._to_client.write(raw)
                await self._to_client.drain()
        except OSError:
            self._client_is_there = False
        return self._client_is_there

    def _client_has_left(self) -> bool:
        """Whether the client has closed the connection: what is written then is lost without an error at first."""
        return self._from_client.at_eof()

    def _note(
        self, frame: Frame, places: tuple[Place, ...], moment: Moment, done: Done, rule: Rule | None = None
    ) -> None:
        held = done in (Done.HELD, Done.HELD_TO_DEADLINE) or (
            done is Done.LOST and rule is not None and rule.act is Act.STALL_REQUEST and self._broker_has_left
        )
        held_ns = now().monotonic_ns - moment.monotonic_ns if held else None
        name = None if rule is None else rule.name
        where = self._number, self._session, str(self._broker)
        self._.conversation.add(*where, frame, places, moment, done, name, held_ns)

    def _end(self) -> None:
        """Close both sides; the requests that have no reply get none any more."""
        self._to_client.transport.abort()
        self._to_broker.transport.abort()
        moment = now()
        for frame, decision in list(self._waiting.values()):
            self._answered(frame.key)
            nothing = frame._replace(raw=b"", direction=Direction.REPLY)
            self._note(nothing, decision.places, moment, Done.UNANSWERED, decision.rule)
            self._arrived(decision.rule)


class Lasting(asyncio.StreamReader):
    """A reader that gives what has come before the other side reset the connection, and then ends in order."""

    def set_exception(self, exc: Exception) -> None:
        if isinstance(exc, OSError):
            self.feed_eof()
        else:
            super().set_exception(exc)


def unbuffered(writer: asyncio.StreamWriter) -> None:
    """Have `drain` wait until the kernel has every byte; of TLS, until all is encrypted and on its way.

    A transport of TLS takes even nothing for too much if the limit is 0, and waits until something else happens.
    """
    encrypted = writer.get_extra_info("sslcontext") is not None
    writer.transport.set_write_buffer_limits(high=1 if encrypted else 0, low=0)


def _unreachable(broker: Address, error: Exception) -> PlatformError:
    return PlatformError(
        where=f"broker {broker}",
        got=str(error) or f"no answer within {CONNECT_S:g} s",
        rule="the interposer must reach every broker by the address that the brokers give to their clients",
        todo="see that this address can be reached from here (Kafka: advertised.listeners)",
    )
