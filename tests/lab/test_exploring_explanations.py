"""How an alarm is told, and of which part of a request: each sentence with the case in which it would be false."""

import pytest
from tests.lab.test_exploring import BY_US, point, row

from dedup.experiment.points import Action, Exchange, Point
from dedup.judgement.anomalies import MAX_WITNESSES, OrderEvent, Witness
from dedup.judgement.selfchecks import BACKWARD
from dedup_lab.exploring import strikes
from dedup_lab.exploring.explanations import explain
from dedup_runners.interposer.conversations import Row

S = 1_000_000_000
SECOND = Exchange(api="Produce", partition=1, number=4, base_sequence=3)


def of_two(error: int, name: str) -> list[Row]:
    """A lost reply about a batch of each of two partitions; the error is that of the second."""
    both = {"rule": name, "connection": 1, "broker": "b", "done": "lost", "monotonic_ns": S}
    return [
        row(error_code=0, offset=7, **both),
        row(partition=1, number=4, base_sequence=3, error_code=error, offset=9, **both),
    ]


@pytest.mark.parametrize(("error", "lack"), [(0, []), (6, ["the broker had answered with error 6"])])
def test_what_struck_is_the_part_that_the_point_is_about(error: int, lack: list[str]) -> None:
    """Java has a batch to each partition of a broker in one request."""
    lost = point(Action.LOSE_REPLY, SECOND)
    assert strikes.missed(of_two(error, lost.name), (lost,), BY_US) == lack
    other = of_two(error, point(Action.LOSE_REPLY).name)
    assert strikes.missed(other, (point(Action.LOSE_REPLY),), BY_US) == []


def test_what_is_told_is_the_part_that_the_point_is_about() -> None:
    lost = point(Action.LOSE_REPLY, SECOND)
    said = explain(of_two(0, lost.name), (lost,), BY_US, [], [])
    assert "the reply to Produce with batch 4 of partition 1 (" in said
    assert "stored at offset 9 of partition 1." in said and "partition 0" not in said


def opening(broker: str, number: int, connection: int, **more: object) -> Row:
    return row(
        api="ApiVersions", partition=None, base_sequence=None, number=number, connection=connection, broker=broker,
        direction="request", monotonic_ns=number * S, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("broker", "told"),
    [("a", "After 1.0 s the client sent it again, on connection 5,"), ("b", "The client did not send it again.")],
)
def test_the_first_request_to_another_broker_is_not_told_as_a_retry(broker: str, told: str) -> None:
    lost = Point(exchange=Exchange(api="ApiVersions", number=2), action=Action.LOSE_REQUEST)
    struck = opening("a", 2, 4, rule=lost.name, done="lost")
    assert told in explain([struck, opening(broker, 3, 5)], (lost,), BY_US, [], [])


@pytest.mark.parametrize(("broker", "told"), [("b", True), ("a", False)])
def test_a_leader_that_has_not_moved_is_not_told_to_have(broker: str, told: bool) -> None:
    lost = point(Action.LOSE_REPLY_AND_MOVE)
    rows = [
        row(rule=lost.name, done="lost", connection=1, broker="a", error_code=0, monotonic_ns=S),
        row(direction="request", attempt=2, connection=2, broker=broker, monotonic_ns=2 * S),
        row(attempt=2, connection=2, broker=broker, error_code=0, monotonic_ns=2 * S),
    ]
    assert ("once another broker led the partition" in explain(rows, (lost,), BY_US, [], [])) is told


@pytest.mark.parametrize(
    ("done", "told"),
    [
        ("unanswered", "was held, and its client did not wait for it. The broker had answered it without an error,"),
        ("held", "was held for 2.0 s. The client did not send it again."),
    ],
)
def test_a_held_reply_is_not_told_as_lost(done: str, told: str) -> None:
    held = point(Action.STALL_REPLY)
    more = {"held_ns": 2 * S} if done == "held" else {}
    reply = row(rule=held.name, done=done, connection=1, broker="a", error_code=0, offset=7, bytes=9, **more)
    assert told in explain([reply], (held,), BY_US, [], [])
    lost = point(Action.LOSE_REPLY)
    said = explain([reply._replace(rule=lost.name, done="lost", held_ns=None)], (lost,), BY_US, [], [])
    assert "was lost with its connection. The broker had answered it without an error, stored at offset 7" in said


def of_values(count: int) -> str:
    witnesses = [Witness(anomaly="phantom", stream=0, value=each, positions=("0/0:2:0",)) for each in range(count)]
    return explain([row()], (), BY_US, ["phantom"], witnesses)


def test_the_judges_name_the_first_few_values_only() -> None:
    assert of_values(6).endswith(" and 2 more.")
    assert of_values(MAX_WITNESSES).endswith(" and at least 6 more.")
    assert "more" not in of_values(4)


def test_a_wrong_order_is_told_by_its_jumps() -> None:
    (name, jump), (other, _) = BACKWARD.items()
    event = OrderEvent(jump=jump, partition=1, stream=0, last=9, value=4, arrival=3)
    assert explain([row()], (), BY_US, [name], [], [event]).endswith(": value 4 of stream 0 after 9 in partition 1.")
    assert explain([row()], (), BY_US, [other], [], [event]).endswith(").")


def test_of_jumps_the_judges_name_the_first_few_of_both_kinds_together() -> None:
    """So more of either may be there than are told."""
    (name, jump), (_, other) = BACKWARD.items()

    def told(others: int) -> str:
        jumps = [jump] * 6 + [other] * others
        events = [OrderEvent(jump=each, partition=1, stream=0, last=9, value=4, arrival=3) for each in jumps]
        return explain([row()], (), BY_US, [name], [], events)

    assert told(MAX_WITNESSES - 6).endswith(" and at least 2 more.")
    assert told(MAX_WITNESSES - 7).endswith(" and 2 more.")
