"""librdkafka through its C API, against its own mock cluster: what it takes, what it reports, and what that proves."""

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, byref, c_int, c_int16, c_size_t, c_void_p
from typing import Any, Final

import confluent_kafka as ck
import numpy as np
import pytest
from tests.runners.native_clients import LIBRARY

from dedup.errors import EnvironmentError_, PlatformError
from dedup_runners.clients import chunk_of, native, words_of
from dedup_runners.clients.native import Client, Reports
from dedup_runners.waiting import until

BOUND_S: Final = 20.0
TOPIC: Final = "t"
PRODUCE: Final = 0
NOT_PERSISTED: Final = 0
PARTITIONS: Final = 4  # of a topic of the mock cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    made = Client({"bootstrap.servers": "mock", "test.mock.num.brokers": "1", "log_level": "0"}, None)
    until(lambda: made.leaders(TOPIC, BOUND_S)[0], BOUND_S, "the mock cluster answers")
    yield made
    made.close()


@pytest.fixture
def mock(cluster: Client) -> c_void_p:
    """The cluster's handle, for librdkafka's functions about it."""
    handle = LIBRARY.rd_kafka_handle_mock_cluster
    handle.restype, handle.argtypes = c_void_p, [c_void_p]
    return c_void_p(handle(cluster._rk))


@pytest.fixture
def client(mock: c_void_p) -> Iterator[Client]:
    made = Client({"bootstrap.servers": bootstrap_of(mock), "linger.ms": "1", "message.timeout.ms": "3000"}, None)
    yield made
    made.close()


def bootstrap_of(mock: c_void_p) -> str:
    function = LIBRARY.rd_kafka_mock_cluster_bootstraps
    function.restype, function.argtypes = ctypes.c_char_p, [c_void_p]
    found: bytes = function(mock)
    return found.decode()


def nowhere(**more: str) -> Client:
    """A client that reaches no broker."""
    return Client({"bootstrap.servers": "", **more}, None)


def messages(first: int, last: int, size: int = 8, keys: list[bytes] | None = None) -> tuple[Any, Any]:
    """Messages of one stream, for partition 0, or where their keys go."""
    chunk = chunk_of(first, last, 1, size)
    partitions = np.full(last - first, 0 if keys is None else native.UNASSIGNED, np.int32)
    return native.messages_of(chunk.payloads, partitions, words_of(chunk.streams, chunk.values), keys)


def reported(client: Client, count: int) -> Reports:
    """So many reports."""
    found: list[Reports] = []

    def all_came() -> bool:
        if (more := client.poll(0.1)) is not None:
            found.append(more)
        return sum(len(each.words) for each in found) >= count

    until(all_came, BOUND_S, "reports")
    return Reports(*map(np.concatenate, zip(*found, strict=True)))


def test_numpy_sees_a_message_as_c_does() -> None:
    assert (ctypes.sizeof(native._Message), native.MESSAGE.itemsize) == (72, 72)
    assert native.MESSAGE.fields is not None
    assert {name: field[1] for name, field in native.MESSAGE.fields.items()} == {
        "err": 0,
        "rkt": 8,
        "partition": 16,
        "payload": 24,
        "len": 32,
        "key": 40,
        "key_len": 48,
        "offset": 56,
        "_private": 64,
    }


