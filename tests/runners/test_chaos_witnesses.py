"""The witnesses a fault rests on: sockets as their holder sees them, keepers' files, a ping that the broker answers."""

import json
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import Mock

import pytest
from tests.runners import guarded_brokers

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.systems import Protocol
from dedup_runners import credentials
from dedup_runners.chaos import keepers, latency, pings, sessions, sockets
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.faults import kill
from dedup_runners.chaos.pings import Place
from dedup_runners.chaos.sites import processes

TIMEOUT_S = 5.0


@pytest.mark.parametrize("kernel_table", [True, False])
def test_a_connection_is_there_and_then_gone(
    kernel_table: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not kernel_table:
        monkeypatch.setattr(sockets, "TABLES", (tmp_path / "none",))
    mine = os.getpid()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server, _ = listener.accept()
            with server:
                (seen,) = sockets.held({port: mine}, mine)[port]
                assert seen.there == client.getsockname()
                assert sockets.held({port: mine}, None) == {port: {seen}}
                assert sockets.held({port: mine}, os.getppid()) == {port: set()}
            assert sockets.held({port: mine}, mine) == {port: set()}


@pytest.mark.parametrize("kernel_table", [True, False])
def test_a_client_that_closed_is_not_gone_before_the_broker_has_closed_too(
    kernel_table: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its last request lies unread in the broker's socket: that is CLOSE_WAIT, and no connection is established."""
    if not kernel_table:
        monkeypatch.setattr(sockets, "TABLES", (tmp_path / "none",))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        one = broker(tmp_path, pid=os.getpid(), create_time=1.5, starts=1, exits=[])
        brokers = [one.model_copy(update={"client_port": port})]
        site = processes.Processes(
            Endpoints(system="kafka", client_bootstrap="x", direct_bootstrap="x", brokers=brokers)
        )
        assert site.idle()
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert not kernel_table or not site.idle(), "the kernel has accepted it, its process not yet"
            server, _ = listener.accept()
            client.sendall(b"the last request")
        with server:
            assert site.connections() == {"1": set()}
            assert not site.idle()
            assert server.recv(100) == b"the last request"
            assert not site.idle(), "it may still be at work on it"
        assert site.idle()


@pytest.mark.skipif(sys.byteorder == "big", reason="the kernel writes addresses in the host's byte order")
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (" 0: 0100007F:1F90 0100007F:C350 01 0:0 0:0 0 0 0 77 1", (("127.0.0.1", 8080), ("127.0.0.1", 50000))),
        (
            " 0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:C350 01 0:0 0:0 0 0 0 77 1",
            (("127.0.0.1", 8080), ("127.0.0.1", 50000)),
        ),
        (
            " 0: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:C350 01 0:0 0:0 0 0 0 77 1",
            (("::1", 8080), ("::1", 50000)),
        ),
        (" 0: 0100007F:1F90 0100007F:C350 06 0:0 0:0 0 0 0 77 1", None),
    ],
)
def test_the_kernels_table_is_read(row: str, expected: object) -> None:
    assert sockets.parse(row) == (expected and (expected, "77"))


def test_the_proxys_process_is_found_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert sockets.listener_at(listener.getsockname()[1]) == os.getpid()


def broker(folder: Path, **status: Any) -> Broker:
    said = {"name": "b", "keeper_pid": 1, "keeper_create_time": 1.0, "restart_at_monotonic_ns": None, "error": None}
    (folder / "status").write_text(json.dumps({**said, **status}))
    return Broker(id="1", client_port=9, status_file=folder / "status", hold_file=folder / "hold")


