"""What becomes of a transaction by what librdkafka says, and where a partition ends beyond its last message."""

import time
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pytest
from tests.runners.native_clients import Reporter, given, reports
from tests.runners.productions import config_of
from tests.runners.witnesses import Seen

from dedup.wire.manifests import Asked, Ended, EndPosition
from dedup_runners.clients import chunk_of
from dedup_runners.clients.confluent_kafka import Consumer
from dedup_runners.clients.native import Failure
from dedup_runners.clients.transactions import TransactionalProducer
from dedup_runners.turns import Turns


def told(*, again: bool = False, aborts: bool = False, code: int = ck.KafkaError._FATAL) -> Failure:
    """librdkafka's error."""
    return Failure(code, "words", again, aborts)


AGAIN, DOOMED, FATAL = told(again=True), told(aborts=True), told()
Answers = list[Failure | None]


class Client(Reporter):
    def __init__(self, commits: Answers, aborts: Answers) -> None:
        super().__init__()
        self.commits, self.aborts = commits, aborts

    def commit_transaction(self, for_s: float) -> Failure | None:
        return self.commits.pop(0)

    def abort_transaction(self, for_s: float) -> Failure | None:
        return self.aborts.pop(0)

    def begin_transaction(self) -> Failure | None:
        return FATAL


class Witness:
    def disturbed(self, kind: object, detail: str) -> None:
        """It is told of it."""


def producer(commits: Answers = [], aborts: Answers = []) -> TransactionalProducer:  # noqa: B006
    made: Any = TransactionalProducer.__new__(TransactionalProducer)
    made._client, made._witnesses = Client(list(commits), list(aborts)), Witness()
    made._serving, made._drain = Turns(), lambda: None
    result: TransactionalProducer = made
    return result


@pytest.mark.parametrize(
    ("asked", "commits", "aborts", "ended", "failed"),
    [
        (Asked.COMMIT, [None], [], Ended.COMMITTED, False),
        (Asked.COMMIT, [AGAIN, AGAIN, None], [], Ended.COMMITTED, False),
        (Asked.COMMIT, [DOOMED], [None], Ended.ABORTED, False),
        (Asked.COMMIT, [AGAIN, DOOMED], [AGAIN, None], Ended.ABORTED, False),
        (Asked.COMMIT, [FATAL], [], Ended.UNKNOWN, True),
        (Asked.COMMIT, [DOOMED], [FATAL], Ended.UNKNOWN, True),
        (Asked.ABORT, [], [None], Ended.ABORTED, False),
        (Asked.ABORT, [], [FATAL], Ended.UNKNOWN, True),
    ],
)
def test_only_a_call_that_succeeds_settles_a_transaction(
    asked: Asked, commits: Answers, aborts: Answers, ended: Ended, failed: bool
) -> None:
    client = producer(commits, aborts)
    assert client.end(asked, 60.0) is ended
    assert bool(client.failed) is failed
    stand_in: Any = client._client
    assert stand_in.commits == stand_in.aborts == [], "it asks as often as it must, and no more"


def test_a_commit_that_may_be_repeated_for_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    client = producer([AGAIN] * 3)
    now = iter(range(0, 1000, 40))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    assert client.end(Asked.COMMIT, 60.0) is Ended.UNKNOWN
    assert client.failed, "nobody knows what a further call would end"


@pytest.mark.parametrize(
    ("code", "fenced"),
    [
        (ck.KafkaError._FENCED, True),
        (ck.KafkaError.PRODUCER_FENCED, True),
        (ck.KafkaError.INVALID_PRODUCER_EPOCH, True),
        (ck.KafkaError._FATAL, False),
    ],
)
def test_a_client_whose_place_another_one_took_says_so(code: int, fenced: bool) -> None:
    client = producer([told(code=code)])
    assert client.end(Asked.COMMIT, 60.0) is Ended.UNKNOWN
    assert (bool(client.failed), client.fenced) == (True, fenced)


def test_a_client_that_has_given_up_ends_nothing_and_can_be_closed() -> None:
    client = producer()
    client.begin()
    assert client.failed == "_FATAL: words"
    assert client.end(Asked.COMMIT, 60.0) is Ended.UNKNOWN
    client.close()


STREAMS: Final = 4


@pytest.mark.parametrize("first", [0, 2], ids=["from the first message", "from the middle of a turn"])
def test_what_has_its_outcome_is_not_in_flight_wherever_the_instance_has_begun(first: int, tmp_path: Path) -> None:
    """An instance that takes over goes on at any message; brokers have acknowledged all of its five but the last."""
    told = {"messages": 40, "streams": STREAMS, "sends": True, "transactions": {"size": 10}, "life": {"first": first}}
    client: Any = TransactionalProducer(config_of("", tmp_path, **told), lambda outcomes: None, Seen())
    sent = chunk_of(first, first + 5, STREAMS, 28)
    last = int(sent.streams[-1])
    client._sent = len(sent.values)
    given(client, reports(sent.values[:-1].tolist(), range(4), streams=sent.streams[:-1].tolist()))
    assert [client.in_flight(stream) for stream in range(STREAMS)] == [int(each == last) for each in range(STREAMS)]
    assert client.in_flight(None) == 1
    given(client, reports(sent.values[-1:].tolist(), [4], streams=[last]))
    assert [client.in_flight(each) for each in (None, *range(STREAMS))] == [0] * 5


# Where a partition ends.

END: Final = (EndPosition(partition=0, extents=((0, 8),)),)


class Message:
    def __init__(self, offset: int, code: int) -> None:
        self._offset, self._code = offset, code

    def error(self) -> Any:
        return type("Error", (), {"code": lambda _: self._code})()

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


@pytest.mark.parametrize(
    ("code", "missing"),
    [(ck.KafkaError._PARTITION_EOF, None), (ck.KafkaError._TRANSPORT, "partition 0: offset 5 of 8")],
)
def test_the_end_that_a_reader_is_told_of_lies_beyond_markers(code: int, missing: str | None) -> None:
    """The last message was at offset 4; 5 to 7 hold an aborted one and markers, which nobody is given."""
    consumer: Any = Consumer.__new__(Consumer)
    consumer._next = {0: 5}
    consumer._pass_ends([Message(8, code)])
    assert consumer.missing(END) == missing
