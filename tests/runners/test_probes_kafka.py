"""Kafka's probes against brokers of a few lines: one that does what Kafka 4.3 does, and some that do otherwise."""

import socket
import struct
import threading
from dataclasses import dataclass, field, replace

import pytest
from kafka.record import MemoryRecords

from dedup.experiment.endpoints import OPEN
from dedup.judgement.probes import ACKNOWLEDGED, KNOWN, Row, Seen, Verdict, Version, row
from dedup_runners.probes import NotNow, NotSeen
from dedup_runners.probes.kafka import ANONYMOUS, NEVER_ISSUED, PROBES, Answer, Batch, Producer
from dedup_runners.probes.kafka_topics import LEVELS, encoded, level_of, version_of_level

OUT_OF_ORDER, OLD_EPOCH, UNKNOWN, NOT_LEADER, TIMED_OUT, NOT_ALLOWED = 45, 47, 59, 6, 7, 29
Place = tuple[int, int]


@dataclass
class Broker:
    """A topic of Kafka's; each field is one thing that a broker may do in another way."""

    remembered: int = 5
    stores_what_is_forgotten: bool = False
    knows_its_ids: bool = False
    begins_at_0: bool = False
    begins_at_0_when_empty: bool = False
    stores_before_it_looks: bool = False
    fails_after: int | None = None
    failure: int = NOT_LEADER
    logs: tuple[list[Batch], list[Batch]] = field(default_factory=lambda: ([], []))
    answered: int = 0
    ids: int = 0

    def new_producer(self) -> Producer:
        self.ids += 1
        return Producer(self.ids)

    def produce(self, batch: Batch, partition: int = 0) -> Answer:
        self.answered += 1
        if self.fails_after is not None and self.answered > self.fails_after:
            return Answer(self.failure, -1)
        log = self.logs[partition]
        answer = self._judged(batch, log)
        if answer.offset == len(log) or self.stores_before_it_looks:
            log.append(batch)
        return answer

    def _judged(self, batch: Batch, log: list[Batch]) -> Answer:
        new = Answer(0, len(log))
        if batch.producer == ANONYMOUS:
            return new
        own = [at for at, each in enumerate(log) if each.producer.id == batch.producer.id]
        epoch = max((log[at].producer.epoch for at in own), default=-1)
        own = [at for at in own if log[at].producer.epoch == batch.producer.epoch]
        if batch.producer.epoch < epoch:
            return Answer(OLD_EPOCH, -1)
        if self.knows_its_ids and batch.producer.id == NEVER_ISSUED:
            return Answer(UNKNOWN, -1)
        if not own:
            if batch.sequence and (self.begins_at_0 or self.knows_its_ids):
                return Answer(UNKNOWN, -1)
            return Answer(OUT_OF_ORDER, -1) if batch.sequence and self.begins_at_0_when_empty and not log else new
        if (known := [at for at in own[-self.remembered :] if log[at].sequence == batch.sequence]) and self.remembered:
            return Answer(0, known[0])
        if batch.sequence == log[own[-1]].sequence + 1 or self.stores_what_is_forgotten:
            return new
        return Answer(OUT_OF_ORDER, -1)

    def stored(self) -> list[Batch]:
        return [*self.logs[0], *self.logs[1]]


def asked(broker: Broker, version: Version = (4, 3)) -> dict[str, Row]:
    """Every rule, each asked of a broker like this with nothing in it."""
    rows = {}
    for probe in PROBES:
        seen: Seen | str
        try:
            seen = probe.ask(replace(broker, logs=([], []), answered=0))
        except NotSeen as reason:
            seen = str(reason)
        rows[probe.rule.name] = row(probe.rule, version, seen, 0)
    return rows


def unexpected(rows: dict[str, Row]) -> dict[str, str | None]:
    return {name: each.seen for name, each in rows.items() if not each.as_expected}


def test_a_broker_as_kafka_4_3_is_as_expected_and_differs_from_the_seed_in_three_rules() -> None:
    rows = asked(Broker())
    assert unexpected(rows) == {}
    differ = {name for name, each in rows.items() if each.verdict is not Verdict.AS_CLAIMED}
    assert differ == {"resend-older", "unknown-producer", "forgotten-producer"}


