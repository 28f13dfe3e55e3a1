"""Clients that are programs, on real brokers: the control shows duplicates, the treatment none; each saw the fault."""

from pathlib import Path

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("name", ["java-4", "java-2", "franz-go"])
def test_a_program_duplicates_without_idempotence_and_not_with_it(name: str, tmp_path: Path) -> None:
    found = harness.document("clients", messages=150_000)
    found["spec"]["systems"] = [system for system in found["spec"]["systems"] if system["name"] == name]
    ended = harness.run(found, tmp_path)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    sums = {row.variant: row.sums for row in ended.summary.systems}
    assert sums["control"].values_with_duplicates > 0 == sums["dedup"].values_with_duplicates, ended.told()
    # An attempt whose cut missed is no run's result: what it noticed is by chance.
    folders = [path.parent for path in ended.folder.glob("runs/*/*/manifest.json")]
    struck = [folder for folder in folders if not read_manifest(folder).missed]
    assert len(struck) == 4, ended.told()
    library = found["spec"]["systems"][0]["client"]["library"]
    for manifest in map(read_manifest, struck):
        assert (manifest.producer.library, manifest.consumer.library) == (library, "confluent-kafka")
        cut = next(fault for fault in manifest.faults if fault.name == "cut")
        assert cut.client_witness.get("retry"), ended.told()
    disturbances = [(folder / "disturbances.jsonl").read_text() for folder in struck]
    # Kafka's client of 2.8 logs no connection that ends, and names no broker.
    assert name == "java-2" or all('"disconnect"' in text and '"broker": "' in text for text in disturbances)
