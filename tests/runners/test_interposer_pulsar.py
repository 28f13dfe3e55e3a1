"""Pulsar's frames, written by hand: what is read of each, and that only addresses are exchanged.

The last tests have the real client speak through the interposer, to a stand-in of a broker.
"""

import os
from typing import Any

import pulsar as client
import pytest
from tests.runners.pulsar_stand_in import LEDGER, NONE, Content, frame, message, stand_in

from dedup_runners.interposer.conversations import Done, Row
from dedup_runners.interposer.protocols import Address, Direction, Frame, Unreadable
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.pulsar import PulsarDialogue, topic_of
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.interposer.speeches import SPEECHES
from dedup_runners.waiting import until

BROKER, DOOR = Address("broker.example", 6650), Address("127.0.0.1", 40001)
SECURE = Address("broker.example", 6651)
TOPIC = "persistent://public/dedup-off/t"
PAYLOAD = b"\x0e\x01\x00\x00\x00\x00 a message, with its checksum"


class Doors:
    """One broker behind one door."""

    over_tls = False

    def inside(self, broker: Address) -> Address:
        return DOOR if broker == BROKER else broker

    def outside(self, door: Address) -> Address:
        return BROKER if door == DOOR else door


PRODUCER = frame("PRODUCER", {1: TOPIC, 2: 7, 3: 1, 4: "run-0"})
SEND = frame("SEND", {1: 7, 2: 3, 3: 1}, PAYLOAD)


def dialogue() -> PulsarDialogue:
    """A connection on which producer 7 was made."""
    found = PulsarDialogue()
    found.request(PRODUCER, Doors())
    return found


def receipt(ledger: int = 12, entry: int = 2) -> bytes:
    return frame("SEND_RECEIPT", {1: 7, 2: 3, 3: message({1: ledger, 2: entry})})


def answered(raw: bytes) -> Frame:
    talk = dialogue()
    talk.request(SEND, Doors())
    return talk.reply(raw, Doors())


def test_a_send_is_told_by_its_producers_name_and_its_sequence_id() -> None:
    said = dialogue().request(SEND, Doors())
    (part,) = said.parts
    assert (said.api, said.raw, said.answered) == ("SEND", SEND, True)
    assert (part.topic, part.partition, part.batch, part.messages) == (TOPIC, 0, ("run-0", 3), 1)


@pytest.mark.parametrize("given", [None, "standalone-0-9"], ids=["none", "its own"])
def test_a_producer_that_gave_no_name_has_the_one_that_its_broker_gave_it(given: str | None) -> None:
    """On its next connection it says that name, and its message is the same that it sent before."""
    batches = []
    for asked in ({} if given is None else {4: given}, {4: "standalone-0-9"}):
        talk = PulsarDialogue()
        talk.request(frame("PRODUCER", {1: TOPIC, 2: 7, 3: 1, **asked}), Doors())
        talk.reply(frame("PRODUCER_SUCCESS", {1: 1, 2: "standalone-0-9"}), Doors())
        batches += [part.batch for part in talk.request(SEND, Doors()).parts]
    assert batches == [("standalone-0-9", 3)] * 2


def test_a_receipt_answers_its_send_and_says_where_the_message_is() -> None:
    said = answered(receipt())
    assert (said.api, said.direction, said.error_code) == ("SEND", Direction.REPLY, 0)
    assert [(part.ledger, part.offset, part.batch) for part in said.parts] == [(12, 2, ("run-0", 3))]


def test_a_duplicate_that_was_recognised_is_nowhere_new() -> None:
    (part,) = answered(receipt(NONE, NONE)).parts
    assert (part.ledger, part.offset) == (-1, -1)


@pytest.mark.parametrize(("error", "found"), [(5, 5), (0, -1)])
def test_an_error_answers_its_send_and_is_never_0(error: int, found: int) -> None:
    said = answered(frame("SEND_ERROR", {1: 7, 2: 3, 3: error, 4: "no"}))
    assert (said.api, said.error_code) == ("SEND", found)


@pytest.mark.parametrize("name", ["PRODUCER", "LOOKUP", "PARTITIONED_METADATA"])
def test_a_request_that_names_a_topic_is_about_its_partition(name: str) -> None:
    request_id = {"PRODUCER": 3}.get(name, 2)
    said = PulsarDialogue().request(frame(name, {1: f"{TOPIC}-partition-1", 2: 7, request_id: 5}), Doors())
    assert [(part.topic, part.partition, part.batch) for part in said.parts] == [(TOPIC, 1, None)]


def test_the_end_of_a_producer_is_about_the_partition_it_was_made_for() -> None:
    close = frame("CLOSE_PRODUCER", {1: 7, 2: 9})
    assert [(part.topic, part.partition) for part in dialogue().request(close, Doors()).parts] == [(TOPIC, 0)]
    assert [part.topic for part in PulsarDialogue().request(close, Doors()).parts] == [None]


def test_a_partitions_name_is_its_topic_and_number() -> None:
    assert topic_of(f"{TOPIC}-partition-3") == (TOPIC, 3)
    assert topic_of(TOPIC) == (TOPIC, 0)
    assert topic_of("persistent://a/b/my-partition-x") == ("persistent://a/b/my-partition-x", 0)


