"""What Pulsar's Java client says of its messages becomes the history, before a broker of the tests.

The client is the real one. A message that no broker has acknowledged is unknown, and never a failure: it was sent.
"""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.runners.pulsar_stand_in import LEDGER, StandIn, stand_in

from dedup.experiment.clients import CLIENTS
from dedup.experiment.endpoints import Endpoints
from dedup.wire.manifests import ProducerReport
from dedup_lab.caches import silent
from dedup_lab.clients import pulsar_java
from dedup_runners.clients import Outcome
from dedup_runners.configs import ProducerConfig
from dedup_runners.producer import produce

pytestmark = pytest.mark.long

MESSAGES = 200
VERSIONS = CLIENTS["pulsar-java"].versions


def produced(
    broker: StandIn, version: str, folder: Path, delivery_timeout_s: float
) -> tuple[ProducerReport, list[dict[str, int]]]:
    """One message a request; the report, and what became of each message in the order of values."""
    url = f"pulsar://{broker.address}"
    produce(
        ProducerConfig(
            run_id="r1",
            folder=folder,
            endpoints=Endpoints(system="pulsar", client_bootstrap=url, direct_bootstrap=url, brokers=[]),
            topic="persistent://public/default/t",
            library="pulsar-java",
            properties={"batchingEnabled": "false"},
            deduplication=False,
            producer_name="r1-1",
            messages=MESSAGES,
            in_flight=MESSAGES,
            delivery_timeout_s=delivery_timeout_s,
            program=pulsar_java.program(version, silent),
        )
    )
    report = ProducerReport.model_validate_json((folder / ProducerReport.FILE).read_bytes())
    rows = pq.ParquetDataset(folder / "outcomes").read(columns=["value", "outcome", "ledger", "entry"])
    return report, sorted(rows.to_pylist(), key=lambda row: int(row["value"]))


@pytest.mark.parametrize("version", VERSIONS)
def test_each_message_has_its_value_as_sequence_id_and_the_position_that_the_broker_gave(
    version: str, tmp_path: Path
) -> None:
    with stand_in(deduplication=False) as broker:
        report, rows = produced(broker, version, tmp_path, 60.0)
    assert (report.complete, report.problems, report.sent, report.ok) == (True, (), MESSAGES, MESSAGES)
    assert report.library_version.startswith(f"pulsar-client {version}, Java ")
    assert broker.stored == [*range(1, MESSAGES + 1)]
    assert [(row["ledger"], row["entry"]) for row in rows] == [(LEDGER, entry) for entry in range(MESSAGES)]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_timed_out_is_unknown_though_the_library_calls_it_an_error(version: str, tmp_path: Path) -> None:
    with stand_in(deduplication=False, silent_from=MESSAGES // 2) as broker:
        report, rows = produced(broker, version, tmp_path, 3.0)
    assert (report.ok, report.fail) == (MESSAGES // 2 - 1, 0)
    assert {row["outcome"] for row in rows[: MESSAGES // 2 - 1]} == {Outcome.OK}
    assert {(row["outcome"], row["entry"]) for row in rows[MESSAGES // 2 - 1 :]} == {(Outcome.UNKNOWN, -1)}
    assert len(broker.stored) == MESSAGES, "all were stored"
