"""A fault on one frame: the rule that follows from its settings, and when it is believed to have tested something.

The last tests do the whole of it in this process, before librdkafka's own mock brokers.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pyarrow.parquet as pq
import pytest
from tests.runners.mock_brokers import mock_cluster

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.records import vacuous
from dedup.faults.registry import Fault
from dedup.wire.manifests import FaultRecord
from dedup_runners import chaos
from dedup_runners.chaos import sessions
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.faults import message
from dedup_runners.chaos.injections import injection_of
from dedup_runners.interposer.conversations import FILE, Conversation, Done, Row, now
from dedup_runners.interposer.protocols import Direction, Frame, Part
from dedup_runners.interposer.rules import Act, Place
from dedup_runners.triggers import TriggerClient

LOST: dict[str, Any] = {"api": "Produce", "frame": "Reply", "action": "Lose"}
HELD: dict[str, Any] = {"api": "Produce", "frame": "Request", "action": "Stall", "deadline": "600s", "until": "Retry"}
TOPIC, MESSAGES, BOUND_S = "t", 6, 15.0


def fault(**settings: object) -> Fault:
    return Fault.model_validate_json(json.dumps({"name": "one", "at": {"message": 3}, "message": settings}))


def rule(**settings: object) -> Any:
    given = fault(**settings).given.settings
    return message.rule_of("one", given, "Produce", TOPIC, 1, 3)


def test_only_requests_with_messages_are_of_a_partition() -> None:
    found = rule(**LOST, attempt=2, nth=4)
    assert (found.act, found.match.topic, found.match.partition, found.match.attempt) == (Act.LOSE_REPLY, TOPIC, 1, 2)
    assert (found.nth, found.begin.message) == (4, 3)
    assert rule(**{**LOST, "api": "Metadata"}).match.partition is None


def test_a_stall_ends_at_the_retry_or_at_its_deadline() -> None:
    found = rule(**HELD)
    assert (found.act, found.until, found.deadline_s) == (Act.STALL_REQUEST, found.retried, 600.0)
    assert rule(**{**HELD, "until": None}).until is None


def test_the_end_of_the_next_transaction_waits_behind_what_is_held_to_it() -> None:
    held = rule(**{**HELD, "api": "EndTxn", "until": "NextProduce"})
    found, behind = message.rules_of(held)
    assert found is held and "AddPartitionsToTxn" in held.clear_of, "else the coordinator refuses it"
    assert (behind.match.api, behind.match.after, behind.until) == ("EndTxn", held.retried, held.arrived)
    for other in ({"until": "Retry", "api": "EndTxn"}, {"until": "NextProduce"}):
        alone = rule(**{**HELD, **other})
        assert message.rules_of(alone) == [alone] and not alone.clear_of


def row(direction: Direction, attempt: int, done: Done = Done.PASSED, error: int | None = 0, offset: int = 2) -> Row:
    said = Conversation()
    known = {"error_code": error, "offset": offset} if direction is Direction.REPLY else {}
    part = Part(TOPIC, 0, batch="b", **known)
    frame = Frame(b"", direction, "Produce", parts=(part,))
    said.add(1, "producer", "h:1", frame, [Place(part, 3, attempt)], now(), done)
    return said.rows()[0]


LOST_REPLY = row(Direction.REPLY, 1, Done.LOST)
ONCE = [row(Direction.REQUEST, 1), LOST_REPLY, row(Direction.REQUEST, 2), row(Direction.REPLY, 2)]
TWICE = [*ONCE[:3], row(Direction.REPLY, 2, offset=5)]


@pytest.mark.parametrize(("rows", "stored"), [(ONCE, ["2"]), (TWICE, ["2", "5"])], ids=["recognised", "stored twice"])
def test_the_log_agrees_with_the_conversation(rows: list[Row], stored: list[str]) -> None:
    assert message.refused(LOST_REPLY, rows, stored) == ""
    words = "lost the reply to Produce 3 of partition 0, attempt 1, which said that it is stored at 2"
    assert message.told(LOST_REPLY) == words


@pytest.mark.parametrize(
    ("rows", "stored", "words"),
    [
        (ONCE, [], "the batch is at 2, it was sent 2 times, and the log has it at nowhere"),
        (TWICE, ["2"], "the batch is at 2, 5, it was sent 2 times, and the log has it at 2"),
        (ONCE, ["2", "5", "6"], "it was sent 2 times, and the log has it at 2, 5, 6"),
        ([row(Direction.REQUEST, 1, Done.LOST), *ONCE[2:]], ["2", "5"], "it was sent 1 times"),
    ],
)
def test_a_log_that_contradicts_the_conversation_refuses_the_fault(
    rows: list[Row], stored: list[str], words: str
) -> None:
    assert words in message.refused(LOST_REPLY, rows, stored)


def test_the_reply_to_a_request_that_was_held_is_not_what_was_struck() -> None:
    """It has the rule's name, since its client had left."""
    held = rule(**HELD)
    on_one = replace(held, match=replace(held.match, partition=0))
    request, late = row(Direction.REQUEST, 1, Done.HELD), row(Direction.REPLY, 1, Done.UNANSWERED)
    named = [each._replace(rule="one") for each in (request, late)]
    assert [message.is_struck(each, on_one) for each in named] == [True, False]


