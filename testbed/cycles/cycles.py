"""One cycle: a fault is injected and healed, or its injector killed at some moment; and what is left of it is measured.

What a cycle does follows from its number and the seed. Even numbers are Kafka's, odd ones Pulsar's, and each system
goes through all its faults in an order of chance before one comes again.

What is in force is asked of the targets, and of nobody who injects: the toxics that Toxiproxy holds, the state of each
broker's process as the kernel has it, and brokers that are down. A frame that was held is asked of the conversation.
"""

import json
import random
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import psutil

from dedup.errors import DedupError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.registry import Fault
from dedup_runners.admins import Admin
from dedup_runners.chaos import keepers
from dedup_runners.chaos.faults.chaos import ENDED_S
from dedup_runners.chaos.watchdog import Toxiproxy
from dedup_runners.waiting import WaitedTooLong, persistently, until
from testbed import ledgers
from testbed.cycles.plays import BOUND_S, PRODUCERS_WORD, Play, playing

KILLED_SHARE: Final = 1 / 3
AT: Final = 200
RATE: Final = 400
LATENCY_S: Final = 0.02
AFTER_S: Final = 2.0
"""How long the producer goes on sending after the planned end of a fault."""
LATE_S: Final = 5.0
"""How long after its deadline a fault may be in force."""
WHOLE_S: Final = 120.0
LOOK_EVERY_S: Final = 0.05
OWN: Final = Path(__file__).parents[2] / "examples" / "chaos" / "proxy-down.json"
CARRIERS: Final = {"kafka": "Produce", "pulsar": "SEND"}


def kinds(system: str) -> dict[str, dict[str, Any] | None]:
    """The faults of that system's cycles, by their names on the page; None: the link's latency."""
    frame = {"api": CARRIERS[system], "frame": "Reply"}
    found: dict[str, dict[str, Any] | None] = {
        "killTCP": {"killTCP": {"duration": "1s"}},
        **{f"dropTCP {way}": {"dropTCP": {"direction": way, "duration": "2s"}} for way in ("Both", "ToBrokers")},
        "dropTCP ToClients": {"dropTCP": {"direction": "ToClients", "duration": "2s"}},
        "delayTCP": {"delayTCP": {"delay": "500ms", "duration": "2s"}},
        "kill Leader": {"kill": {"restartAfter": "1s"}},
        "moveLeader": {"moveLeader": {}},
        "pause": {"pause": {"duration": "1s"}},
        "message Lose": {"message": {**frame, "action": "Lose"}},
        "message Stall": {"message": {**frame, "action": "Stall", "deadline": "2s"}},
        "chaos": {"chaos": {"experiment": OWN.name, "deadline": "8s", "document": OWN.read_text(encoding="utf-8")}},
        "latency": None,
    }
    return found | ({"kill Bookie": {"kill": {"target": "Bookie", "restartAfter": "1s"}}} if system == "pulsar" else {})


class Cycle(NamedTuple):
    """What is to be done in one cycle. `moment_s`: when the injector is killed, after its fault was triggered."""

    number: int
    system: str
    kind: str
    fault: Fault | None
    moment_s: float | None

    @property
    def lasts_s(self) -> float:
        return self.fault.lasts_s if self.fault else 1.0


def drawn(seed: int, number: int) -> Cycle:
    """The cycle of that number."""
    system, index = ("kafka", "pulsar")[number % 2], number // 2
    known = kinds(system)
    turn, place = divmod(index, len(known))
    kind = random.Random(f"{seed}/{system}/{turn}").sample(sorted(known), len(known))[place]
    given, chance = known[kind], random.Random(f"{seed}/{number}")
    document = {"name": f"cycle-{number}", "at": {"message": AT}, **(given or {})}
    fault = Fault.model_validate_json(json.dumps(document)) if given else None
    cycle = Cycle(number, system, kind, fault, None)
    is_killed = chance.random() < KILLED_SHARE
    return cycle._replace(moment_s=round(chance.random() * (cycle.lasts_s + 1), 3)) if is_killed else cycle


class Outcome(ledgers.Entry):
    """What came of one cycle."""

    PART: ClassVar = ("seed", "number")

    number: int
    seed: int
    system: str
    kind: str
    killed: bool
    """Whether the injector was killed; one that had ended at its moment was not."""
    struck: bool
    """Whether the target has shown the effect, to the injector or to the watch."""
    past_s: float | None
    """How long after its deadline the fault was seen in force; None: it was not, 0 or less: it ended before."""
    whole_s: float
    """How long after the end of both processes a message went through every broker and back."""
    problems: list[str]
    took_s: float
    version: str | None = None
    """Of the brokers; None: it is older than this record."""

    @property
    def bad(self) -> bool:
        """Whether it was in force for too long, or anything else is not as it should be."""
        return (self.past_s is not None and self.past_s > LATE_S) or bool(self.problems)


def in_force(system: Endpoints, toxiproxy: Toxiproxy) -> list[str]:
    """All that no calm system has: toxics, disabled proxies, and brokers and bookies that are stopped or down."""
    proxies = toxiproxy.call("GET", "/proxies")
    assert isinstance(proxies, dict)
    toxics = [f"toxic {toxic['name']} at {name}" for name, each in proxies.items() for toxic in each["toxics"]]
    disabled = [f"{name} is disabled" for name, each in proxies.items() if not each.get("enabled", True)]
    return toxics + disabled + [told for broker in (*system.brokers, *system.bookies) if (told := _state(broker))]


