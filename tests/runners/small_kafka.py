"""A Kafka of one broker in a thread of a test: it tells who it is, and numbers what it is sent. It keeps nothing.

librdkafka's mock cluster does not answer Kafka's Java client, which asks for newer versions than that knows.
"""

import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from tests.runners.kafka_frames import framed

VERSIONS: Final = {ApiKey.Produce: (3, 8), ApiKey.Metadata: (1, 8), ApiKey.ApiVersions: (0, 2)}
UNSUPPORTED_VERSION: Final = 35
RECORDS_AT: Final = 57
"""Where a batch's number of records stands."""


class Broker:
    """What it answers. `ends` are the next positions of partitions."""

    def __init__(self, port: int, partitions: int) -> None:
        self._port, self._partitions = port, partitions
        self._ends = Counter[int]()

    def answer(self, request: bytes) -> bytes | None:
        """The framed reply to a request, if there is to be one."""
        key, version, correlation = struct.unpack_from(">hhi", request)
        if key == ApiKey.Metadata:
            return framed(self._metadata(request, version), correlation)
        if key == ApiKey.Produce:
            asked = ProduceRequest.decode(request, version=version, header=True)
            reply = self._stored(asked, version)
            return framed(reply, correlation) if asked.acks else None
        return framed(_versions(version), correlation)

    def _metadata(self, request: bytes, version: int) -> MetadataResponse:
        asked = MetadataRequest.decode(request, version=version, header=True)
        broker = MetadataResponse.MetadataResponseBroker(version=version, node_id=1, host="127.0.0.1", port=self._port)
        one = MetadataResponse.MetadataResponseTopic
        part = one.MetadataResponsePartition
        nodes: dict[str, Any] = {"leader_id": 1, "replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}
        parts = [part(version=version, error_code=0, partition_index=each, **nodes) for each in range(self._partitions)]
        topics = [one(version=version, error_code=0, name=each.name, partitions=parts) for each in asked.topics or ()]
        return MetadataResponse(version=version, brokers=[broker], controller_id=1, topics=topics)

    def _stored(self, asked: ProduceRequest, version: int) -> ProduceResponse:
        of_topic = ProduceResponse.TopicProduceResponse
        topics = []
        for topic in asked.topic_data:
            parts = []
            for each in topic.partition_data:
                parts.append(
                    of_topic.PartitionProduceResponse(
                        version=version, index=each.index, error_code=0, base_offset=self._ends[each.index]
                    )
                )
                self._ends[each.index] += struct.unpack_from(">i", bytes(each.records), RECORDS_AT)[0]
            topics.append(of_topic(version=version, name=topic.name, partition_responses=parts))
        return ProduceResponse(version=version, responses=topics)


def _versions(asked: int) -> ApiVersionsResponse:
    """What it speaks. Who asks in a version that it does not know is answered in the first one, and asks again."""
    known = asked <= VERSIONS[ApiKey.ApiVersions][1]
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in VERSIONS.items()
    ]
    return ApiVersionsResponse(
        version=asked if known else 0, error_code=0 if known else UNSUPPORTED_VERSION, api_keys=keys
    )


@contextmanager
def running(partitions: int) -> Iterator[str]:
    """Its address, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        broker = Broker(port, partitions)

        def accept() -> None:
            with suppress(OSError):  # the listener is closed at the end
                while True:
                    line, _ = listener.accept()
                    threading.Thread(target=_serve, args=(line, broker), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _serve(line: socket.socket, broker: Broker) -> None:
    with line, line.makefile("rb") as incoming:
        while head := incoming.read(4):
            if reply := broker.answer(incoming.read(*struct.unpack(">i", head))):
                line.sendall(reply)
