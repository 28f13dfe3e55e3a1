"""A service that is killed pays twice, emits twice or loses, as its pattern says; its innocent twin does not.

On Kafka, PostgreSQL and Debezium as processes. The table of all patterns and steps is `make exactly-once`.
"""

from collections.abc import Iterator

import confluent_kafka as ck
import pytest
from testbed.exactly_once import grounds
from testbed.exactly_once.patterns import CAPTURE, ONCE
from testbed.exactly_once.runs import Ground, make

from dedup.errors import PlatformError
from dedup.workloads.services import Pattern, Step
from dedup_runners import admins
from dedup_runners.services import events
from dedup_runners.services.orders import Order

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with grounds.ground(tmp_path_factory.mktemp("logs")) as found:
        yield found


def test_without_a_pattern_all_three_effects_are_repeated(ground: Ground) -> None:
    run = make(ground, Pattern.NOTHING, Step.EMIT, "nothing")
    assert (run.effects, run.others) == ((2, 2, 2), {})


def test_an_idempotent_consumer_that_commits_early_loses_the_event_and_its_twin_does_not(ground: Ground) -> None:
    assert make(ground, Pattern.IDEMPOTENT_CONSUMER_COMMITS_EARLY, Step.COMMIT, "early").effects == (1, 1, 0)
    assert make(ground, Pattern.IDEMPOTENT_CONSUMER, Step.COMMIT, "late").effects == ONCE


def test_an_aborted_event_is_read_by_readers_of_uncommitted_messages_alone(ground: Ground) -> None:
    run = make(ground, Pattern.KAFKA_TRANSACTIONS, Step.OFFSET_IN_KAFKA, "transactions")
    assert (run.effects, run.aborted) == ((2, 2, 1), 1)


def test_with_an_outbox_the_row_and_the_event_are_once_and_debezium_that_is_killed_repeats_the_event(
    ground: Ground,
) -> None:
    both = Pattern.IDEMPOTENT_CONSUMER_AND_OUTBOX
    assert make(ground, both, Step.OUTBOX, "outbox").effects == (2, 1, 1)
    assert make(ground, both, CAPTURE, "capture").effects == (1, 1, 2)


def test_events_behind_an_open_transaction_have_not_all_come_and_when_it_ends_they_have(ground: Ground) -> None:
    with admins.connect(ground.endpoints) as admin:
        admin.create_topic("open", partitions=1, deduplication=True)
    producer = ck.Producer({**ground.settings, "transactional.id": "open"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("open", Order(0, 0, 0, 0, 1).text, partition=0)
    assert producer.flush(60) == 0
    with pytest.raises(PlatformError, match="open: got the last stable offset of partition 0 is 0, and its end 1"):
        events.settled(ground.settings, "open", 0)
    producer.commit_transaction(60)
    assert events.settled(ground.settings, "open", 0) == (Order(0, 0, 0, 0, 1),)