def test_what_a_rule_without_a_partition_struck_may_be_of_one() -> None:
    """Whoever looks a topic up names its partition; a fault on requests without messages asks for none."""
    lookup = rule(**{**LOST, "api": "Metadata"})
    struck = row(Direction.REPLY, 1, Done.LOST)._replace(rule="one")
    assert (lookup.match.partition, struck.partition) == (None, 0)
    assert message.is_struck(struck, lookup)
    assert not message.is_struck(struck, rule(**LOST)), "which is about partition 1"


def test_a_reply_that_says_no_was_no_loss() -> None:
    no = row(Direction.REPLY, 1, Done.LOST, error=6, offset=-1)
    assert "the broker's reply was error 6" in message.refused(no, [row(Direction.REQUEST, 1), no], [])


def test_a_refusal_of_any_request_shows_nothing_and_its_twin_does() -> None:
    no = row(Direction.REPLY, 1, Done.LOST, error=14)._replace(api="InitProducerId", partition=None)
    assert "error 14: it had not done what was asked" in message.refused_reply(no)
    assert message.refused_reply(no._replace(error_code=0)) == ""
    assert message.refused_reply(no._replace(direction=Direction.REQUEST)) == ""


class StandIn:
    """The part of an Admin that is asked. Without a `bootstrap` it says that nothing is stored."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def leader(self, topic: str, partition: int) -> str:
        return "1"

    def stored(self, topic: str, partition: int, batch: object) -> list[str]:
        """Where the third message is; only that one is struck."""
        if not self._bootstrap:
            return []
        reading = ck.Consumer({"bootstrap.servers": self._bootstrap, "group.id": topic, "log_level": 0})
        place = ck.TopicPartition(topic, partition, 0)
        _, end = reading.get_watermark_offsets(place, timeout=BOUND_S)
        reading.assign([place])
        found = [message.offset() for message in reading.consume(end, BOUND_S) if message.value() == b"2"]
        reading.close()
        return [str(offset) for offset in found]

    def unhealthy(self, topic: str | None) -> None:
        return None

    def round_trip(self, timeout_s: float) -> float:
        return 0.0

    def close(self) -> None:
        return


@pytest.fixture(scope="module")
def brokers() -> Iterator[Endpoints]:
    with mock_cluster() as found:
        ports = [int(each.rpartition(":")[2]) for each in found.client_bootstrap.split(",")]
        known = [Broker(id=str(number), client_port=port) for number, port in enumerate(ports, 1)]
        yield found.model_copy(update={"brokers": known})


def played(
    folder: Path, brokers: Endpoints, *, forgetful: bool = False, **settings: Any
) -> tuple[FaultRecord, list[dict[str, Any]]]:
    """Do all activities of a fault while a producer sends; the fault's record, and the conversation."""
    asked = fault(**settings)
    document = render(asked, folder=folder, endpoints=brokers, topic=folder.name)
    chaos.write(folder, document)
    configuration = document["configuration"]
    session = sessions.current(configuration)
    session.admin = StandIn("" if forgetful else brokers.client_bootstrap)  # type: ignore[assignment]
    injection_of(type(asked.given)).prepare(session)
    session.triggers = session.arm()
    listening = chaos.armed(folder, "one")
    assert listening is not None and listening.bootstrap is not None
    producer = threading.Thread(target=produce, args=(folder.name, listening.bootstrap, listening.port))
    producer.start()
    session.triggers.wait_message(BOUND_S)
    session.triggered = True
    message.strike_frame(configuration)
    message.outlast_producer(configuration)
    message.end_conversation(configuration)
    producer.join(BOUND_S)
    session.close()
    (record,) = chaos.records(folder, [asked], messages=MESSAGES)
    return record, pq.read_table(folder / "chaos" / "one" / FILE).to_pylist()


