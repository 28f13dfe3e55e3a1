"""What is read off Kafka's wire, from bytes made by hand, and what becomes of a request that nobody answers."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka.record import MemoryRecords
from kafka.record.util import calc_crc32c
from tests.runners.guarded_brokers import string

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.wire.manifests import EndPosition
from dedup_runners.admins import kafka
from dedup_runners.admins.batches import Census, take_census
from dedup_runners.admins.kafka import KafkaAdmin, first_choices
from dedup_runners.admins.views import Partition, View, agreed, end_offset, reassign, view

TIMEOUT_S = 5.0


def batch(
    base: int, count: int, producer: int, epoch: int = 0, attributes: int = 0, payload: bytes = b"r" * 9
) -> bytes:
    """A record batch of version 2 with `count` records (its records are junk: they are never looked at)."""
    summed = struct.pack(">hiqqqhii", attributes, count - 1, 0, 0, producer, epoch, 0, count) + b"r" * 9
    rest = struct.pack(">ibI", 0, 2, calc_crc32c(summed)) + summed
    return struct.pack(">qi", base, len(rest)) + rest


def census(*batches: bytes) -> Census:
    found = Census()
    for each in MemoryRecords(b"".join(batches)):
        found.count(each)
    return found


def fetched(records: bytes, error: int = 0) -> bytes:
    """A Fetch response, version 4, behind its correlation id: one aborted transaction, to be skipped."""
    partition = struct.pack(">ihqqiqq", 0, error, 9, 9, 1, 7, 7) + struct.pack(">i", len(records)) + records
    return struct.pack(">iii", 0, 0, 1) + string("t") + struct.pack(">i", 1) + partition


def metadata(brokers: list[int], leader: int, in_sync: list[int], error: int = 0) -> bytes:
    """A Metadata response, version 7, behind its correlation id: a topic of one partition with replicas 1, 2, 3."""
    nodes = b"".join(struct.pack(">i", node) + string("h") + struct.pack(">ih", 9000 + node, -1) for node in brokers)
    copies = struct.pack(">iiii", 3, 1, 2, 3) + struct.pack(f">i{len(in_sync)}i", len(in_sync), *in_sync)
    partition = struct.pack(">hiii", 0, 0, leader, 5) + copies + struct.pack(">ii", 1, 9)  # the last: who is offline
    topic = struct.pack(">h", error) + string("t") + b"\0" + struct.pack(">i", 1) + partition
    return struct.pack(">iii", 0, 0, len(brokers)) + nodes + string("c") + struct.pack(">ii", 1, 1) + topic


@contextmanager
def broker(*answers: bytes, asked: list[bytes] | None = None) -> Iterator[tuple[str, int]]:
    """A broker that gives these answers, one a request, and keeps what it was asked."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for answer in answers:
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                request = connection.recv(size, socket.MSG_WAITALL)
                if asked is not None:
                    asked.append(request)
                connection.sendall(struct.pack(">i", len(answer)) + request[4:8] + answer[4:])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        yield listener.getsockname()
        thread.join(TIMEOUT_S)


@pytest.mark.parametrize("cut", [1, 30, 75])
def test_a_batch_that_the_broker_cut_short_is_left_for_the_next_fetch(cut: int) -> None:
    whole, second = batch(0, 3, 77, epoch=1), batch(3, 2, -1)
    found, asked = Census(), list[bytes]()
    with broker(fetched(whole + second[:-cut]), fetched(second), asked=asked) as address:
        take_census(found, address, "t", 0, 5, TIMEOUT_S)
    assert found.producers == {(77, 1)} and (found.identified, found.anonymous) == (1, 1)
    assert [struct.unpack(">q", each[-12:-4])[0] for each in asked] == [0, 3], "it is asked for from where it begins"


def test_a_log_that_begins_later_is_counted_from_there() -> None:
    """What was before it says nothing of deduplication any more; whether it is lost is asked by who reads it."""
    place = struct.pack(">ihqqi", 0, 0, -1, 3, -1)
    begins = struct.pack(">iii", 0, 0, 1) + string("t") + struct.pack(">i", 1) + place
    found, asked = Census(), list[bytes]()
    with broker(fetched(b"", 1), begins, fetched(batch(3, 2, 77)), asked=asked) as address:
        take_census(found, address, "t", 0, 5, TIMEOUT_S)
    assert (found.identified, found.anonymous) == (1, 0)


