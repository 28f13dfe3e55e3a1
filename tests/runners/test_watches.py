"""The watch over open transactions: what it has seen for how long, and what coordinators say of it; no broker."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.admin.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Security
from dedup.wire.manifests import EndPosition, OpenTransaction
from dedup_runners import consumer
from dedup_runners.admins import Admin, hanging
from dedup_runners.admins.transactions import Open
from dedup_runners.admins.views import Partition, View
from dedup_runners.clients import ConsumerClient
from dedup_runners.configs import ConsumerConfig
from dedup_runners.consumer import Consumption
from dedup_runners.recording.recorders import Recorder
from dedup_runners.watches import Watch

ENDS: Final = (EndPosition(partition=0, extents=((0, 9),)), EndPosition(partition=1, extents=((0, 4),)))
STABLE: Final = {0: 3, 1: 4}
HANGS: Final = Open(partition=0, producer_id=7, epoch=1, first=3)


def watch(*answers: list[Open] | Exception) -> tuple[Watch, Callable[[], None]]:
    """A watch whose looks, ten seconds apart, see that; and a look."""
    left: Iterator[list[Open] | Exception] = iter(answers)
    times = iter(range(0, 1000, 10))

    def ask() -> list[Open]:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    made = Watch(ask, now=lambda: float(next(times)))
    return made, made.look


def test_what_two_looks_see_and_no_coordinator_knows_is_overdue() -> None:
    made, look = watch([HANGS], [HANGS])
    look()
    assert not made.overdue(), "one look is none: it may have ended meanwhile"
    look()
    assert made.overdue()
    first, second = made.named(ENDS, STABLE)
    assert first.open == (OpenTransaction(producer_id=7, epoch=1, first=3, seen_s=10.0, due_s=0.0),)
    assert (first.stable, second.stable, second.open) == (3, 4, ())
    assert made.words() == [
        "in partition 0 a transaction of producer 7 of epoch 1 is open from offset 3 on, seen for 10 s; "
        "no coordinator knows it"
    ]


def test_a_coordinator_that_was_not_there_for_one_look_accuses_nobody() -> None:
    """It moves from one broker to another: each is asked while it does not have it."""
    known = HANGS._replace(due_s=70.0)
    made, look = watch([known], [HANGS], [known], [HANGS], [HANGS])
    for _ in range(4):
        look()
        assert not made.overdue()
    look()
    assert made.overdue(), "two looks in a row have missed it"


def test_what_an_earlier_look_saw_is_not_named_beside_newer_offsets() -> None:
    made, look = watch([HANGS], OSError("no answer"))
    look()
    look()
    assert [end.open for end in made.named(ENDS, {0: 9, 1: 4})] == [(), ()]
    assert made.words()[0] == "which transactions are open is not known: no answer"


@pytest.mark.parametrize(
    ("second", "overdue"),
    [
        ([], False),
        ([HANGS._replace(first=6)], False),
        ([HANGS._replace(epoch=2)], False),
        ([HANGS._replace(due_s=10.0)], False),
        ([HANGS._replace(due_s=9.0)], True),
    ],
    ids=["it has ended", "another one has begun", "another one of its producer", "it is not due yet", "it is overdue"],
)
def test_only_what_is_the_same_is_seen_for_longer(second: list[Open], overdue: bool) -> None:
    made, look = watch([HANGS], second)
    look()
    look()
    assert made.overdue() is overdue


def test_a_look_that_nobody_answers_leaves_what_was_seen() -> None:
    made, look = watch([HANGS], OSError("no route"), [HANGS])
    look()
    look()
    assert made.words()[0] == "which transactions are open is not known: no route" and not made.overdue()
    look()
    assert made.overdue() and len(made.words()) == 1
    (found,) = made.named(ENDS, STABLE)[0].open
    assert found.seen_s == 20.0


# The audit.


class Stuck:
    """A client that reads nothing beyond offset 3 of 9."""

    foreign: ClassVar[list[str]] = []

    def missing(self, ends: Iterable[EndPosition]) -> str | None:
        return "partition 0 was read up to 3 of 9"

    def read(self, timeout_s: float) -> None:
        """It waits for no time: the audit's own is what matters."""


class Told:
    """An admin that names an open transaction, at each look."""

    def __init__(self, due_s: float) -> None:
        self._due_s, self.looks = due_s, 0

    def end_positions(self, topic: str) -> list[EndPosition]:
        return [EndPosition(partition=0, extents=((0, 9),))]

    def stable_offsets(self, topic: str) -> dict[int, int]:
        return {0: 3}

    def open_transactions(self, topic: str) -> list[Open]:
        self.looks += 1
        return [HANGS._replace(due_s=self._due_s)]

    def resumption(self, topic: str, end: EndPosition, ledger: int, entry: int) -> None:
        """Brokers deliver what the client stands still at."""


def audited(admin: Told, folder: Path, timeout_s: float) -> tuple[Consumption, str | None]:
    endpoints = {"system": "kafka", "client_bootstrap": "", "direct_bootstrap": "", "brokers": []}
    given = {"run_id": "r", "folder": folder, "endpoints": endpoints, "topic": "t", "library": "confluent-kafka"}
    config = ConsumerConfig.model_validate({**given, "timeout_s": timeout_s, "transactions": {"size": 3}})
    recorder = Recorder(folder)
    found = Consumption(config, cast(ConsumerClient, Stuck()), cast(Admin, admin), recorder)
    missing = found.run()
    recorder.close()
    return found, missing


