"""What Events tell: the story of an experiment, short, in order and once."""

from itertools import pairwise
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, TOLD, World, document
from tests.operator.test_reconciliations import applied, edit, fake

from dedup.experiment.spec import parse
from dedup.experiment.stages import State, schedule
from dedup_operator.clusters import ClusterError, Object, Refused, Unreachable
from dedup_operator.objects.events import MAX_MESSAGE
from dedup_operator.statuses import Judgement, Standing, Status
from dedup_operator.stories import Tiding, story

CALM: Final = [
    ("Begun", "2 runs on kafka"),
    ("SystemReady", "kafka is ready"),
    ("RunsOver", "1 of 2 runs are over"),
    ("RunsOver", "2 of 2 runs are over"),
    ("Finished", "Pass: every expectation was met"),
]


def test_a_calm_story() -> None:
    world = applied()
    world.run()
    assert world.events() == CALM
    assert {each["type"] for each in world.cluster.list("Event", NAMESPACE, "")} == {"Normal"}


def test_an_event_is_about_the_experiment_as_kubectl_describe_looks_for_it() -> None:
    world = applied()
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    (told,) = world.cluster.list("Event", NAMESPACE, "")
    about = {"kind": "DedupExperiment", "apiVersion": "dedup.dev/v1alpha1", "namespace": NAMESPACE}
    assert told["involvedObject"] == {**about, "name": "e", "uid": "6f1c"}
    assert told["metadata"]["namespace"] == NAMESPACE
    assert told["firstTimestamp"] == told["lastTimestamp"] == "2027-01-15T08:00:00Z"


@pytest.mark.long
def test_a_crash_tells_nothing_twice() -> None:
    """It may leave something out: what it was about to tell."""
    calm = applied()
    calm.run()
    for moment in range(1, calm.moments + 1, 3):
        world = applied()
        world.run(crash_at=moment)
        told = world.events()
        assert len(told) == len(set(told)), moment
        assert [each for each in CALM if each in told] == [each for each in told if each in CALM], moment
        assert len(set(CALM) - set(told)) <= 1, moment


@pytest.mark.parametrize("error", [Refused("events is forbidden"), Unreachable("HTTP 503")])
def test_an_event_that_cannot_be_written_harms_nobody(error: ClusterError, monkeypatch: pytest.MonkeyPatch) -> None:
    world = applied()
    create = fake(world).create

    def refusing(made: Object) -> bool:
        if made["kind"] == "Event":
            raise error
        return create(made)

    monkeypatch.setattr(world.cluster, "create", refusing)
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert world.events() == []


def test_a_failure_is_told_in_its_words() -> None:
    world = applied(fails=lambda job: job["metadata"]["labels"].get("dedup.dev/variant") == "control")
    world.run()
    (failed,) = (message for reason, message in world.events() if reason == "TaskFailed")
    assert "kafka-control-001: Played: as the script says" in failed
    assert ("RunsOver", "2 of 2 runs are over; 1 tasks failed") in world.events()


@pytest.mark.parametrize("verdict", [Judgement.FAIL, Judgement.INCONCLUSIVE, Judgement.ERROR])
def test_any_other_verdict_warns(verdict: Judgement) -> None:
    world = applied()
    said = document(TOLD.model_copy(update={"verdict": verdict}))
    world.player.says = lambda: said
    world.run()
    *_, last = sorted(world.cluster.list("Event", NAMESPACE, ""), key=lambda each: each["reason"] == "Finished")
    assert (last["reason"], last["type"]) == ("Finished", "Warning")
    assert last["message"].startswith(f"{verdict}: ")


def test_another_token_and_a_suspension_are_told() -> None:
    world = applied(("spec/suspend", True))
    world.run()
    edit(world, suspend=False)
    world.run(until=lambda status: status.get("phase") == "Running")
    edit(world, runToken="2")
    world.run(until=lambda status: status.get("observedRunToken") == "2")
    edit(world, suspend=True)
    world.run()
    edit(world, suspend=False)
    world.run(until=lambda status: status["phase"] == "Running")
    reasons = [reason for reason, _ in world.events()]
    assert reasons[:6] == ["Suspended", "Resumed", "Begun", "SystemReady", "Replaced", "Begun"]
    assert reasons[6:] == ["Suspended", "Resumed", "SystemReady"]


def test_a_stall_is_told_once_and_again_when_it_has_another_reason() -> None:
    world = applied()
    fake(world).unknown = {"SparkApplication"}
    operator, _ = world.operator()
    for _ in range(3):
        operator.look((NAMESPACE, "e"))
    assert [reason for reason, _ in world.events()] == ["Stalled"]
    edit(world, artifacts={"s3": {"bucket": "bucket", "secretRef": {"name": "keys"}}})
    operator.look((NAMESPACE, "e"))
    assert [reason for reason, _ in world.events()] == ["Stalled", "Stalled"]


def test_a_status_that_cannot_be_read_is_told() -> None:
    world = applied()
    world.cluster.set_status(world.live(), {"phase": "Dreaming"})
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    operator.look((NAMESPACE, "e"))
    ((reason, words),) = world.events()
    assert (reason, words[:13]) == ("StatusUnreadable", "status.phase:")


def steps(runs: int, **failing: Any) -> list[Tiding]:
    """Every tiding of an experiment with so many runs, all of which fail or none."""
    document: Any = changed(("spec/systems", [{"name": "kafka", "kafka": {}}]), ("spec/runs", runs // 2))
    tasks = schedule(parse(document, source="e"))
    cursors = [0, *(index + 1 for index, task in enumerate(tasks) if task.stage == "Consume")]
    found = list[Tiding]()
    for number, (old, new) in enumerate(pairwise(cursors)):
        failures = (number, number + 1) if failing else (0, 0)
        was, now = (
            Status(state=Standing.of(State(digest="0" * 64, cursor=cursor, failures=failed, last_failure="x" * 500)))
            for cursor, failed in zip((old, new), failures, strict=True)
        )
        found += story(was, now, tasks, 1)
    return [each for each in found if each.reason != "SystemReady"]


@pytest.mark.parametrize(("runs", "told"), [(2, 2), (10, 10), (12, 10), (400, 10)])
def test_the_story_is_short_at_any_number_of_runs(runs: int, told: int) -> None:
    assert len(steps(runs)) == told
    assert steps(runs)[-1].message == f"{runs} of {runs} runs are over"


def test_failures_are_told_less_and_less() -> None:
    failed = [each for each in steps(400, failing=True) if each.reason == "TaskFailed"]
    assert [int(each.part[1]) for each in failed] == [*range(1, 11), 16, 32, 64, 128, 256]
    assert len({each.part for each in failed}) == len(failed)
    assert all(len(each.message) <= MAX_MESSAGE for each in failed)


def test_who_waits_is_told_that_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world: World = applied()
    operator, _ = world.operator()
    places = iter([3, 2, 0])
    monkeypatch.setattr(operator.queue, "place", lambda _live: next(places))
    for _ in range(3):
        operator.look((NAMESPACE, "e"))
    assert [reason for reason, _ in world.events()] == ["Queued", "Begun"]