def test_all_batches_identified_is_in_force() -> None:
    found = census(batch(0, 1, 77), batch(1, 1, 77))
    assert found.in_force is True
    assert found.proof == "all 2 stored batches carry a producer id; 1 producer id(s), 1 (id, epoch) pair(s)"


def test_one_anonymous_batch_among_them_proves_nothing() -> None:
    found = census(batch(0, 1, 77), batch(1, 1, -1))
    assert found.in_force is None
    assert found.proof.startswith("1 of 2 stored batches carry a producer id, 1 do not")


def test_no_batch_identified_is_not_in_force() -> None:
    assert census(batch(0, 1, -1)).in_force is False


def test_an_empty_topic_proves_nothing() -> None:
    assert census().in_force is None
    assert census().proof == "the topic holds no record batches"


def test_an_epoch_bump_is_told() -> None:
    assert "1 epoch bump(s)" in census(batch(0, 1, 77, 0), batch(1, 1, 77, 1)).proof
    assert "bump" not in census(batch(0, 1, 77, 0), batch(1, 1, 78, 0)).proof


def test_a_transaction_marker_is_nobodys_batch() -> None:
    assert census(batch(0, 1, -1), batch(1, 1, 77, attributes=0x20)).in_force is False


def test_a_census_reads_on_until_the_end() -> None:
    found = Census()
    with broker(fetched(batch(0, 3, 77)), fetched(batch(3, 2, 77))) as address:
        take_census(found, address, "t", 0, 5, TIMEOUT_S)
    assert found.identified == 2


def test_a_census_that_cannot_reach_the_end_is_an_error() -> None:
    with broker(fetched(batch(0, 3, 77)), fetched(b"")) as address, pytest.raises(PlatformError, match="at offset 3"):
        take_census(Census(), address, "t", 0, 5, TIMEOUT_S)


def test_a_census_asked_of_the_wrong_broker_is_an_error() -> None:
    with broker(fetched(b"", error=6)) as address, pytest.raises(PlatformError, match="Kafka error 6"):
        take_census(Census(), address, "t", 0, 5, TIMEOUT_S)


def test_a_whole_cluster_lacks_nothing() -> None:
    with broker(metadata([1, 2, 3], 2, [1, 2, 3])) as address:
        found = view(address, "t")
    assert found.lack({"1", "2", "3"}, "t") is None
    assert found.brokers["2"] == ("h", 9002)
    assert found.partitions == {0: Partition("2", ("1", "2", "3"), ("1", "2", "3"), epoch=5)}


@pytest.mark.parametrize(
    ("answer", "lack"),
    [
        (metadata([1, 3], 1, [1, 3]), "broker 2 is not registered"),
        (metadata([1, 2, 3], -1, [1]), "t/0 has no leader"),
        (metadata([1, 2, 3], 1, [1, 3]), "t/0: replica 2 is not in sync"),
        (metadata([1, 2, 3], 1, [1, 2, 3], error=3), "t: Kafka error 3 (no such topic)"),
    ],
)
def test_what_is_missing_is_said(answer: bytes, lack: str) -> None:
    with broker(answer) as address:
        assert view(address, "t").lack({"1", "2", "3"}, "t") == lack


def test_without_a_topic_only_brokers_count() -> None:
    with broker(metadata([1, 2, 3], -1, [1])) as address:
        assert view(address, None).lack({"1", "2", "3"}, None) is None


@pytest.mark.parametrize(("error", "offset"), [(0, 42), (6, None), (74, None)])
def test_only_the_leader_tells_the_end(error: int, offset: int | None) -> None:
    answer = struct.pack(">iii", 0, 0, 1) + string("t") + struct.pack(">iihqqi", 1, 0, error, -1, 42, 5)
    asked: list[bytes] = []
    with broker(answer, asked=asked) as address:
        if offset is None:
            with pytest.raises(PlatformError, match=f"Kafka error {error}"):
                end_offset(address, "t", 0, epoch=7)
        else:
            assert end_offset(address, "t", 0, epoch=7) == offset
    partition, epoch, latest = struct.unpack(">iiq", asked[0][-16:])
    assert (partition, epoch, latest) == (0, 7, -1), "a leader of another epoch refuses"


