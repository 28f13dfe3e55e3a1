"""Lost bytes are believed by silence: brokers here are sockets that answer, keep silent, hang up, or are not there."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dedup_runners.chaos.faults.drop_tcp import direct_addresses, unheard
from dedup_runners.chaos.pings import Place

SILENCE_S = 2.0


class Brokers:
    """Listeners on free ports, each with one manner of answering."""

    def __init__(self, open_until_end: ExitStack) -> None:
        self._stack = open_until_end

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
            if manner == "answers":
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


def test_direct_addresses_are_those_of_the_bootstrap() -> None:
    assert direct_addresses("a:1,b.svc:2") == [Place("a", 1, "a"), Place("b.svc", 2, "b.svc")]
    for scheme in ("pulsar", "pulsar+ssl"):
        assert direct_addresses(f"{scheme}://a:1,b:2") == [Place("a", 1, "a"), Place("b", 2, "b")]
