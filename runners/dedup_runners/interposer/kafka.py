"""Kafka's protocol, as far as the interposer must read it.

Every request has a header with the API, its version, a correlation id and the client's id; a broker answers the
requests of a connection in their order, with their correlation ids. Addresses stand in the replies to Metadata,
FindCoordinator and DescribeCluster, and in those to Produce (from version 10) and Fetch (from 16) that name a new
leader (KIP-951). What a Produce request brings is read from the headers of its record batches.

What the interposer cannot read, and would have to, ends the connection with words: a newer version of one of these, an
API with addresses that kafka-python has no schema of, a log-in without frames.
"""

import struct
import uuid
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitResponse,
)
from kafka.protocol.sasl import SaslHandshakeRequest
from kafka.record.default_records import DefaultRecordBatch

from dedup_runners.admins.batches import identity
from dedup_runners.interposer import schemas
from dedup_runners.interposer.frames import LENGTH_BYTES, Splitter
from dedup_runners.interposer.protocols import Addresses, Direction, Frame, Part, Unreadable

BATCH_HEADER_BYTES: Final = DefaultRecordBatch.HEADER_STRUCT.size
MAGIC_AT, MAGIC = 16, 2
REQUEST_HEADER: Final = struct.Struct(">hhih")
CORRELATION_AT: Final = LENGTH_BYTES
REPLY_AT: Final = LENGTH_BYTES + 4


class Api(NamedTuple):
    """What the interposer reads of an API: from which version on its replies have addresses, and by which schema."""

    reply: Any
    addresses_from: int | None = None


APIS: Final[Mapping[int, Api]] = {
    ApiKey.Produce: Api(ProduceResponse, 10),
    ApiKey.Fetch: Api(FetchResponse, 16),
    ApiKey.Metadata: Api(MetadataResponse, 0),
    ApiKey.FindCoordinator: Api(FindCoordinatorResponse, 0),
    ApiKey.DescribeCluster: Api(DescribeClusterResponse, 0),
    ApiKey.InitProducerId: Api(InitProducerIdResponse),
    ApiKey.AddPartitionsToTxn: Api(AddPartitionsToTxnResponse),
    ApiKey.AddOffsetsToTxn: Api(AddOffsetsToTxnResponse),
    ApiKey.TxnOffsetCommit: Api(TxnOffsetCommitResponse),
    ApiKey.EndTxn: Api(EndTxnResponse),
}
NO_SCHEMA: Final = {78: "ShareFetch", 79: "ShareAcknowledge"}
"""APIs whose replies have addresses (KIP-932), and which kafka-python cannot decode."""
AUTHENTICATION: Final = frozenset({ApiKey.SaslHandshake, ApiKey.SaslAuthenticate})


CONCURRENT_TRANSACTIONS: Final = 51
"""The coordinator has not yet written all markers of the last transaction; nothing is wrong, and the client waits."""
BY_PART: Final = frozenset({ApiKey.AddPartitionsToTxn, ApiKey.TxnOffsetCommit, ApiKey.FindCoordinator})
"""APIs whose replies have an error for each partition or coordinator; the first that is one is the reply's."""


class Asked(NamedTuple):
    """A request that waits for its reply."""

    frame: Frame
    api_key: int
    version: int


class Kafka:
    """Kafka's protocol; call it for the dialogue of a new connection.

    It knows the names of topics whose ids it has seen: Produce names them by their ids from version 13 on.
    """

    def __init__(self) -> None:
        self.topics: dict[uuid.UUID, str] = {}

    def __call__(self) -> "KafkaDialogue":
        return KafkaDialogue(self.topics)