@pytest.mark.parametrize("code", [0, 31, 41])
def test_a_reassignment_is_asked_of_the_controller(code: int) -> None:
    """Compact strings and arrays, of a version with tagged fields: an empty set of them is a zero."""
    partition = b"\2" + struct.pack(">ih", 4, code) + b"\0\0"
    answer = struct.pack(">ibih", 0, 0, 0, 0) + b"\0" + b"\2" + b"\2t" + partition + b"\0\0"
    asked: list[bytes] = []
    with broker(answer, asked=asked) as address:
        assert reassign(address, "t", 4, ["3", "1"]) == code
    assert asked[0].endswith(
        b"\2" + b"\2t" + b"\2" + struct.pack(">i", 4) + b"\3" + struct.pack(">ii", 3, 1) + b"\0\0\0"
    )


def seen(leader: str, epoch: int, *replicas: str) -> View:
    """A broker's word of a topic of one partition."""
    brokers = {name: ("h", 9000 + int(name)) for name in "123"}
    copies = replicas or ("1", "2", "3")
    return View(brokers, 0, {0: Partition(leader, copies, copies, epoch)})


def test_a_leader_is_who_all_brokers_call_one() -> None:
    assert agreed([seen("2", 6)] * 3, "t")[0].leader == "2"


@pytest.mark.parametrize(
    ("stale", "words"),
    [
        (seen("1", 5), "leaders 1 since epoch 5, 2 since epoch 6"),
        (seen("2", 4), "leaders 2 since epoch 4, 2 since epoch 6"),
        (View({}, 3, {}), "Kafka error 3 from one of the brokers"),
        (View({"1": ("h", 1)}, 0, seen("2", 6).partitions), "no leader"),
    ],
)
def test_one_broker_that_says_otherwise_is_enough_to_ask_again(stale: View, words: str) -> None:
    with pytest.raises(PlatformError, match=words):
        agreed([stale, seen("2", 6), seen("2", 6)], "t")


def cluster(monkeypatch: pytest.MonkeyPatch, views: dict[int, View]) -> KafkaAdmin:
    """An admin of three brokers, each of which says what `views` has at its port."""
    addresses = ",".join(f"127.0.0.1:{port}" for port in views)
    brokers = [Broker(id=name, client_port=1) for name in "123"]
    monkeypatch.setattr(kafka, "AdminClient", lambda _settings: None)
    monkeypatch.setattr(kafka, "view", lambda address, _topic, _security: views[address[1]])
    monkeypatch.setattr(kafka, "ANSWERED_S", 0.05)
    return KafkaAdmin(Endpoints(system="kafka", client_bootstrap="x:1", direct_bootstrap=addresses, brokers=brokers))


def test_the_end_is_never_that_of_a_stale_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 1 lost the leadership and answers first; its end is 10, the leader's is 8."""
    views = {1: seen("1", 5), 2: seen("2", 6), 3: seen("2", 6)}
    ends = {(9001, 5): 10, (9002, 6): 8}
    monkeypatch.setattr(kafka, "end_offset", lambda leader, _t, _p, epoch, _s, **_: ends[leader[1], epoch])
    with pytest.raises(PlatformError, match="leaders 1 since epoch 5, 2 since epoch 6"):
        cluster(monkeypatch, views).end_positions("t")
    views[1] = seen("2", 6)
    assert cluster(monkeypatch, views).end_positions("t") == [EndPosition(partition=0, extents=((0, 8),))]


