"""A paused broker: what is believed of it, and that it goes on whoever has died. Brokers here are `sleep`."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints
from dedup.faults.records import vacuous
from dedup.faults.registry import Fault
from dedup.wire.faults import FaultEvent
from dedup_runners import chaos
from dedup_runners.chaos import sessions
from dedup_runners.chaos.containers import MARK, Seen
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.faults import pause
from dedup_runners.chaos.sessions import Session
from dedup_runners.chaos.sites.pods import Pods
from dedup_runners.chaos.sites.processes import Processes
from dedup_runners.chaos.sites.protocol import Victim
from dedup_runners.waiting import until

BOUND_S = 15.0
FAULT = Fault.model_validate_json(json.dumps({"name": "gc", "at": {"message": 50}, "pause": {"duration": "1s"}}))


@pytest.fixture
def broker() -> Iterator[psutil.Process]:
    process = subprocess.Popen(["sleep", "60"])
    yield psutil.Process(process.pid)
    process.kill()
    process.wait(BOUND_S)


def endpoints(folder: Path, broker: psutil.Process) -> Endpoints:
    own = {"name": "b", "keeper_pid": 1, "keeper_create_time": 1.0, "restart_at_monotonic_ns": None, "error": None}
    status = {"pid": broker.pid, "create_time": broker.create_time(), "starts": 1, "exits": []}
    (folder / "status").write_text(json.dumps({**own, **status}))
    brokers = [Broker(id="1", client_port=9, status_file=folder / "status", hold_file=folder / "hold")]
    return Endpoints(system="kafka", client_bootstrap="127.0.0.1:9", direct_bootstrap="127.0.0.1:9", brokers=brokers)


class Leader:
    """The part of an Admin that tells who leads."""

    def leader(self, topic: str, partition: int) -> str:
        return "1"

    def close(self) -> None:
        return


class Stage:
    """The session of a pause that was triggered; broker 1 leads."""

    def __init__(self, folder: Path, broker: psutil.Process) -> None:
        self.folder, self.broker = folder, broker
        document = render(FAULT, folder=folder, endpoints=endpoints(folder, broker), topic="t")
        self.configuration: dict[str, Any] = document["configuration"]
        self.session: Session = sessions.current(self.configuration)
        self.session.admin, self.session.triggered = Leader(), True  # type: ignore[assignment]

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in (self.folder / "faults.jsonl").read_text().splitlines()]

    def reason(self) -> str | None:
        """Why the fault proves nothing, but for what the client and the producer would have to say."""
        (record,) = chaos.records(self.folder, [FAULT], messages=100)
        return vacuous(record.model_copy(update={"client_witness": {"retry": 1}, "unacknowledged": 1, "remaining": 1}))


@pytest.fixture
def stage(tmp_path: Path, broker: psutil.Process) -> Stage:
    return Stage(tmp_path, broker)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "AT_END_S", 0.05)


@pytest.mark.long
@pytest.mark.usefixtures("quick")
def test_a_stopped_broker_shows_it_from_the_beginning_to_the_end_and_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits to wake it leaves by itself: the answer that names it may be lost."""
    run, answers = stage.session.site.run, list[str]()

    def told(victim: Victim, script: str, **asked: bool) -> str:
        answers.append(run(victim, script, **asked))
        return answers[-1]

    monkeypatch.setattr(stage.session.site, "run", told)
    assert pause.pause_process("Leader", 0.5, stage.configuration) == {"broker": "1", "at_end": "T"}
    assert stage.broker.status() == psutil.STATUS_STOPPED
    waker = int(answers[0])
    assert psutil.pid_exists(waker)
    assert pause.wake_process(stage.configuration)["paused_s"] >= 0.5
    until(lambda: stage.broker.status() == psutil.STATUS_SLEEPING, BOUND_S, "the broker goes on")
    assert pause.wake_process(stage.configuration) == {}
    until(lambda: not psutil.pid_exists(waker), BOUND_S, "nobody waits for the broker any more")
    assert stage.events() == ["injecting", "injected", "effect", "cleared"]
    assert stage.reason() is None


@pytest.mark.usefixtures("quick")
def test_a_broker_that_somebody_wakes_too_early_proves_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    note = stage.session.note

    def noted(event: FaultEvent, **detail: Any) -> None:
        note(event, **detail)
        if event == "injected":
            os.kill(stage.broker.pid, signal.SIGCONT)

    monkeypatch.setattr(stage.session, "note", noted)
    assert pause.pause_process("Leader", 0.2, stage.configuration)["at_end"] == "S"
    pause.wake_process(stage.configuration)
    assert "the topic's leader was not stopped any more, but nobody" in (stage.reason() or "")


