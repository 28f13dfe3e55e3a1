"""Entries that were counted and not delivered: found by the consumer, asked for again by other means, written down."""

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import confluent_kafka as ck
import httpx
import numpy as np
import pytest
from tests.runners.mock_brokers import mock_cluster
from tests.runners.payload_bytes import encode
from tests.runners.test_admins_kafka import batch
from tests.runners.witnesses import Seen

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.wire.manifests import EndPosition
from dedup.wire.manifests import Hole as OfEnd
from dedup.wire.manifests import Proof as OfEntry
from dedup_runners import consumer
from dedup_runners.admins import Admin, Hole, pulsar
from dedup_runners.admins.batches import Proof, passed_over, resumption
from dedup_runners.admins.kafka import KafkaAdmin
from dedup_runners.admins.pulsar import PulsarAdmin
from dedup_runners.admins.transactions import unproven
from dedup_runners.admins.wire import Line
from dedup_runners.clients import ConsumerClient, Rows, make_consumer
from dedup_runners.configs import ConsumerConfig
from dedup_runners.consumer import Consumption
from dedup_runners.recording import coverage as coverage_of
from dedup_runners.recording.coverage import Coverage
from dedup_runners.recording.recorders import Recorder
from dedup_runners.waiting import until

BOUND_S: Final = 30.0
MANY: Final = 5_000
Place = tuple[int, int, int]


def rows(*places: Place) -> Rows:
    """Messages read at these (partition, ledger, entry)."""
    columns = np.array(places, np.int64).reshape(-1, 3).T
    zeros = np.zeros(len(places), np.int32)
    return Rows(columns[0].astype(np.int32), columns[1], columns[2], zeros, zeros, columns[2] + 1)


def holes(end: dict[int, dict[int, int]], *chunks: list[Place]) -> list[tuple[int, ...]]:
    coverage = Coverage()
    for chunk in chunks:
        coverage.add(rows(*chunk))
    positions = tuple(EndPosition(partition=p, extents=tuple(found.items())) for p, found in end.items())
    return [tuple(hole[:4]) for hole in coverage.holes(positions)]


def test_what_was_read_to_its_end_has_no_hole() -> None:
    """Interleaved partitions, one ledger after the other, an entry read again, more than the end."""
    first = [(0, 5, 0), (0, 5, 0), (1, 7, 0), (0, 5, 1), (1, 7, 1)]
    assert holes({0: {5: 3, 6: 1}, 1: {7: 2}}, first, [(0, 5, 1), (0, 5, 2), (0, 6, 0), (0, 6, 1)]) == []


@pytest.mark.parametrize(
    ("end", "read", "expected"),
    [
        ({0: {0: 5}}, [(0, 0, 0), (0, 0, 1), (0, 0, 4)], [(0, 0, 2, 3)]),
        ({0: {0: 3}}, [(0, 0, 1), (0, 0, 2)], [(0, 0, 0, 0)]),
        ({0: {5: 2, 6: 2, 7: 1}}, [(0, 5, 0), (0, 7, 0)], [(0, 5, 1, 1), (0, 6, 0, 1)]),
        ({0: {0: 4}}, [(0, 0, 2), (0, 0, 3), (0, 0, 0)], [(0, 0, 1, 1)]),
    ],
)
def test_holes_lie_below_the_end(
    end: dict[int, dict[int, int]], read: list[Place], expected: list[tuple[int, ...]]
) -> None:
    assert holes(end, read) == expected
    assert holes(end, *[[place] for place in read]) == expected


def test_the_neighbours_of_a_hole_were_read() -> None:
    coverage = Coverage()
    coverage.add(rows((0, 5, 0), (0, 7, 0)))
    (first, second) = coverage.holes((EndPosition(partition=0, extents=((5, 2), (6, 1), (7, 1))),))
    assert first.neighbours == second.neighbours == ((5, 0), (7, 0))


def test_the_neighbour_of_a_hole_is_the_nearest_that_was_read_however_often_it_was() -> None:
    coverage = Coverage()
    coverage.add(rows(*((0, 5, entry) for entry in (3, 0, 1, 2, 3, 4, 9))))
    (hole,) = coverage.holes((EndPosition(partition=0, extents=((5, 10),)),))
    assert hole == Hole(0, 5, 5, 8, ((5, 4), (5, 9)))


