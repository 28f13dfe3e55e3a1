"""A program that sends in transactions: only what it says of an end settles it, and a session begins where it is to."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from tests.runners.productions import report_of
from tests.runners.witnesses import Seen

from dedup.wire.manifests import Asked, Ended
from dedup.workloads.kinds import CLOSED, FENCED
from dedup.workloads.restart import Identity
from dedup.workloads.transactions import Sending
from dedup_runners.clients import Outcomes, chunk_of
from dedup_runners.clients.frames import in_transactions
from dedup_runners.clients.programs import GRACE_S
from dedup_runners.clients.transactional_programs import TransactionalProgram
from dedup_runners.configs import ProducerConfig, Program
from dedup_runners.producer import produce

PROGRAM: Final = Program(argv=(sys.executable, "-S", "-E", str(Path(__file__).with_name("a_client_program.py"))))
STREAMS, MESSAGES, SIZE = 2, 40, 10
BOUND_S: Final = 30.0
Make = Callable[..., ProducerConfig]


@pytest.fixture
def config(tmp_path: Path) -> Make:
    def make(properties: dict[str, str] | None = None, first: int = 0, **transactions: Any) -> ProducerConfig:
        return ProducerConfig.model_validate(
            {
                "run_id": "r1", "folder": tmp_path, "topic": "t", "library": "kafka-java", "deduplication": True,
                "endpoints": {"system": "kafka", "client_bootstrap": "b:1", "direct_bootstrap": "b:1", "brokers": []},
                "producer_name": "r1-1", "messages": MESSAGES, "streams": STREAMS, "in_flight": 1000, "sends": True,
                "delivery_timeout_s": 20.0, "program": PROGRAM, "properties": properties or {},
                "life": {"first": first}, "transactions": {"size": SIZE, **transactions},
            }
        )  # fmt: skip

    return make


class Opened:
    """A program that a test drives itself."""

    def __init__(self, config: ProducerConfig) -> None:
        self.outcomes = list[Outcomes]()
        self.client = TransactionalProgram(config, self.outcomes.append, Seen())
        self.client.connect(BOUND_S)

    def sent(self) -> list[tuple[int, int]]:
        """Stream and value of what has an outcome."""
        pairs = ((each.streams.tolist(), each.values.tolist()) for each in self.outcomes)
        return [pair for streams, values in pairs for pair in zip(streams, values, strict=True)]


@pytest.mark.parametrize(
    ("asked", "answer", "ended"),
    [
        (Asked.COMMIT, {}, Ended.COMMITTED),
        (Asked.ABORT, {}, Ended.ABORTED),
        (Asked.COMMIT, {"commit": "aborted"}, Ended.ABORTED),
        (Asked.COMMIT, {"commit": "unknown"}, Ended.UNKNOWN),
    ],
)
def test_a_transaction_ends_as_the_program_says(
    asked: Asked, answer: dict[str, str], ended: Ended, config: Make
) -> None:
    opened = Opened(config(answer))
    opened.client.begin()
    opened.client.send(chunk_of(0, SIZE, STREAMS))
    opened.client.settle()
    assert len(opened.sent()) == SIZE, "all outcomes are there before the end is asked for"
    assert opened.client.end(asked, BOUND_S) is ended
    opened.client.finish()
    assert (opened.client.problem, opened.client.failed) == ("", "")


@pytest.mark.parametrize(
    ("asked", "answer", "said"),
    [
        (Asked.COMMIT, {"commit": "begun"}, "the answer begun to commit"),
        (Asked.ABORT, {"abort": "committed"}, "the answer committed to abort"),
        (Asked.COMMIT, {"twice": "settle"}, "the answer settled to "),
        (Asked.COMMIT, {"twice": "never"}, ""),
    ],
)
def test_an_answer_that_does_not_fit_the_order_settles_nothing(
    asked: Asked, answer: dict[str, str], said: str, config: Make
) -> None:
    """Nor is the second answer to an order one to the next."""
    opened = Opened(config(answer))
    opened.client.begin()
    opened.client.settle()
    ended = opened.client.end(asked, BOUND_S)
    opened.client.finish()
    assert (ended is Ended.UNKNOWN) is bool(said)
    assert said in opened.client.problem and bool(opened.client.problem) is bool(said)


def test_a_program_that_gave_up_ends_nothing_and_leaves_in_order(config: Make) -> None:
    opened = Opened(config({"gives-up": "commit"}))
    opened.client.begin()
    assert opened.client.end(Asked.COMMIT, BOUND_S) is Ended.UNKNOWN
    assert (opened.client.failed, opened.client.fenced) == ("Fenced: another one", True)
    assert opened.client.end(Asked.ABORT, BOUND_S) is Ended.UNKNOWN
    opened.client.close()
    assert opened.client.problem == ""


def test_an_answer_is_waited_for_longer_than_the_client_may_wait_for_brokers(
    config: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulsar's waits a delivery's time for each call; an end may be two calls."""
    opened, bounds = Opened(config()), dict[str, float]()
    patience_s, call = opened.client._patience_s, opened.client._call

    def call_(order: str, timeout_s: float) -> str:
        bounds[order] = timeout_s
        return call(order, timeout_s)

    monkeypatch.setattr(opened.client, "_call", call_)
    opened.client.begin()
    opened.client.settle()
    opened.client.end(Asked.COMMIT, patience_s)
    opened.client.finish()
    least = {"begin": patience_s, "settle": patience_s, "commit": 2 * patience_s}
    assert {order: bound_s - GRACE_S for order, bound_s in bounds.items()} == least
    assert opened.client.problem == ""