def test_the_answer_to_a_lookup_leads_to_the_door_and_nothing_else_is_changed() -> None:
    """Field 99 is one that nobody here knows."""
    talk = PulsarDialogue()
    talk.request(frame("LOOKUP", {1: TOPIC, 2: 5}), Doors())
    content: Content = {1: f"pulsar://{BROKER}", 2: f"pulsar+ssl://{BROKER}", 3: 1, 4: 5, 99: "unknown"}
    said = talk.reply(frame("LOOKUP_RESPONSE", content), Doors())
    assert said.api == "LOOKUP"
    assert said.raw == frame("LOOKUP_RESPONSE", {**content, 1: f"pulsar://{DOOR}", 2: f"pulsar+ssl://{DOOR}"})


class Secured(Doors):
    """The broker is reached over TLS, at another port."""

    over_tls = True

    def inside(self, broker: Address) -> Address:
        return DOOR if broker == SECURE else Address("127.0.0.1", 9)


@pytest.mark.parametrize("plain", [{}, {1: f"pulsar://{BROKER}"}], ids=["TLS alone", "both"])
def test_over_tls_a_client_that_speaks_plain_text_is_led_to_the_door_of_the_tls_address(plain: Content) -> None:
    """Its client looks at the first address; without TLS at the broker there may be none, and it is the other port."""
    talk = PulsarDialogue()
    talk.request(frame("LOOKUP", {1: TOPIC, 2: 5}), Secured())
    said = talk.reply(frame("LOOKUP_RESPONSE", {**plain, 2: f"pulsar+ssl://{SECURE}", 3: 1, 4: 5}), Secured())
    door: Content = {1: f"pulsar://{DOOR}"}
    rest: Content = {2: f"pulsar+ssl://{DOOR}", 3: 1, 4: 5}
    assert said.raw == frame("LOOKUP_RESPONSE", {**door, **rest} if plain else {**rest, **door})


def test_over_tls_a_broker_that_names_no_address_for_it_ends_the_connection_in_words() -> None:
    talk = PulsarDialogue()
    talk.request(frame("LOOKUP", {1: TOPIC, 2: 5}), Secured())
    with pytest.raises(Unreadable, match="no address for TLS"):
        talk.reply(frame("LOOKUP_RESPONSE", {1: f"pulsar://{BROKER}", 3: 1, 4: 5}), Secured())
    failed = frame("LOOKUP_RESPONSE", {3: 2, 4: 6, 6: 3})
    talk.request(frame("LOOKUP", {1: TOPIC, 2: 6}), Secured())
    assert talk.reply(failed, Secured()).raw == failed


@pytest.mark.parametrize("name", ["CLOSE_PRODUCER", "CLOSE_CONSUMER", "TOPIC_MIGRATED"])
def test_a_broker_that_hands_a_topic_over_names_the_door(name: str) -> None:
    said = PulsarDialogue().reply(frame(name, {1: 7, 2: 9, 3: f"pulsar://{BROKER}"}), Doors())
    assert said.raw == frame(name, {1: 7, 2: 9, 3: f"pulsar://{DOOR}"})
    assert (said.api, said.key) == (name, None)


@pytest.mark.parametrize(("host", "text"), [("broker.example", "broker.example"), ("::1", "[::1]")])
def test_a_broker_is_known_by_its_host_which_a_url_has_in_brackets_if_it_is_of_ipv6(host: str, text: str) -> None:
    """Else it would be another broker than the one of that address, and nobody could connect to it."""
    asked = list[Address]()

    class Noting(Doors):
        def inside(self, broker: Address) -> Address:
            asked.append(broker)
            return DOOR

    dialogue().reply(frame("LOOKUP_RESPONSE", {1: f"pulsar://{text}:6650", 3: 1, 4: 9}), Noting())
    assert asked == [Address(host, 6650)]


def test_the_broker_that_a_client_means_behind_a_proxy_is_put_back() -> None:
    said = PulsarDialogue().request(frame("CONNECT", {1: "client", 3: "secret", 6: str(DOOR)}), Doors())
    assert said.raw == frame("CONNECT", {1: "client", 3: "secret", 6: str(BROKER)})
    assert said.secret


def test_what_a_broker_says_unasked_answers_nothing() -> None:
    talk = dialogue()
    for raw in (frame("PING", {}), frame("CLOSE_PRODUCER", {1: 7, 2: 1}), frame("MESSAGE", {1: 1}, PAYLOAD)):
        said = talk.reply(raw, Doors())
        assert (said.key, said.raw) == (None, raw)
    assert talk.reply(frame("PRODUCER_SUCCESS", {1: 1, 2: "run-0"}), Doors()).api == "PRODUCER"


def test_a_ping_of_the_clients_is_answered_and_its_pong_is_not() -> None:
    talk = PulsarDialogue()
    assert talk.request(frame("PING", {}), Doors()).answered
    assert talk.reply(frame("PONG", {}), Doors()).api == "PING"
    assert not talk.request(frame("PONG", {}), Doors()).answered