def test_thousands_of_holes_are_found_and_proven_at_once() -> None:
    """A marker behind each output of an application: who compares each with each takes some ten seconds."""
    coverage, end = Coverage(), EndPosition(partition=0, extents=((0, 2 * MANY),))
    coverage.add(rows(*((0, 0, 2 * entry) for entry in range(MANY))))
    began_s = time.process_time()
    found = coverage.holes((end,))
    markers = tuple(OfEnd(ledger=0, first=each.first, last=each.last, proof=OfEntry.MARKER) for each in found)
    left = list(unproven(found, [end.model_copy(update={"holes": markers})]))
    assert time.process_time() - began_s < 2
    assert (len(found), left) == (MANY, [])
    assert found[7] == Hole(0, 0, 15, 15, ((0, 14), (0, 16)))


class Skipping:
    """A client that is given offsets 0, 1 and 4 of five, and goes on as if that were all."""

    library_version, effective_config, foreign = "1", dict[str, str](), list[str]()

    def __init__(self) -> None:
        self._left = [rows((0, 0, 0), (0, 0, 1), (0, 0, 4))]

    def read(self, timeout_s: float) -> Rows | None:
        return self._left.pop()

    def missing(self, end: tuple[EndPosition, ...]) -> str | None:
        return "all" if self._left else None

    def close(self) -> None:
        pass


class Second:
    """An admin whose reading of holes is given, and where brokers deliver again after the client's place."""

    def __init__(self, proof: str | PlatformError | None, after: int | PlatformError | None = None) -> None:
        self.proof, self.after = proof, after
        self.asked, self.stood = list[Hole](), list[tuple[int, int, int]]()

    def end_positions(self, topic: str) -> list[EndPosition]:
        return [EndPosition(partition=0, extents=((0, 5),))]

    def undeliverable(self, topic: str, hole: Hole) -> str | None:
        self.asked.append(hole)
        if isinstance(self.proof, PlatformError):
            raise self.proof
        return self.proof

    def resumption(self, topic: str, end: EndPosition, ledger: int, entry: int) -> tuple[int, int] | None:
        self.stood.append((end.partition, ledger, entry))
        if isinstance(self.after, PlatformError):
            raise self.after
        return None if self.after is None else (ledger, self.after)


SILENCE = PlatformError(where="t", got="nothing", rule="-", todo="-")


def reading(client: object, second: Second, folder: Path, timeout_s: float = 60.0) -> tuple[Consumption, str | None]:
    """What is read of topic t by this client, beside this admin; and what is missing in the end."""
    endpoints = {"system": "kafka", "client_bootstrap": "", "direct_bootstrap": "", "brokers": []}
    given = {"run_id": "r", "folder": folder, "endpoints": endpoints, "topic": "t", "library": "confluent-kafka"}
    config = ConsumerConfig.model_validate({**given, "timeout_s": timeout_s})
    recorder = Recorder(folder)
    found = Consumption(config, cast(ConsumerClient, client), cast(Admin, second), recorder)
    missing = found.run()
    recorder.close()
    return found, missing


@pytest.mark.parametrize("proof", ["nobody has it", None, SILENCE])
def test_a_hole_is_written_down_if_the_second_client_has_it_too(
    proof: str | PlatformError | None, tmp_path: Path
) -> None:
    second = Second(proof)
    consumption, missing = reading(Skipping(), second, tmp_path)
    assert missing is None
    assert (second.asked, second.stood) == ([Hole(0, 0, 2, 3, ((0, 1), (0, 4)))], [])
    found = [(each.gap, each.proof) for each in consumption.undelivered]
    gap = "partition 0, ledger 0: entries 2 to 3 were not read"
    assert found == ([(gap, proof)] if isinstance(proof, str) else [])
    unread = "partition 0: entries 2 to 3 were not read"
    assert consumption.unread() == (None if isinstance(proof, str) else unread), "what is not proven is not known"


