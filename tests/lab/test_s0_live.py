"""S0's four tests on real brokers: with deduplication off messages are stored twice, with it on none is.

Two treatment runs must be clean. The control must duplicate at least once; since a clean control run is no failure
(S0's duplicated in 46, 45, 33 and 13 of 50 runs), it is given up to sixteen runs, and all of them are reported.
"""

from pathlib import Path

import pytest
from tests.lab import harness

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup.experiment.stages import State, advance, finished, schedule
from dedup.history.histories import read_manifest
from dedup.judgement.summaries import GroupRow, Summary
from dedup.judgement.verdicts import Code, Verdict
from dedup_lab import results
from dedup_lab.platform import LocalPlatform

pytestmark = [pytest.mark.live, pytest.mark.timeout(3600)]

MOST_CONTROL_RUNS = 32
RUNS = 2
MESSAGES = 300_000
MOST_SEEDS = 3
"""Of an experiment, until no fault comes while all is acknowledged."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kafka-kill-tcp", marks=pytest.mark.smoke),
        "kafka-kill-leader",
        pytest.param("pulsar-kill-tcp", marks=pytest.mark.smoke),
        "pulsar-kill-topic-owner",
    ],
)
def test_duplicates_without_deduplication_and_none_with_it(name: str, tmp_path: Path) -> None:
    found = harness.document(name, messages=MESSAGES)
    ended = met(found, tmp_path)
    summary = ended.summary
    control, treatment = group(summary, "control"), group(summary, "dedup")
    print(ended.out, ended.err)

    assert (
        ended.err.splitlines()[-1] == f"report: {ended.folder}/report.html" and (ended.folder / "report.html").exists()
    )
    assert treatment.verdict is Verdict.PASS, ended.told()
    assert treatment.effective_runs == RUNS, ended.told()
    assert treatment.sums.values_with_duplicates == treatment.sums.not_received == 0
    assert treatment.sums.jump_backward == treatment.sums.duplicate_jump_backward == 0
    if control.runs_with_copies:
        assert (ended.code, summary.verdict) == (0, Verdict.PASS), ended.told()
    else:
        assert (ended.code, summary.verdict) == (3, Verdict.INCONCLUSIVE), ended.told()
        assert {reason.code for reason in control.reasons} == {Code.CONTROL_CLEAN}, ended.told()
        assert control_until_copies(found, tmp_path / "more", MOST_CONTROL_RUNS - RUNS), "every control run was clean"


def met(found: dict[str, object], folder: Path) -> harness.Ended:
    """The first of which every fault came while messages were under way; the last if none did."""
    spec = found["spec"]
    assert isinstance(spec, dict)
    for seed in range(MOST_SEEDS):
        ended = harness.run({**found, "spec": {**spec, "seed": seed}}, folder / f"seed-{seed}", "--runs", RUNS)
        if not harness.idle(fault for run in ended.summary.runs for fault in run.faults):
            break
        print(ended.out, ended.err)
    return ended


def control_until_copies(found: dict[str, object], folder: Path, runs: int) -> bool:
    """Run the control alone, run by run, until more is read than was acknowledged; prints every run."""
    spec = found["spec"]
    assert isinstance(spec, dict)
    alone = {**found, "spec": {**spec, "variants": spec["variants"][:1], "runs": runs, "seed": 43}}
    experiment = harness.experiment(alone)
    kept = results.create(folder, experiment)
    platform = LocalPlatform(experiment, kept, harness.Quiet(), harness.nothing)
    state = State(digest=experiment.digest())
    try:
        while not finished(schedule(experiment), state):
            before, state = state.cursor, advance(experiment, state, platform, kept.save)
            if state.cursor != before and (counted := last_run(kept, before, experiment)) is not None:
                print(f"control run: {counted[0]:,} acknowledged, {counted[1]:,} read")
                if counted[1] > counted[0]:
                    return True
    finally:
        platform.close()
    return False


def last_run(kept: results.Results, cursor: int, experiment: Experiment) -> tuple[int, int] | None:
    """What the run whose last stage was at `cursor` sent and read, if it is finished."""
    run_id = schedule(experiment)[cursor].run_id
    for run in plan(experiment):
        if run.run_id == run_id and (path := kept.finished_attempt(run)):
            manifest = read_manifest(path)
            return manifest.producer.ok, manifest.consumer.received
    return None


def group(summary: Summary, variant: str) -> GroupRow:
    (found,) = [each for each in summary.systems if each.variant == variant]
    return found
