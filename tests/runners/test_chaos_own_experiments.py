"""A user's own experiment as a fault: what shows its effect, what ends it, and what it needs to be armed at all.

The experiments here are Chaos Toolkit's own format with its own providers: the target is a file that is there or not.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import MagicMock

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.records import vacuous
from dedup.faults.registry import Fault
from dedup.wire.faults import FaultLine
from dedup.wire.manifests import FaultRecord
from dedup_runners import chaos
from dedup_runners.chaos import own_experiments, sessions
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.faults import chaos as deeds
from dedup_runners.chaos.own_experiments import INTERRUPTED, Look, Orders
from dedup_runners.chaos.sessions import Session
from dedup_runners.waiting import until

pytestmark = pytest.mark.long

BOUND_S: Final = 60.0
BROKERS: Final = [Broker(id=str(n), client_port=9000 + n, proxy=f"p{n}", proxy_port=9100 + n) for n in (1, 2, 3)]
SYSTEM: Final = Endpoints(system="kafka", client_bootstrap="h:1", direct_bootstrap="h:1", brokers=BROKERS)


def call(name: str, program: str, *arguments: str) -> dict[str, Any]:
    provider = {"type": "process", "path": program, "arguments": list(arguments)}
    return {"type": "action", "name": name, "provider": provider}


def experiment(flag: Path, *method: dict[str, Any], hypothesis: bool = True) -> dict[str, Any]:
    """The steady state is that the file is there; the rollback makes it."""
    provider = {"type": "python", "module": "os.path", "func": "exists", "arguments": {"path": str(flag)}}
    probe = {"type": "probe", "name": "the-file-is-there", "tolerance": True, "provider": provider}
    steady = {"steady-state-hypothesis": {"title": "there", "probes": [probe]}} if hypothesis else {}
    told = {"title": "own", "description": "own", "method": list(method)}
    return told | steady | {"rollbacks": [call("make-the-file", "touch", str(flag))]}


def removing(flag: Path, *, for_s: float = 1.0) -> dict[str, Any]:
    return call("remove-the-file", "rm", str(flag)) | {"pauses": {"after": for_s}}


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    path = tmp_path / "flag"
    path.touch()
    return path


@contextmanager
def armed(
    folder: Path,
    own: dict[str, Any],
    deadline: str = "30s",
    system: Endpoints = SYSTEM,
    leads: Callable[..., str | None] = lambda *_: "1",
) -> Iterator[tuple[Session, dict[str, Any], Fault]]:
    """The fault, armed; at the end nothing of it runs."""
    settings = {"experiment": "own.json", "deadline": deadline, "document": json.dumps(own)}
    fault = Fault.model_validate_json(json.dumps({"name": "own", "at": {"message": 1}, "chaos": settings}))
    document = render(fault, folder=folder, endpoints=system, topic="t")
    chaos.write(folder, document)
    configuration = document["configuration"]
    session = sessions.current(configuration)
    session.admin = MagicMock()
    session.admin.leader.side_effect = leads
    try:
        deeds.INJECTION.prepare(session)
        session.triggered = True
        yield session, configuration, fault
    finally:
        deeds.dismiss(configuration)
        session.close()


def played(
    folder: Path, own: dict[str, Any], deadline: str = "30s", system: Endpoints = SYSTEM
) -> tuple[FaultRecord, list[dict[str, Any]]]:
    """What became of it, and what it wrote down; activities that failed raise."""
    with armed(folder, own, deadline, system) as (_, configuration, fault):
        deeds.run_experiment(fault.lasts_s, configuration)
        deeds.await_steady_state(configuration)
    (record,) = chaos.records(folder, [fault], messages=10)
    return record, said(folder)


def said(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FaultLine.FILE).read_text().splitlines()]


def test_it_is_told_the_leader_though_a_busy_broker_does_not_say_at_once_who_leads(flag: Path, tmp_path: Path) -> None:
    busy: Iterator[None] = iter([None] * 10)
    port = {"type": "env", "key": "DEDUP_LEADER_PORT", "env_var_type": "int"}
    own = experiment(flag) | {"configuration": {"port": port}}
    with armed(tmp_path, own, leads=lambda *_: next(busy, "1")) as (session, _, _):
        assert session.recall(deeds.Deed).looks[0].met


def test_its_own_hypothesis_shows_the_effect_and_the_heal(flag: Path, tmp_path: Path) -> None:
    record, lines = played(tmp_path, experiment(flag, removing(flag)))
    assert [line["event"] for line in lines] == ["injecting", "injected", "effect", "cleared"]
    assert record.target_witness["probe"] == "the-file-is-there"
    assert (record.target_witness["output"], record.target_witness["touched"]) == ("False", ["1"])
    assert record.injector["experiment"] == "own.json"
    assert "no client noticed" in (vacuous(record) or ""), "all that is missing is the client"
    assert flag.exists(), "its rollbacks were played"


def test_an_experiment_without_a_hypothesis_proves_nothing(flag: Path, tmp_path: Path) -> None:
    record, _ = played(tmp_path, experiment(flag, removing(flag, for_s=0), hypothesis=False))
    assert "it has no steady-state-hypothesis" in (vacuous(record) or "")
    assert flag.exists()


def test_an_effect_may_show_when_the_experiment_has_ended(flag: Path, tmp_path: Path) -> None:
    """A pod that was told to end is ready for some seconds yet; here a program waits for the experiment's journal."""
    journal = tmp_path / "chaos" / "own" / "own-journal.json"
    script = f"(until [ -s {journal} ]; do sleep 0.1; done; rm {flag}; sleep 1; touch {flag}) >/dev/null 2>&1 &"
    record, lines = played(tmp_path, experiment(flag, call("remove-it-later", "sh", "-c", script)))
    assert [line["event"] for line in lines] == ["injecting", "injected", "effect", "cleared"]
    assert "no client noticed" in (vacuous(record) or ""), "all that is missing is the client"


