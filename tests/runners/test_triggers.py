"""The trigger: pushed at message N while the producer goes on, answered when the fault took effect, never late."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dedup.wire.faults import FaultEvent, FaultLine
from dedup_runners.triggers import Alarms, ProducerGone, TriggerClient, TriggerServer
from dedup_runners.waiting import WaitedTooLong


@pytest.fixture
def server() -> Iterator[TriggerServer]:
    server = TriggerServer()
    yield server
    server.close()


def client_of(server: TriggerServer, on_event: Any = lambda *_: None) -> TriggerClient:
    return TriggerClient("127.0.0.1", server.port, "cut", 50_000, on_event)


def test_the_push_carries_requested_and_actual_counts(server: TriggerServer) -> None:
    client = client_of(server)
    server.wait_connected(5)
    client.push(50_003, 41_000)
    pushed = server.wait_message(5)
    assert (pushed.message, pushed.actual, pushed.acked) == (50_000, 50_003, 41_000)
    assert pushed.monotonic_ns > 0
    client.finish()
    assert server.wait_finished(5)


def test_announcements_reach_the_producer_while_it_works(server: TriggerServer) -> None:
    heard, arrived = [], threading.Event()

    def on_event(line: FaultLine) -> None:
        heard.append((line.event, line.fault, line.detail.said()))
        if line.event == FaultEvent.HEALED:
            arrived.set()

    client = client_of(server, on_event)
    server.wait_connected(5)
    server.announce(FaultEvent.INJECTED, "cut", connections=3)
    server.announce(FaultEvent.HEALED, "cut")
    assert arrived.wait(5)
    assert heard == [("injected", "cut", {"connections": 3}), ("healed", "cut", {})]
    client.finish()


def test_a_producer_that_finished_before_message_n_fires_nothing(server: TriggerServer) -> None:
    client_of(server).finish()
    with pytest.raises(ProducerGone, match="a producer that finished"):
        server.wait_message(5)


def test_a_producer_that_vanished_before_message_n_fires_nothing(server: TriggerServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as producer:
        producer.sendall(b'{"event": "hello", "fault": "cut", "message": 50000}\n{"event": "mess')
    with pytest.raises(ProducerGone, match="a producer that vanished"):
        server.wait_message(5)
    assert not server.wait_finished(5)


def test_a_push_before_the_end_still_counts(server: TriggerServer) -> None:
    client = client_of(server)
    client.push(50_000, 0)
    client.finish()
    assert server.wait_finished(5)
    assert server.wait_message(5).actual == 50_000


def test_waits_are_bounded(server: TriggerServer) -> None:
    with pytest.raises(WaitedTooLong, match="the producer connects"):
        server.wait_connected(0.01)
    with pytest.raises(WaitedTooLong, match="reaches its trigger message"):
        server.wait_message(0.01)


class Bell:
    """Which faults were rung for, in order."""

    def __init__(self) -> None:
        self.rung: list[str] = []
        self._new = threading.Condition()

    def __call__(self, fault: str) -> None:
        with self._new:
            self.rung.append(fault)
            self._new.notify()

    def wait_for(self, count: int) -> list[str]:
        with self._new:
            assert self._new.wait_for(lambda: len(self.rung) >= count, 10)
            return self.rung


def test_an_alarm_rings_after_the_first_send_or_after_anothers_effect() -> None:
    bell = Bell()
    alarms = Alarms({"late": (None, 0.05), "at-once": (None, 0.0), "next": ("late", 0.0)}, bell)
    alarms.come(None)
    assert bell.wait_for(2) == ["at-once", "late"]
    alarms.come("other")
    alarms.come("late")
    assert bell.wait_for(3) == ["at-once", "late", "next"]


def test_an_alarm_rings_once() -> None:
    """A fault that strikes again and again tells of each effect."""
    bell = Bell()
    alarms = Alarms({"next": ("cut", 0.0), "last": ("more", 0.0)}, bell)
    alarms.come("cut")
    alarms.come("cut")
    bell.wait_for(1)
    alarms.come("more")
    assert bell.wait_for(2) == ["next", "last"]


def test_no_alarm_rings_after_the_end() -> None:
    """Its twin rings when the same time is over."""
    ended, rung = Bell(), Bell()
    over, open_ = Alarms({"cut": (None, 0.02)}, ended), Alarms({"cut": (None, 0.02)}, rung)
    over.come(None)
    over.close()
    over.come(None)
    open_.come(None)
    assert rung.wait_for(1) == ["cut"]
    assert ended.rung == []


def test_a_fault_at_a_time_is_told_how_far_the_producer_is(server: TriggerServer) -> None:
    client = TriggerClient("127.0.0.1", server.port, "cut", None, lambda *_: None)
    client.push(123, 45)
    pushed = server.wait_message(5)
    assert (pushed.message, pushed.actual, pushed.acked) == (None, 123, 45)
    client.finish()
