"""Messages with keys: librdkafka chooses the partition that is expected of it; against its own mock cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import numpy as np
import pytest
from tests.runners.productions import Make, config_of, report_of, rows
from tests.runners.pulsar_stand_in import stand_in
from tests.runners.witnesses import Seen

from dedup.errors import SpecificationError
from dedup.workloads.keys import Keys, key_of
from dedup.workloads.partitioners import PARTITIONERS, crc32, murmur2, partitioner_of
from dedup_runners.clients import Outcome, check_keys, chunk_of, confluent_kafka, make_producer, pulsar, under_way
from dedup_runners.configs import ProducerConfig
from dedup_runners.producer import produce

PARTITIONS: Final = 4  # of every topic of the mock cluster
KEYS: Final = 7
MESSAGES: Final = 2000
HOMES: Final = Keys(count=KEYS).homes("confluent-kafka", {}, PARTITIONS)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    cluster = ck.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    yield ",".join(f"{broker.host}:{broker.port}" for broker in cluster.list_topics(timeout=10).brokers.values())
    cluster.close()


@pytest.fixture
def config(bootstrap: str, tmp_path: Path) -> Make:
    def make(**changes: Any) -> ProducerConfig:
        given = {
            "messages": MESSAGES, "streams": KEYS, "partitions": PARTITIONS, "homes": HOMES, "keys": True,
            "in_flight": 100,
        }  # fmt: skip
        return config_of(bootstrap, tmp_path, **given | changes)

    return make


@pytest.mark.parametrize("setting", ["", *PARTITIONERS["confluent-kafka"]])
def test_librdkafka_puts_keys_where_it_is_expected_to(setting: str) -> None:
    """With each of its functions, and with its default."""
    properties = {"partitioner": setting} if setting else {}
    settings = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0, **properties}
    producer, found = ck.Producer(settings), dict[bytes, int]()
    keys = [*(b"x" * length for length in range(1, 40)), *map(key_of, range(50))]

    def note(_: object, told: ck.Message) -> None:
        found[told.key() or b""] = told.partition() or 0

    for key in keys:
        producer.produce("t", b"", key=key, on_delivery=note)
    assert producer.flush(20) == 0
    producer.close()
    function = partitioner_of("confluent-kafka", properties)
    assert function is not None
    assert found == {key: function(key, PARTITIONS) for key in keys}
    assert len({*found.values()}) == PARTITIONS


def test_every_message_has_its_key_and_lies_in_the_partition_of_it(
    config: Make, bootstrap: str, tmp_path: Path
) -> None:
    produce(config())
    report = report_of(tmp_path)
    assert report.complete and (report.sent, report.ok) == (MESSAGES, MESSAGES), report.problems
    found = rows(tmp_path, "outcomes", 1)
    assert {(row["stream"], row["partition"]) for row in found} == {*enumerate(HOMES)}
    assert {row["outcome"] for row in found} == {Outcome.OK}
    assert keys_of(bootstrap, tmp_path.name) == {(key_of(s), home) for s, home in enumerate(HOMES)}


def test_another_function_than_the_expected_one_puts_them_elsewhere(config: Make, tmp_path: Path) -> None:
    """The twin: the history says where they went, and not where they should have gone."""
    produce(config(properties={"partitioner": "murmur2_random"}))
    went = {(row["stream"], row["partition"]) for row in rows(tmp_path, "outcomes", 1)}
    assert went == {(stream, murmur2(key_of(stream), PARTITIONS)) for stream in range(KEYS)}
    assert went != {(stream, crc32(key_of(stream), PARTITIONS)) for stream in range(KEYS)} == {*enumerate(HOMES)}


def test_what_the_client_refuses_is_at_the_partition_of_its_key(config: Make) -> None:
    """It has no topic; the bound of a message's size is what it refuses."""
    rows: list[Any] = []
    made = config(payload_bytes=2000, properties={"message.max.bytes": "1000"})
    producer = confluent_kafka.Producer(made, rows.append, Seen())
    assert producer.send(chunk_of(0, KEYS, KEYS, 2000)) == KEYS
    told = [each for row in rows for each in zip(row.streams.tolist(), row.partitions.tolist(), strict=True)]
    assert told == [*enumerate(HOMES)]
    producer.close()


@pytest.mark.parametrize("partition", [None, *range(PARTITIONS)])
def test_in_flight_to_a_partition_is_what_its_keys_have_in_flight(partition: int | None) -> None:
    ended = np.array([3, 2, 1, 0, 2, 3, 0])
    sent = 3 * KEYS
    left = {home: sum(3 - int(ended[key]) for key, own in enumerate(HOMES) if own == home) for home in {*HOMES}}
    wanted = sum(left.values()) if partition is None else left.get(partition, 0)
    assert under_way(sent, ended, partition, HOMES) == wanted


def test_keys_of_a_pulsar_topic_without_partitions_are_acknowledged_in_partition_0(
    config: Make, tmp_path: Path
) -> None:
    """Its client says -1 there; the reader reads partition 0, and each acknowledgement would contradict it."""
    with stand_in(deduplication=False) as broker:
        url = f"pulsar://{broker.address}"
        produce(
            config(
                endpoints={"system": "pulsar", "client_bootstrap": url, "direct_bootstrap": url, "brokers": []},
                library="pulsar-client", messages=30, streams=3, partitions=1, homes=[0, 0, 0],
                properties={"batching_enabled": "false"},
            )
        )  # fmt: skip
    found = rows(tmp_path, "outcomes", 1)
    assert len(found) == 30
    assert {(row["stream"], row["partition"], row["outcome"]) for row in found} == {
        (s, 0, Outcome.OK) for s in range(3)
    }


@pytest.mark.parametrize(("library", "version"), [("pulsar-client", "pulsar-client 3.14.0"), ("confluent-kafka", "")])
def test_another_version_of_pulsars_client_sends_no_keys(
    config: Make, library: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash may be another Boost's. Those of librdkafka have names, and any version of it may send."""
    check_keys(library)
    for client in (confluent_kafka, pulsar):
        monkeypatch.setattr(client.Producer, "library_version", version)
    if library == "confluent-kafka":
        check_keys(library)
        return
    made = config(library=library, properties={}, endpoints=pulsar.NOWHERE.model_dump(mode="json"))
    with pytest.raises(SpecificationError) as refused:
        make_producer(made, lambda _: None, Seen())
    assert str(refused.value) == (
        "workload.keys: got pulsar-client 3.14.0; a message would count as misplaced wherever another version puts its "
        "key, and only pulsar-client 3.13.0 was tried; install that one, or take keys out"
    )
    make_producer(made.model_copy(update={"keys": False}), lambda _: None, Seen()).close()


def keys_of(bootstrap: str, topic: str) -> set[tuple[bytes, int]]:
    """The keys of a topic, each with its partition."""
    reader = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "auto.offset.reset": "earliest"})
    reader.assign([ck.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found, read = set[tuple[bytes, int]](), 0
    while read < MESSAGES:
        messages = reader.consume(MESSAGES - read, 5.0)
        assert messages
        read += len(messages)
        found |= {(message.key() or b"", message.partition() or 0) for message in messages}
    reader.close()
    return found
