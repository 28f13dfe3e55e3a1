"""`dedup explore` of a transactional producer finds KAFKA-17754 by itself, shrinks it, explains it, and writes it down.

The experiment that it writes shows the same with the client that was explored, and nothing with one of EndTxn 5.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.lab import harness
from tests.lab.pointed import dedup

from dedup.experiment.points import Action
from dedup.judgement.verdicts import Verdict
from dedup_lab.exploring.folders import EXPERIMENT

pytestmark = [pytest.mark.live, pytest.mark.timeout(2400)]

EXAMPLE: Final = harness.ROOT / "examples" / "explore" / "kafka-transactions.yaml"
FOUND_S: Final = 1500.0
"""It takes five minutes alone on two cores, and ten and more beside pods that start."""
RUNS: Final = 10
SHOWN: Final = 9
"""Of these at least, as of the replays of an alarm. 10 are usual."""
JAVA: Final = {
    "library": "kafka-java",
    "version": "4.3.1",
    "properties": {"request.timeout.ms": "2000", "linger.ms": "0"},
}


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of the command."""
    place = tmp_path_factory.mktemp("explored")
    program = dedup(place, "explore", str(EXAMPLE), "--format", "json", "--out", str(place / "kept"))
    out, err = program.communicate(timeout=FOUND_S)
    assert out, err
    found: dict[str, Any] = json.loads(out)
    return found


def late_commit(explored: dict[str, Any]) -> dict[str, Any]:
    """The alarm of a request to end a transaction that arrived in the next one."""
    (alarm,) = [
        alarm
        for alarm in explored["alarms"]
        if [(each["exchange"]["api"], each["action"]) for each in alarm["visit"]["schedule"]]
        == [("EndTxn", Action.STALL_REQUEST_TO_NEXT)]
        and "aborted_read" in alarm["visit"]["anomalies"]
    ]
    return dict(alarm)


def test_a_late_commit_is_found_shrunk_and_explained(explored: dict[str, Any], tell: Callable[[str], None]) -> None:
    alarm = late_commit(explored)
    assert explored["verdict"] == Verdict.FAIL, explored["reasons"]
    assert alarm["replayed"] >= 9, alarm
    shrunk = alarm["shrunk"]
    assert shrunk["shown"] >= 9 and shrunk["messages"] < 20 and len(shrunk["schedule"]) == 1
    for words in ("EndTxn v1 of transaction", "was held for", "had begun, and brokers had stored offset"):
        assert words in alarm["visit"]["explanation"]
    apis = {row["api"] for row in explored["rows"]}
    assert {"InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"} <= apis
    control = [row["control"] for row in explored["rows"] if row["control"]]
    assert control == ["4 of 4"]
    tell(f"{explored['points']} points in {explored['seconds']} s; {alarm['visit']['explanation']}")


@pytest.mark.parametrize(
    ("client", "verdict"), [({}, Verdict.FAIL), (JAVA, Verdict.PASS)], ids=["librdkafka", "java 4.3.1"]
)
def test_what_was_found_shows_again_and_not_where_each_transaction_has_an_epoch(
    explored: dict[str, Any], tmp_path: Path, client: dict[str, Any], verdict: Verdict, tell: Callable[[str], None]
) -> None:
    document = yaml.safe_load((Path(late_commit(explored)["visit"]["folder"]) / EXPERIMENT).read_text())
    (system,) = document["spec"]["systems"]
    system["client"] = client or system["client"]
    ended = harness.run(document, tmp_path, "--runs", RUNS)
    shown = sum(run.counts is not None and run.counts.aborted_read > 0 for run in ended.summary.runs)
    assert ended.summary.verdict is verdict, ended.told()
    assert shown >= SHOWN if client == {} else shown == 0, ended.told()
    if client:  # a clean run proves something only if the request was held, arrived, and was noticed
        assert all(not fault.vacuous for run in ended.summary.runs for fault in run.faults), ended.told()
    tell(f"aborted messages were read in {shown} of {RUNS} runs")