@pytest.mark.parametrize("error", [TimeoutError("timed out"), ConnectionResetError(104, "Connection reset by peer")])
def test_a_slow_leader_is_asked_for_its_batches_again(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the error of one that never answers says so."""
    admin = cluster(monkeypatch, dict.fromkeys((1, 2, 3), seen("1", 5)))
    answers = iter([error, iter(["a batch"])])

    def stored(*_: object) -> object:
        if isinstance(answer := next(answers, error), OSError):
            raise answer
        return answer

    monkeypatch.setattr(kafka, "stored_batches", stored)
    monkeypatch.setattr(kafka, "ANSWERED_S", TIMEOUT_S)
    assert admin.batches("t", 0, 9) == ["a batch"]
    monkeypatch.setattr(kafka, "ANSWERED_S", 0.05)
    with pytest.raises(PlatformError, match=rf"the stored batches of t/0: got .*{error.args[-1]}, again and again"):
        admin.batches("t", 0, 9)


@pytest.mark.parametrize(
    ("replicas", "changes"),
    [
        ({0: "123", 1: "231", 2: "312"}, []),
        ({0: "123", 1: "123", 2: "312"}, [(0, ["2", "1", "3"])]),
        ({0: "412", 1: "123", 2: "231"}, [(0, ["3", "4", "1"])]),
        ({0: "123"}, []),
    ],
)
def test_a_probe_topic_prefers_every_broker_once(
    replicas: dict[int, str], changes: list[tuple[int, list[str]]]
) -> None:
    assert first_choices({number: tuple(each) for number, each in replicas.items()}, {"1", "2", "3"}) == changes


def test_the_round_trip_brings_leadership_back_to_a_broker_that_was_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 3 came back and leads nothing, so that a message to every partition never goes through it."""
    copies = {0: ("1", "2", "3"), 1: ("2", "3", "1"), 2: ("3", "1", "2")}

    def led_by(*leaders: str) -> View:
        parts = {number: Partition(leader, copies[number], copies[number]) for number, leader in enumerate(leaders)}
        return View(seen("1", 1).brokers, 0, parts)

    views = dict.fromkeys((1, 2, 3), led_by("1", "2", "1"))
    admin = cluster(monkeypatch, views)
    admin._probe_exists = True
    elected: list[tuple[int, ...]] = []

    def elect(_topic: str, *partitions: int) -> None:
        elected.append(partitions)
        views.update(dict.fromkeys(views, led_by("1", "2", "3")))

    leaders: list[set[str]] = []
    monkeypatch.setattr(admin, "_elect", elect)
    monkeypatch.setattr(
        kafka, "exchange", lambda *_: leaders.append({each.leader for each in views[1].partitions.values()})
    )
    admin.round_trip(TIMEOUT_S)
    admin.round_trip(TIMEOUT_S)
    assert leaders == [{"1", "2", "3"}, {"1", "2", "3"}]
    assert elected == [(0, 1, 2)], "nothing is elected where nothing has to be"


@pytest.mark.parametrize(
    ("refusals", "leads", "through"),
    [
        ([KafkaError.ELECTION_NOT_NEEDED], ("1", "2", "1"), [0, 1, 2]),
        ([KafkaError.TOPIC_AUTHORIZATION_FAILED] * 9, ("1", "2", "1"), [0, 1, 2]),
        ([KafkaError.CLUSTER_AUTHORIZATION_FAILED] * 9, ("1", "2", "1"), [0, 1, 2]),
        ([], ("1", "2"), [0, 1]),
    ],
)
def test_a_refusal_does_not_end_the_round_trip(
    monkeypatch: pytest.MonkeyPatch, refusals: list[int], leads: tuple[str, ...], through: list[int]
) -> None:
    """One that passes is asked again; where the account may not elect, the leaders that are there must do."""
    copies = {0: ("1", "2", "3"), 1: ("2", "3", "1"), 2: ("3", "1", "2")}

    def led_by(*leaders: str) -> View:
        parts = {number: Partition(leader, copies[number], copies[number]) for number, leader in enumerate(leaders)}
        return View(seen("1", 1).brokers, 0, parts)

    views = dict.fromkeys((1, 2, 3), led_by(*leads))
    admin = cluster(monkeypatch, views)

    def elect(_topic: str, *_partitions: int) -> None:
        if refusals:
            raise kafka._Refused("electing", KafkaError(refusals.pop(0)), False)
        views.update(dict.fromkeys(views, led_by("1", "2", "3")))

    monkeypatch.setattr(admin, "_elect", elect)
    assert admin._spread_probe(time.monotonic() + TIMEOUT_S) == through
    forbidden = refusals != []
    assert ({each.leader for each in views[1].partitions.values()} == {"1", "2", "3"}) is (
        not forbidden and len(leads) == 3
    )


class Answering:
    """Kafka's admin client as far as topics go: one that is never answered, or one that is."""

    def __init__(self, answer: "Future[None]") -> None:
        self.answer = answer

    def create_topics(self, wanted: list[Any]) -> dict[str, "Future[None]"]:
        return {each.topic: self.answer for each in wanted}

    def delete_topics(self, topics: list[str]) -> dict[str, "Future[None]"]:
        return dict.fromkeys(topics, self.answer)


def said(code: int | None = None) -> "Future[None]":
    answer: Future[None] = Future()
    if code is None:
        answer.set_result(None)
    else:
        answer.set_exception(KafkaException(KafkaError(code)))
    return answer


def admin_of(monkeypatch: pytest.MonkeyPatch, *answers: "Future[None]", entries: int = 0) -> KafkaAdmin:
    """Each client that it makes gets the next of these answers. What is there and served is not asked here.

    `entries` is what the second partition of each topic holds.
    """
    clients = iter([Answering(each) for each in answers])
    monkeypatch.setattr(kafka, "AdminClient", lambda _settings: next(clients))
    monkeypatch.setattr(kafka, "CALL_TIMEOUT_S", 0.01)
    monkeypatch.setattr(kafka, "ANSWERED_S", 0.05)
    monkeypatch.setattr(kafka, "PAUSE_S", 0.0)
    monkeypatch.setattr(KafkaAdmin, "unhealthy", lambda _self, _topic: None)
    monkeypatch.setattr(KafkaAdmin, "_is_served", lambda _self, _topic: True)
    monkeypatch.setattr(KafkaAdmin, "_ends", lambda _self, _topic: {0: 0, 1: entries})
    address = "127.0.0.1:1"
    return KafkaAdmin(Endpoints(system="kafka", client_bootstrap=address, direct_bootstrap=address, brokers=[]))


@pytest.mark.parametrize("second", [said(), said(KafkaError.TOPIC_ALREADY_EXISTS)])
def test_a_client_that_is_not_answered_is_replaced(monkeypatch: pytest.MonkeyPatch, second: "Future[None]") -> None:
    """And what the first one asked for may have been done."""
    silent: Future[None] = Future()
    for first in (silent, said(KafkaError.NOT_CONTROLLER), said(KafkaError._TIMED_OUT)):
        admin: Any = admin_of(monkeypatch, first, second)
        admin.create_topic("t", partitions=1, deduplication=True)
        assert admin._client.answer is second
    gone = said(KafkaError.UNKNOWN_TOPIC_OR_PART)
    admin = admin_of(monkeypatch, silent, gone)
    admin.delete_topic("t")
    assert admin._client.answer is gone


def test_a_topic_that_holds_messages_is_not_of_our_making(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first client was not answered, whether or not anybody heard it. A probe's topic may hold some."""
    silent, there = Future[None](), said(KafkaError.TOPIC_ALREADY_EXISTS)
    with pytest.raises(PlatformError, match="creating t: got a topic that is there already, with 7 entries in part"):
        admin_of(monkeypatch, silent, there, entries=7).create_topic("t", partitions=2, deduplication=True)
    admin_of(monkeypatch, silent, there, entries=7)._create("probe", 2, may_exist=True)
    admin_of(monkeypatch, said(), entries=7).create_topic("t", partitions=2, deduplication=True)


def test_a_topic_that_was_there_before_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = said(KafkaError.TOPIC_ALREADY_EXISTS)
    with pytest.raises(PlatformError, match="creating t"):
        admin_of(monkeypatch, refused).create_topic("t", partitions=1, deduplication=True)


def test_silence_is_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    silent: Future[None] = Future()
    with pytest.raises(PlatformError, match=r"no answer within .* s, again and again"):
        admin_of(monkeypatch, *[silent] * 9).delete_topic("t")
