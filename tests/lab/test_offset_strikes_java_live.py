"""Positions that come late take a group back with Kafka's own client of 3.9, and not with that of 4.3.

The schedule is that of the known bug (test_offset_strikes_live.py, docs/known-bugs.md): the second TxnOffsetCommit is
held until the next transaction has its positions, and arrives before that is committed. Brokers are the same. The new
client has an epoch for each transaction (KIP-890, TxnOffsetCommit 5); the older one has one for all.
"""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import confluent_kafka as ck
import pytest
from tests.lab.pointed import bootstrap
from tests.lab.test_offset_strikes_live import BATCH, LATE_ANSWERED, LATE_S, MESSAGES, NEXT_ADDED, late, sent

from dedup.experiment.endpoints import Endpoints
from dedup.payloads import MAX_VALUE
from dedup_lab.caches import silent
from dedup_lab.clients import jvm
from dedup_lab.systems import kafka, labs
from dedup_runners import admins
from dedup_runners.interposer.conversations import Done, Row
from dedup_runners.interposer.kafka import Kafka
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

SOURCE: Final = Path(__file__).with_name("TransactionalApplication.java")
LIFE_S: Final = 180.0
READ_S: Final = 60.0
HELD: Final = Rule("held", Match("TxnOffsetCommit", number=2), Act.STALL_REQUEST, until=NEXT_ADDED, deadline_s=LATE_S)
WAITS: Final = Rule(
    "waits", Match("EndTxn", after=NEXT_ADDED), Act.STALL_REQUEST, until=LATE_ANSWERED, deadline_s=LATE_S
)
LATE: Final = (HELD, WAITS)


class Lived(NamedTuple):
    """What the two lives said, how often each value has a committed output, and the conversation of the first."""

    first: list[str]
    second: list[str]
    times: Counter[int]
    rows: list[Row]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield kafka.start(lab, version="4.3.1", proxied=False)


def lived(system: Endpoints, version: str, name: str, rules: Sequence[Rule] = ()) -> Lived:
    """Two lives of the application: the first ends after three batches, and what it asks goes through the rules."""
    topic, outputs = name, f"{name}-outputs"
    with admins.connect(system) as admin, Interposer(Kafka(), list(rules)) as interposer:
        interposer.conversation.follow(partial(late, interposer.happen))
        for each in (topic, outputs):
            admin.create_topic(each, partitions=1, deduplication=True)
        sent(system, topic)
        doors = ",".join(map(str, interposer.bootstrap("application", bootstrap(system))))
        first = life(version, doors, topic, outputs, 3 * BATCH)
        rows, problems = interposer.conversation.rows(), list(interposer.problems)
    second = life(version, system.client_bootstrap, topic, outputs, MESSAGES)
    assert problems == []
    return Lived(first, second, written(system, outputs), rows)


def life(version: str, doors: str, topic: str, outputs: str, end: int) -> list[str]:
    """What a life of the application said, line by line."""
    program = jvm.program("kafka-java", SOURCE, version, silent)
    done = subprocess.run(
        [*program.argv, doors, topic, outputs, topic, str(BATCH), str(end)],
        env={**os.environ, **program.environment}, capture_output=True, text=True, check=False, timeout=LIFE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if line.split()[0] in ("began", "committed", "aborted", "error")]


def written(system: Endpoints, topic: str) -> Counter[int]:
    """How often each value has an output that a reader of committed messages is given, up to the end."""
    asked = {"bootstrap.servers": system.direct_bootstrap, "group.id": "audit", "isolation.level": "read_committed"}
    reader = ck.Consumer({**asked, "enable.partition.eof": "true", "auto.offset.reset": "earliest"})
    found, deadline = Counter[int](), time.monotonic() + READ_S
    reader.assign([ck.TopicPartition(topic, 0, 0)])
    try:
        while time.monotonic() < deadline:
            message = reader.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                assert error.code() == ck.KafkaError._PARTITION_EOF, error
                return found
            found[int.from_bytes((message.value() or b"")[:8], "big") & MAX_VALUE] += 1  # of stream 0
    finally:
        reader.close()
    raise TimeoutError(f"the outputs were not read to their end within {READ_S:g} s")


def answer(found: Lived) -> int | None:
    """What the coordinator answered to the late positions; and that the end of the transaction waited for that."""
    assert [row.done for row in found.rows if row.rule == "waits" and row.direction == "request"] == [Done.HELD]
    own = [row for row in found.rows if (row.api, row.number, row.direction) == ("TxnOffsetCommit", 2, "reply")]
    return own[-1].error_code


def spoken(found: Lived) -> set[tuple[str, int | None]]:
    return {(row.api, row.version) for row in found.rows if row.api in ("TxnOffsetCommit", "EndTxn")}


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_a_calm_application_has_one_output_of_each_input(system: Endpoints, version: str) -> None:
    found = lived(system, version, f"calm-{version}")
    assert found.first == ["began 0", "committed 5", "committed 10", "committed 15"]
    assert found.second == ["began 15", "committed 20"]
    assert found.times == dict.fromkeys(range(1, MESSAGES + 1), 1)


@pytest.mark.parametrize("repetition", range(1, 4))
def test_with_an_epoch_for_each_transaction_late_positions_are_refused(
    system: Endpoints, repetition: int, tell: Callable[[str], None]
) -> None:
    found = lived(system, "4.3.1", f"late-new-{repetition}", LATE)
    error = answer(found)
    assert error, "brokers take late positions of an epoch that is over"
    assert ("TxnOffsetCommit", 5) in spoken(found)
    assert found.first[-1] == "committed 15" and found.second[0] == "began 15"
    assert found.times == dict.fromkeys(range(1, MESSAGES + 1), 1)
    tell(f"kafka-java 4.3.1: the late positions were answered with error {error}; {sorted(spoken(found))}")


@pytest.mark.parametrize("repetition", range(1, 4))
def test_with_one_epoch_for_all_late_positions_take_the_group_back(
    system: Endpoints, repetition: int, tell: Callable[[str], None]
) -> None:
    """The control: the same program, compiled against an older client, before the same brokers."""
    found = lived(system, "3.9.1", f"late-old-{repetition}", LATE)
    assert answer(found) == 0, "brokers refuse late positions: this bug is gone"
    assert found.first[-1] == f"committed {3 * BATCH}" and found.second[0] == f"began {2 * BATCH}"
    twice = {value for value, times in found.times.items() if times == 2}
    assert twice == set(range(2 * BATCH + 1, 3 * BATCH + 1)) and sum(found.times.values()) == MESSAGES + BATCH
    tell(f"kafka-java 3.9.1: {len(twice)} inputs have two committed outputs; {sorted(spoken(found))}")
