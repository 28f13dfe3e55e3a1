"""With `acks: 0` it is unknown what became of a message, whatever success Kafka's Java client reports.

The client is the real one; a broker of the tests takes its messages.
"""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.runners import assigned, small_kafka

from dedup.wire.manifests import ProducerReport
from dedup_lab.caches import silent
from dedup_lab.clients import kafka_java
from dedup_runners.clients import Outcome
from dedup_runners.configs import ProducerConfig
from dedup_runners.producer import produce

pytestmark = pytest.mark.long

MESSAGES = 2_000
STREAMS = 4


@pytest.mark.parametrize(
    ("version", "acks", "outcome"),
    [
        ("4.3.1", "0", Outcome.UNKNOWN),
        ("2.8.2", "0", Outcome.UNKNOWN),
        ("4.3.1", " 0", Outcome.UNKNOWN),
        ("4.3.1", "1", Outcome.OK),
        ("4.3.1", "all", Outcome.OK),
        ("4.3.1", "all ", Outcome.OK),
    ],
)
def test_what_no_broker_has_acknowledged_is_unknown(version: str, acks: str, outcome: Outcome, tmp_path: Path) -> None:
    with small_kafka.running(STREAMS) as address:
        produce(
            ProducerConfig(
                run_id="r1",
                folder=tmp_path,
                endpoints=assigned.NOWHERE.model_copy(update={"client_bootstrap": address}),
                topic="t",
                library="kafka-java",
                properties={"acks": acks},
                deduplication=False,
                producer_name="r1-1",
                messages=MESSAGES,
                streams=STREAMS,
                in_flight=500,
                delivery_timeout_s=30.0,
                program=kafka_java.program(version, silent),
            )
        )
    report = ProducerReport.model_validate_json((tmp_path / ProducerReport.FILE).read_bytes())
    assert (report.complete, report.problems, report.sent) == (True, (), MESSAGES)
    rows = pq.ParquetDataset(tmp_path / "outcomes").read(columns=["outcome", "value", "entry"])
    assert rows.num_rows == MESSAGES
    assert set(rows["outcome"].to_pylist()) == {outcome}
    positions = [value - 1 for value in rows["value"].to_pylist()] if outcome is Outcome.OK else [-1] * MESSAGES
    assert rows["entry"].to_pylist() == positions, "a position is a broker's word"