def _state(broker: Broker) -> str:
    pid = keepers.status(broker).pid
    try:
        stopped = pid is not None and psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        pid, stopped = None, False
    return f"{broker.id} is down" if pid is None else f"{broker.id} is stopped" if stopped else ""


class Watch:
    """Looks, from now until it is closed, for what is in force; `last_ns`: when something was seen last."""

    def __init__(self, system: Endpoints) -> None:
        self._system, self._over = system, threading.Event()
        self._toxiproxy = Toxiproxy(system.toxiproxy_url or "")
        self.last_ns: int | None = None
        self.now: list[str] = []
        self.error: str | None = None
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join(BOUND_S)
        self._toxiproxy.close()

    def _look(self) -> None:
        try:
            while not self._over.wait(LOOK_EVERY_S):
                self.now = in_force(self._system, self._toxiproxy)
                if self.now:
                    self.last_ns = time.monotonic_ns()
        except Exception as error:
            self.error = f"the watch has ended: {error}"


def done(cycle: Cycle, seed: int, system: Endpoints, admin: Admin, topic: str, folder: Path) -> Outcome:
    """Do the cycle; a system that does not become whole again is a problem of its outcome."""
    began_s, problems, killed = time.monotonic(), list[str](), False
    messages = AT + int(RATE * (cycle.lasts_s + AFTER_S))
    told: dict[str, Any] = {"messages": messages, "producer_name": f"cycle-{cycle.number}", "rate": RATE}
    latency_s = LATENCY_S if cycle.fault is None else 0.0
    with closing(Watch(system)) as watch:
        with playing(folder, system, topic, cycle.fault, latency_s=latency_s, **told) as play:
            if cycle.moment_s is not None:
                killed = _killed(play, cycle.moment_s)
            if killed and cycle.kind.startswith("message"):
                play.producer.kill()  # its way to the brokers was through the injector
            ended = play.producer.wait(BOUND_S)
            finished_ns = time.monotonic_ns()
            play.injector.wait(BOUND_S)
        # A producer does not begin without the injector that it is to tell: then nothing was sent, and nothing is bad.
        if ended > 0 and not (killed and not play.said("marks.jsonl")):
            problems.append(f"the producer ended with {ended}: {(folder / PRODUCERS_WORD).read_text()[-200:].strip()}")
        problems += [] if killed else play.record().problems
        problems += _left(folder, ENDED_S if cycle.kind == "chaos" else LATE_S)
        try:
            until(lambda: not watch.now, LATE_S + BOUND_S, "nothing to be in force", LOOK_EVERY_S)
        except WaitedTooLong:
            problems.append(f"still in force: {', '.join(watch.now)}")
        problems += [watch.error] if watch.error else []
        if watch.last_ns is not None and "injecting" not in play.events():
            problems.append("something was in force that no injector has announced")
        whole_s = _whole(admin, topic, problems)
    past_s = _past_s(cycle, play, watch.last_ns, finished_ns)
    return Outcome(
        number=cycle.number,
        seed=seed,
        system=cycle.system,
        kind=cycle.kind,
        killed=killed,
        struck="injected" in play.events() or past_s is not None,
        past_s=past_s,
        whole_s=whole_s,
        problems=problems,
        took_s=round(time.monotonic() - began_s, 1),
    )


def _killed(play: Play, moment_s: float) -> bool:
    """Kill the injector so long after its trigger has come (the latency's: after it was set); False: it had ended."""
    event = "triggered" if play.fault else "injected"
    until(lambda: event in play.events() or play.injector.poll() is not None, BOUND_S, f"the fault to be {event}")
    deadline = time.monotonic() + moment_s
    until(lambda: time.monotonic() > deadline or play.injector.poll() is not None, BOUND_S, "the moment of its death")
    if play.injector.poll() is not None:
        return False
    play.kill_injector()
    return True


def _left(folder: Path, within_s: float) -> list[str]:
    """The processes that still name the cycle's folder, its watchdogs among them, when they should have ended.

    The rollbacks of a user's own experiment are played by Chaos Toolkit, and have a time of their own.
    """

    def found() -> list[str]:
        lines = (" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"]))
        return [line[:200] for line in lines if str(folder) in line]

    try:
        until(lambda: not found(), within_s, "the cycle's processes to be gone", LOOK_EVERY_S)
    except WaitedTooLong:
        return [f"a process is left: {line}" for line in found()]
    return []


def _whole(admin: Admin, topic: str, problems: list[str]) -> float:
    """Seconds until all is whole and a message went through every broker and back; a problem, if that does not come."""
    began_s = time.monotonic()
    try:
        until(lambda: admin.unhealthy(topic) is None, WHOLE_S, "the brokers to be healthy")
        persistently(lambda: admin.round_trip(WHOLE_S), WHOLE_S, "a round trip")
    except DedupError as error:
        problems.append(f"unhealthy: {error}")
    return round(time.monotonic() - began_s, 1)


def _past_s(cycle: Cycle, play: Play, last_ns: int | None, finished_ns: int) -> float | None:
    """How long after its deadline the fault was in force: the latency's deadline is the producer's end."""
    began_ns = next((each["monotonic_ns"] for each in play.said() if each["event"] == "injecting"), None)
    if began_ns is None:
        return None
    if cycle.kind.startswith("message"):
        held_ns = play.record().target_witness.get("held_ns")
        return None if held_ns is None else round(held_ns / 1e9 - cycle.lasts_s, 2)
    deadline_ns = finished_ns if cycle.fault is None else began_ns + cycle.lasts_s * 1e9
    return None if last_ns is None else round((last_ns - deadline_ns) / 1e9, 2)
