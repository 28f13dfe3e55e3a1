"""Every request that puts positions into a transaction can be struck, and each input still has one output.

An application takes twenty messages, five at a time, and writes an output for each; positions are in the transaction of
the outputs. The second AddOffsetsToTxn, or TxnOffsetCommit, is lost or held back, and so is the reply to it. Then the
application is closed, after two of its transactions, and comes back: it goes on where these positions say.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import confluent_kafka as ck
import pytest
from tests.builders import History, write_history
from tests.lab.pointed import bootstrap
from tests.runners.test_application_commits import recorded

from dedup.experiment.dialects.kafka import KAFKA
from dedup.experiment.endpoints import Endpoints
from dedup.experiment.points import Action, Exchange, Point
from dedup.wire.manifests import Application, EndPosition
from dedup.workloads.consumer import Commit, Consumer, Output
from dedup.workloads.restart import End, RestartAt
from dedup_lab.exploring import strikes
from dedup_lab.systems import kafka, labs
from dedup_runners import admins
from dedup_runners.clients import chunk_of
from dedup_runners.configs import ConsumerConfig
from dedup_runners.consumer import Consumption
from dedup_runners.interposer.conversations import Done, Row
from dedup_runners.interposer.kafka import Kafka
from dedup_runners.interposer.protocols import Direction
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.recording.journals import Observer
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads import applications
from dedup_spark import local, oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MESSAGES: Final = 20
BATCH: Final = 5
LIVES_S: Final = 120.0
CLIENT: Final = "rdkafka"
SPEAKER: Final = strikes.Speaker(KAFKA, CLIENT)
PROPERTIES: Final = {"client.id": CLIENT, "socket.timeout.ms": "2000"}
"""So that what is held is asked for again after two seconds, and not after a minute."""
LATE_S: Final = 60.0
NEXT_ADDED: Final = "the next transaction has its positions"
LATE_ANSWERED: Final = "the late positions were answered"
ACTIONS: Final = (Action.LOSE_REQUEST, Action.LOSE_REPLY, Action.STALL_REQUEST, Action.STALL_REPLY)
APIS: Final = ("AddOffsetsToTxn", "TxnOffsetCommit")


class Lived(NamedTuple):
    """What came of an application: itself, how often each value has a committed output, and the conversation."""

    application: Application
    times: Counter[int]
    rows: list[Row]
    problems: list[str]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield kafka.start(lab, version="4.3.1", proxied=False)


def lived(
    system: Endpoints,
    folder: Path,
    point: Point | None = None,
    *,
    commit: Commit = Commit.IN_TRANSACTION,
    end: End = End.CLOSE,
    rules: Sequence[Rule] = (),
    batches: int = 2,
) -> Lived:
    """Send the messages straight to the brokers, and let the application live behind an interposer."""
    topic = f"t-{folder.parent.name}-{folder.name}".replace("_", "-")[-80:]
    schedule = () if point is None else (point,)
    folder.mkdir()
    with admins.connect(system) as admin, Interposer(Kafka(), rules or strikes.rules(schedule, SPEAKER)) as interposer:
        interposer.conversation.follow(strikes.following(schedule, SPEAKER, interposer.happen))
        interposer.conversation.follow(partial(late, interposer.happen))
        admin.create_topic(topic, partitions=1, deduplication=True)
        sent(system, topic)
        doors = ",".join(map(str, interposer.bootstrap("application", bootstrap(system))))
        config = ConsumerConfig(
            run_id=topic,
            folder=folder,
            endpoints=system.model_copy(update={"client_bootstrap": doors}),
            topic=topic,
            library="confluent-kafka",
            properties=PROPERTIES,
            consumer=Consumer(
                at=RestartAt(message=batches * BATCH), end=end, commit=commit, batch=BATCH, output=Output.TRANSACTIONS
            ),
        )
        recorder, observer = Recorder(folder), Observer(folder, "consumer")
        ends = (EndPosition(partition=0, extents=((0, MESSAGES),)),)
        runs = applications.application(config, ends, admin, recorder, observer, Consumption, MESSAGES)
        application = runs.run(LIVES_S)
        recorder.close()
        observer.close()
        times = Counter(row["value"] for row in recorded(folder, "processed"))
        return Lived(application, times, interposer.conversation.rows(), list(interposer.problems))


def given_again(folder: Path, tmp_path: Path) -> tuple[int, int]:
    """How many messages both judges find below what was committed, and above it, where a session began.

    Offsets of the topic are those of its values, which were sent straight to it.
    """
    messages = [(0, value) for value in range(1, MESSAGES + 1)]
    read = [(value - 1, 0, 0, value - 1, 0, 0, value) for _, value in messages]
    outcomes = [(0, value, 0, 0, 0, value - 1, 0) for _, value in messages]
    processed, commits = ([tuple(row.values()) for row in recorded(folder, name)] for name in ("processed", "commits"))
    write_history(tmp_path / "judged", History(messages, outcomes, read, processed=processed, commits=commits))
    (said,) = local.verify([tmp_path / "judged"]).runs
    assert said.counts == oracle.judge(tmp_path / "judged").counts
    return said.counts.reread_below_commit, said.counts.skipped_above_commit


def late(happen: Callable[[str], None], row: Row) -> None:
    """Two events of positions that come late: those of the next transaction are there, and then the late ones."""
    if (row.api, row.direction) != ("TxnOffsetCommit", Direction.REPLY):
        return
    if (row.number, row.done) == (4, Done.PASSED) and not row.error_code:
        happen(NEXT_ADDED)
    if row.number == 2:
        happen(LATE_ANSWERED)


def sent(system: Endpoints, topic: str) -> None:
    producer = ck.Producer({"bootstrap.servers": system.direct_bootstrap, "enable.idempotence": "true"})
    for payload in chunk_of(0, MESSAGES, 1).payloads.tolist():
        producer.produce(topic, payload, partition=0)
    assert producer.flush(60) == 0


def test_a_calm_application_puts_the_positions_of_each_batch_into_its_transaction(
    system: Endpoints, tmp_path: Path
) -> None:
    found = lived(system, tmp_path / "calm")
    assert found.application.problems == () and found.problems == []
    asked = {(each.api, each.number) for each in strikes.exchanges(found.rows, SPEAKER)}
    assert {(api, number) for api in APIS for number in range(1, MESSAGES // BATCH + 1)} <= asked
    assert found.times == dict.fromkeys(range(1, MESSAGES + 1), 1)
    assert given_again(tmp_path / "calm", tmp_path) == (0, 0)


def test_the_control_commits_outside_of_the_transaction_and_is_killed_in_between(
    system: Endpoints, tmp_path: Path
) -> None:
    found = lived(system, tmp_path / "control", commit=Commit.AFTER, end=End.KILL)
    assert found.application.problems == ()
    assert {value for value, times in found.times.items() if times > 1} == set(range(BATCH + 1, 2 * BATCH + 1))
    assert found.times.keys() == set(range(1, MESSAGES + 1))
    assert given_again(tmp_path / "control", tmp_path) == (0, 0), "it began where it had committed"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("action", ACTIONS, ids=str)
def test_every_request_about_positions_can_be_struck_and_each_input_has_one_output(
    system: Endpoints, tmp_path: Path, action: Action, api: str, tell: Callable[[str], None]
) -> None:
    began = time.monotonic()
    point = Point(exchange=Exchange(api=api, number=2), action=action)
    found = lived(system, tmp_path / f"{action}-{api}", point)
    assert found.problems == []
    assert strikes.missed(found.rows, (point,), SPEAKER) == []
    assert strikes.unnoticed(found.rows, (point,), SPEAKER) == []
    assert found.application.problems == ()
    assert [life.ended for life in found.application.lives] == ["closed", "closed"]
    assert found.times == dict.fromkeys(range(1, MESSAGES + 1), 1)
    asked = [row for row in found.rows if (row.api, row.direction) == (api, Direction.REQUEST)]
    assert len(asked) > MESSAGES // BATCH, "it was not asked for again"
    first = found.application.lives[0]
    assert (first.written, first.committed) == (2 * BATCH, 2 * BATCH)
    tell(f"{point}: {time.monotonic() - began:.1f} s")


@pytest.mark.parametrize("repetition", range(1, 4))
def test_positions_that_come_late_take_the_group_back_in_the_next_transaction(
    system: Endpoints, tmp_path: Path, repetition: int, tell: Callable[[str], None]
) -> None:
    """A known bug (docs/known-bugs.md): librdkafka keeps its epoch from transaction to transaction, so brokers take
    what it asked for the last one as a part of this one. The twin is above: what is held arrives before the next one.
    """
    held = Rule("held", Match("TxnOffsetCommit", number=2), Act.STALL_REQUEST, until=NEXT_ADDED, deadline_s=LATE_S)
    waits = Rule("waits", Match("EndTxn", after=NEXT_ADDED), Act.STALL_REQUEST, until=LATE_ANSWERED, deadline_s=LATE_S)
    found = lived(system, tmp_path / f"late-{repetition}", rules=(held, waits), batches=3)
    assert (found.application.problems, found.problems) == ((), [])
    assert [row.done for row in found.rows if row.rule == "waits" and row.direction == Direction.REQUEST] == [Done.HELD]
    late_ones = [row.error_code for row in found.rows if (row.api, row.number) == ("TxnOffsetCommit", 2)]
    assert late_ones[-1] == 0, "brokers refuse late positions: this bug is gone"
    first, second = found.application.lives
    assert (first.ended, first.written, first.committed) == ("closed", 3 * BATCH, 3 * BATCH)
    assert second.began == f"partition 0 at {2 * BATCH}, by the group's commits"
    twice = {value for value, times in found.times.items() if times == 2}
    assert twice == set(range(2 * BATCH + 1, 3 * BATCH + 1)) and sum(found.times.values()) == MESSAGES + BATCH
    assert given_again(tmp_path / f"late-{repetition}", tmp_path) == (BATCH, 0)
    tell(f"committed up to {3 * BATCH}, back at {2 * BATCH}: {len(twice)} inputs have two committed outputs")