@pytest.mark.usefixtures("quick")
def test_a_signal_that_does_not_stop_is_no_effect(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first process of a container ignores it."""
    monkeypatch.setattr(pause, "STOP", pause.STOP.replace("kill -STOP", "true"))
    pause.pause_process("Leader", 0.1, stage.configuration)
    pause.wake_process(stage.configuration)
    assert "the state of broker 1 is S, and not T" in (stage.reason() or "")


class LocalShell:
    """A shell as one that is kept open in a container, but on this machine."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._sh = subprocess.Popen(["sh"], stdin=pipe, stdout=pipe, text=True, start_new_session=True)

    def send(self, line: str) -> None:
        assert self._sh.stdin is not None
        self._sh.stdin.write(f"{line}; echo '{MARK}'\n")
        self._sh.stdin.flush()

    def answer(self, timeout_s: float) -> str:
        assert self._sh.stdout is not None
        return "".join(iter(self._sh.stdout.readline, f"{MARK}\n"))

    def ended(self, timeout_s: float) -> bool:
        return self._sh.poll() is not None

    def close(self) -> None:
        self._sh.communicate(timeout=BOUND_S)


class LocalContainers:
    """One container that consents, whose processes are this machine's."""

    def look(self, pod: BrokerPod) -> Seen:
        return Seen(uid="u", consents=True, life="one", running=True, restarts=0, ends={})

    def shell(self, pod: BrokerPod) -> LocalShell:
        return LocalShell()


@pytest.mark.usefixtures("quick")
def test_a_broker_in_a_pod_is_stopped_by_the_same_line_in_its_container(stage: Stage) -> None:
    (stage.folder / "pid").write_text(f"{stage.broker.pid}\n")
    where = BrokerPod(namespace="here", name="k-1", container="broker", hold=str(stage.folder))
    (one,) = endpoints(stage.folder, stage.broker).brokers
    brokers = [one.model_copy(update={"pod": where, "status_file": None})]
    told = endpoints(stage.folder, stage.broker).model_copy(update={"brokers": brokers})
    with Pods(told, LocalContainers(), {"127.0.0.1"}) as site:
        site.warm_up()
        stage.session.site = site
        assert pause.pause_process("Leader", 0.2, stage.configuration) == {"broker": "1", "at_end": "T"}
        pause.wake_process(stage.configuration)
    until(lambda: stage.broker.status() == psutil.STATUS_SLEEPING, BOUND_S, "the broker goes on")
    assert stage.reason() is None


@pytest.mark.usefixtures("quick")
def test_a_broker_that_is_gone_does_not_go_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    pause.pause_process("Leader", 0.1, stage.configuration)
    stage.broker.kill()
    stage.broker.wait(BOUND_S)
    pause.wake_process(stage.configuration)
    assert stage.events()[-1] == "gone"


@pytest.mark.long
def test_a_broker_goes_on_though_nobody_is_left_to_wake_it(tmp_path: Path, broker: psutil.Process) -> None:
    site, victim = Processes(endpoints(tmp_path, broker)), Victim("1", str(broker.pid), {"pid": broker.pid})
    began = time.monotonic()
    waker = int(site.run(victim, pause.STOP.format(seconds=2)))
    assert os.getsid(waker) not in (os.getsid(0), waker), "it is of a session that is not ours"
    until(lambda: broker.status() == psutil.STATUS_STOPPED, BOUND_S, "the broker is stopped")
    until(lambda: broker.status() == psutil.STATUS_SLEEPING, BOUND_S, "the broker goes on")
    assert time.monotonic() - began > 0.5


@pytest.mark.long
def test_who_waits_to_wake_a_broker_leaves_when_it_is_gone(tmp_path: Path, broker: psutil.Process) -> None:
    site, victim = Processes(endpoints(tmp_path, broker)), Victim("1", str(broker.pid), {"pid": broker.pid})
    waker = int(site.run(victim, pause.STOP.format(seconds=600)))
    broker.kill()
    broker.wait(BOUND_S)
    until(lambda: not psutil.pid_exists(waker), BOUND_S, "nobody waits for the broker any more")


def test_a_line_of_shell_that_does_not_end_is_told(
    tmp_path: Path, broker: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, victim = Processes(endpoints(tmp_path, broker)), Victim("1", str(broker.pid), {"pid": broker.pid})
    assert site.run(victim, 'echo "$process"') == f"{broker.pid}\n"
    monkeypatch.setattr("dedup_runners.chaos.sites.processes.ANSWER_S", 0.05)
    with pytest.raises(PlatformError, match="a line of shell beside it ends within"):
        site.run(victim, "sleep 1")
