"""Lost bytes are believed by silence, and late ones by pings.

Brokers here are sockets that answer, soon or late, keep silent, hang up, or are not there.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dedup_runners.chaos.faults.delay_tcp import late
from dedup_runners.chaos.faults.drop_tcp import direct_addresses, unheard
from dedup_runners.chaos.pings import Place

SILENCE_S = 2.0
LATE_S, LEAST_S, BOUND_S = 0.2, 0.15, 10.0
PADDING = 100_000


class Brokers:
    """Listeners on free ports, each with one manner of answering."""

    def __init__(self, open_until_end: ExitStack) -> None:
        self._stack, self._over = open_until_end, threading.Event()

    def one(self, manner: str) -> Place:
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=self._serve, args=(listener, manner), daemon=True).start()
        host, port = listener.getsockname()
        return Place(host, port)

    def nobody(self) -> Place:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            host, port = listener.getsockname()
        return Place(host, port)

    def _serve(self, listener: socket.socket, manner: str) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if manner == "hangs up":
                connection.close()
                continue
            self._stack.push(connection)
            threading.Thread(target=self._answer, args=(connection, manner), daemon=True).start()

    def _answer(self, connection: socket.socket, manner: str) -> None:
        if manner == "keeps silent":
            return
        (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        if manner == "is late" or (manner == "is slow" and length > PADDING):
            self._over.wait(LATE_S)
        connection.sendall(b"x")


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with ExitStack() as stack:
        yield Brokers(stack)


@pytest.mark.long
def test_whoever_answers_the_tester_and_not_the_clients_is_silent(brokers: Brokers) -> None:
    direct = [brokers.one("answers"), brokers.one("answers")]
    proxied = {"1": brokers.one("keeps silent"), "2": brokers.one("answers")}
    assert unheard("kafka", direct, proxied, SILENCE_S) == ["1"]


def test_nobody_is_silent_while_all_answer(brokers: Brokers) -> None:
    assert unheard("pulsar", [brokers.one("answers")], {"1": brokers.one("answers")}, SILENCE_S) == []


@pytest.mark.long
def test_a_broker_that_answers_nobody_shows_no_lost_bytes(brokers: Brokers) -> None:
    direct = [brokers.one("answers"), brokers.one("keeps silent")]
    assert unheard("kafka", direct, {"1": brokers.one("keeps silent")}, SILENCE_S) == []


@pytest.mark.parametrize("manner", ["hangs up", None])
def test_a_connection_that_is_cut_is_not_silence(manner: str | None, brokers: Brokers) -> None:
    proxied = {"1": brokers.one(manner) if manner else brokers.nobody()}
    assert unheard("kafka", [brokers.one("answers")], proxied, SILENCE_S) == []


@pytest.mark.parametrize(
    ("direct", "proxied", "found"),
    [
        ("answers", {"1": "is late", "2": "answers"}, ["1"]),
        ("answers", {"1": "answers"}, []),
        ("is late", {"1": "is late"}, []),
        ("hangs up", {"1": "is late"}, []),
        ("answers", {"1": "hangs up"}, []),
    ],
    ids=["late to clients", "soon", "late to everybody", "cut off to the tester", "cut off"],
)
def test_late_is_who_answers_the_tester_sooner(
    direct: str, proxied: dict[str, str], found: list[str], brokers: Brokers
) -> None:
    asked = {name: brokers.one(manner) for name, manner in proxied.items()}
    told = late("kafka", [brokers.one(direct)], asked, LEAST_S, BOUND_S)
    assert sorted(told) == found and all(LEAST_S * 1000 <= ms < BOUND_S * 1000 for ms in told.values())


@pytest.mark.parametrize(
    ("manner", "found"), [("is slow", ["1"]), ("is late", []), ("answers", []), ("keeps silent", [])]
)
def test_a_broker_is_slow_only_if_what_is_long_takes_longer_than_what_is_short(
    manner: str, found: list[str], brokers: Brokers
) -> None:
    """A latency, or a `delayTCP` at the same time, makes every question late, without any limit of bandwidth."""
    told = late("kafka", [brokers.one("answers")], {"1": brokers.one(manner)}, LEAST_S, 2.0, padding=PADDING)
    assert sorted(told) == found


def test_direct_addresses_are_those_of_the_bootstrap() -> None:
    assert direct_addresses("a:1,b.svc:2") == [Place("a", 1, "a"), Place("b.svc", 2, "b.svc")]
    for scheme in ("pulsar", "pulsar+ssl"):
        assert direct_addresses(f"{scheme}://a:1,b:2") == [Place("a", 1, "a"), Place("b", 2, "b")]
