"""`dedup explore` of Pulsar's producer, without a broker: its points and stalls, their proof, and how they are told."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any, Final

import pytest
from tests.lab.test_exploring import row

from dedup.errors import SpecificationError
from dedup.experiment.clients import CLIENTS
from dedup.experiment.dialects import DIALECTS
from dedup.experiment.dialects.kafka import KAFKA
from dedup.experiment.dialects.pulsar import PULSAR
from dedup.experiment.endpoints import Endpoints
from dedup.experiment.points import Action, Exchange, Point, controls_of, in_all, moved, points_of
from dedup.experiment.spec import load
from dedup.judgement.anomalies import Witness
from dedup_lab.exploring import grounds, strikes
from dedup_lab.exploring.explanations import explain
from dedup_lab.exploring.grounds import Access, Shape, of_file
from dedup_lab.exploring.protocols import EXPLORED, FIRST
from dedup_lab.exploring.visits import Ground, _Run
from dedup_runners.interposer.conversations import Row
from dedup_runners.interposer.protocols import Address
from dedup_runners.interposer.rules import Act

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "explore"
NOBODY: Final = strikes.Speaker(PULSAR, None)
SECOND: Final = Exchange(api="SEND", partition=0, number=2, base_sequence=2)
LOOKUP: Final = Exchange(api="LOOKUP", partition=1, number=1)
CONNECT: Final = Exchange(api="CONNECT", number=1)
CLOSE: Final = Exchange(api="CLOSE_PRODUCER", partition=0, number=1)
MS: Final = 1_000_000


def said(**given: object) -> Row:
    """A SEND of the second message to partition 0 that passed, at a moment in milliseconds, if nothing else is said."""
    at = given.pop("at_ms", 0)
    known: dict[str, object] = {
        "api": "SEND", "client_id": None, "number": 2, "base_sequence": 2, "direction": "request", "bytes": 40,
        "connection": 1, "broker": "b:1", "monotonic_ns": int(str(at)) * MS,
    }  # fmt: skip
    return row(**{**known, **given})


def producer(number: int, **given: object) -> Row:
    return said(api="PRODUCER", number=number, base_sequence=None, **given)


def point(action: Action, exchange: Exchange = SECOND) -> Point:
    return Point(exchange=exchange, action=action)


def test_no_request_of_one_protocol_has_the_name_of_anothers() -> None:
    """So what is known of a request is found by its name."""
    names = [
        {each.carrier, each.opening, *each.logins, *each.by_timers, *each.later, *each.in_transactions, *each.parting}
        for each in DIALECTS.values()
    ]
    assert len(set.union(*names)) == sum(map(len, names))
    assert FIRST.keys() == DIALECTS.keys()
    assert all(EXPLORED[FIRST[name]].dialect is dialect for name, dialect in DIALECTS.items())
    assert {library: CLIENTS[library].protocol for library in FIRST.values()} == {
        library: protocol for protocol, library in FIRST.items()
    }


def test_a_message_can_arrive_when_its_client_has_come_back() -> None:
    """Of what makes no difference to a broker's producers there is one point less."""
    assert [each.action for each in points_of([SECOND], PULSAR, moves=True)] == [
        each for each in Action if each is not Action.STALL_REQUEST_TO_NEXT
    ]
    assert Action.STALL_REQUEST_TO_RETURN not in {each.action for each in points_of([LOOKUP, CONNECT, CLOSE], PULSAR)}
    batch = Exchange(api="Produce", partition=0, number=1, base_sequence=0)
    assert Action.STALL_REQUEST_TO_RETURN not in {each.action for each in points_of([batch], KAFKA)}


@pytest.mark.parametrize("exchange", [CONNECT, CLOSE], ids=["CONNECT", "CLOSE_PRODUCER"])
def test_what_is_not_asked_again_on_another_connection_is_held_to_the_end(exchange: Exchange) -> None:
    actions = [each.action for each in points_of([exchange], PULSAR)]
    assert Action.STALL_REQUEST not in actions and Action.STALL_REPLY in actions
    (rule,) = strikes.rules((point(Action.STALL_REPLY, exchange),), NOBODY)
    assert rule.until == strikes.END


def test_the_brokers_that_own_the_partitions_are_chance_and_the_first_connection_is_not() -> None:
    later = CONNECT.model_copy(update={"number": 2})
    explored, others = in_all([[CONNECT, later, SECOND]] * 3)
    assert explored == [CONNECT, SECOND]
    assert others == [(later, "how many brokers own a topic's partitions is chance")]


