"""What the interposer reads of Kafka's frames, and that it changes nothing in them but addresses."""

from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import EndTxnResponse, InitProducerIdResponse, ProduceResponse
from kafka.protocol.sasl import SaslHandshakeRequest
from tests.runners.kafka_frames import CLIENT, CORRELATION, Back, Doors, framed, header, produce, replied
from tests.runners.test_admins_kafka import batch

from dedup_runners.interposer import schemas
from dedup_runners.interposer.kafka import REPLY_AT, Kafka
from dedup_runners.interposer.protocols import Address, Direction, Unreadable
from dedup_runners.interposer.speeches import SPEECHES

BROKERS = [(1, "kafka-1.example.com", 9092), (2, "h" * 200, 19092)]
UNKNOWN_TAG = b"\x01\x63\x03abc"
"""One tagged field, number 99, of three bytes: no schema has it."""


def metadata(version: int) -> MetadataResponse:
    one = MetadataResponse.MetadataResponseBroker
    brokers = [one(version=version, node_id=node, host=host, port=port, rack=None) for node, host, port in BROKERS]
    topic = MetadataResponse.MetadataResponseTopic(version=version, error_code=0, name="t", partitions=[])
    return MetadataResponse(version=version, brokers=brokers, topics=[topic])


def cluster(version: int) -> DescribeClusterResponse:
    one = DescribeClusterResponse.DescribeClusterBroker
    brokers = [one(version=version, broker_id=node, host=host, port=port, rack=None) for node, host, port in BROKERS]
    return DescribeClusterResponse(version=version, cluster_id="c", brokers=brokers)


def coordinator(version: int, error: int = 0) -> FindCoordinatorResponse:
    """Of version 4 or later: two of them; the error is the second one's."""
    node, host, port = BROKERS[0]
    if version < 4:
        return FindCoordinatorResponse(version=version, error_code=error, node_id=node, host=host, port=port)
    one, told = FindCoordinatorResponse.Coordinator, (("a", 0), ("b", error))
    found = [one(version=version, key=key, node_id=node, host=host, port=port, error_code=code) for key, code in told]
    return FindCoordinatorResponse(version=version, coordinators=found)


def moved(kind: Any, version: int, **more: Any) -> Any:
    """A reply that names new leaders in a tagged field (KIP-951)."""
    one = kind.NodeEndpoint
    nodes = [one(version=version, node_id=node, host=host, port=port, rack=None) for node, host, port in BROKERS]
    return kind(version=version, responses=[], node_endpoints=nodes, **more)


REPLIES = [
    *(("Metadata", version, metadata(version)) for version in range(14)),
    *(("DescribeCluster", version, cluster(version)) for version in range(3)),
    *(("FindCoordinator", version, coordinator(version)) for version in range(7)),
    *(("Produce", version, moved(ProduceResponse, version)) for version in range(10, 14)),
    *(("Fetch", version, moved(FetchResponse, version)) for version in range(16, 19)),
]


def hosts(message: Any) -> list[tuple[str, int]]:
    """Every address in a message, as kafka-python decodes it."""
    held = [*getattr(message, "brokers", []), *getattr(message, "coordinators", [])]
    held += [*(getattr(message, "node_endpoints", None) or [])] if "node_endpoints" in message.fields else []
    held += [message] if getattr(message, "host", "") and not held else []
    return [(each.host, each.port) for each in held]


@pytest.mark.parametrize(("api", "version", "message"), REPLIES, ids=lambda each: str(each)[:16])
def test_addresses_are_exchanged_and_exchanged_back_every_byte_is_as_it_was(
    api: str, version: int, message: Any
) -> None:
    raw = framed(message)
    frame = replied(raw, api, version)
    decoded = type(message).decode(frame.raw, version=version, header=True, framed=True)
    assert hosts(decoded) == [(f"inside.{host}", port + 1) for host, port in hosts(message)] != []
    assert replied(frame.raw, api, version, Back()).raw == raw
    assert (frame.direction, frame.api, frame.version, frame.correlation) == ("reply", api, version, CORRELATION)


FLEXIBLE = [(api, version, reply) for api, version, reply in REPLIES if type(reply).flexible_version_q(version)]