class KafkaDialogue:
    """One connection to a broker."""

    def __init__(self, topics: dict[uuid.UUID, str]) -> None:
        self._splitters = {direction: Splitter("Kafka") for direction in Direction}
        self._topics = topics
        self._asked: deque[Asked] = deque()

    def split(self, direction: Direction, data: bytes) -> Iterator[bytes]:
        return self._splitters[direction].feed(data)

    def request(self, raw: bytes, addresses: Addresses) -> Frame:
        try:
            key, version, correlation, size = REQUEST_HEADER.unpack_from(raw, LENGTH_BYTES)
        except struct.error:
            raise _not_kafka(f"a request of {len(raw) - LENGTH_BYTES} bytes, shorter than a header") from None
        at = LENGTH_BYTES + REQUEST_HEADER.size + max(size, 0)
        client = raw[at - size : at].decode(errors="replace") if size >= 0 else None
        self._refuse(key)
        frame = Frame(
            raw,
            Direction.REQUEST,
            name_of(key),
            key=correlation,
            version=version,
            correlation=correlation,
            client_id=client,
            secret=key in AUTHENTICATION,
        )
        if key == ApiKey.Produce:
            frame = self._produce(frame, version, at)
        elif key == ApiKey.SaslHandshake:
            _check_handshake(raw, version, at)
        if frame.answered:
            self._asked.append(Asked(frame, key, version))
        return frame

    def reply(self, raw: bytes, addresses: Addresses) -> Frame:
        correlation = int.from_bytes(raw[CORRELATION_AT:REPLY_AT], "big", signed=True)
        if not self._asked or (asked := self._asked.popleft()).frame.correlation != correlation:
            raise _not_kafka(f"a reply with correlation id {correlation}, which is not that of the oldest request")
        frame = asked.frame._replace(raw=raw, direction=Direction.REPLY)
        api = APIS.get(asked.api_key)
        if api is None:
            return frame
        has_addresses = api.addresses_from is not None and asked.version >= api.addresses_from
        if not has_addresses and asked.version > api.reply.max_version:
            return frame  # nothing in it must be rewritten
        flexible = api.reply.flexible_version_q(asked.version)
        message = schemas.read(api.reply, asked.version, raw, REPLY_AT, header_tags=flexible)
        frame = self._described(frame, asked.api_key, message)
        if has_addresses:
            new = schemas.spliced(raw, message, addresses.inside, flexible=flexible)
            if new is not raw:  # a Fetch without an address is not copied
                body = new[LENGTH_BYTES:]
                frame = frame._replace(raw=len(body).to_bytes(LENGTH_BYTES, "big") + body)
        return frame

    def _refuse(self, key: int) -> None:
        if name := NO_SCHEMA.get(key):
            raise Unreadable(
                where=f"Kafka's {name}",
                got="a request",
                rule="its replies name brokers, and the interposer has no schema to find them",
                todo="use consumer groups, not share groups, behind the interposer",
            )

    def _produce(self, frame: Frame, version: int, at: int) -> Frame:
        flexible = ProduceRequest.flexible_version_q(version)
        message = schemas.read(ProduceRequest, version, frame.raw, at, header_tags=flexible).fields
        parts = tuple(
            _batch(self._topic(topic), partition["Index"].value, partition["Records"].value or b"")
            for topic in message["TopicData"].value
            for partition in topic["PartitionData"].value
        )
        return frame._replace(parts=parts, answered=message["Acks"].value != 0)

    def _described(self, frame: Frame, key: int, message: schemas.Message) -> Frame:
        fields = message.fields
        if key == ApiKey.Metadata:
            for topic in fields["Topics"].value or ():
                if "TopicId" in topic.value and topic["Name"].value:
                    self._topics[topic["TopicId"].value] = topic["Name"].value
        if key == ApiKey.Produce:
            return frame._replace(parts=tuple(self._answered(frame.parts, fields)))
        if key == ApiKey.InitProducerId:
            part = Part(producer_id=fields["ProducerId"].value, epoch=fields["ProducerEpoch"].value)
            frame = frame._replace(parts=(part,))
        if key in BY_PART:
            return _with_error(frame, next(filter(None, _errors(fields)), 0))
        error = fields.value.get("ErrorCode")
        return frame if error is None else _with_error(frame, error.value)

    def _answered(self, parts: tuple[Part, ...], fields: schemas.Value) -> Iterator[Part]:
        """The parts of a Produce request, each with what the broker answered."""
        said: dict[tuple[str | None, int | None], schemas.Value] = {
            (self._topic(topic), partition["Index"].value): partition
            for topic in fields["Responses"].value
            for partition in topic["PartitionResponses"].value
        }
        for part in parts:
            answer = said.get((part.topic, part.partition))
            if answer is None:
                yield part
            else:
                yield part._replace(error_code=answer["ErrorCode"].value, offset=answer["BaseOffset"].value)

    def _topic(self, topic: schemas.Value) -> str:
        if "Name" in topic.value:
            return str(topic["Name"].value)
        id: uuid.UUID = topic["TopicId"].value
        return self._topics.get(id) or str(id)


def _with_error(frame: Frame, error: int) -> Frame:
    return frame._replace(error_code=error, put_off=error == CONCURRENT_TRANSACTIONS)


def _errors(value: schemas.Value) -> Iterator[int]:
    """All error codes in a part of a message."""
    within = value.value
    if isinstance(within, dict):
        for name, each in within.items():
            if name.endswith("ErrorCode"):
                yield each.value
            else:
                yield from _errors(each)
    elif isinstance(within, list | tuple):
        for each in within:
            yield from _errors(each)


def name_of(key: int) -> str:
    """Kafka's name of an API."""
    try:
        return str(ApiKey(key).name)
    except ValueError:
        return NO_SCHEMA.get(key, f"API {key}")


def _batch(topic: str, partition: int, records: bytes) -> Part:
    """What the header of a record batch says; batches of formats before Kafka 0.11 have no producer."""
    if len(records) < BATCH_HEADER_BYTES or records[MAGIC_AT] != MAGIC:
        return Part(topic, partition, batch=zlib.crc32(records))
    header = DefaultRecordBatch(records[:BATCH_HEADER_BYTES])
    return Part(
        topic,
        partition,
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        messages=header.last_offset_delta + 1,
        batch=identity(header),
    )


def _check_handshake(raw: bytes, version: int, at: int) -> None:
    """Unreadable for log-ins that do not pass through a proxy, or that are not made of frames."""
    mechanism = schemas.read(SaslHandshakeRequest, version, raw, at, header_tags=False).fields["Mechanism"].value
    if version == 0 or mechanism == "GSSAPI":
        raise Unreadable(
            where="logging in to Kafka",
            got=f"mechanism {mechanism}, SaslHandshake version {version}",
            rule="PLAIN, SCRAM and OAUTHBEARER pass through the interposer, from version 1 on; Kerberos names the host",
            todo="use another mechanism, or a client that is not older than Kafka 1.0",
        )


def _not_kafka(got: str) -> Unreadable:
    return Unreadable(
        where="a connection that should speak Kafka",
        got=got,
        rule="a broker answers the requests of a connection in their order",
        todo="see that the address is a plaintext listener of Kafka",
    )
