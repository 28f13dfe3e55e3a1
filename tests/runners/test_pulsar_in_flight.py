"""What Pulsar's producer has in flight to a partition: what was sent there and has no outcome yet, and nothing else."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pulsar as library
import pytest
from tests.runners.pulsar_stand_in import StandIn, stand_in
from tests.runners.witnesses import Seen

from dedup_runners.clients import Outcome, Outcomes, chunk_of, pulsar
from dedup_runners.configs import ProducerConfig
from dedup_runners.waiting import until

MESSAGES = 100
STREAMS = 4
BOUND_S = 20.0


def producer_of(broker: StandIn, folder: Path, rows: list[Outcomes], seen: Seen) -> pulsar.Producer:
    """The real client, connected."""
    url = f"pulsar://{broker.address}"
    config = ProducerConfig.model_validate(
        {
            "run_id": "r", "folder": folder, "topic": "t", "deduplication": False, "producer_name": "p",
            "endpoints": {"system": "pulsar", "client_bootstrap": url, "direct_bootstrap": url, "brokers": []},
            "library": "pulsar-client", "messages": MESSAGES, "streams": 1, "in_flight": 1000,
            "properties": {"batching_enabled": "false"},
        }
    )  # fmt: skip
    client = pulsar.Producer(config, rows.append, seen)
    client.connect(BOUND_S)
    return client


@pytest.mark.parametrize(("silent_from", "in_flight"), [(61, 40), (None, 0)])
def test_what_the_broker_has_not_acknowledged_is_in_flight(
    silent_from: int | None, in_flight: int, tmp_path: Path
) -> None:
    """The client is the real one. The broker acknowledges the first sixty of a hundred; its twin, all of them."""
    rows: list[Outcomes] = []
    with stand_in(deduplication=False, silent_from=silent_from) as broker:
        client = producer_of(broker, tmp_path, rows, Seen())
        assert client.in_flight(None) == 0, "nothing is sent yet"
        assert client.send(chunk_of(0, MESSAGES, 1)) == MESSAGES
        until(lambda: client.progress().acked == MESSAGES - in_flight, BOUND_S, "the broker's acknowledgements")
        assert (client.in_flight(0), client.in_flight(None)) == (in_flight, in_flight)
        client._drain()
        assert (client.in_flight(0), client.in_flight(None)) == (in_flight, in_flight), "recorded, too, they have ended"
        until(
            lambda: len(broker.stored) == MESSAGES, BOUND_S, "the broker to have all: what is in flight may be stored"
        )
        client.close()
        assert client.in_flight(None) == 0, "a client that is closed has told of each what became of it"
    assert sum(len(each.values) for each in rows) == MESSAGES


class Silent:
    """A client whose broker does not answer that it leaves."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def close(self) -> None:
        self._client.close()
        raise library.Timeout("Pulsar error: TimeOut")


@pytest.mark.parametrize("silent", [True, False])
def test_what_ends_as_the_client_leaves_is_recorded_though_its_broker_is_silent(silent: bool, tmp_path: Path) -> None:
    rows, seen = list[Outcomes](), Seen()
    with stand_in(deduplication=False, silent_from=61) as broker:
        client = producer_of(broker, tmp_path, rows, seen)
        client.send(chunk_of(0, MESSAGES, 1))
        until(lambda: client.progress().acked == 60, BOUND_S, "the broker's acknowledgements")
        if silent:
            client._client = Silent(client._client)
        client.close()
    assert np.concatenate([each.outcomes for each in rows]).tolist() == [Outcome.OK] * 60 + [Outcome.UNKNOWN] * 40
    assert seen.lines == (["the client was not closed in order: Pulsar error: TimeOut"] if silent else [])


def test_each_partition_counts_its_own_whether_its_outcomes_are_recorded_or_not() -> None:
    """Of ten messages to four partitions each has ended but the last; three of them are recorded."""
    client: Any = object.__new__(pulsar.Producer)
    client._counting, client._sending = threading.Lock(), (10, iter(()))
    client._homes, client._config = np.arange(STREAMS, dtype=np.int32), SimpleNamespace(own_streams=slice(STREAMS))
    client._ended_in = np.array([1, 1, 1, 0], np.int64)
    client._ended = [(number % STREAMS, number // STREAMS + 1, library.Result.Ok, None) for number in (*range(3, 9),)]
    assert [client.in_flight(each) for each in (0, 1, 2, 3, None)] == [0, 1, 0, 0, 1]
    client._ended.append((1, 3, library.Result.Ok, None))
    assert [client.in_flight(each) for each in (1, None)] == [0, 0]