@pytest.mark.parametrize(("api", "version", "message"), FLEXIBLE, ids=lambda each: str(each)[:16])
def test_tagged_fields_that_nobody_knows_stay(api: str, version: int, message: Any) -> None:
    raw = framed(message)
    known = schemas.read(type(message), version, raw, REPLY_AT, header_tags=True)
    tagged, added = bytearray(raw), 0
    for end in sorted({each.end for each in structs(known.fields)}, reverse=True):
        inside = any(field.start < end <= field.end for field in known.tagged)
        if tagged[end - 1] == 0 and not inside:  # no tagged field here yet
            tagged[end - 1 : end] = UNKNOWN_TAG
            added += 1
    tagged[:4] = (len(tagged) - 4).to_bytes(4, "big")
    frame = replied(bytes(tagged), api, version)
    assert (added > 0) == (api not in ("Produce", "Fetch"))  # theirs are inside, or at the end: the next test
    assert frame.raw.count(UNKNOWN_TAG) == added
    assert frame.raw.count(b"inside.") == len(hosts(message))
    assert replied(frame.raw, api, version, Back()).raw == bytes(tagged)


def structs(value: schemas.Value) -> list[schemas.Value]:
    """Every struct of a message, inner ones too."""
    if isinstance(value.value, list):
        return [found for each in value.value for found in structs(each)]
    if isinstance(value.value, dict):
        return [value, *(found for each in value.value.values() for found in structs(each))]
    return []


def test_an_unknown_tag_inside_a_tagged_field_counts_in_its_length() -> None:
    raw = framed(moved(ProduceResponse, 13))
    known = schemas.read(ProduceResponse, 13, raw, REPLY_AT, header_tags=True)
    (around,) = known.tagged
    first = known.fields["NodeEndpoints"].value[0]
    inner = raw[around.start : first.end - 1] + UNKNOWN_TAG + raw[first.end : around.end]
    body = raw[4 : around.length_at] + schemas.varint(len(inner)) + inner + raw[around.end :]
    tagged = len(body).to_bytes(4, "big") + body
    frame = replied(tagged, "Produce", 13)
    assert frame.raw.count(b"inside.") == len(BROKERS)
    assert replied(frame.raw, "Produce", 13, Back()).raw == tagged


@pytest.mark.parametrize("size", [127, 128, 20_000, 3_000_000])
def test_a_tagged_field_may_be_long_and_its_length_cannot_be_endless(size: int) -> None:
    raw = framed(metadata(13))
    tag = b"\x01\x63" + schemas.varint(size) + b"x" * size
    body = raw[4:-1] + tag
    frame = replied(len(body).to_bytes(4, "big") + body, "Metadata", 13)
    assert frame.raw.endswith(tag)
    endless = raw[4:-1] + b"\x01\x63" + b"\xff" * 6
    with pytest.raises(Unreadable, match="a length of more than five bytes"):
        replied(len(endless).to_bytes(4, "big") + endless, "Metadata", 13)


def test_a_reply_without_a_new_leader_is_passed_as_it_is() -> None:
    for version in range(14):
        raw = framed(ProduceResponse(version=version, responses=[]))
        assert replied(raw, "Produce", version).raw == raw


def test_a_coordinator_that_is_not_there_has_no_address() -> None:
    raw = framed(FindCoordinatorResponse(version=2, error_code=15, node_id=-1, host="", port=-1))
    frame = replied(raw, "FindCoordinator", 2)
    assert (frame.raw, frame.error_code) == (raw, 15)


def test_a_version_that_cannot_be_read_is_an_error_where_it_may_hold_an_address() -> None:
    with pytest.raises(Unreadable, match=r"MetadataResponse: got version 99; .* up to version 13"):
        replied(framed(metadata(13)), "Metadata", 99)
    reply = framed(metadata(0))
    assert replied(reply, "EndTxn", 99).raw == reply


def test_an_api_with_addresses_and_without_a_schema_is_refused() -> None:
    asked = header("Metadata", 0)
    with pytest.raises(Unreadable, match="ShareFetch"):
        Kafka()().request(asked[:4] + (78).to_bytes(2, "big") + asked[6:], Doors())
    assert Kafka()().request(asked[:4] + (999).to_bytes(2, "big") + asked[6:], Doors()).api == "API 999"


def test_a_reply_that_ends_too_early_is_refused_and_bytes_behind_it_stay() -> None:
    raw = framed(metadata(12))
    with pytest.raises(Unreadable, match="MetadataResponse, version 12: got the bytes end"):
        replied(raw[:-1], "Metadata", 12)
    more = (len(raw) + 1 - 4).to_bytes(4, "big") + raw[4:] + b"!"
    assert replied(replied(more, "Metadata", 12).raw, "Metadata", 12, Back()).raw == more