def test_the_control_has_the_same_sequence_numbers() -> None:
    """Kafka's producer without idempotence has none."""
    lost = point(Action.LOSE_REPLY)
    assert controls_of(points_of([SECOND, LOOKUP], PULSAR)) == [lost]
    assert moved((lost,), 1) == (
        point(Action.LOSE_REPLY, Exchange(api="SEND", partition=0, number=1, base_sequence=1)),
    )


def test_a_stall_ends_the_clients_side_of_the_connection() -> None:
    (rule,) = strikes.rules((point(Action.STALL_REQUEST),), NOBODY)
    assert (rule.act, rule.cut, rule.match.client_id) == (Act.STALL_REQUEST, True, None)
    (rule,) = strikes.rules((point(Action.STALL_REQUEST),), strikes.Speaker(KAFKA, "us"))
    assert not rule.cut


# When a stall ends.


def happened(schedule: Sequence[Point], *rows: Row) -> list[str]:
    found: list[str] = []
    tell = strikes.following(tuple(schedule), NOBODY, found.append)
    for each in rows:
        tell(each)
    return found


def test_the_client_is_back_when_it_asks_for_its_producer_again() -> None:
    late = point(Action.STALL_REQUEST_TO_RETURN)
    assert happened([late], producer(1), producer(2, partition=1), producer(2, direction="reply")) == []
    assert happened([late], producer(2, done="lost")) == []
    assert happened([late], producer(2)) == [strikes.returned(late)]


def test_a_retry_is_of_the_same_partition() -> None:
    late = point(Action.STALL_REQUEST, LOOKUP)
    again = said(api="LOOKUP", partition=1, number=2, base_sequence=None, direction="reply", error_code=0)
    assert happened([late], again._replace(partition=0), again._replace(error_code=6)) == []
    assert happened([late], again) == [strikes.retried(late)]


# What proves it.


def held(schedule: Sequence[Point], **given: object) -> Row:
    return said(rule=schedule[0].name, done="held", held_ns=200 * MS, at_ms=100, **given)


def test_what_arrives_late_arrives_after_the_client_came_back() -> None:
    late = (point(Action.STALL_REQUEST_TO_RETURN),)
    assert strikes.missed([producer(1), held(late), producer(2, at_ms=250)], late, NOBODY) == []
    for other in (producer(2, at_ms=50), producer(2, at_ms=350), producer(2, at_ms=250, partition=1)):
        found = strikes.missed([producer(1), held(late), other], late, NOBODY)
        assert found == ["the client had come back before it was held"]


def test_a_broker_that_closes_the_connection_ends_a_stall() -> None:
    too_soon = ["its broker had closed before the client came back"]
    not_held = ["the connection ended before it could be held"]
    for action in (Action.STALL_REQUEST, Action.STALL_REQUEST_TO_END):
        schedule = (point(action),)
        vain = held(schedule)._replace(done="lost")
        assert strikes.missed([producer(1), vain, producer(2, at_ms=250)], schedule, NOBODY) == []
        assert strikes.missed([producer(1), vain, producer(2, at_ms=350)], schedule, NOBODY) == too_soon
        assert strikes.missed([vain._replace(held_ns=None)], schedule, NOBODY) == not_held
        assert strikes.missed([vain], schedule, strikes.Speaker(KAFKA, None)) == not_held
    back = (point(Action.STALL_REQUEST_TO_RETURN),)
    assert strikes.missed([producer(1), held(back)._replace(done="lost"), producer(2, at_ms=250)], back, NOBODY) == [
        "the broker closed the connection before it could arrive"
    ]


@pytest.mark.parametrize("api", ["LOOKUP", "PARTITIONED_METADATA", "PRODUCER"])
def test_a_lookup_shares_the_fate_of_the_producer_on_its_connection(api: str) -> None:
    """As with one broker: partition 0's producer is there when partition 1's is looked up."""
    asked = (point(Action.STALL_REQUEST_TO_END, Exchange(api=api, partition=1, number=1)),)
    vain = held(asked, api=api, partition=1, number=1, base_sequence=None)._replace(done="lost")
    back = [producer(2, at_ms=250, connection=2)]
    assert strikes.missed([producer(1), vain, *back], asked, NOBODY) == []
    alone = ["its broker had closed before the client came back"]
    assert strikes.missed([producer(1, connection=3), vain, *back], asked, NOBODY) == alone
    assert strikes.missed([vain, *back], asked, NOBODY) == alone
    own = producer(2, at_ms=250, connection=2, partition=1)
    assert strikes.missed([producer(1), vain, own], asked, NOBODY) == alone, "it had no place there yet"


