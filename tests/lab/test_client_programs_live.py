"""Clients that are programs, on real brokers: the control shows duplicates, the treatment none; each saw the fault."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("example", "name", "reader", "words"),
    [
        ("clients", "java-4", "confluent-kafka", ('"disconnect"', '"broker": "')),
        ("clients", "java-2", "confluent-kafka", ()),  # 2.8 logs no connection that ends, and names no broker
        ("clients", "franz-go", "confluent-kafka", ('"disconnect"', '"broker": "')),
        ("pulsar-clients", "java-4", "pulsar-client", ('"disconnect"', '"broker": "')),
        ("pulsar-clients", "java-2", "pulsar-client", ('"disconnect"', '"broker": "')),
    ],
)
def test_a_program_duplicates_without_deduplication_and_not_with_it(
    example: str, name: str, reader: str, words: tuple[str, ...], tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """`words`: what its disturbances say, as far as the library does."""
    found = harness.document(example, messages=150_000)
    found["spec"]["systems"] = [system for system in found["spec"]["systems"] if system["name"] == name]
    ended = harness.run(found, tmp_path)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    sums = {row.variant: row.sums for row in ended.summary.systems}
    assert sums["control"].values_with_duplicates > 0 == sums["dedup"].values_with_duplicates, ended.told()
    # An attempt whose cut missed is no run's result: what it noticed is by chance.
    folders = [path.parent for path in ended.folder.glob("runs/*/*/manifest.json")]
    struck = [folder for folder in folders if not read_manifest(folder).missed]
    assert len(struck) == 4, ended.told()
    client = found["spec"]["systems"][0]["client"]
    for manifest in map(read_manifest, struck):
        assert (manifest.producer.library, manifest.consumer.library) == (client["library"], reader)
        assert client["version"] in manifest.producer.library_version
        cut = next(fault for fault in manifest.faults if fault.name == "cut")
        assert cut.client_witness.get("retry"), ended.told()
    disturbances = [(folder / "disturbances.jsonl").read_text() for folder in struck]
    assert all(word in text for word in words for text in disturbances)
    tell(f"{example} {name}: " + ", ".join(f"{each} {of.values_with_duplicates:,}" for each, of in sums.items()))
    tell(", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs))


def test_a_program_of_ones_own_beside_the_file_is_tested_as_a_library_is(
    tmp_path: Path, tell: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a third variant holds it against the library that it stands on: the same switch, another client."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    shutil.copy(harness.ROOT / "examples" / "own-client" / "producer.py", tmp_path)
    found = harness.document("own-client/kafka-own-client", messages=150_000)
    library = {
        "name": "library",
        "deduplication": "Enabled",
        "expect": "AtLeastOnce",
        "client": {"library": "franz-go"},
    }
    found["spec"] |= {"runs": 1, "variants": [*found["spec"]["variants"], library]}
    ended = harness.run(found, tmp_path)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    sums = {row.variant: row.sums for row in ended.summary.systems}
    assert sums["control"].values_with_duplicates > 0, ended.told()
    assert sums["dedup"].values_with_duplicates == sums["library"].values_with_duplicates == 0, ended.told()
    recorded = [read_manifest(path.parent) for path in ended.folder.glob("runs/*/*/manifest.json")]
    assert {each.variant: each.producer.library for each in recorded} == {
        "control": "command",
        "dedup": "command",
        "library": "franz-go",
    }
    of_own = [each for each in recorded if each.producer.library == "command"]
    assert all(each.producer.library_version.startswith("my producer 1.0") for each in of_own)
    assert {each.consumer.library for each in recorded} == {"confluent-kafka"}
    tell(", ".join(f"{each} {of.values_with_duplicates:,}" for each, of in sums.items()))
    tell(", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs))