@pytest.mark.parametrize("name", ["NEW_TXN", "ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN", "END_TXN"])
@pytest.mark.parametrize(("fields", "error"), [({}, 0), ({4: 24}, 24)])
def test_a_coordinator_answers_what_it_is_asked(name: str, fields: Content, error: int) -> None:
    """24 is TransactionNotFound."""
    talk = PulsarDialogue()
    talk.request(frame(name, {1: 5, 2: 3}), Doors())
    said = talk.reply(frame(f"{name}_RESPONSE", {1: 5, 2: 3, **fields}), Doors())
    assert (said.api, said.direction, said.error_code) == (name, Direction.REPLY, error)


def test_an_unknown_command_passes_as_it_is() -> None:
    command = message({1: 77, 77: message({1: 1})})
    raw = (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command
    assert PulsarDialogue().request(raw, Doors()).raw == raw


@pytest.mark.parametrize("raw", [b"\0\0\0\4\0\0\0\xff", b"\0\0\0\6\0\0\0\2\x0b\x0b", b"\0\0\0\4\0\0\0\0"])
def test_what_is_no_command_ends_the_connection_in_words(raw: bytes) -> None:
    with pytest.raises(Unreadable, match="see that the address is a plaintext listener of Pulsar"):
        PulsarDialogue().request(raw, Doors())


MESSAGES, LOST = 6, 3
GONE_S = 20.0
KNOWN = SPEECHES["pulsar"]


def produced(rule: Rule, *, deduplication: bool) -> tuple[list[int], list[Row], int]:
    """What is stored when a rule struck while a client sent its messages; what was said; how many it was told of."""
    silent = client.FileLogger(client.LoggerLevel.Error, os.devnull)
    acknowledged: list[Any] = []
    with stand_in(deduplication=deduplication) as broker, Interposer(KNOWN.speech(), [rule]) as interposer:
        doors = interposer.bootstrap("s", [broker.address])
        sending = client.Client(KNOWN.bootstrap(doors), logger=silent)
        producer = sending.create_producer(TOPIC, producer_name="p", batching_enabled=False)
        for number in range(1, MESSAGES + 1):
            producer.send_async(b"m", lambda result, _: acknowledged.append(result), sequence_id=number)
        producer.flush()
        sending.close()
        until(lambda: interposer.connections("s") == 0, GONE_S, "all connections have ended")
        assert interposer.problems == []
        return broker.stored, interposer.conversation.rows(), acknowledged.count(client.Result.Ok)


@pytest.mark.parametrize("deduplication", [False, True])
def test_a_client_whose_receipt_is_lost_sends_the_message_again(deduplication: bool) -> None:
    rule = Rule("r", Match("SEND", topic=TOPIC, partition=0, number=LOST, attempt=1), Act.LOSE_REPLY)
    stored, rows, acknowledged = produced(rule, deduplication=deduplication)
    (lost,) = [row for row in rows if row.done == Done.LOST]
    assert (lost.direction, lost.number, lost.base_sequence, lost.place) == (
        "reply",
        LOST,
        LOST,
        f"{LEDGER}:{LOST - 1}",
    )
    assert stored.count(LOST) == (1 if deduplication else 2)
    assert (set(stored), acknowledged) == (set(range(1, MESSAGES + 1)), MESSAGES)
    (again,) = [row for row in rows if (row.number, row.attempt, row.direction) == (LOST, 2, "reply") and row.topic]
    assert (again.place is None) == deduplication


@pytest.mark.parametrize("api", ["CONNECT", "PARTITIONED_METADATA", "LOOKUP", "PRODUCER", "SEND"])
@pytest.mark.parametrize("act", Act)
def test_every_request_of_a_producer_can_be_struck(act: Act, api: str) -> None:
    """And all is stored in the end, once."""
    rule = Rule("r", Match(api, number=LOST if api == "SEND" else 1), act, deadline_s=0.05)
    stored, rows, acknowledged = produced(rule, deduplication=True)
    (struck,) = [row for row in rows if row.rule == "r"]
    what, direction = act.split("_")
    assert (struck.api, struck.direction) == (api, direction)
    assert struck.done == (Done.LOST if what == "lose" else Done.HELD_TO_DEADLINE)
    assert (sorted(stored), acknowledged) == (list(range(1, MESSAGES + 1)), MESSAGES)


@pytest.mark.parametrize("deduplication", [False, True])
def test_a_client_that_is_cut_off_sends_again_what_then_arrives_late(deduplication: bool) -> None:
    """It would wait for ever for the receipt of a request that is only held."""
    match = Match("SEND", topic=TOPIC, partition=0, number=LOST, attempt=1)
    rule = Rule("r", match, Act.STALL_REQUEST, until="r: retried", cut=True)
    stored, rows, acknowledged = produced(rule, deduplication=deduplication)
    (held,) = [row for row in rows if (row.rule, row.direction) == ("r", "request")]
    assert held.done == Done.HELD
    assert stored.count(LOST) == (1 if deduplication else 2)
    assert (set(stored), acknowledged) == (set(range(1, MESSAGES + 1)), MESSAGES)