def test_an_audit_that_stands_still_ends_at_the_second_look_that_sees_one_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "STANDS_STILL_S", 0.0)
    admin = Told(due_s=0.0)
    found, missing = audited(admin, tmp_path, timeout_s=60.0)
    assert missing is not None and admin.looks == 2
    assert missing.startswith("the end cannot be reached: partition 0 was read up to 3 of 9; in partition 0 a ")
    ((end,), (open_,)) = found.end, found.end[0].open
    assert (end.stable, open_.first, open_.due_s) == (3, 3, 0.0) and open_.seen_s > 0


def test_one_that_is_not_due_is_waited_for_and_named_when_the_time_is_over(tmp_path: Path) -> None:
    admin = Told(due_s=70.0)
    found, missing = audited(admin, tmp_path, timeout_s=1e-9)
    assert missing is not None and missing.startswith("the end was not reached within 1e-09 s: ")
    assert missing.endswith("seen for 0 s; it is to end within 70 s") and admin.looks == 1
    assert [(each.seen_s, each.due_s) for each in found.end[0].open] == [(0.0, 70.0)]


# What coordinators say.


class Line:
    """A broker's line: one coordinator has a transaction of producer 7, in partitions 0 and 1 of t."""

    state, error, config = "Ongoing", 0, "10000"

    def __init__(self, address: tuple[str, int], timeout_s: float, security: object) -> None:
        self._own = address == ("b2", 1)

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def ask(self, request: Any) -> Any:
        if isinstance(request, ListTransactionsRequest):
            assert list(request.producer_id_filters) == [7]
            of = ListTransactionsResponse.TransactionState
            states = [of(version=0, transactional_id="x", producer_id=7, transaction_state=self.state)] * self._own
            return ListTransactionsResponse(
                version=0, throttle_time_ms=0, error_code=self.error, unknown_state_filters=[],
                transaction_states=states,
            )  # fmt: skip
        if isinstance(request, DescribeTransactionsRequest):
            assert list(request.transactional_ids) == ["x"] and self._own
            told = DescribeTransactionsResponse.TransactionState
            part = told.TopicData(version=0, topic="t", partitions=[0, 1])
            state = told(
                version=0, error_code=0, transactional_id="x", transaction_state=self.state,
                transaction_timeout_ms=60_000, transaction_start_time_ms=1, producer_id=7, producer_epoch=1,
                topics=[part],
            )  # fmt: skip
            return DescribeTransactionsResponse(version=0, throttle_time_ms=0, transaction_states=[state])
        assert isinstance(request, DescribeConfigsRequest)
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult(version=1, name=hanging.SCAN, value=self.config)
        return DescribeConfigsResponse(
            version=1, results=[result(version=1, error_code=0, resource_type=4, resource_name="2", configs=[entry])]
        )


OPENED: Final = [HANGS, Open(partition=2, producer_id=7, epoch=1, first=5)]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two brokers, three partitions; the transaction is open in partition 0 and in 2, of which no coordinator knows."""
    whole = View({"1": ("b1", 1), "2": ("b2", 1)}, 0, {each: Partition("1", ("1",), ("1",)) for each in range(3)})
    monkeypatch.setattr(hanging, "view", lambda address, topic, security: whole)
    monkeypatch.setattr(hanging, "all_open", lambda leaders, topic, security: list(OPENED))
    monkeypatch.setattr(hanging, "Line", Line)
    return monkeypatch


def looked() -> list[Open]:
    return hanging.open_in_all([("b1", 1), ("b2", 1)], "t", Security())


def test_a_coordinator_ends_what_it_knows_within_the_time_out_and_its_pause(brokers: pytest.MonkeyPatch) -> None:
    assert [each.due_s for each in looked()] == [70.0, 0.0]


@pytest.mark.parametrize("state", ["CompleteAbort", "Empty"])
def test_a_coordinator_that_has_ended_it_ends_nothing_any_more(brokers: pytest.MonkeyPatch, state: str) -> None:
    brokers.setattr(Line, "state", state)
    assert [each.due_s for each in looked()] == [0.0, 0.0]


def test_what_ends_while_coordinators_are_asked_is_not_open(brokers: pytest.MonkeyPatch) -> None:
    """Its coordinator may have ended it just before it was asked: then it does not know it any more."""
    said = iter([OPENED, OPENED[1:]])
    brokers.setattr(hanging, "all_open", lambda leaders, topic, security: list(next(said)))
    assert [each.partition for each in looked()] == [2]


def test_nobody_is_said_to_know_nothing_who_does_not_answer(brokers: pytest.MonkeyPatch) -> None:
    brokers.setattr(Line, "error", 14)
    with pytest.raises(PlatformError, match="Kafka error 14"):
        looked()


def test_without_a_leader_of_the_coordinators_log_nothing_is_known(brokers: pytest.MonkeyPatch) -> None:
    """A coordinator that is not there knows nothing, and will know it all again."""
    whole = View({"1": ("b1", 1), "2": ("b2", 1)}, 0, {0: Partition("1", ("1",), ("1",))})
    without = whole._replace(partitions={0: Partition("-1", ("1",), ("1",))})
    brokers.setattr(
        hanging, "view", lambda address, topic, security: without if topic == hanging.OF_COORDINATORS else whole
    )
    with pytest.raises(PlatformError, match="no leader"):
        looked()
