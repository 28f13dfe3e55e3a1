"""`chaos`: a user's own experiment of Chaos Toolkit, run as it is, and believed when its own hypothesis deviates.

The fault's process starts two others (`dedup_runners.chaos.own_experiments`): one asks the probes of the hypothesis
from the time when the fault is armed until it is healed, the other runs the experiment and ends it at its deadline.
"""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.faults.chaos import Chaos
from dedup.wire.faults import FaultEvent, FaultLine
from dedup_runners.chaos import own_experiments
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.own_experiments import (
    HYPOTHESIS,
    INTERRUPT_S,
    INTERRUPTED,
    MOST_SHOWN,
    ROLLBACKS_S,
    Look,
    Orders,
)
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.waiting import WaitedTooLong, persistently, until

READY_S: Final = 240.0
"""So long a user's probes may take to be asked for the first time: a cluster's client library loads in 3 s, 40 s on a
machine with a load of 18."""
ASKED_S: Final = 60.0
"""So long the hypothesis may take to hold again after the rollbacks."""
POD_S: Final = 300.0
"""So long the hypothesis may take to hold again where brokers are pods: a new one is scheduled, and begins."""
SHOWS_S: Final = 15.0
"""So long after an experiment's end its effect may show: a pod that is to end is ready for some seconds yet."""
ENDED_S: Final = INTERRUPT_S + 2 * ROLLBACKS_S


@dataclass
class Deed:
    """The experiment's file, the two processes, and what the probes have said so far."""

    place: Path | None = None
    asking: "subprocess.Popen[str] | None" = None
    listening: threading.Thread | None = None
    supervising: "subprocess.Popen[bytes] | None" = None
    ended_ns: int = 0
    exits_before: int = 0
    looks: list[Look] = field(default_factory=list)

    @property
    def experiment(self) -> Path:
        assert self.place is not None, "it is written when the fault is armed"
        return self.place

    def first(self, met: bool, since_ns: int) -> Look | None:
        """The first look of that kind that began since then."""
        return next((each for each in self.looks if each.met is met and each.began_ns >= since_ns), None)


