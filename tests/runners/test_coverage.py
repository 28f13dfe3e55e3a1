"""Entries that were counted and not delivered: found by the consumer, asked for again by other means, written down."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest
from tests.runners.test_admins_kafka import batch, broker, fetched

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.wire.manifests import EndPosition
from dedup_runners.admins import Admin, Hole, pulsar
from dedup_runners.admins.batches import passed_over
from dedup_runners.admins.pulsar import PulsarAdmin
from dedup_runners.clients import ConsumerClient, Rows
from dedup_runners.configs import ConsumerConfig
from dedup_runners.consumer import Consumption
from dedup_runners.recording.coverage import Coverage
from dedup_runners.recording.recorders import Recorder

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
    """An admin whose reading of holes is given."""

    def __init__(self, proof: str | PlatformError | None) -> None:
        self.proof, self.asked = proof, list[Hole]()

    def end_positions(self, topic: str) -> list[EndPosition]:
        return [EndPosition(partition=0, extents=((0, 5),))]

    def undeliverable(self, topic: str, hole: Hole) -> str | None:
        self.asked.append(hole)
        if isinstance(self.proof, PlatformError):
            raise self.proof
        return self.proof


SILENCE = PlatformError(where="t", got="nothing", rule="-", todo="-")


@pytest.mark.parametrize("proof", ["nobody has it", None, SILENCE])
def test_a_hole_is_written_down_if_the_second_client_has_it_too(
    proof: str | PlatformError | None, tmp_path: Path
) -> None:
    endpoints = {"system": "kafka", "client_bootstrap": "", "direct_bootstrap": "", "brokers": []}
    given = {"run_id": "r", "folder": tmp_path, "endpoints": endpoints, "topic": "t", "library": "confluent-kafka"}
    second, recorder = Second(proof), Recorder(tmp_path)
    client = cast(ConsumerClient, Skipping())
    consumption = Consumption(ConsumerConfig.model_validate(given), client, cast(Admin, second), recorder)
    assert consumption.run() is None
    recorder.close()
    assert second.asked == [Hole(0, 0, 2, 3, ((0, 1), (0, 4)))]
    found = [(each.gap, each.proof) for each in consumption.undelivered]
    gap = "partition 0, ledger 0: entries 2 to 3 were not read"
    assert found == ([(gap, proof)] if isinstance(proof, str) else [])


@pytest.mark.parametrize(
    ("before", "found", "words"),
    [
        (
            batch(0, 2, 7),
            batch(4, 3, 7),
            "fetch from offset 2 with the batch at offset 4, and one from 1 with the batch at 0",
        ),
        (batch(0, 2, 7), batch(2, 5, 7), None),
        (batch(0, 2, 7), batch(3, 5, 7), None),
        (batch(0, 9, 7), batch(0, 9, 7), None),
        (batch(0, 2, 7), b"", None),
        (batch(0, 1, 7), batch(4, 3, 7), None),
    ],
)
def test_kafkas_log_shows_whether_an_offset_is_in_any_batch(before: bytes, found: bytes, words: str | None) -> None:
    """A hole between two batches; then: it is there; half of it is; within a batch; nothing follows; nothing before."""
    with broker(fetched(before), fetched(found)) as address:
        said = passed_over(address, "t", 0, 2, 3)
    assert said is None if words is None else words in str(said)


def test_a_hole_at_the_beginning_of_kafkas_log_has_one_neighbour() -> None:
    with broker(fetched(batch(2, 3, 7))) as address:
        assert (
            passed_over(address, "t", 0, 0, 1) == "its leader answers a fetch from offset 0 with the batch at offset 2"
        )


def rest(monkeypatch: pytest.MonkeyPatch, status: Callable[[int], int]) -> PulsarAdmin:
    """A Pulsar whose REST interface answers for an entry of ledger 5 with this status."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/partitions"):
            return httpx.Response(200, content=json.dumps({"partitions": 0}))
        ledger, entry = request.url.path.split("/")[-3], request.url.path.split("/")[-1]
        assert ledger == "5"
        return httpx.Response(status(int(entry)), content=struct.pack(">q", 1))

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
