"""What the interposer does to frames, on sockets: it closes, it waits, and it changes and reorders nothing."""

import gc
import socket
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.runners.toys import LAST, MUTE, TIMEOUT_S, Broker, Client, Toy, broker, either, interposed, told

from dedup.errors import PlatformError
from dedup_runners.interposer import proxies
from dedup_runners.interposer.conversations import SCHEMA, Done
from dedup_runners.interposer.protocols import Address, Addresses, Direction, Frame
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.waiting import until

__all__ = ["broker", "either"]

CLIENTS = 10


def test_without_a_rule_everything_passes_in_its_order(either: Broker) -> None:
    words = [f"word {number}" for number in range(50)]
    with interposed(either) as (interposer, client):
        client.say(*words)
        assert [client.hear() for _ in words] == [word.upper() for word in words]
        assert either.heard == words
        assert {done for _, _, done, _ in told(interposer, 100)} == {Done.PASSED}
        assert interposer.problems == []


def test_a_lost_request_never_reaches_the_broker_and_both_sides_are_closed(broker: Broker) -> None:
    with interposed(broker, Rule("r", Match("two"), Act.LOSE_REQUEST)) as (interposer, client):
        client.say("one")
        assert client.hear() == "ONE"
        client.say("two", "three")
        assert client.hear() is None
        assert broker.heard == ["one"]
        assert told(interposer, 3)[2:] == [("request", "two", Done.LOST, "r")]
        assert interposer.has_happened("r")


def test_a_lost_reply_was_given_by_the_broker_and_not_to_the_client(either: Broker) -> None:
    with interposed(either, Rule("r", Match("two"), Act.LOSE_REPLY)) as (interposer, client):
        client.say("one")
        assert client.hear() == "ONE"
        client.say("two")
        assert client.hear() is None
        assert either.heard == ["one", "two"]
        assert told(interposer, 4)[2:] == [("request", "two", Done.PASSED, None), ("reply", "two", Done.LOST, "r")]
        again = Client(interposer.bootstrap("s", [either.address])[0])
        again.say("two")
        assert again.hear() == "TWO"
        again.close()


def test_a_reply_that_is_to_be_lost_later_is_held_until_then(broker: Broker) -> None:
    with interposed(broker, Rule("r", Match("two"), Act.LOSE_REPLY, until="go")) as (interposer, client):
        client.say("two", "three")
        until(lambda: interposer.held == 1, TIMEOUT_S, "a reply is held")
        assert interposer.has_happened("r") and interposer.connections("s") == 1
        interposer.release("go")
        assert client.hear() is None
        rows = told(interposer, 4)
        assert ("reply", "two", Done.LOST, "r") in rows and ("reply", "three", Done.UNANSWERED, None) in rows
        assert broker.heard == ["two", "three"]


def test_what_was_asked_when_the_connection_ended_is_unanswered(broker: Broker) -> None:
    with interposed(broker, Rule("r", Match("two"), Act.LOSE_REQUEST)) as (interposer, client):
        client.say(MUTE)
        until(lambda: broker.heard == [MUTE], TIMEOUT_S, "the broker has it")
        client.say("two")
        assert client.hear() is None
        assert told(interposer, 3) == [
            ("request", MUTE, Done.PASSED, None),
            ("request", "two", Done.LOST, "r"),
            ("reply", MUTE, Done.UNANSWERED, None),
        ]


@pytest.mark.parametrize("act", [Act.STALL_REQUEST, Act.STALL_REPLY])
def test_what_is_held_waits_for_its_event_and_so_does_all_behind_it(broker: Broker, act: Act) -> None:
    with interposed(broker, Rule("r", Match("two"), act, until="go")) as (interposer, client):
        client.say("one", "two", "three")
        assert client.hear() == "ONE"
        until(lambda: interposer.held == 1, TIMEOUT_S, "a frame is held")
        if act is Act.STALL_REQUEST:
            assert broker.heard == ["one"]
        else:
            until(lambda: broker.heard == ["one", "two", "three"], TIMEOUT_S, "requests pass")
        assert interposer.has_happened("r")
        interposer.release("go")
        assert [client.hear(), client.hear()] == ["TWO", "THREE"]
        assert broker.heard == ["one", "two", "three"]
        held = [row for row in interposer.conversation.rows() if row.done == Done.HELD]
        assert [(row.api, row.direction) for row in held] == [("two", act.split("_")[1])]
        assert (held[0].held_ns or 0) > 0
        assert interposer.held == 0


def test_a_held_frame_is_passed_on_at_its_deadline(broker: Broker) -> None:
    with interposed(broker, Rule("r", Match("one"), Act.STALL_REQUEST, deadline_s=0.05)) as (interposer, client):
        client.say("one")
        assert client.hear() == "ONE"
        assert ("request", "one", Done.HELD_TO_DEADLINE, "r") in told(interposer, 2)


