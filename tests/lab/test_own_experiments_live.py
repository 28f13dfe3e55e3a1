"""Somebody else's experiment of Chaos Toolkit strikes a real Kafka, unchanged, and is witnessed: a verdict like any.

`toxiproxy.json` calls activities of chaostoolkit-toxiproxy as it is published; `proxy-down.json` needs no extension.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from testbed import extensions
from tests.lab import harness

from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

FOLDER: Final = Path(__file__).parents[2] / "examples" / "chaos"


@pytest.mark.parametrize("name", ["toxiproxy.json", "proxy-down.json"])
def test_an_experiment_of_chaos_toolkit_runs_unchanged_and_is_witnessed(
    name: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    found = harness.document("chaos/kafka-own-experiment")
    found["spec"]["faults"][0]["chaos"]["experiment"] = name
    shutil.copy(FOLDER / name, tmp_path)
    with extensions.at_hand(extensions.TOXIPROXY):
        ended = harness.run(found, tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    for row in ended.summary.runs:
        (fault,) = row.faults
        assert fault.vacuous is None
        place = sorted((ended.folder / "runs" / row.run_id).glob("attempt-*"))[-1] / "chaos" / "unreachable"
        assert (place / "own.json").read_bytes() == (FOLDER / name).read_bytes(), "unchanged"
        journal = json.loads((place / "own-journal.json").read_bytes())
        assert journal["deviated"] is True
        assert {each["status"] for each in journal["rollbacks"]} == {"succeeded"}
        tell(f"{name}, {row.run_id}: clients noticed {fault.client_witness}")
