"""A line to a Kafka broker: what is answered late is no answer to the next question."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.producer import InitProducerIdRequest

from dedup_runners.admins.wire import Line

ASKED = InitProducerIdRequest(version=0, transactional_id=None, transaction_timeout_ms=1000)


@contextmanager
def broker(late: threading.Event) -> Iterator[tuple[str, int]]:
    """It gives out producer ids from 0 on, the first one when the event comes."""

    def answer(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as asked:
            for number in range(2):
                if not (size := asked.read(4)):
                    return
                header = asked.read(struct.unpack(">i", size)[0])
                late.wait(10.0)
                said = header[4:8] + struct.pack(">ihqh", 0, 0, number, 0)
                connection.sendall(struct.pack(">i", len(said)) + said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: answer(listener.accept()[0]))
        thread.start()
        yield listener.getsockname()
        late.set()
        thread.join()


def test_a_line_whose_answer_did_not_come_is_not_asked_again() -> None:
    late = threading.Event()
    with broker(late) as address, Line(address, timeout_s=0.2) as line:
        with pytest.raises(TimeoutError):
            line.ask(ASKED)
        late.set()
        with pytest.raises(OSError, match="Bad file descriptor"):
            line.ask(ASKED)


def test_a_line_that_is_answered_is_asked_again() -> None:
    late = threading.Event()
    late.set()
    with broker(late) as address, Line(address, timeout_s=5.0) as line:
        assert [line.ask(ASKED).producer_id for _ in range(2)] == [0, 1]