def test_a_keeper_is_read_and_told(tmp_path: Path) -> None:
    end = keepers.Exit(pid=5, code=137, monotonic_ns=9)
    one = broker(tmp_path, pid=6, create_time=1.5, starts=2, exits=[end.model_dump()])
    found = keepers.status(one)
    assert (found.pid, found.starts, found.exit_of(5), found.exit_of(6)) == (6, 2, end, None)
    keepers.hold(one, 6, 123)
    assert json.loads((tmp_path / "hold").read_text()) == {"pid": 6, "until_monotonic_ns": 123, "codes": [137]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hold", "status"]


def test_a_pid_that_was_given_to_another_process_is_not_killed(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="only a living broker is killed"):
        processes._pid(broker(tmp_path, pid=os.getpid(), create_time=time.time() - 86_400, starts=1, exits=[]))


def test_no_fault_strikes_without_its_trigger(tmp_path: Path) -> None:
    endpoints = Endpoints(
        system="kafka",
        client_bootstrap="127.0.0.1:9",
        direct_bootstrap="127.0.0.1:9",
        brokers=[broker(tmp_path, pid=os.getpid(), create_time=0.0, starts=1, exits=[])],
    )
    configuration = render(None, folder=tmp_path, endpoints=endpoints, topic="t")["configuration"]
    try:
        with pytest.raises(PlatformError, match="got no trigger"):
            kill.kill_process("Leader", 1.0, configuration)
        assert not (tmp_path / "faults.jsonl").exists()
    finally:
        sessions.current(configuration).close()


@pytest.mark.parametrize("system", ["kafka", "pulsar"])
def test_a_ping_measures_until_the_broker_answers(system: Protocol) -> None:
    pause_s = 0.05
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                asked.append(connection.recv(size, socket.MSG_WAITALL))
                threading.Event().wait(pause_s)
                connection.sendall(b"\0")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        (found,) = pings.round_trips_ms(system, [Place("127.0.0.1", listener.getsockname()[1])])
        thread.join(TIMEOUT_S)
    assert pause_s * 1000 <= found < TIMEOUT_S * 1000
    assert b"dedup-ping" in asked[0]


def test_a_connection_is_of_our_user_while_a_process_of_ours_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            ends = client.getsockname(), listener.getsockname()
            server, _ = listener.accept()
            assert sockets.of_our_user(*ends)
            monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
            assert not sockets.of_our_user(*ends), "another user's"
            monkeypatch.undo()
        with server:
            assert not sockets.of_our_user(*ends), "nobody's: it was closed at once, and whose it was is not known"


def test_a_ping_over_tls_is_timed_from_the_question_on(tmp_path: Path) -> None:
    """What it takes to begin TLS is no round trip of the protocol: a latency must show in the answer alone."""
    context = guarded_brokers.serving(tmp_path)
    tls = credentials.tls(guarded_brokers.security(tmp_path, tls=True, sasl=None))
    slow_s = 0.3
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            threading.Event().wait(slow_s)
            with context.wrap_socket(connection, server_side=True) as line:
                line.recv(4)
                line.sendall(b"x")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        place = Place("127.0.0.1", listener.getsockname()[1], "localhost")
        assert pings.round_trip_ms("kafka", place, TIMEOUT_S, tls) < slow_s * 1000
        thread.join(TIMEOUT_S)


def test_the_shortest_ping_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([12.0, 3.0, 9.0])
    monkeypatch.setattr(pings, "round_trip_ms", lambda *_, **__: next(taken))
    assert pings.round_trips_ms("kafka", [Place("127.0.0.1", 9)], attempts=3) == [3.0]


@pytest.mark.parametrize(("taken", "found"), [([101.0, 13.0, OSError("cut"), 102.0], 101.0), ([101.0, 2.0, 3.0], 3.0)])
def test_at_the_end_one_early_ping_is_none_and_most_of_them_are_the_end_of_a_latency(
    taken: list[float | OSError], found: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pings, "round_trip_ms", Mock(side_effect=taken))
    assert pings.round_trips_ms("kafka", [Place("127.0.0.1", 9)], len(taken), median) == [found]


@pytest.mark.parametrize(
    ("rounds", "found"),
    [
        ([{"1": 82.0, "2": 101.0}, {}, {"1": 101.0, "2": 102.0}], {"1": 101.0, "2": 102.0}),
        ([{"1": 3.0}] * 99, {"1": 3.0}),
    ],
    ids=["another fault passes on what is held back", "it is gone"],
)
def test_at_the_end_early_pings_are_asked_again_and_stay_early_without_a_latency(
    rounds: list[dict[str, float]], found: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "measured", Mock(side_effect=rounds))
    assert latency.pings_at_the_end(Mock(), 100.0) == found


@pytest.mark.parametrize(("taken", "error"), [([OSError("reset")] * 2, OSError), ([3.0, TimeoutError()], TimeoutError)])
def test_a_broker_that_answers_no_ping_has_none(
    taken: list[float | OSError], error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pings, "round_trip_ms", Mock(side_effect=taken))
    with pytest.raises(error):
        pings.round_trips_ms("kafka", [Place("127.0.0.1", 9)], len(taken))


def test_a_ping_that_is_cut_off_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True)
        thread.start()
        with pytest.raises(OSError, match=r"closed|reset"):
            pings.round_trip_ms("kafka", Place("127.0.0.1", listener.getsockname()[1]))
        thread.join(TIMEOUT_S)
