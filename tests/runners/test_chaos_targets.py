"""Whom a fault of one process strikes, by the system's word at that moment, and what brokers then did without it."""

from types import SimpleNamespace
from typing import Any

import pytest

from dedup.errors import PlatformError
from dedup.faults.targets import Target
from dedup.wire.faults import FaultEvent
from dedup_runners.admins import Ensemble
from dedup_runners.chaos import targets
from dedup_runners.chaos.sockets import Connection
from dedup_runners.chaos.targets import Chosen


class Play:
    """A session of two brokers and two bookies; what its system says of its controller comes in turns."""

    def __init__(self, *controllers: str | None, stored: tuple[Ensemble, ...] = ()) -> None:
        self.controllers, self.stored = list(controllers), list(stored)
        self.said: list[tuple[str, dict[str, Any]]] = []
        places = SimpleNamespace(
            brokers=[SimpleNamespace(id=each) for each in ("1", "2")],
            bookies=[SimpleNamespace(id=each) for each in ("b1", "b2")],
            zookeepers=[SimpleNamespace(id="z")],
        )
        self.scene = SimpleNamespace(topic="t", partition=0, broker=None, endpoints=places, transactional_id="run-1")
        self.admin = self.site = self
        self.held: list[set[Connection]] = []

    def known_leader(self) -> str:
        return "1"

    def controller(self) -> str | None:
        return self.controllers.pop(0)

    def coordinator(self, transactional_id: str) -> str | None:
        assert transactional_id == "run-1"
        return self.controllers.pop(0)

    def connections(self) -> dict[str, set[Connection]]:
        return {"z": self.held.pop(0)}

    def ensemble(self, topic: str, partition: int) -> Ensemble:
        if not self.stored:
            raise PlatformError(where="w", got="g", rule="r", todo="t")
        return self.stored.pop(0)

    def note(self, event: str, **detail: Any) -> None:
        self.said.append((event, detail))


def test_the_active_controller_is_struck_whoever_leads() -> None:
    found = targets.chosen(Play("2"), Target.CONTROLLER)  # type: ignore[arg-type]
    assert found == Chosen("2", "1", controller="2")
    assert found.witness == {"controller": "2"}


def test_the_leader_is_struck_whoever_controls() -> None:
    found = targets.chosen(Play(), Target.LEADER)  # type: ignore[arg-type]
    assert found == Chosen("1", "1") and found.witness == {}


@pytest.mark.parametrize(("active", "told"), [("7", "is 7, none of the brokers"), (None, "is not known, none of")])
def test_a_controller_that_is_no_broker_of_ours_is_not_struck(active: str | None, told: str) -> None:
    play = Play(active)
    assert targets.chosen(play, Target.CONTROLLER) is None  # type: ignore[arg-type]
    ((event, detail),) = play.said
    assert event == FaultEvent.NO_EFFECT and told in detail["reason"]


def test_brokers_have_noticed_when_another_one_controls() -> None:
    play = Play(None, "2", "1")
    found = targets.await_notice(play, Chosen("2", "1", controller="2"))  # type: ignore[arg-type]
    assert found == {"controller": "1"}
    assert play.said == [(FaultEvent.NOTICED, {"by": "broker", "before": "2", "after": "1"})]


def test_brokers_that_keep_their_controller_have_noticed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "NOTICED_S", 0.05)
    play = Play(*["2"] * 100)
    assert targets.await_notice(play, Chosen("2", "1", controller="2")) == {}  # type: ignore[arg-type]
    assert play.said == []


def test_of_a_leader_clients_must_notice() -> None:
    assert targets.await_notice(Play(), Chosen("1", "1")) == {}  # type: ignore[arg-type]


def test_a_bookie_that_stores_what_is_sent_is_struck_and_its_place_is_taken() -> None:
    before, after = Ensemble(1, ("elsewhere", "b2")), Ensemble(1, ("elsewhere", "b1"))
    play = Play(stored=(before, before, after))
    found = targets.chosen(play, Target.BOOKIE)  # type: ignore[arg-type]
    assert found == Chosen("b2", None, ensemble=before)
    assert targets.await_notice(play, found) == {"ledger": 1}  # type: ignore[arg-type]


def test_the_transaction_coordinator_is_struck_and_another_one_takes_its_place() -> None:
    play = Play("2", "2", None, "1")
    found = targets.chosen(play, Target.COORDINATOR)  # type: ignore[arg-type]
    assert found == Chosen("2", "1", coordinator="2")
    assert found.witness == {"coordinator": "2"}
    assert targets.await_notice(play, found) == {"coordinator": "1"}  # type: ignore[arg-type]
    assert play.said == [(FaultEvent.NOTICED, {"by": "broker", "before": "2", "after": "1"})]


def test_a_producer_without_transactions_has_no_coordinator() -> None:
    play = Play()
    play.scene.transactional_id = None
    assert targets.chosen(play, Target.COORDINATOR) is None  # type: ignore[arg-type]
    ((event, detail),) = play.said
    assert event == FaultEvent.NO_EFFECT and "is not known" in detail["reason"]


def connection(number: int) -> Connection:
    return Connection(("10.0.0.2", 2181), ("10.0.0.1", number))


def test_brokers_that_connect_again_have_noticed_that_zookeeper_was_away() -> None:
    play = Play()
    old = {connection(1), connection(2)}
    play.held = [old, old, {connection(2)}, {connection(2), connection(3)}]
    found = targets.chosen(play, Target.ZOOKEEPER)  # type: ignore[arg-type]
    assert found is not None and (found.id, found.witness) == ("z", {"zookeeper": "z"})
    assert targets.await_notice(play, found) == {"reconnected": 1}  # type: ignore[arg-type]
    assert play.said == [(FaultEvent.NOTICED, {"by": "broker", "before": 2, "after": 2})]


def test_connections_that_stay_show_that_nobody_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "NOTICED_S", 0.05)
    play = Play()
    play.held = [{connection(1)}] + [{connection(1), connection(2)}] * 100
    found = targets.chosen(play, Target.ZOOKEEPER)  # type: ignore[arg-type]
    assert found is not None and targets.await_notice(play, found) == {}  # type: ignore[arg-type]
    assert play.said == []


def test_a_zookeeper_to_which_nobody_is_connected_is_not_struck() -> None:
    play = Play()
    play.held = [set()]
    assert targets.chosen(play, Target.ZOOKEEPER) is None  # type: ignore[arg-type]
    ((event, _),) = play.said
    assert event == FaultEvent.NO_EFFECT