def test_a_session_begins_with_its_first_message(config: Make) -> None:
    opened = Opened(config({"hold": "3"}, first=SIZE))
    opened.client.begin()
    opened.client.send(chunk_of(SIZE, 2 * SIZE, STREAMS))
    assert [opened.client.in_flight(partition) for partition in (None, 0, 1)] == [3, 1, 2]
    opened.client.settle()
    assert sorted(opened.sent()) == sorted((n % STREAMS, n // STREAMS + 1) for n in range(SIZE, 2 * SIZE))
    opened.client.finish()


def test_a_program_that_dies_ends_nothing_and_is_the_runs_error(config: Make, tmp_path: Path) -> None:
    produce(config({"die": "15"}))
    report = report_of(tmp_path)
    assert not report.complete and "exit code 3 before it had finished" in report.problems[0]
    assert report.transactions is not None and report.transactions.committed == 1


def test_a_program_is_replaced_within_a_transaction_and_sends_what_the_other_has_sent(
    config: Make, tmp_path: Path
) -> None:
    """Nothing is refused here: without brokers there is nobody to refuse it."""
    produce(config(zombie={"every": 2, "identity": Identity.NEW}))
    report = report_of(tmp_path)
    assert report.complete, report.problems
    assert [each.ended for each in report.sessions] == [CLOSED] * 3
    assert len({each.identity for each in report.sessions}) == 3
    sent: Any = pq.ParquetDataset(tmp_path / "sent").read()
    rows = list(zip(*(sent[name].to_pylist() for name in ("session", "stream", "value")), strict=True))
    assert len(rows) == MESSAGES + 10
    again = {row[1:] for row in rows if row[0] == 0} & {row[1:] for row in rows if row[0] == 1}
    assert again == {(n % STREAMS, n // STREAMS + 1) for n in range(15, 20)}


def test_the_end_of_a_session_says_that_it_was_fenced(config: Make, tmp_path: Path) -> None:
    produce(config({"gives-up": "commit"}, zombie={"every": 2}))
    report = report_of(tmp_path)
    assert {each.ended for each in report.sessions[:-1]} == {FENCED}


@pytest.mark.parametrize(
    ("system", "words"),
    [("kafka", "resumed under the same transactional id"), ("pulsar", "resumed as another producer")],
)
def test_who_takes_over_has_the_transactional_id_or_where_there_is_none_a_name_of_its_own(
    system: str, words: str, config: Make, tmp_path: Path
) -> None:
    asked = config({"gives-up": "commit"})
    produce(asked.model_copy(update={"endpoints": asked.endpoints.model_copy(update={"system": system})}))
    first, *others = report_of(tmp_path).sessions
    assert others and {each.began for each in others} == {words}
    identities = [each.identity for each in (first, *others)]
    assert len(set(identities)) == (1 if system == "kafka" else len(identities))


@pytest.mark.parametrize("dies", [False, True])
def test_a_zombie_whose_program_dies_at_its_commit_was_not_answered(dies: bool, config: Make, tmp_path: Path) -> None:
    """It is no zombie that was let in, and its last words are the run's error."""
    properties = {"die-at-commit": "2"} if dies else {}
    produce(config(properties, zombie={"every": 2}))
    report = report_of(tmp_path)
    assert report.sessions[0].replaced and not report.sessions[-1].replaced
    assert report.sessions[0].ended == ("" if dies else CLOSED)
    assert report.complete is not dies
    assert not dies or "exit code 3 before it had finished" in report.problems[0]


@pytest.mark.parametrize(("send", "outside"), [(Sending.IN_TRANSACTION, None), (Sending.OUTSIDE, True)])
def test_a_control_is_told_to_begin_none(send: Sending, outside: bool | None, config: Make) -> None:
    told = in_transactions(config(send=send))["transactions"]
    assert (told["id"], told.get("outside")) == ("r1-1", outside)