def test_what_a_client_sent_before_it_left_still_arrives(either: Broker) -> None:
    with interposed(either, Rule("r", Match("one"), Act.STALL_REQUEST, until="go")) as (interposer, client):
        client.say("one", "two")
        until(lambda: interposer.held == 1, TIMEOUT_S, "a frame is held")
        client.close()
        other = Client(interposer.bootstrap("s", [either.address])[0])
        other.say("the other's")
        assert other.hear() == "THE OTHER'S"
        assert either.heard == ["the other's"]
        interposer.release("go")
        until(lambda: either.heard == ["the other's", "one", "two"], TIMEOUT_S, "what was held arrives")
        other.close()
        until(lambda: interposer.connections("s") == 0, TIMEOUT_S, "both sides are closed")


def test_a_client_that_is_cut_off_knows_it_at_once_and_what_it_sent_still_arrives(either: Broker) -> None:
    with interposed(either, Rule("r", Match("one"), Act.STALL_REQUEST, until="go", cut=True)) as (interposer, client):
        client.say("one", "two")
        assert client.hear() is None
        assert (interposer.held, either.heard, either.left) == (1, [], 0)
        interposer.release("go")
        until(lambda: either.heard == ["one", "two"], TIMEOUT_S, "what was held arrives")
        until(lambda: interposer.connections("s") == 0, TIMEOUT_S, "both sides are closed")
        held = next(row for row in interposer.conversation.rows() if row.rule == "r")
        assert held.done == Done.HELD


def test_a_broker_does_not_know_that_a_client_was_cut_off_before_its_reply(either: Broker) -> None:
    with interposed(either, Rule("r", Match("one"), Act.STALL_REPLY, until="go", cut=True)) as (interposer, client):
        client.say("one")
        assert client.hear() is None
        other = Client(interposer.bootstrap("s", [either.address])[0])
        other.say("two")
        assert other.hear() == "TWO"
        assert (interposer.held, either.left) == (1, 0)
        interposer.release("go")
        until(lambda: either.left == 1, TIMEOUT_S, "the broker hears that the client has left")
        (reply,) = [row for row in interposer.conversation.rows() if row.rule == "r"]
        assert (reply.done, reply.bytes > 0) == (Done.UNANSWERED, True)
        other.close()


def test_a_broker_does_not_know_of_it_as_long_as_a_request_or_a_reply_is_held(either: Broker) -> None:
    reply = Rule("reply", Match("one"), Act.STALL_REPLY, until="reply goes", cut=True)
    request = Rule("request", Match("two"), Act.STALL_REQUEST, until="request goes", cut=True)
    with interposed(either, reply, request) as (interposer, client):
        client.say("one", "two")
        until(lambda: interposer.held == 2, TIMEOUT_S, "both are held")
        interposer.release("request goes")
        until(lambda: either.heard == ["one", "two"], TIMEOUT_S, "the request arrives")
        other = Client(interposer.bootstrap("s", [either.address])[0])
        other.say("three")
        assert other.hear() == "THREE"
        assert (interposer.held, either.left) == (1, 0)
        interposer.release("reply goes")
        until(lambda: either.left == 1, TIMEOUT_S, "the broker hears that the client has left")
        other.close()


def test_a_client_that_leaves_by_itself_is_known_to_its_broker_at_once(either: Broker) -> None:
    with interposed(either, Rule("r", Match("one"), Act.STALL_REPLY, until="go")) as (interposer, client):
        client.say("one")
        until(lambda: interposer.held == 1, TIMEOUT_S, "a reply is held")
        client.close()
        until(lambda: either.left == 1, TIMEOUT_S, "the broker hears that the client has left")
        assert not interposer.has_happened("go")


def test_what_a_client_sent_before_it_was_killed_still_arrives(either: Broker) -> None:
    with interposed(either, Rule("r", Match("one"), Act.STALL_REQUEST, until="go")) as (interposer, client):
        client.say("one")
        until(lambda: interposer.held == 1, TIMEOUT_S, "a frame is held")
        client.say("two")
        client.reset()
        interposer.release("go")
        until(lambda: either.heard == ["one", "two"], TIMEOUT_S, "what was held arrives")
        until(lambda: either.left == 1, TIMEOUT_S, "the broker hears that the client has left")
        rows = told(interposer, 4)
        assert rows[0] == ("request", "one", Done.HELD, "r")
        assert {(direction, done) for direction, _, done, _ in rows[1:]} == {
            ("request", Done.PASSED),
            ("reply", Done.UNANSWERED),
        }


