"""Pulsar's round trip: a token is written to a topic through the clients' path, and read back."""

import os
import time
import uuid
from contextlib import suppress

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup_runners import credentials


def exchange(endpoints: Endpoints, topic: str, deadline: float) -> None:
    """Write one token and read it back, over a client of its own."""
    import pulsar

    left_s = max(1, int(deadline - time.monotonic()))
    client = pulsar.Client(
        endpoints.client_bootstrap,
        operation_timeout_seconds=left_s,
        connection_timeout_ms=5000,
        listener_name=endpoints.listener_name,
        **credentials.pulsar_client(endpoints.for_clients),
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )
    token = uuid.uuid4().bytes
    try:
        producer = client.create_producer(topic, send_timeout_millis=left_s * 1000, batching_enabled=False)
        position = producer.send(token)
        reader = client.create_reader(topic, position, start_message_id_inclusive=True)
        message = reader.read_next(timeout_millis=max(1, int((deadline - time.monotonic()) * 1000)))
        got = message.data()
    except Exception as error:  # pulsar's exceptions share no base class but Exception
        raise _probe_failed(f"{type(error).__name__}: {error}") from None
    finally:
        with suppress(Exception):  # a client that cannot say goodbye in time proves nothing about the round trip
            client.close()
    if got != token:
        raise _probe_failed("another message at the position that was acknowledged")


def _probe_failed(got: str) -> PlatformError:
    return PlatformError(
        where="round trip on a probe topic",
        got=got,
        rule="a message written through the clients' path is read back",
        todo="look into the brokers' logs and whether the proxy still holds a toxic",
    )