def _prepare(session: Session) -> None:
    scene, deed = session.scene, session.recall(Deed)
    name = str(scene.settings["experiment"])
    if scene.document is None:
        rule = "the text is read with the file that names it"
        raise _unarmed(session, f"{name}, without its text", rule, "give `dedup run` that file")
    deed.place = scene.folder / "chaos" / scene.fault / f"own{Path(name).suffix or '.json'}"
    deed.place.write_text(scene.document, encoding="utf-8")
    session.watch_leader()
    until(session.known_leader, READY_S, f"the leader of {scene.topic} to be known, which the experiment is told")
    if not own_experiments.loaded(str(deed.place)).get(HYPOTHESIS):
        return
    with (log := deed.place.with_name("own-probes.log")).open("w") as said:
        deed.asking = subprocess.Popen(
            [sys.executable, "-m", own_experiments.__name__, "ask", str(deed.place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=_environment(session),
        )
    deed.listening = threading.Thread(target=_listen, args=(deed.asking, deed.looks), name="looks", daemon=True)
    deed.listening.start()
    asking = deed.asking
    until(lambda: deed.looks or asking.poll() is not None, READY_S, f"the probes of {name} to be asked")
    if not deed.looks or not deed.looks[0].met:
        got = f"probes that cannot be asked ({_last_line(log)})"
        if deed.looks:
            got = f"probe {deed.looks[0].probe} out of its tolerance: {deed.looks[0].output}"
        rule = "its steady-state hypothesis holds before it is run"
        raise _unarmed(session, got, rule, f"try it with `chaos run {name}`")


def _last_line(log: Path) -> str:
    return (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no word"])[-1][:MOST_SHOWN]


def _unarmed(session: Session, got: str, rule: str, todo: str) -> PlatformError:
    return PlatformError(where=f"fault {session.scene.fault}", got=got, rule=rule, todo=todo)


def _listen(asking: "subprocess.Popen[str]", looks: list[Look]) -> None:
    assert asking.stdout is not None
    with asking.stdout:
        for line in asking.stdout:
            looks.append(Look(*json.loads(line)))


def _environment(session: Session) -> dict[str, str]:
    """What the experiment finds of the system, beside our own environment."""
    endpoints, leader = session.scene.endpoints, session.known_leader()
    proxies = {broker.id: broker.proxy or "" for broker in endpoints.brokers}
    ports = {broker.id: str(broker.proxy_port or broker.client_port) for broker in endpoints.brokers}
    return {
        **os.environ,
        "DEDUP_PROTOCOL": endpoints.system,
        "DEDUP_TOXIPROXY_URL": endpoints.toxiproxy_url or "",
        "DEDUP_PROXIES": ",".join(proxies.values()),
        "DEDUP_LEADER_PROXY": proxies.get(leader or "", ""),
        "DEDUP_LEADER_PORT": ports.get(leader or "", ""),
        "DEDUP_BOOTSTRAP": endpoints.client_bootstrap,
        "DEDUP_TOPIC": session.scene.topic,
        **_in_pods(endpoints, leader),
    }


def _in_pods(endpoints: Endpoints, leader: str | None) -> dict[str, str]:
    """Where its pods are; and chaostoolkit-kubernetes is told to use the pod's account."""
    pods = {broker.id: broker.pod for broker in endpoints.brokers if broker.pod is not None}
    if not pods:
        return {}
    led = pods.get(leader or "")
    namespace = next(iter(pods.values())).namespace
    named = {"DEDUP_NAMESPACE": namespace, "DEDUP_LEADER_POD": led.name if led is not None else ""}
    return {"CHAOSTOOLKIT_IN_POD": "true", **named}


def _method(fault: Chaos, latency_s: float) -> list[Activity]:
    return [action(run_experiment, deadline_s=fault.deadline_s), action(await_steady_state)]


def run_experiment(deadline_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Run the user's experiment to its end or its deadline, and announce its effect when a probe shows it."""
    session = triggered(configuration)
    scene, deed = session.scene, session.recall(Deed)
    leader = session.known_leader()
    deed.exits_before = session.site.exits()
    session.announce(FaultEvent.INJECTING, leader=leader, **scene.settings)
    began_ns, journal = time.monotonic_ns(), deed.experiment.with_name("own-journal.json")
    lines = str(scene.folder / FaultLine.FILE)
    orders = Orders(str(deed.experiment), str(journal), time.monotonic() + deadline_s, scene.fault, lines)
    deed.supervising = supervising = subprocess.Popen(
        [sys.executable, "-m", own_experiments.__name__, "supervise", json.dumps(orders._asdict())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=_environment(session),
    )

    def shown() -> bool:
        if not session.effective and (look := deed.first(met=False, since_ns=began_ns)):
            inject(session, touched=[leader] if leader else [], leader=leader, probe=look.probe, output=look.output)
        return session.effective

    until(lambda: shown() or supervising.poll() is not None, deadline_s + ENDED_S, "the experiment to begin and to end")
    until(lambda: supervising.poll() is not None, deadline_s + ENDED_S, "the experiment and its rollbacks to end")
    if deed.asking is not None:
        with suppress(WaitedTooLong):
            until(shown, SHOWS_S, "a probe to be out of its tolerance")
    deed.ended_ns = time.monotonic_ns()
    if not session.effective:
        has = deed.asking is not None
        no_effect(session, "its hypothesis held all the while" if has else f"it has no {HYPOTHESIS}, which shows it")
    interrupted = supervising.returncode == INTERRUPTED
    told = _told(journal)
    why = _not_its_doing(deed, began_ns, told) if session.effective else ""
    session.note(FaultEvent.EFFECT, status=told.get("status", "none"), interrupted=interrupted, refused=why)
    if wrong := list(_failed(told, interrupted)):
        raise _unarmed(session, "; ".join(wrong), "each action and rollback of it succeeds", f"see {journal.name}")
    return {"status": told.get("status"), "interrupted": interrupted}


def _told(journal: Path) -> dict[str, Any]:
    try:
        found = json.loads(journal.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _not_its_doing(deed: Deed, began_ns: int, journal: dict[str, Any]) -> str:
    """Words if the hypothesis deviated before the method began, or if it did not deviate while it was under way.

    The effect is announced when it is seen, and when the method began is known from the journal at its end only. A look
    may have begun before and end after it: another must have seen the same, which began later.
    """
    try:
        told = datetime.fromisoformat(journal["run"][0]["start"])
    except (LookupError, TypeError, ValueError):
        return "when its method began is not known"
    method_unix_s = (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    looks = [each for each in deed.looks if not each.met and began_ns <= each.began_ns <= deed.ended_ns]
    if looks[0].ended_unix_s < method_unix_s:
        return f"probe {looks[0].probe} was out of its tolerance before the method began"
    if not any(each.began_unix_s >= method_unix_s for each in looks):
        return f"probe {looks[0].probe} was out of its tolerance once, while the method began, and not after"
    return ""


def _failed(journal: dict[str, Any], interrupted: bool) -> list[str]:
    """The activities that did not succeed. One that the deadline interrupted, the last one, is none of them."""
    called = list(journal.get("run") or [])
    if interrupted and called and called[-1].get("status") not in ("succeeded", "failed"):
        called.pop()
    wrong = [each for each in (*called, *(journal.get("rollbacks") or [])) if each.get("status") != "succeeded"]
    found = [f"{each.get('activity', {}).get('name', 'an activity')} {each.get('status')}" for each in wrong]
    return found if journal or interrupted else ["no journal: Chaos Toolkit did not run it, or not to its end"]


def await_steady_state(configuration: dict[str, Any]) -> dict[str, float]:
    """Wait until the hypothesis holds again, after the experiment has ended.

    What has ended of brokers meanwhile is taken for its doing.
    """
    session = current(configuration)
    deed = session.recall(Deed)
    if deed.asking is None or not deed.ended_ns:
        return {}
    within_s = POD_S if any(broker.pod for broker in session.scene.endpoints.brokers) else ASKED_S
    try:
        until(lambda: deed.first(met=True, since_ns=deed.ended_ns), within_s, "the hypothesis to hold again")
    except WaitedTooLong as error:
        session.note(FaultEvent.HEAL_FAILED, error=str(error), unhealthy=deed.looks[-1].output)
        raise
    waited_s = round((time.monotonic_ns() - deed.ended_ns) / 1e9, 3)
    exits = persistently(session.site.exits, within_s, "how many brokers have ended")
    ended = exits - deed.exits_before
    session.note(FaultEvent.CLEARED, by="its rollbacks", waited_s=waited_s, **({"ended": ended} if ended else {}))
    return {"waited_s": waited_s}


def dismiss(configuration: dict[str, Any]) -> None:
    """End the experiment, if it still runs, and the asking. Harmless twice."""
    deed = current(configuration).recall(Deed)
    for process in (deed.supervising, deed.asking):
        if process is not None and process.stdin is not None:
            process.stdin.close()
    if deed.supervising is not None:
        deed.supervising.wait(ENDED_S)
    if deed.asking is not None and deed.listening is not None:
        deed.asking.kill()
        deed.asking.wait(ENDED_S)
        deed.listening.join(ENDED_S)


INJECTION: Final = Injection(_prepare, _method, rollbacks=(dismiss,))