def test_a_long_request_has_passed_when_its_broker_has_it(either: Broker) -> None:
    """Over TLS more than the kernel takes is encrypted at once, and would be lost with the client's connection."""
    word = "a" * 12_000_000
    with interposed(either, Rule("r", Match("b"), Act.LOSE_REQUEST)) as (interposer, client):
        client.say(word, "b")
        assert told(interposer, 3)[1] == ("request", "b", Done.LOST, "r")
        until(lambda: either.heard == [word], TIMEOUT_S, "the whole of it arrives")


@pytest.mark.parametrize("leaves", [True, False], ids=["left", "stayed"])
def test_a_request_that_is_held_until_its_broker_has_left_never_arrives(broker: Broker, leaves: bool) -> None:
    with interposed(broker, Rule("r", Match("one"), Act.STALL_REQUEST, until="go", cut=True)) as (interposer, client):
        client.say("one")
        assert client.hear() is None
        until(lambda: broker.clients, TIMEOUT_S, "the connection is there")
        if leaves:
            broker.drop()
            until(lambda: interposer.connections("s") == 0, TIMEOUT_S, "both sides are closed")
        interposer.release("go")
        row = until(lambda: interposer.conversation.rows(), TIMEOUT_S, "it is noted")[0]
        assert (row.rule, row.done) == ("r", Done.LOST if leaves else Done.HELD)
        assert (row.held_ns or 0) > 0
        if not leaves:
            until(lambda: broker.heard == ["one"], TIMEOUT_S, "it arrives")
    assert ("one" in broker.heard) is not leaves


@pytest.mark.parametrize(
    ("act", "rows"),
    [
        (Act.STALL_REQUEST, [("request", "one", Done.LOST, "r")]),
        (Act.STALL_REPLY, [("request", "one", Done.PASSED, None), ("reply", "one", Done.UNANSWERED, "r")]),
    ],
)
def test_what_is_held_when_the_interposer_ends_was_not_passed_on(
    broker: Broker, act: Act, rows: list[tuple[str, str, str, str | None]]
) -> None:
    with interposed(broker, Rule("r", Match("one"), act, until="never")) as (interposer, client):
        client.say("one")
        until(lambda: interposer.held == 1, TIMEOUT_S, "a frame is held")
        interposer.close()
        assert client.hear() is None
        assert told(interposer, len(rows)) == rows
        assert all(row.held_ns is None for row in interposer.conversation.rows()), "its broker had not left"
        assert ("one" in broker.heard) == (act is Act.STALL_REPLY)


def test_a_client_that_has_no_more_to_say_still_gets_its_last_replies(broker: Broker) -> None:
    with interposed(broker) as (interposer, client):
        client.say(LAST)
        client.end()
        assert [client.hear(), client.hear()] == [LAST.upper(), None]
        assert told(interposer, 2)[1] == ("reply", LAST, Done.PASSED, None)


class Busy(Toy):
    """A dialogue in which every answer puts the client off."""

    def reply(self, raw: bytes, addresses: Addresses) -> Frame:
        return super().reply(raw, addresses)._replace(error_code=51, put_off=True)


@pytest.mark.parametrize(("leaves", "second"), [(True, (2, 1)), (False, (1, 2))], ids=["left", "stayed"])
def test_who_has_left_is_not_put_off(broker: Broker, leaves: bool, second: tuple[int, int]) -> None:
    """Who has left asks again because it heard nothing: that is another request."""
    with Interposer(Busy) as interposer:
        (door,) = interposer.bootstrap("s", [broker.address])
        first, later = Client(door), Client(door)
        first.say(LAST if leaves else "one")
        if leaves:
            first.end()
        first.hear()
        told(interposer, 2)
        later.say(LAST if leaves else "one")
        later.end()
        told(interposer, 4)
        asked = [row for row in interposer.conversation.rows() if row.direction == Direction.REQUEST]
        assert [(row.number, row.attempt) for row in asked] == [(1, 1), second]
        first.close()
        later.close()


def test_what_cannot_be_read_ends_its_connection_and_is_a_problem(broker: Broker) -> None:
    with interposed(broker) as (interposer, client):
        client.say("bad")
        assert client.hear() is None
        assert interposer.problems == ["a toy: got bad; words are good; say another"]
        assert broker.heard == []


def test_a_broker_that_is_not_there_is_a_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = Address("127.0.0.1", gone.getsockname()[1])
    with Interposer(Toy) as interposer:
        client = Client(interposer.bootstrap("s", [address])[0])
        assert client.hear() is None
        (problem,) = until(lambda: interposer.problems, TIMEOUT_S, "it is noted")
        assert problem.startswith(f"broker {address}: got ") and "advertised.listeners" in problem
        client.close()


