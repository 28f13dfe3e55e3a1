"""Frames of Kafka's as kafka-python writes them, and a dialogue that has heard the request to each reply."""

from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.producer import ProduceRequest

from dedup_runners.interposer import kafka
from dedup_runners.interposer.protocols import Address, Frame

CORRELATION = 7
CLIENT = "a client"


class Doors:
    """The addresses of a session: each broker has a longer name and a port that is one more, and back."""

    over_tls = False

    def inside(self, broker: Address) -> Address:
        return Address(f"inside.{broker.host}", broker.port + 1)

    def outside(self, door: Address) -> Address:
        return Address(door.host.removeprefix("inside."), door.port - 1)


class Back(Doors):
    """The other way round."""

    def inside(self, broker: Address) -> Address:
        return super().outside(broker)


def framed(message: Any, correlation: int = CORRELATION) -> bytes:
    """A message of kafka-python's as it is on the wire."""
    if message.is_request():
        message.with_header(correlation_id=correlation, client_id=CLIENT)
    else:
        message.with_header(correlation_id=correlation)
    return bytes(message.encode(header=True, framed=True))


def replied(reply: bytes, api: str, version: int, doors: Doors | None = None) -> Frame:
    """A reply to a request of that API and version, described."""
    dialogue = kafka.Kafka()()
    dialogue.request(header(api, version), Doors())
    return dialogue.reply(reply, doors or Doors())


def header(api: str, version: int, correlation: int = CORRELATION) -> bytes:
    """A request; of an API whose requests the interposer does not read, no more than its header."""
    if api == "Produce":
        return framed(ProduceRequest(version=version, acks=-1, timeout_ms=1000, topic_data=[]), correlation)
    key = ApiKey[api]
    name = CLIENT.encode()
    body = kafka.REQUEST_HEADER.pack(key, version, correlation, len(name)) + name
    return len(body).to_bytes(4, "big") + body


def produce(version: int, *batches: bytes, topic: str = "t", acks: int = -1, correlation: int = CORRELATION) -> bytes:
    """A Produce request with a batch for each partition from 0 on."""
    asked = ProduceRequest.TopicProduceData
    parts = [asked.PartitionProduceData(index=index, records=each) for index, each in enumerate(batches)]
    topics = [asked(name=topic, partition_data=parts)]
    return framed(ProduceRequest(version=version, acks=acks, timeout_ms=1000, topic_data=topics), correlation)