def test_a_hypothesis_that_holds_all_the_while_proves_nothing(
    flag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deeds, "SHOWS_S", 0.5)
    record, _ = played(tmp_path, experiment(flag, call("do-nothing", "true")))
    assert "its hypothesis held all the while" in (vacuous(record) or "")


def test_one_whose_hypothesis_does_not_hold_before_is_not_armed(flag: Path, tmp_path: Path) -> None:
    flag.unlink()
    with pytest.raises(PlatformError, match="the-file-is-there out of its tolerance: False; its steady-state"):
        played(tmp_path, experiment(flag, removing(flag)))
    assert not (tmp_path / FaultLine.FILE).exists()


def test_one_without_its_text_is_not_armed() -> None:
    """Somebody has handed over an experiment that was not read from a file."""
    session = MagicMock()
    session.recall.return_value = deeds.Deed()
    session.scene.document, session.scene.fault = None, "own"
    session.scene.settings = {"experiment": "own.json"}
    with pytest.raises(PlatformError, match=r"fault own: got own\.json, without its text"):
        deeds.INJECTION.prepare(session)


def test_probes_that_cannot_be_asked_say_why(flag: Path, tmp_path: Path) -> None:
    own = experiment(flag, removing(flag))
    own["configuration"] = {"missing": {"type": "env", "key": "DEDUP_NO_SUCH_VARIABLE"}}
    with pytest.raises(PlatformError, match=r"cannot be asked .*DEDUP_NO_SUCH_VARIABLE"):
        played(tmp_path, own)


def test_one_that_does_not_end_is_interrupted_at_its_deadline_and_rolled_back(flag: Path, tmp_path: Path) -> None:
    began_s = time.monotonic()
    record, lines = played(tmp_path, experiment(flag, removing(flag, for_s=600)), deadline="20s")
    assert time.monotonic() - began_s < BOUND_S
    (effect,) = [line["detail"] for line in lines if line["event"] == "effect"]
    assert effect["interrupted"] is True
    assert record.target_witness["probe"] == "the-file-is-there"
    assert flag.exists()


def test_an_action_that_fails_is_an_error(flag: Path, tmp_path: Path) -> None:
    provider = {"type": "python", "module": "os", "func": "rmdir", "arguments": {"path": str(tmp_path / "none")}}
    with pytest.raises(PlatformError, match="remove-nothing failed; each action and rollback of it succeeds"):
        played(tmp_path, experiment(flag, {"type": "action", "name": "remove-nothing", "provider": provider}))


def test_what_chaos_toolkit_refuses_to_run_is_an_error(flag: Path, tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="got no journal: Chaos Toolkit did not run it"):
        played(tmp_path, experiment(flag, call("no-such-program", str(tmp_path / "none"))))


def test_an_experiment_whose_injector_is_gone_is_rolled_back(flag: Path, tmp_path: Path) -> None:
    with supervising(tmp_path, experiment(flag, removing(flag, for_s=600))) as supervisor:
        until(lambda: not flag.exists(), BOUND_S, "the effect")
        assert supervisor.stdin is not None
        supervisor.stdin.close()  # what is seen of an injector that was killed
        assert supervisor.wait(BOUND_S) == INTERRUPTED
    assert flag.exists()
    (line,) = said(tmp_path)
    assert (line["fault"], line["event"], line["detail"]["reason"]) == ("own", "healed_by_watchdog", "injector gone")


def test_one_that_ends_by_itself_is_left_alone(flag: Path, tmp_path: Path) -> None:
    with supervising(tmp_path, experiment(flag, removing(flag, for_s=0))) as supervisor:
        assert supervisor.wait(BOUND_S) == 0
    assert flag.exists()
    assert not (tmp_path / FaultLine.FILE).exists()
    assert not (tmp_path / "rollbacks.json").exists()


def supervising(folder: Path, own: dict[str, Any]) -> "subprocess.Popen[bytes]":
    path = folder / "own.json"
    path.write_text(json.dumps(own))
    until_s = time.monotonic() + 600
    orders = Orders(str(path), str(folder / "journal.json"), until_s, "own", str(folder / FaultLine.FILE))
    told = [sys.executable, "-m", own_experiments.__name__, "supervise", json.dumps(orders._asdict())]
    return subprocess.Popen(told, stdin=subprocess.PIPE, start_new_session=True)


