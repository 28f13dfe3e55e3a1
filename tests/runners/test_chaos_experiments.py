"""Faults as chaos experiments: what is rendered, and that a fault whose trigger never comes does not strike.

The latter runs the real `chaos run` against a system that is not there: Chaos Toolkit carries on after a failed
activity, so only a real run shows that nothing was injected.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaoslib.experiment import ensure_experiment_is_valid

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.records import vacuous
from dedup.faults.registry import Fault
from dedup_runners import chaos, lifelines
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.sessions import Scene
from dedup_runners.triggers import TriggerClient
from dedup_runners.waiting import until

BOUND_S = 60.0
DISCARD = 9
KILL_TCP = {"killTCP": {"duration": "10s"}}


def fault(kind: dict[str, Any]) -> Fault:
    return Fault.model_validate_json(json.dumps({"name": "cut", "at": {"message": 50}, **kind}))


def nowhere(folder: Path) -> Endpoints:
    """A Kafka that does not answer."""
    file = folder / "none"
    brokers = [Broker(id=str(number), client_port=DISCARD, status_file=file, hold_file=file) for number in (1, 2, 3)]
    where = f"127.0.0.1:{DISCARD}"
    return Endpoints(system="kafka", client_bootstrap=where, direct_bootstrap=where, brokers=brokers)


def names(document: dict[str, Any]) -> list[str]:
    return [activity["name"] for activity in document["method"]]


@pytest.mark.parametrize(
    ("kind", "deeds"),
    [
        (KILL_TCP, ["reset-connections", "clear"]),
        ({"kill": {"restartAfter": "20s"}}, ["kill-process", "await-restart"]),
        ({"dropTCP": {"duration": "10s"}}, ["drop-bytes", "clear"]),
        ({"kill": {"target": "Bookie", "restartAfter": "20s"}}, ["kill-process", "await-restart"]),
        ({"moveLeader": {}}, ["move-leader"]),
    ],
)
def test_a_fault_waits_strikes_heals_and_proves_it(kind: dict[str, Any], deeds: list[str], tmp_path: Path) -> None:
    document = render(fault(kind), folder=tmp_path, endpoints=nowhere(tmp_path), topic="t")
    assert names(document) == ["wait-for-message", *deeds, "healed"]
    assert document["runtime"] == {"rollbacks": {"strategy": "always"}}
    assert [activity["name"] for activity in document["rollbacks"]] == ["leave"]
    ensure_experiment_is_valid(json.loads(json.dumps(document)))


def test_latency_is_in_force_before_the_producer_is_told(tmp_path: Path) -> None:
    document = render(None, folder=tmp_path, endpoints=nowhere(tmp_path), topic="t", latency_s=0.02)
    assert names(document) == ["slow-down", "wait-for-producer", "clear", "healed"]
    assert document["method"][0]["provider"]["arguments"] == {"latency_ms": 20}
    ensure_experiment_is_valid(json.loads(json.dumps(document)))


def test_durations_reach_the_actions(tmp_path: Path) -> None:
    for latency_s, pause_s in ((0.0, 0.1), (0.02, 0.1), (0.1, 0.5)):
        document = render(fault(KILL_TCP), folder=tmp_path, endpoints=nowhere(tmp_path), topic="t", latency_s=latency_s)
        assert document["method"][1]["provider"]["arguments"] == {"duration_s": 10, "pause_s": pause_s}


@pytest.mark.parametrize(
    ("latency_s", "duration", "silence_s"),
    [(0.0, "10s", 1.0), (0.5, "10s", 2.5), (0.0, "1s", 0.5)],
)
def test_silence_is_longer_than_any_answer_takes(
    latency_s: float, duration: str, silence_s: float, tmp_path: Path
) -> None:
    dropped = fault({"dropTCP": {"direction": "ToClients", "duration": duration}})
    document = render(dropped, folder=tmp_path, endpoints=nowhere(tmp_path), topic="t", latency_s=latency_s)
    arguments = document["method"][1]["provider"]["arguments"]
    assert arguments == {"direction": "ToClients", "duration_s": dropped.lasts_s, "silence_s": silence_s}


def test_a_bookie_is_found_among_bookies(tmp_path: Path) -> None:
    bookie = Broker(id="127.0.0.1:3181", client_port=3181)
    endpoints = nowhere(tmp_path).model_copy(update={"bookies": [bookie]})
    for target, expected in (("Bookie", [bookie]), ("Leader", endpoints.brokers)):
        kill = fault({"kill": {"target": target, "restartAfter": "1s"}})
        document = render(kill, folder=tmp_path, endpoints=endpoints, topic="t")
        assert Scene.model_validate_json(json.dumps(document["configuration"])).struck().brokers == expected


def run(folder: Path, timeout_s: float, producer: Callable[[int], None]) -> tuple[list[str], dict[str, Any]]:
    """Run a kill-tcp through `chaos run`, as in a pod, whose conductor we are; its events and its journal."""
    shared = folder / "shared"
    shared.mkdir()
    null = subprocess.DEVNULL
    with lifelines.held(lifelines.CONDUCTOR, shared):
        process = subprocess.Popen(
            [sys.executable, "-m", "dedup_runners.chaos", str(folder), "cut"],
            env={**os.environ, lifelines.VARIABLE: str(shared)},
            stdout=null,
            stderr=null,
            stdin=null,
        )
        struck = strike(folder, timeout_s, producer, process)
    assert lifelines.exit_code(shared, "chaos-cut") == process.returncode
    return struck


def strike(
    folder: Path, timeout_s: float, producer: Callable[[int], None], process: "subprocess.Popen[bytes]"
) -> tuple[list[str], dict[str, Any]]:
    """Tell the waiting process what to do; the events of faults.jsonl and the journal when it has ended."""
    try:
        until(lambda: lifelines.begun(folder / "shared", "chaos-cut"), BOUND_S, "the chaos process to live")
        told: dict[str, Any] = {"endpoints": nowhere(folder), "topic": "t", "timeout_s": timeout_s}
        chaos.write(folder, chaos.render(fault(KILL_TCP), folder=folder, **told))
        producer(until(lambda: chaos.armed_port(folder, "cut") or 0, BOUND_S, "the fault to be armed"))
        process.wait(BOUND_S)
    finally:
        process.kill()
        process.wait(BOUND_S)
    events = [json.loads(line)["event"] for line in (folder / "faults.jsonl").read_text().splitlines()]
    return events, json.loads((folder / "chaos" / "cut" / "journal.json").read_text())


def finish_early(port: int) -> None:
    TriggerClient("127.0.0.1", port, "cut", 50, lambda *_: None).finish()


@pytest.mark.long
def test_a_producer_that_ends_before_the_message_is_not_struck(tmp_path: Path) -> None:
    events, journal = run(tmp_path, BOUND_S, finish_early)
    assert events == ["armed", "not_injected"]
    assert journal["status"] == "interrupted"
    assert [each["activity"]["name"] for each in journal["run"]] == ["wait-for-message"]
    assert [each["activity"]["name"] for each in journal["rollbacks"]] == ["leave"]
    (record,) = chaos.records(tmp_path, [fault(KILL_TCP)], messages=40)
    assert record.problems == ()
    assert "producer gone" in (vacuous(record) or "")


@pytest.mark.long
def test_a_trigger_that_never_comes_lets_nothing_happen(tmp_path: Path) -> None:
    events, journal = run(tmp_path, 0.2, lambda port: None)
    assert events == ["armed", "not_injected"]
    assert journal["status"] == "interrupted"
    (record,) = chaos.records(tmp_path, [fault(KILL_TCP)], messages=100)
    assert "wait-for-message interrupted" in record.problems
    assert vacuous(record) is not None


def test_a_fault_that_never_ran_has_no_journal_and_no_effect(tmp_path: Path) -> None:
    (record,) = chaos.records(tmp_path, [fault(KILL_TCP)], messages=100)
    assert "no chaos journal" in record.problems[0]
    assert vacuous(record) is not None
    assert not record.leaked


def test_a_last_line_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "faults.jsonl").write_text(
        '{"fault": "cut", "event": "triggered", "monotonic_ns": 1, "detail": {"actual": 51}}\n{"fault": "cut", "ev'
    )
    (record,) = chaos.records(tmp_path, [fault(KILL_TCP)], messages=100)
    assert record.triggered_message == 51


@pytest.mark.long
def test_an_injector_loads_no_library_of_tables() -> None:
    """Each fault is a process of its own; a library of tables costs it half of its start. A recorder has one."""
    told = "import sys; print({'numpy', 'pyarrow'} & set(sys.modules))"
    for module, found in (("dedup_runners.chaos.faults.kill", "set()"), ("dedup_runners.recording.recorders", "numpy")):
        said = subprocess.run(
            [sys.executable, "-c", f"import {module}; {told}"],
            capture_output=True, text=True, check=True, timeout=BOUND_S,
        )  # fmt: skip
        assert found in said.stdout
