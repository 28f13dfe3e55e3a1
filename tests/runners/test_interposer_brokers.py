"""Brokers that the interposer cannot reach: one that is down is the client's affair, one never reached a problem."""

import socket

from dedup_runners.interposer.kafka import Kafka
from dedup_runners.interposer.protocols import Address
from dedup_runners.interposer.proxies import Interposer

WAIT_S = 10.0


def connected(door: Address) -> bytes:
    """What a client that connects there reads until it is cut off."""
    with socket.create_connection(door, timeout=WAIT_S) as client:
        try:
            return client.recv(1)
        except ConnectionResetError:
            return b""


def test_a_broker_that_was_there_before_may_be_down() -> None:
    with Interposer(Kafka()) as interposer:
        with socket.create_server(("127.0.0.1", 0)) as broker:
            (door,) = interposer.bootstrap("s", [Address(*broker.getsockname())])
            with socket.create_connection(door, timeout=WAIT_S):
                broker.settimeout(WAIT_S)
                broker.accept()[0].close()
        assert connected(door) == b""
        assert interposer.problems == []


def test_one_that_was_never_reached_is_a_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        nobody = Address(*broker.getsockname())
    with Interposer(Kafka()) as interposer:
        (door,) = interposer.bootstrap("s", [nobody])
        assert connected(door) == b""
        assert "the interposer must reach every broker" in interposer.problems[0]