def test_a_client_has_noticed_what_it_asks_again_and_one_that_leaves_need_not() -> None:
    lost = (point(Action.LOSE_REQUEST, LOOKUP),)
    again = said(api="LOOKUP", partition=1, number=2, base_sequence=None)
    assert strikes.unnoticed([again], lost, NOBODY) == []
    assert strikes.unnoticed([again._replace(partition=0)], lost, NOBODY) == [lost[0].name]
    assert strikes.unnoticed([], (point(Action.LOSE_REQUEST, CLOSE),), NOBODY) == []


def test_the_end_of_a_ping_is_no_failure_and_that_of_a_send_is() -> None:
    ping = said(api="PING", partition=None, direction="reply", done="unanswered")
    assert list(strikes.failed([ping], NOBODY)) == []
    assert list(strikes.failed([ping, said(direction="reply", done="unanswered")], NOBODY)) == ["SEND"]


# How it is told.


def told(action: Action, done: str) -> str:
    schedule = (point(action),)
    rows = [
        held(schedule, producer_id=7)._replace(done=done),
        said(attempt=2, connection=2, at_ms=260),
        said(attempt=2, connection=2, at_ms=270, direction="reply", error_code=0, ledger=5, offset=3),
    ]
    witness = Witness(anomaly="values_with_duplicates", stream=0, value=2, positions=("0/5:1:0", "0/5:3:0"))
    return explain(rows, schedule, NOBODY, ["values_with_duplicates"], [witness])


def test_an_alarm_is_told_by_ledgers_and_entries() -> None:
    words = told(Action.STALL_REQUEST_TO_RETURN, "held")
    assert "SEND with batch 2 of partition 0 (producer id 7, sequence 2) was held for 0.2 s" in words
    assert "was answered without an error, stored at entry 5:3 of partition 0" in words
    assert "partition 0 entry 5:1 at partition 0 entry 5:3" in words
    assert "never arrived" not in words and "None" not in words
    assert "The held one never arrived: the broker had closed its connection." in told(Action.STALL_REQUEST, "lost")


# Where it takes place.


def found() -> Endpoints:
    return Endpoints(
        system="pulsar", client_bootstrap="pulsar://h:1", direct_bootstrap="pulsar://h:1", brokers=[],
        admin_urls=["https://h:8443"],
    )  # fmt: skip


def test_brokers_that_are_there_are_named_with_their_admin_interface() -> None:
    experiment = grounds._document([Address("h", 1), Address("g", 1)], found())
    system = experiment.spec.systems[0]
    assert (system.kind, system.library) == ("pulsar", "pulsar-client")
    assert EXPLORED["pulsar-client"].existing([Address("h", 1)], found()) == {
        "serviceUrl": "pulsar://h:1", "adminUrl": "http://h:8443",
    }  # fmt: skip
    grounds.check(experiment, "t")
    assert grounds.stepped(experiment)[1] == {"batching_enabled": "false"}


def test_a_client_of_the_files_own_choice_is_not_explored(tmp_path: Path) -> None:
    text = (EXAMPLES / "pulsar.yaml").read_text()
    path = tmp_path / "own.yaml"
    path.write_text(text.replace("pulsar: {}", "pulsar: {}\n      client: {command: [./mine]}"))
    with pytest.raises(SpecificationError, match="one Pulsar system, with pulsar-client or pulsar-java"):
        of_file(load(path), "f", Shape())
    assert of_file(load(EXAMPLES / "pulsar.yaml"), "f", Shape())[1] == ()


class Namespaces:
    """An admin whose topics have long names."""

    def topic_name(self, run_topic: str, deduplication: bool) -> str:
        return f"persistent://public/dedup-{'on' if deduplication else 'off'}/{run_topic}"


def test_a_visits_topic_is_in_the_namespace_of_its_variant(tmp_path: Path) -> None:
    experiment, _ = grounds.stepped(load(EXAMPLES / "pulsar.yaml"))
    treatment, control = grounds.variants_of(experiment, "t")
    admin: Any = Namespaces()
    ground = Ground(experiment, treatment, control, found(), [], admin, Event())
    runs = [_Run(ground, (point(Action.LOSE_REPLY),), tmp_path, variant) for variant in (treatment, control)]
    assert [run.topic.split("/")[3] for run in runs] == ["dedup-on", "dedup-off"]
    assert all(run.speaker == NOBODY and "send-0-2-1-lose-reply" in run.topic for run in runs)


def test_options_of_the_other_protocol_are_refused(tmp_path: Path) -> None:
    for target, access, option in (
        ("kafka://h:1", Access(admin="http://h:8080"), "--admin"),
        ("pulsar://h:1", Access(admin="ftp://h"), "--admin"),
    ):
        standing = grounds.standing(target, access, Shape(), tmp_path, Event(), lambda _: None)
        with pytest.raises(SpecificationError, match=option), standing:
            raise AssertionError