@pytest.mark.parametrize("version", range(3, 13))
def test_a_produce_request_says_what_its_batches_are(version: int) -> None:
    frame = Kafka()().request(produce(version, batch(0, 3, 41, epoch=2), batch(0, 1, -1)), Doors())
    first, second = frame.parts
    assert (first.topic, first.partition, first.producer_id, first.epoch, first.messages) == ("t", 0, 41, 2, 3)
    assert (second.partition, second.producer_id, second.messages) == (1, -1, 1)
    assert (frame.direction, frame.api, frame.client_id, frame.answered) == (Direction.REQUEST, "Produce", CLIENT, True)


def test_a_batch_is_the_same_when_it_is_sent_again_and_another_is_not() -> None:
    first, again, other = (
        Kafka()().request(produce(9, batch(base, 1, 41, epoch)), Doors()).parts[0].batch
        for base, epoch in ((0, 0), (5, 0), (0, 1))
    )
    assert first == again != other


def test_a_reply_says_what_became_of_each_batch() -> None:
    dialogue = Kafka()()
    dialogue.request(produce(9, batch(0, 1, 41), batch(0, 1, 41)), Doors())
    one = ProduceResponse.TopicProduceResponse
    answers = [
        one.PartitionProduceResponse(version=9, index=index, error_code=error, base_offset=offset)
        for index, error, offset in ((1, 45, -1), (0, 0, 17))
    ]
    reply = ProduceResponse(version=9, responses=[one(version=9, name="t", partition_responses=answers)])
    parts = dialogue.reply(framed(reply), Doors()).parts
    assert [(part.partition, part.error_code, part.offset) for part in parts] == [(0, 0, 17), (1, 45, -1)]


def test_a_new_producer_is_named_in_the_reply() -> None:
    reply = framed(InitProducerIdResponse(version=4, error_code=0, producer_id=41, producer_epoch=3))
    (part,) = replied(reply, "InitProducerId", 4).parts
    assert (part.producer_id, part.epoch) == (41, 3)


def test_no_reply_comes_to_acks_0_so_the_next_one_is_that_of_the_next_request() -> None:
    dialogue = Kafka()()
    assert not dialogue.request(produce(9, batch(0, 1, -1), acks=0, correlation=1), Doors()).answered
    dialogue.request(header("Metadata", 9, correlation=2), Doors())
    assert dialogue.reply(framed(metadata(9), correlation=2), Doors()).api == "Metadata"


def test_a_reply_to_nobodys_request_is_refused() -> None:
    dialogue = Kafka()()
    with pytest.raises(Unreadable, match="correlation id 7"):
        dialogue.reply(framed(metadata(9)), Doors())
    dialogue.request(header("Metadata", 9, correlation=2), Doors())
    with pytest.raises(Unreadable, match="in their order"):
        dialogue.reply(framed(metadata(9), correlation=3), Doors())


def test_a_log_in_passes_if_it_is_made_of_frames_and_names_no_host() -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"):
        frame = Kafka()().request(framed(SaslHandshakeRequest(version=1, mechanism=mechanism)), Doors())
        assert frame.secret and frame.parts == ()
    for version, mechanism in ((1, "GSSAPI"), (0, "PLAIN")):
        with pytest.raises(Unreadable, match=f"mechanism {mechanism}"):
            Kafka()().request(framed(SaslHandshakeRequest(version=version, mechanism=mechanism)), Doors())


@pytest.mark.parametrize(("text", "address"), [("h:1", Address("h", 1)), ("[::1]:9092", Address("::1", 9092))])
def test_a_broker_is_given_and_printed_as_host_and_port_and_of_ipv6_in_brackets(text: str, address: Address) -> None:
    """Kafka's replies have no brackets, and nobody can connect to a name that has them."""
    assert (SPEECHES["kafka"].brokers(text), str(address)) == ([address], text)


@pytest.mark.parametrize(("error", "put_off"), [(51, True), (0, False), (47, False), (15, False)])
def test_a_client_is_put_off_while_its_last_transaction_ends_and_by_no_other_error(error: int, put_off: bool) -> None:
    frame = replied(framed(EndTxnResponse(version=1, error_code=error)), "EndTxn", 1)
    assert (frame.error_code, frame.put_off) == (error, put_off)


@pytest.mark.parametrize("error", [0, 15])
@pytest.mark.parametrize("version", [2, 3, 4, 6])
def test_a_coordinator_that_cannot_be_told_is_an_error_whichever_version_says_so(version: int, error: int) -> None:
    found = replied(framed(coordinator(version, error)), "FindCoordinator", version)
    assert (found.error_code or 0, found.put_off) == (error, False)