def produce(topic: str, bootstrap: str, port: int) -> None:
    told = TriggerClient("127.0.0.1", port, "one", 3, lambda line: None)
    settings = {"batch.num.messages": 1, "linger.ms": 0, "retry.backoff.ms": 1, "reconnect.backoff.ms": 1}
    producer = ck.Producer(
        {**settings, "bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 1000, "acks": "all"}
    )
    for number in range(MESSAGES):
        producer.produce(topic, str(number), partition=0)
        if number == 2:
            told.push(3, 0)
    producer.flush(BOUND_S)
    producer.close()
    told.finish()


def reason(record: FaultRecord) -> str | None:
    """Why the fault proves nothing, but for what the client would have to say."""
    return vacuous(record.model_copy(update={"client_witness": {"disconnect": 1}}))


@pytest.mark.long
def test_the_reply_to_the_third_message_is_lost_and_the_log_shows_it(tmp_path: Path, brokers: Endpoints) -> None:
    record, said = played(tmp_path, brokers, **LOST)
    (lost,) = [each for each in said if each["done"] == Done.LOST]
    assert (lost["direction"], lost["number"], lost["attempt"], lost["rule"]) == ("reply", 3, 1, "one")
    shown = record.target_witness
    assert (shown["place"], shown["passed"]) == (str(lost["offset"]), MESSAGES)
    assert len(shown["stored"]) == 2 and shown["place"] in shown["stored"], "without idempotence it is stored again"
    assert reason(record) is None
    assert shown["touched"] == record.target.removeprefix("broker ").split(", ")


@pytest.mark.long
def test_a_log_without_the_batch_leaves_nothing_proven(tmp_path: Path, brokers: Endpoints) -> None:
    record, _ = played(tmp_path, brokers, forgetful=True, **LOST)
    assert "and the log has it at nowhere" in (reason(record) or "")


@pytest.mark.long
def test_a_frame_that_never_came_was_not_struck(tmp_path: Path, brokers: Endpoints) -> None:
    record, said = played(tmp_path, brokers, **LOST, nth=100)
    assert "never took effect: no request or reply matched before the producer ended" in (reason(record) or "")
    assert {each["done"] for each in said if each["direction"] == "request"} == {Done.PASSED}


@pytest.mark.long
def test_a_held_request_arrives_when_its_retry_has_been_answered(tmp_path: Path, brokers: Endpoints) -> None:
    """The client gives up after a second, and asks on another connection; the deadline is ten minutes away."""
    record, said = played(tmp_path, brokers, **HELD)
    first, again = (each for each in said if (each["number"], each["direction"]) == (3, "request") and each["topic"])
    if first["attempt"] != 1:
        first, again = again, first
    assert (first["done"], again["attempt"], again["done"]) == (Done.HELD, 2, Done.PASSED)
    assert first["held_ns"] > 5e8
    assert record.target_witness["done"] == Done.HELD