def test_sessions_have_ports_of_their_own(broker: Broker) -> None:
    with Interposer(Toy) as interposer:
        ours, again = (interposer.bootstrap("ours", [broker.address]) for _ in range(2))
        theirs = interposer.bootstrap("theirs", [broker.address])
        assert ours == again != theirs
        assert {door.host for door in (*ours, *theirs)} == {"127.0.0.1"}


def test_nothing_listens_when_it_is_closed(broker: Broker) -> None:
    with interposed(broker) as (interposer, client):
        client.say("one")
        assert client.hear() == "ONE"
        (door,) = interposer.bootstrap("s", [broker.address])
        interposer.close()
        assert client.hear() is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(door, TIMEOUT_S)


@pytest.mark.parametrize("told_first", [False, True], ids=["arriving", "served"])
def test_clients_that_arrive_while_it_ends_are_closed_and_nothing_is_left(broker: Broker, told_first: bool) -> None:
    """A server of asyncio that is closed first loses, and leaves open, what it has just accepted (Python 3.11)."""
    for _ in range(10):
        with Interposer(Toy) as interposer:
            (door,) = interposer.bootstrap("s", [broker.address])
            clients = [Client(door) for _ in range(CLIENTS)]
            if told_first:
                until(lambda: interposer.connections("s") == CLIENTS, TIMEOUT_S, "all are served")
        for client in clients:
            assert client.hear() is None
            client.close()
    gc.collect()  # what is left open is told when it is collected


def test_the_conversation_is_kept_as_a_table(broker: Broker, tmp_path: Path) -> None:
    with interposed(broker) as (interposer, client):
        client.say("one")
        assert client.hear() == "ONE"
        rows = told(interposer, 2)
        assert interposer.conversation.save(tmp_path / "all.parquet") == 2
        assert interposer.conversation.save(tmp_path / "none.parquet", session="another") == 0
    table = pq.read_table(tmp_path / "all.parquet")
    assert table.schema == SCHEMA
    assert table["api"].to_pylist() == ["one", "one"] and [row[1] for row in rows] == ["one", "one"]
    assert table["error_code"].to_pylist() == [None, 0]
    assert pq.read_table(tmp_path / "none.parquet").schema == SCHEMA


def test_a_broker_behind_a_proxy_is_reached_through_it_and_called_by_its_own_address(broker: Broker) -> None:
    """Nobody listens where it says that it is: the way there is another."""
    says = Address("broker.invalid", 9092)
    with Interposer(Toy, routes={says: broker.address}) as interposer:
        heard(interposer, says)
        until(lambda: interposer.connections("s") == 0, TIMEOUT_S, "the connection to be gone")
        assert {row.broker for row in interposer.conversation.rows()} == {str(says)}
        assert interposer.problems == []


def test_one_that_only_leads_the_way_remembers_nothing(broker: Broker) -> None:
    with Interposer(Toy, [Rule("r", Match("one"), Act.LOSE_REQUEST)], recorded=False) as interposer:
        heard(interposer, broker.address)
        until(lambda: interposer.connections("s") == 0, TIMEOUT_S, "the connection to be gone")
        assert interposer.conversation.rows() == [] and not interposer.has_happened("r")


def test_who_is_not_admitted_is_not_served_and_nothing_reaches_the_broker(broker: Broker) -> None:
    asked: list[tuple[tuple[str, int], tuple[str, int]]] = []

    def nobody(client: tuple[str, int], door: tuple[str, int]) -> bool:
        asked.append((client, door))
        return False

    with Interposer(Toy, admits=nobody) as interposer:
        (door,) = interposer.bootstrap("s", [broker.address])
        client = Client(door)
        try:
            assert client.hear() is None
        finally:
            client.close()
        assert [each for _, each in asked] == [tuple(door)] and broker.heard == []


def heard(interposer: Interposer, broker: Address) -> None:
    """A client says a word to that broker, and hears it in capitals."""
    client = Client(interposer.bootstrap("s", [broker])[0])
    try:
        client.say("one")
        assert client.hear() == "ONE"
    finally:
        client.close()


def test_one_whose_loop_does_not_get_to_run_says_so_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with Interposer(Toy) as interposer:
        goes_on = threading.Event()
        interposer._loop.call_soon_threadsafe(goes_on.wait, TIMEOUT_S)
        with monkeypatch.context() as short:
            short.setattr(proxies, "CALL_S", 0.05)
            with pytest.raises(PlatformError, match=r"the interposer: got no answer within 0\.05 s"):
                interposer.connections("client")
        goes_on.set()
        assert interposer.connections("client") == 0
