"""What a fault believes: with a site made of words, so that each word can be missing."""

import threading
import time
from types import SimpleNamespace as Object
from typing import Any

import pytest

from dedup.experiment.endpoints import Broker
from dedup_runners.chaos.faults import kill, kill_tcp
from dedup_runners.chaos.leaders import Leaders
from dedup_runners.chaos.sessions import Session
from dedup_runners.chaos.sites.protocol import Death, Victim
from dedup_runners.chaos.sockets import Connection
from dedup_runners.waiting import until

BOUND_S = 15.0
VICTIM = Victim("1", "one", {"pod": "k-1", "container": "one"})


def connection(port: int) -> Connection:
    return Connection(("10.0.0.1", 9094), ("10.0.0.9", port))


class Play:
    """A session and its site in one: what is to be seen is given, what is said is kept, in order."""

    def __init__(self, *, looks: list[dict[str, set[Connection]]] | None = None, deaths: list[Any] | None = None):
        self.looks, self.deaths = looks or [], deaths or []
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.effective = False
        self.leads: str | None = "1"
        self._memory: dict[Any, Any] = {}
        self.site = self
        self.scene = Object(targets=lambda: [Broker(id="1", client_port=9094, proxy_port=1)])

    recall = Session.recall

    def connections(self) -> dict[str, set[Connection]]:
        return self.looks.pop(0)

    def victim(self, broker: str) -> Victim:
        return VICTIM

    def kill(self, victim: Victim, down_s: float, *, clean: bool = False) -> None:
        self.said.append(("kill", {}))

    def death(self, victim: Victim) -> Death | None:
        found: Death | None = self.deaths.pop(0)
        return found

    def leader(self) -> str | None:
        return self.leads

    def note(self, event: str, **detail: Any) -> None:
        self.said.append((event, detail))

    def stamp(self, event: str) -> None:
        self.said.append((f"stamp {event}", {}))

    def announce(self, event: str, **detail: Any) -> None:
        self.stamp(event)
        self.note(event, **detail)

    def events(self) -> list[str]:
        return [event for event, _ in self.said]


def test_a_connection_that_is_no_longer_there_is_gone() -> None:
    play = Play(looks=[{"1": {connection(1), connection(2)}}, {"1": {connection(2), connection(3)}}])
    seen = kill_tcp._Connections(play)  # type: ignore[arg-type]
    seen._take()
    assert seen.counts() == {"connections_before": {"1": 2}, "connections_gone": {"1": 1}}


def test_a_connection_that_could_not_be_looked_for_is_not_gone() -> None:
    play = Play(looks=[{"1": {connection(1), connection(2)}}, {}, {"1": {connection(1), connection(2)}}])
    seen = kill_tcp._Connections(play)  # type: ignore[arg-type]
    assert seen._take() == {}
    seen._take()
    assert seen.counts() == {"connections_before": {"1": 2}, "connections_gone": {"1": 0}}


def test_a_strike_took_a_connection_only_where_one_that_it_found_is_gone() -> None:
    here, new = {"1": {connection(1)}}, {"1": {connection(2)}}
    play = Play(looks=[here, here, here, new])
    assert kill_tcp._Connections(play).lose_all(BOUND_S) == {"1"}  # type: ignore[arg-type]
    play = Play(looks=[here, here, {}])
    assert kill_tcp._Connections(play).lose_all(BOUND_S) == set(), "nobody could look"  # type: ignore[arg-type]
    play = Play(looks=[here, here, here])
    assert kill_tcp._Connections(play).lose_all(0) == set()  # type: ignore[arg-type]


@pytest.mark.parametrize("again", [True, False])
def test_each_later_strike_is_told_before_it_and_after_it_if_the_leader_has_lost_a_connection_again(
    again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the producer can count at each: when the first one came, nothing may have been in flight."""
    first, second, third, last = ({"1": {connection(port)}} for port in range(4))
    play = Play(looks=[first, first, *([second, second, third, third, *[last] * 199] if again else [second] * 199)])
    now_s = [0.0]
    clock = Object(monotonic=lambda: now_s[0], sleep=lambda wait_s: now_s.__setitem__(0, now_s[0] + wait_s))
    monkeypatch.setattr(kill_tcp, "time", clock)
    monkeypatch.setattr(kill_tcp, "triggered", lambda configuration: play)
    guard = Object(proxies=["1"], protect=lambda bound_s: None, set=lambda kind, settings: None, unset=lambda: None)
    monkeypatch.setattr(kill_tcp, "guarded", lambda session: guard)
    kill_tcp.reset_connections(duration_s=1.0, pause_s=0.3, configuration={})
    told = [(event, detail.get("strike")) for event, detail in play.said if event.startswith("repeat")]
    assert told[:2] == ([("repeating", 2), ("repeated", 2)] if again else [("repeating", 2), ("repeating", 3)])


def test_the_producer_stamps_at_the_first_sign_and_the_effect_is_told_when_it_is_proven() -> None:
    play = Play(deaths=[None, Death(137, {"container": "one"})])
    kill.strike(play, "1", 5.0, leader="1")  # type: ignore[arg-type]
    assert play.events() == ["stamp injecting", "injecting", "kill", "stamp injected", "stamp injected", "injected"]
    assert play.said[-1][1]["witness"]["exit_code"] == 137
    assert play.effective


@pytest.mark.parametrize("code", [0, 1, 143])
def test_a_broker_that_ended_otherwise_was_not_killed_by_us(code: int) -> None:
    play = Play(deaths=[Death(code, {})])
    kill.strike(play, "1", 5.0, leader="1")  # type: ignore[arg-type]
    assert play.events() == ["stamp injecting", "injecting", "kill", "stamp injected", "no_effect"]
    assert not play.effective


@pytest.mark.parametrize(("leads", "told"), [("1", "1"), ("2", "2"), (None, "1")])
def test_who_led_is_asked_again_after_the_kill(leads: str | None, told: str) -> None:
    play = Play(deaths=[Death(137, {})])
    play.leads = leads
    kill.strike(play, "1", 5.0, leader="1")  # type: ignore[arg-type]
    assert (play.said[-1][1]["leader"], play.said[-1][1]["touched"]) == (told, ["1"])


def test_who_leads_is_known_before_it_matters() -> None:
    answers = iter(["1", "1", "2"])
    leaders = Leaders(lambda: next(answers, "2"), every_s=0.001)
    try:
        until(lambda: leaders.latest == "2", BOUND_S, "the last answer")
    finally:
        leaders.close()


def test_who_leads_is_asked_again_and_an_answer_that_does_not_come_is_not_waited_for() -> None:
    held = threading.Event()
    answers = iter(["1", "2", "3"])

    def ask() -> str:
        answer = next(answers, None)
        if answer is None:
            held.wait(BOUND_S)
        return answer or "3"

    leaders = Leaders(ask, every_s=0.001)
    try:
        now_s = time.monotonic()
        assert leaders.again(BOUND_S, now_s) == "3"
        assert leaders.again(0.01, now_s) == "3"
        assert leaders.again(0.01, now_s + BOUND_S) is None, "too old to say who led then"
    finally:
        held.set()
        leaders.close()
