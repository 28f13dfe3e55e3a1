"""A pod's producer and consumer under a conductor, without a broker: librdkafka's own mock cluster takes the messages.

The conductor is this process; what it asks of brokers, which the mock does not know, a stand-in answers. The same with
a real Kafka, faults and a store is test_conductor_live.py.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.evidences import CUT, manifest
from tests.runners import assigned, mock_brokers
from tests.runners.local_pods import COURIER, LocalPod

from dedup.errors import PlatformError
from dedup.experiment.assignments import EXIT_CLAIMED, Assignment
from dedup.experiment.endpoints import Endpoints
from dedup.experiment.plans import Run
from dedup.history import stores
from dedup.history.attempts import attempts_of, ending_of
from dedup.history.histories import MANIFEST, damages, read_manifest
from dedup.judgement.endings import Ending, Kind
from dedup.process.orphans import EXIT_CODE
from dedup.wire.files import Failure
from dedup.wire.manifests import ConsumerReport
from dedup_runners import claims, conductor, lifelines, programs
from dedup_runners.attempt.courses import Course
from dedup_runners.attempt.faults import ArmedFaults
from dedup_runners.waiting import until
from dedup_spark import oracle

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

BOUND_S = 60.0
NOTICED_S = 30.0


@pytest.fixture(scope="module")
def endpoints() -> Iterator[Endpoints]:
    with mock_brokers.mock_cluster() as running:
        yield running


def assign(folder: Path, endpoints: Endpoints, messages: int) -> Assignment:
    return assigned.assignment(folder, endpoints=endpoints, workload=mock_brokers.workload(messages))


def test_a_run_ends_with_a_whole_history(endpoints: Endpoints, tmp_path: Path) -> None:
    told = assign(tmp_path / "pod", endpoints, 20_000)
    with LocalPod(told, lifelines.CONDUCTOR) as pod:
        mock_brokers.conduct(told)
        assert pod.ended(BOUND_S) == {"producer": 0, "consumer": 0}, pod.everything_said()
    manifest = read_manifest(told.folder)
    assert not damages(told.folder, manifest)
    assert not manifest.problems
    assert manifest.recorded_at is not None and manifest.recorded_at.endswith("Z")
    assert manifest.machine is not None and manifest.machine.host and not manifest.machine.java
    assert oracle.judge(told.folder).counts.received == 20_000
    assert not (told.folder / Failure.FILE).exists()


@pytest.mark.parametrize(
    ("changes", "missed"),
    [({"unacknowledged": 0}, ("fault cut: no message was unacknowledged at the effect",)), ({}, ())],
)
def test_whether_the_faults_missed_is_decided_before_anything_is_read(
    endpoints: Endpoints,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, int],
    missed: tuple[str, ...],
) -> None:
    """Only this may have a run replaced, so nothing that was received can have a say in it."""
    told = assign(tmp_path / "pod", endpoints, 20_000)
    shown = {"touched": ["1"], "leader": "1"}
    found, settled = (CUT.model_copy(update={"target_witness": shown, **changes}),), list[list[str]]()
    settle = Course.settle

    def settles(course: Course) -> None:
        settle(course)
        settled.append(sorted(path.name for path in told.folder.iterdir()))
        assert course._missed == missed

    monkeypatch.setattr(ArmedFaults, "records", lambda _faults, _messages: found)
    monkeypatch.setattr(Course, "settle", settles)
    with LocalPod(told, lifelines.CONDUCTOR) as pod:
        mock_brokers.conduct(told)
        assert pod.ended(BOUND_S) == {"producer": 0, "consumer": 0}, pod.everything_said()
    (then,) = settled
    assert "sent" in then and "received" not in then and ConsumerReport.FILE not in then
    manifest = read_manifest(told.folder)
    assert (manifest.missed, manifest.faults, manifest.consumer.complete) == (missed, found, True)


def test_a_producer_that_is_killed_ends_the_run_at_once(endpoints: Endpoints, tmp_path: Path) -> None:
    told = assign(tmp_path / "pod", endpoints, 1_000_000_000)
    killed_s: list[float] = []
    with LocalPod(told, lifelines.CONDUCTOR) as pod:

        def kill_when_it_sends() -> None:
            until(lambda: list(told.folder.glob("sent/*")), BOUND_S, "a segment of the history", 0.05)
            killed_s.append(time.monotonic())
            os.kill(pod.programs["producer"].pid, signal.SIGKILL)

        threading.Thread(target=kill_when_it_sends, daemon=True).start()
        with pytest.raises(PlatformError, match="producer: got exit code 137; it left no word"):
            mock_brokers.conduct(told)
        assert time.monotonic() - killed_s[0] < NOTICED_S
        assert pod.ended(BOUND_S) == {"producer": -signal.SIGKILL, "consumer": EXIT_CODE}
    said = json.loads((told.folder / Failure.FILE).read_text())
    assert (said["stage"], said["kind"], said["sent"]) == ("Produce", "failed", True)
    assert not (told.folder / MANIFEST).exists()


@pytest.mark.parametrize("first", ["producer", lifelines.CONDUCTOR])
def test_a_pod_that_is_ended_from_outside_leaves_word_of_that(endpoints: Endpoints, tmp_path: Path, first: str) -> None:
    """Its twin is the producer that is killed, and that failed: nobody told the pod to end."""
    store = str(tmp_path / "store")
    told = assigned.assignment(
        tmp_path / "pod", store, endpoints=endpoints, workload=mock_brokers.workload(1_000_000_000)
    )
    with LocalPod(told, conductor="tests.runners.a_conductor") as pod:
        until(lambda: list(told.folder.glob("sent/*")), BOUND_S, "a segment of the history", 0.05)
        pod.programs[first].terminate()
        pod.end()
        codes = pod.ended(BOUND_S)
        assert codes[lifelines.CONDUCTOR] == 128 + signal.SIGTERM, pod.everything_said()
        assert pod.said(lifelines.CONDUCTOR).endswith("Produce: the pod was ended from outside (SIGTERM)\n")
    (attempt,) = attempts_of(Path(store), told.run_id)
    assert (attempt.number, attempt.finished) == (1, False)
    words = "Produce: the pod was ended from outside (SIGTERM)"
    assert ending_of(attempt) == Ending(kind=Kind.INTERRUPTED, sent=True, reason=words)
    assert ending_of(attempt).repeatable


def test_a_pod_that_is_ended_before_its_claim_leaves_nothing(
    endpoints: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt may be another pod's, which writes to that place."""
    told = assign(tmp_path / "pod", endpoints, 1000)
    monkeypatch.setattr(programs, "leave", sys.exit)
    with pytest.raises(SystemExit):
        conductor.Stages(told).end()
    assert list(told.folder.iterdir()) == []


