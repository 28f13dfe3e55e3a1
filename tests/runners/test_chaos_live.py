"""Each fault against real brokers, with the real producer: it is witnessed by its target, overlaps traffic, and heals.

Two twins stand beside them: a kill of a broker that does not lead the topic, which must not pass for one that matters,
and an injector that is killed in mid-fault, whose fault must heal all the same.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from testbed.cycles.plays import BOUND_S, Play, playing
from tests.runners import proxies

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.faults.records import LATENCY_SHARE, vacuous
from dedup.faults.registry import Fault
from dedup.wire.manifests import FaultRecord
from dedup_lab.systems import kafka, labs, pulsar
from dedup_runners import admins
from dedup_runners.admins import PROBE, Admin
from dedup_runners.chaos.latency import GAIN_SHARE
from dedup_runners.configs import ProducerConfig
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

MESSAGES = 400_000
AT = 20_000


@pytest.fixture(scope="module", params=["kafka", "pulsar"])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    module, version = {"kafka": (kafka, "4.3.1"), "pulsar": (pulsar, "4.2.4")}[request.param]
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield module.start(lab, version=version, proxied=True)


@pytest.fixture
def admin(system: Endpoints) -> Iterator[Admin]:
    with admins.connect(system) as admin:
        yield admin


@dataclass
class Stage:
    """A fresh topic, and a folder in which a producer and a fault play on it."""

    folder: Path
    system: Endpoints
    admin: Admin
    topic: str
    last: Play | None = None

    def play(self, fault: Fault | None, *, die: bool = False, **setting: Any) -> FaultRecord:
        """Run the producer and the fault to their ends; `die` kills the injector once it is in force."""
        name = self.topic.rsplit("/", 1)[-1]
        told = {"messages": MESSAGES, "producer_name": name, **setting}
        with playing(self.folder, self.system, self.topic, fault, **told) as play:
            if die:
                until(lambda: "injected" in play.events("marks.jsonl"), BOUND_S, "the producer to know of the fault")
                play.kill_injector()
            assert play.producer.wait(BOUND_S) == 0
            play.injector.wait(BOUND_S)
        self.last = play
        return play.record()

    def toxics(self) -> list[str]:
        return proxies.toxics(self.system.toxiproxy_url)


@pytest.fixture
def stages(system: Endpoints, admin: Admin, tmp_path: Path) -> Iterator[Iterator[Stage]]:
    """As many as are wanted, up to three."""
    with ExitStack() as topics:

        def made() -> Iterator[Stage]:
            for number in "123":
                name = f"chaos-{tmp_path.parent.name}-{tmp_path.name}-{number}"
                topic = admin.topic_name(name.replace("_", "-"), True)
                admin.create_topic(topic, partitions=1, deduplication=True)
                topics.callback(admin.delete_topic, topic)
                (folder := tmp_path / number).mkdir()
                yield Stage(folder, system, admin, topic)

        yield made()


@pytest.fixture
def stage(stages: Iterator[Stage]) -> Stage:
    return next(stages)


def met(stages: Iterator[Stage], fault: Fault) -> tuple[Stage, FaultRecord]:
    """The first time that it comes while messages are under way and a client notices it.

    Where brokers are quicker than the client, all is acknowledged at times; where the machine is slow, a paused broker
    may come back before another one leads. What comes then is rightly vacuous, and an experiment replaces such a run.
    """
    for stage in stages:
        record = stage.play(fault)
        if record.in_flight and vacuous(record) is None:
            return stage, record
    raise AssertionError(f"three times out of three it was vacuous: {vacuous(record)}: {record}")


def probed(stage: Stage) -> set[str]:
    """The brokers through which the round trip goes."""
    numbers = range(len(stage.system.brokers))
    if stage.system.system == "kafka":
        return {stage.admin.leader(PROBE, number) for number in numbers}
    return {stage.admin.leader(f"persistent://public/{PROBE}-{number}/{PROBE}") for number in numbers}


def fault(kind: dict[str, Any]) -> Fault:
    return Fault.model_validate_json(json.dumps({"name": "cut", "at": {"message": AT}, **kind}))


def test_a_topic_is_fresh_led_moved_and_gone(stage: Stage) -> None:
    admin, topic = stage.admin, stage.topic
    assert admin.unhealthy(topic) is None
    assert admin.round_trip(BOUND_S) < BOUND_S
    with pytest.raises(PlatformError, match="exists"):
        admin.create_topic(topic, partitions=1, deduplication=True)
    before = admin.leader(topic)
    moved_from, moved_to = admin.move_leader(topic)
    assert moved_from == before != moved_to == admin.leader(topic)
    assert [each.extents for each in admin.end_positions(topic)] == [()]
    admin.delete_topic(topic)
    admin.delete_topic(topic)
    until(lambda: admin.unhealthy(topic) is not None, BOUND_S, "every broker knows that the topic is gone")


@pytest.mark.parametrize("kind", [{"killTCP": {"duration": "3s"}}, {"moveLeader": {}}], ids=["kill-tcp", "move-leader"])
def test_a_fault_is_witnessed_and_healed(kind: dict[str, Any], stages: Iterator[Stage]) -> None:
    stage, record = met(stages, fault(kind))
    assert record.problems == ()
    assert vacuous(record) is None
    assert record.heal_proven
    assert not record.leaked
    assert stage.toxics() == []
    assert stage.admin.deduplication_in_force(stage.topic, True).in_force is True


@pytest.mark.parametrize("direction", ["ToBrokers", "ToClients"])
def test_lost_bytes_are_witnessed_by_silence_and_healed(direction: str, stages: Iterator[Stage]) -> None:
    stage, record = met(stages, fault({"dropTCP": {"direction": direction, "duration": "4s"}}))
    assert record.problems == ()
    assert vacuous(record) is None
    everyone = [broker.id for broker in stage.system.brokers]
    assert record.target_witness["silent"] == record.target_witness["at_end"] == everyone
    assert record.unacknowledged == ProducerConfig.model_fields["in_flight"].default, "no acknowledgement came any more"
    assert stage.toxics() == []


def test_a_bookie_that_stored_what_was_sent_is_killed_and_comes_back(
    system: Endpoints, stages: Iterator[Stage]
) -> None:
    if system.system == "kafka":
        pytest.skip("Kafka's brokers store messages themselves")
    first = next(stages)
    assert set(first.admin.ensemble(first.topic).bookies) == {bookie.id for bookie in system.bookies}
    stage, record = met(chain([first], stages), fault({"kill": {"target": "Bookie", "restartAfter": "2s"}}))
    assert record.problems == ()
    assert record.target_witness["exit_code"] == 137
    assert record.client_witness["broker"] == 1, "the broker began another ledger"
    assert vacuous(record) is None
    assert record.heal_proven
    assert stage.admin.unhealthy(stage.topic) is None


def test_a_killed_broker_without_the_topic_does_not_pass_for_one_that_matters(stage: Stage) -> None:
    leader = stage.admin.leader(stage.topic)
    other = next(broker.id for broker in stage.system.brokers if broker.id != leader)
    record = stage.play(fault({"kill": {"restartAfter": "1s"}}), broker=other)
    assert record.target_witness["exit_code"] == 137
    assert record.heal_proven
    assert f"it touched broker {other}, but the topic's leader was broker {leader}" in (vacuous(record) or "")
    assert probed(stage) == {broker.id for broker in stage.system.brokers}, "the heal went through the killed one, too"


def test_a_paused_leader_answers_nobody_and_goes_on_when_another_leads(stages: Iterator[Stage]) -> None:
    """The pause is longer than the broker's session, so that another broker leads when it goes on."""
    stage, record = met(stages, fault({"pause": {"duration": "10s"}}))
    assert record.problems == ()
    assert vacuous(record) is None
    assert record.target_witness["state"] == "T"
    assert record.target_witness["at_end"] == record.target_witness["touched"] == [record.target_witness["leader"]]
    assert stage.admin.leader(stage.topic) != record.target_witness["leader"]
    assert record.heal_proven
    assert stage.admin.unhealthy(stage.topic) is None


def test_latency_is_measured_and_taken_away(stage: Stage) -> None:
    record = stage.play(None, latency_s=0.05)
    assert record.problems == ()
    assert vacuous(record) is None
    before, after = record.target_witness["before_ms"], record.target_witness["after_ms"]
    assert min(after.values()) >= 50 * LATENCY_SHARE
    assert all(after[broker] - before[broker] >= 50 * GAIN_SHARE for broker in before)
    assert stage.toxics() == []


@pytest.mark.parametrize("kind", [None, {"dropTCP": {"duration": "60s"}}], ids=["latency", "drop-tcp"])
def test_a_fault_whose_injector_is_killed_heals_all_the_same(kind: dict[str, Any] | None, stage: Stage) -> None:
    record = stage.play(fault(kind) if kind else None, latency_s=0.0 if kind else 0.05, die=True)
    until(lambda: not stage.toxics(), BOUND_S, "the watchdog to have healed it")
    last = stage.last
    until(lambda: last and "healed_by_watchdog" in last.events(), BOUND_S, "the watchdog's word")
    assert not record.heal_proven
    assert any("no chaos journal" in problem for problem in record.problems)
