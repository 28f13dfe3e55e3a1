"""A rolling restart: who is stopped in which order, and what is believed of each end. Brokers here are played."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from dedup.errors import PlatformError
from dedup.faults.rolling_restart import RollingRestart
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.faults import rolling_restart
from dedup_runners.chaos.sites.protocol import Death, Victim

BROKERS = ("1", "2", "3")
BOUND_S = 5.0


class Play:
    """A session whose brokers end with these codes, and are whole again after so many looks; broker 2 leads."""

    def __init__(self, codes: dict[str, int], lacks: int = 0, leader: str | None = "2") -> None:
        self.codes, self.lacks, self.leads = codes, lacks, leader
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.effective = False
        self.site = self.admin = self
        brokers = [SimpleNamespace(id=each) for each in BROKERS]
        self.scene = SimpleNamespace(topic="t", broker=None, endpoints=SimpleNamespace(brokers=brokers))

    def leader(self) -> str | None:
        return self.leads

    def victim(self, broker: str) -> Victim:
        return Victim(broker, f"life of {broker}", {})

    def kill(self, victim: Victim, down_s: float, *, clean: bool = False) -> None:
        self.said.append(("kill", {"broker": victim.broker, "clean": clean}))
        self.leads = "3"

    def death(self, victim: Victim) -> Death:
        return Death(self.codes[victim.broker], {})

    def restarted(self, victim: Victim) -> dict[str, Any]:
        return {"pid": 7}

    def unhealthy(self, topic: str) -> str | None:
        self.lacks -= 1
        return "broker 1 is not registered" if self.lacks >= 0 else None

    def note(self, event: str, **detail: Any) -> None:
        self.said.append((event, detail))

    def stamp(self, event: str) -> None:
        self.said.append((f"stamp {event}", {}))

    announce = note

    def of(self, event: str) -> list[dict[str, Any]]:
        return [detail for said, detail in self.said if said == event]


def played(play: Play, monkeypatch: pytest.MonkeyPatch, within_s: float = BOUND_S, **settings: Any) -> dict[str, Any]:
    monkeypatch.setattr(rolling_restart, "triggered", lambda configuration: play)
    monkeypatch.setattr(rolling_restart, "LOOK_EVERY_S", 0.001)
    given = RollingRestart.model_validate_json(json.dumps({"rest": "0s", **settings}))
    (activity,) = rolling_restart.INJECTION.method(given, 0.0)
    asked = {**activity["provider"]["arguments"], "within_s": within_s}
    return rolling_restart.restart_brokers(**asked, configuration={})


@pytest.mark.parametrize(("stop", "code"), [("Clean", 143), ("Clean", 0), ("Kill", 137)])
def test_all_brokers_are_restarted_the_leader_first(stop: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who led is known from before the signal: a broker that ends in order hands over first."""
    play = Play(dict.fromkeys(BROKERS, code), lacks=3)
    assert played(play, monkeypatch, stop=stop) == {"restarted": 3}
    assert [(each["broker"], each["clean"]) for each in play.of("kill")] == [(b, stop == "Clean") for b in "213"]
    (injected,) = play.of(FaultEvent.INJECTED)
    assert (injected["touched"], injected["leader"]) == (["2"], "2")
    assert [each["broker"] for each in play.of(FaultEvent.RESTARTED)] == ["2", "1", "3"]
    assert play.of(FaultEvent.EFFECT) == [{"lives": ["life of 2", "life of 1", "life of 3"]}]


@pytest.mark.parametrize(("stop", "code"), [("Clean", 137), ("Clean", 1), ("Kill", 143)])
def test_a_broker_that_ended_otherwise_ends_the_fault(stop: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play({"1": code, "2": 137 if stop == "Kill" else 143, "3": 0})
    with pytest.raises(PlatformError, match=f"broker 1: got exit code {code}"):
        played(play, monkeypatch, stop=stop)
    assert play.of(FaultEvent.EFFECT) == [{"lives": ["life of 2"]}]


def test_the_next_broker_waits_for_the_last_one_to_be_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(dict.fromkeys(BROKERS, 143), lacks=10**9)
    with pytest.raises(PlatformError, match="t to be whole again"):
        played(play, monkeypatch, within_s=0.05)
    assert [each["broker"] for each in play.of("kill")] == ["2"]


def test_without_a_leader_nobody_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(dict.fromkeys(BROKERS, 143), leader=None)
    assert played(play, monkeypatch) == {"effective": False}
    assert [event for event, _ in play.said] == [FaultEvent.NO_EFFECT]