def test_a_producer_that_gives_up_says_why(endpoints: Endpoints, tmp_path: Path) -> None:
    told = assign(tmp_path / "pod", endpoints, 20_000)
    (told.folder / "sent").write_text("a file where the history has a folder")
    with LocalPod(told, lifelines.CONDUCTOR), pytest.raises(PlatformError, match=r"producer: got exit code 4; .*sent"):
        mock_brokers.conduct(told)
    assert not (told.folder / MANIFEST).exists()


def test_a_second_start_of_an_attempt_sends_nothing(endpoints: Endpoints, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    first = assigned.assignment(tmp_path / "first", store, endpoints=endpoints)
    second = assigned.assignment(tmp_path / "second", store, endpoints=endpoints)
    claims.claim(first)
    with LocalPod(second) as pod:
        codes = pod.ended(BOUND_S)
        said = pod.said(lifelines.CONDUCTOR)
    assert codes == {lifelines.CONDUCTOR: EXIT_CLAIMED, "producer": EXIT_CODE, "consumer": EXIT_CODE, COURIER: 0}
    assert len(said.splitlines()) == 1
    assert not list(second.folder.iterdir())
    assert stores.below(Path(str(first.place()))) == [claims.CLAIM]


def test_a_finished_run_whose_faults_missed_leaves_word_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the operator, in the pod's status; elsewhere there is no such file, and none is made."""
    run = Run(run_id="kafka-dedup-001", system="kafka", variant="dedup", number=1, seed=7)
    missed = manifest(run, missed=("fault cut: no client\nnoticed it",))
    word = tmp_path / "termination-log"
    monkeypatch.setattr(conductor, "LAST_WORD", word)
    conductor._tell(missed)
    assert not word.exists()
    word.touch()
    conductor._tell(manifest(run))
    assert word.read_text() == ""
    conductor._tell(missed)
    assert word.read_text() == "missed: fault cut: no client noticed it"
