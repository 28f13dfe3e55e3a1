"""A recorded run is done again on real brokers: its faults begin at the very messages at which they began then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lab import harness
from tests.lab.harness import Ended

from dedup.experiment.replays import SUFFIX
from dedup.experiment.spec import load
from dedup.history.histories import read_manifest
from dedup.judgement.replays import Replayed
from dedup.judgement.verdicts import Verdict
from dedup_lab.results import EXPERIMENT

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


def replay(folder: Path, run: str, out: Path) -> tuple[Ended, Replayed]:
    ended = Ended(*harness.dedup("replay", folder, run, "--out", out, "--format", "json"), out)
    assert ended.out, ended.told()
    return ended, Replayed.model_validate_json(ended.out)


def drawn() -> dict[str, Any]:
    """25 seconds of what a seed draws, at 2,000 messages a second, in a treatment alone."""
    found = harness.document("schedules/kafka-random", messages=56_000)
    spec = found["spec"]
    operations = [
        {"name": "cut", "every": "4s", "killTCP": {"duration": "1s"}},
        {"name": "move", "every": "4s", "moveLeader": {}},
    ]
    spec["random"] = {"duration": "25s", "rest": "4s", "operations": operations}
    spec["variants"] = [each for each in spec["variants"] if each["name"] == "dedup"]
    spec |= {"runs": 1, "replacements": 0, "verification": {"engine": "Local"}}
    return found


def test_what_a_seed_drew_is_struck_again_by_message(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """At which message a fault shows its effect depends on the machine; where it begins does not."""
    then = harness.run(drawn(), tmp_path)
    assert "summary.json" in {path.name for path in then.folder.iterdir()}, then.told()
    ended, seen = replay(then.folder, "kafka-dedup-001", tmp_path / "again")
    recorded = read_manifest(Path(seen.then.path))
    begun = [each for each in recorded.faults if not each.whole_run and each.triggered_message is not None]
    assert len(begun) > 1, then.told()
    assert all(each.requested_time and not each.requested_message for each in begun)
    assert [each.name for each in seen.faults] == [each.name for each in begun]
    for each, record in zip(seen.faults, begun, strict=True):
        assert each.now.began is not None
        assert each.now.began == each.then.began == record.triggered_message, ended.told()
        assert each.now.struck is None or each.now.struck >= each.now.began
    now = read_manifest(Path(seen.now.path))
    assert {each.requested_message for each in now.faults if not each.whole_run} == {
        each.triggered_message for each in begun
    }
    assert load(ended.folder / EXPERIMENT).name.endswith(SUFFIX)
    assert ended.code == ended.summary.exit_code and seen.now.verdict == ended.summary.runs[0].verdict
    tell(", ".join(f"{each.name} {each.then.struck} {each.now.struck} ({each.percent} %)" for each in seen.faults))


@pytest.mark.parametrize(("variant", "copies"), [("control", True), ("dedup", False)])
def test_a_lost_reply_is_lost_again_and_has_the_same_consequence(
    variant: str, copies: bool, lost_reply: Ended, tmp_path: Path
) -> None:
    ended, seen = replay(lost_reply.folder, f"kafka-{variant}-001", tmp_path / "again")
    assert (ended.code, seen.now.verdict) == (0, Verdict.PASS), ended.told()
    assert [(each.then.struck, each.now.struck, each.percent) for each in seen.faults] == [(3, 3, 0)]
    for side in (seen.then, seen.now):
        assert side.counts is not None and bool(side.counts.values_with_duplicates) is copies


@pytest.fixture(scope="module")
def lost_reply(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The example of the lost reply, run once."""
    found = harness.document("kafka-lost-reply")
    found["spec"]["verification"] = {"engine": "Local"}
    ended = harness.run(found, tmp_path_factory.mktemp("lost"), "--runs", 1)
    assert ended.code == 0, ended.told()
    return ended
