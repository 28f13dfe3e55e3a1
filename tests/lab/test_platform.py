"""The local platform without a broker: how it notes the ending of an attempt, and what an earlier process has left."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.core.evidences import experiment, manifest
from tests.lab.harness import Quiet, nothing

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.experiment.plans import plan
from dedup.experiment.stages import Observation, Stage, State, Status, Task, schedule
from dedup_lab import experiments, results
from dedup_lab.caches import Progress
from dedup_lab.platform import LocalPlatform, Reporter
from dedup_lab.results import Results
from dedup_lab.systems.labs import Lab

MADE: Final = experiment()
RUN: Final = plan(MADE)[0]
SETTLE: Final = Task(stage=Stage.SETTLE, system=RUN.system, run_id=RUN.run_id)
PREPARE: Final = SETTLE._replace(stage=Stage.PREPARE)
BOUND_S: Final = 30.0
START: Final = '{"event": "start", "sent": 0}\n'


class Played(LocalPlatform):
    """A platform whose stages do what a test says."""

    work: Callable[[], None] = staticmethod(lambda: None)

    def _do(self, task: Task, attempt: int) -> None:
        self.work()


@pytest.fixture
def kept(tmp_path: Path) -> Results:
    return results.create(tmp_path / "results", MADE)


@pytest.fixture
def platform(kept: Results) -> Iterator[Played]:
    made = Played(MADE, kept, Quiet(), nothing)
    yield made
    made.close()


def ending(kept: Results, number: int = 1) -> tuple[str, str]:
    said = json.loads((kept.attempt(RUN.run_id, number) / "failure.json").read_text())
    return said["kind"], said["reason"]


def begin(kept: Results, number: int, kind: str | None, *, sent: bool = True) -> None:
    """What an earlier process has left of an attempt; without a kind it was killed."""
    folder = kept.attempt(RUN.run_id, number)
    folder.mkdir(parents=True)
    (folder / "marks.jsonl").write_text(START if sent else "")
    if kind:
        (folder / "failure.json").write_text(json.dumps({"stage": "Settle", "reason": "why", "kind": kind}))


def fail() -> None:
    raise PlatformError(where="the topic", got="no leader", rule="it has one", todo="wait")


def test_a_stage_that_fails_by_itself_says_so_before_anybody_has_asked(kept: Results, platform: Played) -> None:
    """Else a tester that is killed in that moment would leave an attempt that looks like an interrupted one."""
    platform.work = fail
    platform.start(SETTLE, 1)
    platform.wait(BOUND_S)
    assert ending(kept) == ("failed", f"Settle {RUN.run_id}: the topic: got no leader; it has one; wait")
    assert platform.observe(SETTLE, 1).status is Status.FAILED
    platform.cancel(SETTLE, 1, "something else")
    assert "no leader" in ending(kept)[1]


def test_a_stage_that_is_stopped_says_that(kept: Results, platform: Played) -> None:
    """Whatever its programs make of being killed."""
    begun = threading.Event()
    children = platform._children

    def until_stopped() -> None:
        begun.set()
        assert children.cancelled.wait(BOUND_S)
        fail()

    platform.work = until_stopped
    platform.start(SETTLE, 1)
    assert begun.wait(BOUND_S)
    platform._end_job()
    assert ending(kept) == ("interrupted", "dedup was stopped")


def test_a_stage_that_just_begins_as_ctrl_c_comes_is_waited_for(
    kept: Results, platform: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    children, over = platform._children, threading.Event()
    platform.work = lambda: over.set() if children.cancelled.wait(BOUND_S) else None
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        platform.start(SETTLE, 1)
    monkeypatch.undo()
    platform._end_job()
    assert over.is_set()


def test_a_stage_that_takes_too_long_has_failed(kept: Results, platform: Played) -> None:
    children = platform._children
    platform.work = lambda: fail() if children.cancelled.wait(BOUND_S) else None
    platform.start(SETTLE, 1)
    platform.cancel(SETTLE, 1, "not done after 600 s")
    assert ending(kept) == ("failed", "not done after 600 s")


class System:
    """What was started, as far as its end is concerned."""

    ended = False

    def dead(self) -> None:
        """Nothing of it has ended."""

    def close(self) -> None:
        self.ended = True


class Fetched:
    """A product that is fetched in a hundred parts, and then does not start."""

    PROVISION_S = 1.0

    def __init__(self) -> None:
        self.parts, self.begun, self.goes_on = 0, threading.Event(), threading.Event()

    def start(self, _lab: Lab, *, progress: Progress, **_more: object) -> Endpoints:
        for self.parts in range(1, 101):
            progress("fetch kafka", self.parts, 100)
            self.begun.set()
            assert self.goes_on.wait(BOUND_S)
        raise PlatformError(where="kafka-1", got="exit code 1", rule="it starts", todo="read its log")


@pytest.mark.parametrize("stopped", [True, False])
def test_who_stops_while_jars_are_fetched_does_not_wait_for_the_rest(
    stopped: bool, kept: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("dedup_lab.forks.load", lambda: None)
    monkeypatch.setattr("dedup_lab.systems.running.PRODUCTS", {"kafka": (product := Fetched())})
    made, task = LocalPlatform(MADE, kept, Quiet(), nothing), Task(stage=Stage.PROVISION, system=RUN.system)
    made.start(task, 1)
    assert product.begun.wait(BOUND_S)
    if stopped:
        made._children.end_all()
    product.goes_on.set()
    made.wait(BOUND_S)
    told = made.observe(task, 1).message
    made.close()
    assert (product.parts, told) == (
        (2, "cancelled") if stopped else (100, "kafka-1: got exit code 1; it starts; read its log")
    )
    assert not list((tmp_path / "cache" / "labs").iterdir())


@pytest.mark.parametrize("healed", [False, True], ids=["in force", "healed"])
def test_a_fault_that_outlives_its_run_is_not_the_next_ones(kept: Results, platform: Played, healed: bool) -> None:
    """A cut in the kernel lasts its time, whoever asked for it: the next run would have a fault that nobody records."""
    begin(kept, 1, None)
    events = ["armed", "injecting", *(["healed"] if healed else [])]
    said = [json.dumps({"event": event, "fault": "cut", "monotonic_ns": 1}) for event in events]
    (kept.attempt(RUN.run_id, 1) / "faults.jsonl").write_text("\n".join([*said, '{"event": "hea']))
    system = System()
    platform._systems[RUN.system] = system  # type: ignore[assignment]
    platform.cancel(SETTLE._replace(stage=Stage.PRODUCE), 1, "the producer ended")
    assert system.ended is not healed
    following = PREPARE._replace(run_id=plan(MADE)[1].run_id)
    assert platform.observe(following, 1).status is (Status.ABSENT if healed else Status.UNPROVISIONED)


@pytest.mark.parametrize(
    ("kind", "sent", "status"),
    [
        ("failed", True, Status.DONE),
        (None, True, Status.UNPROVISIONED),
        ("interrupted", True, Status.UNPROVISIONED),
        ("failed", False, Status.UNPROVISIONED),
    ],
)
def test_what_an_earlier_process_left_is_over_or_done_again(
    kind: str | None, sent: bool, status: Status, kept: Results, platform: Played
) -> None:
    begin(kept, 1, kind, sent=sent)
    assert platform.observe(PREPARE, 2).status is status


def test_a_run_that_failed_after_its_first_message_is_not_done_again(kept: Results) -> None:
    """`--resume` did it again, and the clean second attempt gave a pass."""
    tasks, notes = schedule(MADE), list[str]()

    class Noting(Quiet):
        def note(self, text: str) -> None:
            notes.append(text)

    said: Reporter = Noting()
    begin(kept, 1, "failed")
    kept.save(State(digest=MADE.digest(), cursor=len(tasks), failures=1))
    state = experiments._resumed(MADE, kept, said)
    assert tasks[state.cursor].run_id == plan(MADE)[1].run_id
    assert notes == [f"{RUN.run_id} failed after its first message: that is its result, and it is not done again"]


@pytest.mark.parametrize(("kind", "sent"), [("failed", False), (None, True)])
def test_its_twins_are_done_again(kind: str | None, sent: bool, kept: Results) -> None:
    tasks = schedule(MADE)
    begin(kept, 1, kind, sent=sent)
    kept.save(State(digest=MADE.digest(), cursor=len(tasks), failures=1))
    state = experiments._resumed(MADE, kept, Quiet())
    assert tasks[state.cursor].run_id == RUN.run_id


# Runs whose faults missed.

WHY: Final = "fault cut: no client noticed it"
CONSUME: Final = SETTLE._replace(stage=Stage.CONSUME)
PROVISION: Final = Task(stage=Stage.PROVISION, system=RUN.system)


def finish(folder: Path, number: int, *missed: str) -> None:
    """What an earlier process has left of every run: a history."""
    for run in plan(MADE):
        own = folder / "runs" / run.run_id / f"attempt-{number}"
        own.mkdir(parents=True)
        made = manifest(run, attempt=number, missed=missed if run == RUN else ())
        (own / "manifest.json").write_text(made.model_dump_json())


@pytest.mark.parametrize("budget", [1, 0])
def test_a_run_whose_faults_missed_is_done_and_may_be_replaced(budget: int, tmp_path: Path) -> None:
    made = experiment(replacements=budget)
    kept = results.create(tmp_path / "results", made)
    platform = Played(made, kept, Quiet(), nothing)
    finish(kept.root, 1, WHY)
    assert platform.observe(CONSUME, 1) == Observation(status=Status.DONE, attempts=1, missed=WHY if budget else "")
    assert platform.observe(PREPARE, 2).status is (Status.UNPROVISIONED if budget else Status.DONE)
    assert platform.observe(PROVISION, 1).status is (Status.ABSENT if budget else Status.DONE)
    finish(kept.root, 2)
    assert platform.observe(CONSUME, 2) == Observation(status=Status.DONE, attempts=2)
    assert platform.observe(PROVISION, 1).status is Status.DONE
    assert [path.name for path in kept.histories(RUN)] == ["attempt-1", "attempt-2"]
    assert kept.finished_attempt(RUN) == kept.attempt(RUN.run_id, 2)
    platform.close()


def test_a_stage_that_has_just_read_a_run_whose_faults_missed_says_so(tmp_path: Path) -> None:
    made = experiment(replacements=1)
    kept = results.create(tmp_path / "results", made)
    platform = Played(made, kept, Quiet(), nothing)
    platform.work = lambda: finish(kept.root, 1, WHY)
    platform.start(CONSUME, 1)
    platform.wait(BOUND_S)
    assert platform.observe(CONSUME, 1) == Observation(status=Status.DONE, missed=WHY)
    platform.close()