def die() -> None:
    """What the machine does to a process for which it has no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_one_whose_process_is_killed_is_rolled_back(flag: Path, tmp_path: Path) -> None:
    killed = {"type": "python", "module": __name__, "func": "die"}
    own = experiment(flag, removing(flag, for_s=0), {"type": "action", "name": "die", "provider": killed})
    with supervising(tmp_path, own) as supervisor:
        assert supervisor.wait(BOUND_S) == 0
    assert not (tmp_path / "journal.json").exists(), "so the fault says that it was not run to its end"
    assert (tmp_path / "rollbacks.json").exists()
    assert flag.exists()


def stay(begun: str) -> None:
    """An action that nothing but SIGKILL ends; it makes the file `begun` when that is so."""
    while True:
        try:
            Path(begun).touch()
            signal.pause()
        except BaseException:
            continue


@pytest.mark.parametrize(
    ("looks", "words"),
    [
        ([(11.0, 11.1)], ""),
        ([(9.9, 10.2), (11.0, 11.1)], ""),
        ([(9.0, 9.1), (11.0, 11.1)], "before the method began"),
        ([(9.9, 10.2)], "once, while the method began, and not after"),
    ],
)
def test_only_what_deviates_after_the_method_began_is_its_doing(looks: list[tuple[float, float]], words: str) -> None:
    """The method began at 10 s."""
    seen = [Look(int(began_s), began_s, ended_s, False, "p", "no") for began_s, ended_s in looks]
    deed = deeds.Deed(ended_ns=20, looks=[Look(0, 0, 0, True), *seen])
    for start in ("1970-01-01T00:00:10", "1970-01-01T00:00:10+00:00"):
        assert words in deeds._not_its_doing(deed, 1, {"run": [{"start": start}]})
    assert "is not known" in deeds._not_its_doing(deed, 1, {})


@pytest.mark.parametrize("undone", [True, False], ids=["undone", "not undone"])
def test_one_that_does_not_let_itself_be_interrupted_is_killed_and_its_rollbacks_are_played(
    undone: bool, flag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rollbacks that fail, too, have healed nothing."""
    begun = tmp_path / "begun"
    stubborn = {"type": "python", "module": __name__, "func": "stay", "arguments": {"begun": str(begun)}}
    own = experiment(flag, removing(flag, for_s=0), {"type": "action", "name": "stay", "provider": stubborn})
    if not undone:
        nothing = {"type": "python", "module": "os", "func": "rmdir", "arguments": {"path": str(tmp_path / "none")}}
        own["rollbacks"].append({"type": "action", "name": "remove-nothing", "provider": nothing})
    (tmp_path / "own.json").write_text(json.dumps(own))
    monkeypatch.setattr(own_experiments, "INTERRUPT_S", 1.0)
    reading, writing = os.pipe()
    with open(reading) as injector, ThreadPoolExecutor(1) as beside:
        monkeypatch.setattr(sys, "stdin", injector)
        until_s = time.monotonic() + 600
        orders = Orders(
            str(tmp_path / "own.json"), str(tmp_path / "journal.json"), until_s, "own", str(tmp_path / FaultLine.FILE)
        )
        code = beside.submit(own_experiments.supervise, orders)
        try:
            until(begun.exists, BOUND_S, "the action that stays")  # one that has not begun is ended in order
        finally:
            os.close(writing)
        assert code.result(BOUND_S) == INTERRUPTED
    assert (tmp_path / "rollbacks.json").exists()
    assert flag.exists()
    (line,) = said(tmp_path)
    assert line["event"] == ("healed_by_watchdog" if undone else "watchdog_failed")
    assert ("not all rollbacks succeeded" in line["detail"].get("error", "")) != undone


@pytest.mark.parametrize(
    ("played", "whole"),
    [(["succeeded", "succeeded"], True), (["succeeded", None], False), (["succeeded"], False), ([], False)],
    ids=["all", "one cut short", "one not begun", "none"],
)
def test_rollbacks_that_were_cut_short_are_played_again(played: list[str | None], whole: bool, tmp_path: Path) -> None:
    document = experiment(tmp_path / "flag") | {"rollbacks": [call(name, "true") for name in ("one", "two")]}
    orders = Orders(str(tmp_path / "own.json"), str(tmp_path / "journal.json"), 0.0, "own", "")
    (tmp_path / "own.json").write_text(json.dumps(document))
    (tmp_path / "journal.json").write_text(json.dumps({"rollbacks": [{"status": each} for each in played]}))
    assert own_experiments._rolled_back(orders) is whole


@pytest.mark.parametrize(
    ("statuses", "wrong"),
    [(["succeeded", None], []), (["failed", None], ["one failed"]), (["succeeded", "failed"], ["two failed"])],
)
def test_the_deadline_excuses_only_what_it_interrupted(statuses: list[str | None], wrong: list[str]) -> None:
    names = ("one", "two")
    run = [{"activity": {"name": name}, "status": each} for name, each in zip(names, statuses, strict=True)]
    assert deeds._failed({"run": run}, True) == wrong