@pytest.mark.parametrize(("most", "words"), [(2, "what was not read is not known"), (3, None)])
def test_a_reader_that_jumped_too_often_to_be_followed_has_not_proven_its_end(
    most: int, words: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was given two runs of entries; nothing tells what lies between those of one that is not followed."""
    monkeypatch.setattr(coverage_of, "MAX_RUNS", most)
    consumption, _ = reading(Skipping(), Second("nobody has it"), tmp_path)
    found = consumption.unread()
    assert found is None if words is None else found is not None and found.startswith(words)


class Standing:
    """A client that is given offsets below `at`, and then nothing until it goes on; or, after some looks, the rest."""

    library_version, effective_config, foreign = "1", dict[str, str](), list[str]()

    def __init__(self, at: int, looks: int = 1 << 30) -> None:
        self._left, self._next, self._looks = [rows(*((0, 0, entry) for entry in range(at)))], at, looks
        self.went_on: list[tuple[int, int, int]] = []

    def read(self, timeout_s: float) -> Rows | None:
        if self._left:
            return self._left.pop()
        self._looks -= 1
        if self._looks == 0:
            self._give(self._next)
        return None

    def _give(self, entry: int) -> None:
        self._next = 5
        if entry < 5:
            self._left.append(rows(*((0, 0, each) for each in range(entry, 5))))

    def missing(self, end: tuple[EndPosition, ...]) -> str | None:
        return f"offset {self._next} of 5" if self._left or self._next < 5 else None

    def go_on(self, partition: int, ledger: int, entry: int) -> None:
        self.went_on.append((partition, ledger, entry))
        self._give(entry)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "STANDS_STILL_S", 0.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("after", "hole"),
    [(4, Hole(0, 0, 2, 3, ((0, 1), (0, 4)))), (5, Hole(0, 0, 2, 4, ((0, 1),)))],
    ids=["within", "tail"],
)
def test_a_client_that_stands_still_goes_on_where_brokers_deliver_again(after: int, hole: Hole, tmp_path: Path) -> None:
    """What lies between is asked for once more when the end is reached: that is the proof."""
    client, second = Standing(2), Second("nobody has it", after)
    consumption, missing = reading(client, second, tmp_path)
    assert (missing, client.went_on, second.stood) == (None, [(0, 0, after)], [(0, 0, 2)])
    assert second.asked == [hole]
    assert [each.gap for each in consumption.undelivered] == [
        f"partition 0, ledger 0: entries 2 to {after - 1} were not read"
    ]
    assert consumption.received == 5 - (after - 2)


@pytest.mark.usefixtures("impatient")
def test_a_client_that_is_merely_slow_is_given_everything(tmp_path: Path) -> None:
    """The innocent twin: the second client gets the next entry, however often it is asked."""
    client, second = Standing(2, looks=10), Second("nobody has it", None)
    consumption, missing = reading(client, second, tmp_path)
    assert (missing, consumption.received, client.went_on) == (None, 5, [])
    assert second.stood and not second.asked and not consumption.undelivered
    assert consumption.unread() is None


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("after", [None, SILENCE])
def test_what_the_second_client_gets_or_cannot_be_asked_for_leaves_the_end_unreached(
    after: PlatformError | None, tmp_path: Path
) -> None:
    consumption, missing = reading(Standing(2), Second("nobody has it", after), tmp_path, timeout_s=0.2)
    assert missing is not None and "the end was not reached" in missing
    assert not consumption.undelivered


@pytest.mark.usefixtures("impatient")
def test_what_was_passed_over_and_is_not_proven_leaves_the_end_unreached(tmp_path: Path) -> None:
    """Then nothing is lost, and the copies that were read accuse as before. A gap in what it read would be an error."""
    consumption, missing = reading(Standing(2), Second(None, 4), tmp_path)
    words = "partition 0: entries 2 to 3 of ledger 0 were passed over, and brokers may deliver them"
    assert (missing, consumption.undelivered) == (words, ())


class Leader:
    """A connection to the leader of a log of offsets 0 to 8: three batches of three, of which something is wrong.

    It answers a fetch as brokers do, with all batches from the one on that holds the offset.
    """

    def __init__(
        self,
        without: int | None = None,
        damaged: int | None = None,
        cut: int | None = None,
        begin: int = 0,
        errors: dict[int, int] | None = None,
    ) -> None:
        batches = {base: batch(base, 3, 7) for base in (0, 3, 6) if base != without}
        if damaged is not None:
            batches[damaged] = batches[damaged][:-1] + b"!"
        if cut is not None:
            batches[cut] = batches[cut][:-1]
        self._batches, self._begin, self._errors = batches, begin, errors or {}

    def ask(self, request: Any) -> Any:
        (asked,) = request.topics[0].partitions
        if hasattr(asked, "timestamp"):
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[self._answer(offset=self._begin)])])
        at = asked.fetch_offset
        if at < self._begin:
            answer = self._answer(1)
        elif at in self._errors:
            answer = self._answer(self._errors[at])
        else:
            answer = self._answer(records=b"".join(each for base, each in self._batches.items() if base + 3 > at))
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[answer])])

    def _answer(self, error: int = 0, records: bytes = b"", offset: int = -1) -> Any:
        return SimpleNamespace(error_code=error, records=records, offset=offset)


@pytest.mark.parametrize(
    ("leader", "first", "last", "words"),
    [
        (
            Leader(without=3), 3, 5,
            "its leader answers a fetch from offset 3 with the batch at offset 6; it delivers offset 2 and 6",
        ),
        (Leader(damaged=3), 3, 5, "the checksum of the batch at offset 3 is wrong; it delivers offset 2 and 6"),
        (Leader(damaged=6), 6, 8, "the checksum of the batch at offset 6 is wrong; it delivers offset 5"),
        (
            Leader(without=6), 6, 8,
            "its leader answers a fetch from offset 6 with nothing, though the end is 9; it delivers offset 5",
        ),
        (Leader(begin=3), 0, 2, "its leader says that the log begins at offset 3; it delivers offset 3"),
        (Leader(begin=9), 0, 8, "its leader says that the log begins at offset 9"),
        (Leader(begin=6), 3, 5, "its leader says that the log begins at offset 6; it delivers offset 6"),
        (
            Leader(errors={3: 2, 4: 2, 5: 2}), 3, 5,
            "its leader answers a fetch from offset 3 with Kafka error 2 (and so on, 3 answers); "
            "it delivers offset 2 and 6",
        ),
        (Leader(without=3), 3, 4, None),
        (Leader(damaged=3), 4, 5, None),
        (Leader(), 3, 5, None),
        (Leader(errors={3: 2, 5: 2}), 3, 5, None),
        (Leader(begin=3), 0, 1, None),
        (Leader(cut=6), 6, 8, None),
    ],
)  # fmt: skip
def test_kafkas_leader_shows_whether_it_delivers_what_it_counts(
    leader: Leader, first: int, last: int, words: str | None
) -> None:
    """The last six: half a hole; in a batch; all is there; one of them is there; the log begins later; a part came."""
    found = passed_over(cast(Line, leader), "t", 0, first, last, 9)
    assert (found and found.words) == words
    assert found is None or found.deleted == ("begins" in found.words)


KEPT = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("settings", "keeps"),
    [
        (KEPT, True),
        (KEPT | {"retention.ms": "-1"}, True),
        (KEPT | {"retention.ms": "60000"}, False),
        (KEPT | {"retention.bytes": "1000000"}, False),
        (KEPT | {"cleanup.policy": "compact,delete"}, False),
        ({}, False),
    ],
)
def test_what_a_topic_was_set_to_delete_is_no_loss(settings: dict[str, str], keeps: bool) -> None:
    """What is before the log's begin was deleted: by retention, or against it."""
    admin = object.__new__(KafkaAdmin)
    told = {name: SimpleNamespace(value=value) for name, value in settings.items()}
    admin._ask = lambda ask, what: told  # type: ignore[method-assign, assignment, return-value]
    admin._thrice = lambda *_: Proof("the log begins at offset 6", True)  # type: ignore[method-assign, assignment]
    said = admin.undeliverable("t", Hole(0, 0, 3, 5, ()))
    assert said == ("the log begins at offset 6" if keeps else None)


@pytest.mark.parametrize(
    ("leader", "at", "after"),
    [
        (Leader(without=3), 3, 6),
        (Leader(damaged=3), 3, 6),
        (Leader(damaged=6), 6, 9),
        (Leader(without=6), 6, 9),
        (Leader(begin=6), 0, 6),
        (Leader(errors={3: 2, 4: -1}), 3, 5),
        (Leader(cut=6), 6, 6),
        (Leader(), 3, 3),
    ],
)
def test_kafkas_leader_shows_where_it_delivers_again(leader: Leader, at: int, after: int) -> None:
    assert resumption(cast(Line, leader), "t", 0, at, 9) == after


def test_a_leader_that_leads_no_more_shows_nothing() -> None:
    """It is asked again who leads: that is no word about the log."""
    with pytest.raises(PlatformError, match="Kafka error 6"):
        passed_over(cast(Line, Leader(errors={3: 6})), "t", 0, 3, 5, 9)


def test_a_leader_that_says_nothing_of_the_partition_shows_nothing() -> None:
    """So is a client answered that has read more than its quota allows."""
    silent = SimpleNamespace(ask=lambda _request: SimpleNamespace(responses=[]))
    with pytest.raises(PlatformError, match="no topic in the answer"):
        passed_over(cast(Line, silent), "t", 0, 3, 5, 9)


def rest(monkeypatch: pytest.MonkeyPatch, status: Callable[[int], int]) -> PulsarAdmin:
    """A Pulsar whose REST interface answers for an entry of ledger 5 with this status; ledger 6 begins at 10."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/partitions"):
            return httpx.Response(200, content=json.dumps({"partitions": 0}))
        ledger, entry = request.url.path.split("/")[-3], request.url.path.split("/")[-1]
        assert ledger in ("5", "6")
        return httpx.Response(status(int(entry) + 10 * (ledger == "6")), content=struct.pack(">q", 1))

    client: Any = httpx.Client(transport=httpx.MockTransport(answer))
    monkeypatch.setattr(pulsar, "http_client", lambda _endpoints, _timeout_s: client)
    monkeypatch.setattr(pulsar, "READ_AGAIN_PAUSE_S", 0.0)
    return PulsarAdmin(
        Endpoints(
            system="pulsar", client_bootstrap="pulsar://a:1", direct_bootstrap="pulsar://a:1",
            admin_urls=["http://a:1"], brokers=[Broker(id="a:1", client_port=1, admin_url="http://a:1")],
        )
    )  # fmt: skip


def test_a_pulsar_entry_that_rest_cannot_give_either_is_undeliverable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its twins: one of the entries is given, if only the second time; the neighbours are not given either."""
    hole = Hole(0, 5, 2, 3, ((5, 1), (5, 4)))
    topic = "persistent://public/dedup-on/t"
    said = rest(monkeypatch, lambda entry: 500 if entry in (2, 3) else 200).undeliverable(topic, hole)
    assert said == "the REST interface answers status 500 for each of them, 3 times, and gives 5:1, 5:4"
    answers = iter([200, 200, 500, 500, 200, 200, 500, 200])
    assert rest(monkeypatch, lambda _entry: next(answers)).undeliverable(topic, hole) is None
    assert rest(monkeypatch, lambda _entry: 500).undeliverable(topic, hole) is None


@pytest.mark.parametrize(
    ("readable", "after"),
    [({0, 1, 4, 5}, (5, 4)), ({0, 1}, (6, 2)), ({0, 1, 2, 3, 4, 5}, None), ({0, 1, 10, 11}, (6, 0))],
    ids=["later in the ledger", "nothing more", "at once", "in the next ledger"],
)
def test_pulsars_rest_interface_shows_where_it_delivers_again(
    readable: set[int], after: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger 5 has six entries, and ledger 6 two, which stand here as 10 and 11."""
    end = EndPosition(partition=0, extents=((5, 6), (6, 2)))
    topic = "persistent://public/dedup-on/t"
    admin = rest(monkeypatch, lambda entry: 200 if entry in readable else 500)
    assert admin.resumption(topic, end, 5, 2) == after


@pytest.mark.parametrize(
    "statuses",
    [[500, 200, 200, 200], [500] * 100, [500, 500, 500, 200, 200, 500, 500, 500, 500, 200]],
    ids=["one bad answer", "no entry at all", "entries that come back"],
)
def test_pulsars_rest_interface_that_answers_otherwise_the_next_time_shows_nothing(
    statuses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader waits at entry 2 of 6 then. Its twin, above, answers the same three times."""
    answers = iter(statuses)
    admin = rest(monkeypatch, lambda _entry: next(answers, 200))
    end = EndPosition(partition=0, extents=((5, 6),))
    assert admin.resumption("persistent://public/dedup-on/t", end, 5, 2) is None


EVICTED: Final = 600
"""So many messages of 10 kB are more than the mock cluster keeps of a partition: the oldest are gone."""


@pytest.mark.long
def test_librdkafka_goes_on_past_the_beginning_of_a_log_that_is_gone(tmp_path: Path) -> None:
    """It has given up on the partition then, for the offset is out of range; and no message is read twice."""
    with mock_cluster() as endpoints:
        bootstrap = {"bootstrap.servers": endpoints.direct_bootstrap}
        producer = ck.Producer({**bootstrap, "batch.num.messages": 1})
        for number in range(EVICTED):
            producer.produce("t", b"x" * 10_000 if number < EVICTED - 3 else encode(0, number), partition=0)
        assert producer.flush(BOUND_S) == 0
        asking = ck.Consumer({**bootstrap, "group.id": "asking"})
        begin, end = asking.get_watermark_offsets(ck.TopicPartition("t", 0), BOUND_S)
        asking.close()
        assert 0 < begin < end == EVICTED
        given = {"run_id": "r", "folder": tmp_path, "endpoints": endpoints, "topic": "t", "library": "confluent-kafka"}
        reader, seen = make_consumer(ConsumerConfig.model_validate(given), witnesses := Seen()), []
        ends = (EndPosition(partition=0, extents=((0, end),)),)
        until(lambda: reader.read(0.1) is None and witnesses.disturbances, BOUND_S, "the reader stands still")
        assert reader.missing(ends) == f"partition 0: offset 0 of {end}"
        reader.go_on(0, 0, begin)

        def ended() -> bool:
            if (found := reader.read(0.1)) is not None:
                seen.extend(found.entries.tolist())
            return reader.missing(ends) is None

        until(ended, BOUND_S, "the reader reaches the end")
        reader.close()
    assert seen == [end - 3, end - 2, end - 1]