def test_what_is_sent_is_stored_in_its_order_and_reported_with_its_place(client: Client) -> None:
    made, _kept = messages(0, 1000)
    made["partition"] = np.arange(1000) % PARTITIONS
    assert client.produce("placed", made) == 1000
    told = reported(client, 1000)
    assert sorted(told.words.tolist()) == list(range(1, 1001)) and not told.errors.any()
    assert (told.partitions == (told.words.astype(np.int64) - 1) % PARTITIONS).all()
    assert (told.offsets == (told.words.astype(np.int64) - 1) // PARTITIONS).all()


@pytest.mark.parametrize("size", [8, 100, 1003])
def test_keys_and_payloads_of_any_size_arrive_as_they_are(client: Client, mock: c_void_p, size: int) -> None:
    topic = f"sized-{size}"
    keys = [b"k" * (1 + number % 5) for number in range(50)]
    made, _kept = messages(0, 50, size, keys)
    assert client.produce(topic, made) == 50
    assert not reported(client, 50).errors.any()
    consumer = ck.Consumer({"bootstrap.servers": bootstrap_of(mock), "group.id": topic})
    consumer.assign([ck.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[tuple[bytes | None, bytes | None]] = []

    def all_read() -> bool:
        found.extend((each.key(), each.value()) for each in consumer.consume(50, 0.1))
        return len(found) >= 50

    until(all_read, BOUND_S, "messages")
    consumer.close()
    assert sorted(found) == sorted(zip(keys, chunk_of(0, 50, 1, size).payloads.tolist(), strict=True))


def test_the_first_ones_are_taken_while_there_is_room_and_the_others_may_be_offered_again() -> None:
    client = nowhere(**{"queue.buffering.max.messages": "5"})
    made, _kept = messages(0, 20)
    assert client.produce(TOPIC, made) == 5
    assert made["err"].tolist() == [0] * 5 + [native.QUEUE_FULL] * 15
    assert client.produce(TOPIC, made[5:]) == 0
    client.purge()
    assert sorted(reported(client, 5).words.tolist()) == [1, 2, 3, 4, 5]
    assert client.produce(TOPIC, made[5:]) == 5, "room again, once the reports were polled"
    client.close()


def test_a_message_that_is_refused_is_settled_and_never_reported() -> None:
    client = nowhere(**{"message.max.bytes": "1000"})
    keys = [b"k" * 1000 if number == 1 else b"k" for number in range(3)]
    made, _kept = messages(0, 3, keys=keys)
    assert client.produce(TOPIC, made) == 3
    assert made["err"].tolist() == [0, ck.KafkaError.MSG_SIZE_TOO_LARGE, 0]
    client.purge()
    assert sorted(reported(client, 2).words.tolist()) == [1, 3]
    client.close()


@pytest.mark.parametrize(
    ("errors", "taken"),
    [([0, native.QUEUE_FULL, 0], 2), ([0, native.QUEUE_FULL, native.QUEUE_FULL], 2), ([0, None, None], 1)],
    ids=["a hole", "another number", "nothing said"],
)
def test_words_that_contradict_each_other_end_the_run(
    errors: list[int | None], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = nowhere()
    made, _kept = messages(0, 3)

    def says(*_: Any) -> int:
        for index, error in enumerate(errors):
            if error is not None:
                made["err"][index] = error
        return taken

    monkeypatch.setattr(native.slow, "produce_batch", says)
    with pytest.raises(PlatformError, match=f"{taken} of 3 messages"):
        client.produce(TOPIC, made)
    client.close()


def test_a_refusal_is_in_librdkafkas_own_words() -> None:
    with pytest.raises(native.Refusal, match=r'No such configuration property: "no\.such"'):
        nowhere(**{"no.such": "1"})
    with pytest.raises(native.Refusal, match="Failed to create producer: `acks` must be set to `all`"):
        nowhere(**{"enable.idempotence": "true", "acks": "1"})


def test_a_library_without_these_functions_is_named() -> None:
    with pytest.raises(EnvironmentError_, match=r"no function rd_kafka_conf_new; .*wheel"):
        native._Functions(ctypes.CDLL(None))


def test_a_closed_client_is_closed_once() -> None:
    client = nowhere()
    assert not client.closed
    client.close()
    client.close()
    assert client.closed


def status_of(client: Client) -> tuple[int, int]:
    """The error of the next report, and its message's status in librdkafka."""
    event: Any = None
    array = (c_void_p * 1)()

    def came() -> bool:
        nonlocal event
        event = native.slow.queue_poll(client._queue, 100)
        return bool(event) and native.quick.event_type(event) == native.REPORT

    until(came, BOUND_S, "a report")
    assert native.quick.event_message_array(event, ctypes.addressof(array), 1) == 1
    status = LIBRARY.rd_kafka_message_status
    status.restype, status.argtypes = c_int, [c_void_p]
    error = native._Message.from_address(array[0] or 0).err
    found: int = status(array[0])
    native.quick.event_destroy(event)
    return error, found


def test_a_message_that_librdkafka_calls_not_persisted_may_have_been_sent(client: Client, mock: c_void_p) -> None:
    """The premise of `OUTCOME_OF`: its status is no proof that a message never left the client.

    A leader says NOT_LEADER_FOR_PARTITION also of what it has stored, if it loses its place while it awaits replicas.
    """
    push = LIBRARY.rd_kafka_mock_push_request_errors_array
    push.restype, push.argtypes = None, [c_void_p, c_int16, c_size_t, POINTER(c_int)]
    always = (c_int * 1000)(*[ck.KafkaError.NOT_LEADER_FOR_PARTITION] * 1000)
    made, _kept = messages(0, 1)
    for function in ("start_request_tracking", "clear_requests"):
        getattr(LIBRARY, f"rd_kafka_mock_{function}")(mock)
    push(mock, PRODUCE, len(always), always)
    try:
        assert client.produce("refused", made) == 1
        assert status_of(client) == (ck.KafkaError._MSG_TIMED_OUT, NOT_PERSISTED)
        assert PRODUCE in requests_of(mock), "and yet it was sent"
    finally:
        LIBRARY.rd_kafka_mock_clear_request_errors.argtypes = [c_void_p, c_int16]
        LIBRARY.rd_kafka_mock_clear_request_errors(mock, PRODUCE)
        LIBRARY.rd_kafka_mock_stop_request_tracking(mock)


def test_a_message_that_no_broker_was_asked_to_take_has_the_same_status() -> None:
    client = nowhere()
    made, _kept = messages(0, 1)
    assert client.produce(TOPIC, made) == 1
    client.purge()
    assert status_of(client) == (ck.KafkaError._PURGE_QUEUE, NOT_PERSISTED)
    client.close()


def requests_of(mock: c_void_p) -> list[int]:
    """What the cluster was asked for since it was told to remember it: API keys."""
    get, key = LIBRARY.rd_kafka_mock_get_requests, LIBRARY.rd_kafka_mock_request_api_key
    get.restype, get.argtypes = POINTER(c_void_p), [c_void_p, POINTER(c_size_t)]
    key.restype, key.argtypes = c_int16, [c_void_p]
    count = c_size_t()
    found = get(mock, byref(count))
    keys = [key(found[index]) for index in range(count.value)]
    destroy = LIBRARY.rd_kafka_mock_request_destroy_array
    destroy.restype, destroy.argtypes = None, [POINTER(c_void_p), c_size_t]
    destroy(found, count)
    return keys


@pytest.fixture
def transactional(mock: c_void_p) -> Iterator[Client]:
    told = {"bootstrap.servers": bootstrap_of(mock), "transactional.id": "t", "linger.ms": "1"}
    made = Client(told, None)
    until(lambda: len(made.leaders("committed", BOUND_S)[0]) == PARTITIONS, BOUND_S, "the topic is there")
    assert made.init_transactions(BOUND_S) is None
    yield made
    made.close()


def test_a_transaction_is_committed_once_its_reports_were_polled(transactional: Client) -> None:
    assert transactional.begin_transaction() is None
    made, _kept = messages(0, 100)
    assert transactional.produce("committed", made) == 100
    assert not reported(transactional, 100).errors.any()
    assert transactional.commit_transaction(BOUND_S) is None


def test_a_transaction_whose_reports_were_not_polled_is_not_committed_yet_and_the_call_may_be_repeated(
    transactional: Client,
) -> None:
    assert transactional.begin_transaction() is None
    made, _kept = messages(0, 100)
    assert transactional.produce("committed", made) == 100
    error = transactional.commit_transaction(0.2)
    assert error is not None and (error.name, error.again, error.aborts) == ("_TIMED_OUT", True, False)
    assert not reported(transactional, 100).errors.any()
    assert transactional.commit_transaction(BOUND_S) is None


def test_a_transaction_that_was_not_begun_has_no_end(transactional: Client) -> None:
    error = transactional.commit_transaction(BOUND_S)
    assert error is not None and (error.name, error.again) == ("_STATE", False)