def test_its_twin_as_the_seed_claims_is_as_claimed_and_not_expected() -> None:
    rows = asked(Broker(stores_what_is_forgotten=True, knows_its_ids=True))
    assert rows["resend-older"].seen == "acknowledged; stored twice"
    for name in ("resend-older", "unknown-producer", "forgotten-producer"):
        assert (rows[name].verdict, rows[name].as_expected) == (Verdict.AS_CLAIMED, False)


def test_kafka_4_5_refuses_a_first_batch_that_is_not_the_first() -> None:
    broker = Broker(begins_at_0_when_empty=True)
    assert unexpected(asked(broker, (4, 5))) == {}
    assert unexpected(asked(broker, (4, 4))) == {"first-sequence-17": "OUT_OF_ORDER_SEQUENCE_NUMBER; not stored"}


def test_before_2_5_what_was_forgotten_was_refused() -> None:
    assert unexpected(asked(Broker(begins_at_0=True), (2, 4))) == {}


def test_a_broker_that_remembers_four_batches_is_found_out() -> None:
    assert unexpected(asked(Broker(remembered=4))) == {"resend-fifth": "OUT_OF_ORDER_SEQUENCE_NUMBER; stored once"}


def test_an_answer_that_the_log_belies_is_not_believed() -> None:
    rows = asked(Broker(stores_before_it_looks=True))
    assert rows["resend-last"].seen == f"{KNOWN}; stored twice"
    assert rows["gap"].seen == "OUT_OF_ORDER_SEQUENCE_NUMBER; stored once"
    assert {"resend-last", "gap", "old-epoch"} <= unexpected(rows).keys()


def test_a_message_that_is_acknowledged_and_not_there_is_seen() -> None:
    class Loses(Broker):
        def stored(self) -> list[Batch]:
            return super().stored()[:-1]

    rows = asked(Loses())
    assert rows["unknown-producer"].seen == f"{ACKNOWLEDGED}; not stored"
    assert rows["gap"].seen is None and "message 0, which was acknowledged before" in str(rows["gap"].problem)


def test_an_error_about_something_else_is_no_refusal() -> None:
    rows = asked(Broker(fails_after=0))
    assert {each.verdict for each in rows.values()} == {Verdict.NOT_SEEN}
    assert "Kafka error 6" in str(rows["gap"].problem)
    after_one = asked(Broker(fails_after=1))["gap"]
    assert (after_one.verdict, after_one.problem) == (
        Verdict.NOT_SEEN,
        "the broker answered with an error about something else: Kafka error 6",
    )


def test_busy_brokers_are_told_from_other_errors() -> None:
    for error, kind in ((NOT_LEADER, NotNow), (TIMED_OUT, NotNow), (NOT_ALLOWED, NotSeen)):
        for probe in PROBES:
            with pytest.raises(NotSeen) as raised:
                probe.ask(Broker(fails_after=0, failure=error))
            assert type(raised.value) is kind


def test_a_batch_says_who_wrote_it_and_what() -> None:
    (found,) = list(MemoryRecords(encoded(Batch(Producer(7, 2), 17, "message"))))
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 2, 17)
    assert [bytes(record.value) for record in found] == [b"message"]
    (anonymous,) = list(MemoryRecords(encoded(Batch(ANONYMOUS, -1, "message"))))
    assert (anonymous.producer_id, anonymous.base_sequence) == (-1, -1)


@pytest.mark.parametrize("answer", [b"", b"\0\x23\0\0\0\0", b"\0\x23"], ids=["none", "of version 0", "cut off"])
def test_a_broker_that_is_older_than_the_question_has_no_version(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                request = connection.recv(1 << 16)
                connection.sendall(struct.pack(">i", 4 + len(answer)) + request[8:12] + answer if answer else b"")

        thread = threading.Thread(target=serve)
        thread.start()
        assert level_of((host, port), OPEN) is None
        thread.join(10)


def test_a_broker_tells_its_version_by_the_metadata_that_it_knows() -> None:
    assert [version_of_level(each) for each in (21, 22, 30, 33, 34, 99)] == [
        *((3, 9), (4, 0), (4, 3), (4, 4)), *((4, 5), (4, 5)),
    ]  # fmt: skip
    assert version_of_level(None) == version_of_level(1) == ()
    assert sorted(LEVELS) == list(LEVELS)
