"""A pod's programs, as processes that share two folders, against a real Kafka: what a run in a cluster rests on.

The fault and its twin: a whole run with its history in a store; a second start of the same attempt, which sends
nothing; a producer that is killed, which everyone sees at once; and a system of which nothing is ours but its address.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.runners import assigned, minio, proxies
from tests.runners.local_pods import LocalPod
from tests.runners.minio import ObjectStore

from dedup.errors import EXIT_ERROR
from dedup.experiment.assignments import EXIT_CLAIMED, Assignment
from dedup.experiment.endpoints import Broker
from dedup.experiment.spec import parse
from dedup.faults.records import vacuous
from dedup.history import stores
from dedup.history.histories import MANIFEST, damages, read_manifest
from dedup.process.orphans import EXIT_CODE
from dedup_lab.systems.running import RunningSystem
from dedup_runners.waiting import until
from dedup_spark import oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

ROOT: Final = f"s3://{minio.BUCKET}/small"
RUN_S: Final = 180.0
NOTICED_S: Final = 60.0
"""Well below the ten minutes that a stage may take."""
MESSAGES: Final = 300_000
CUT: Final[dict[str, Any]] = {
    "workload": {"messages": MESSAGES},
    "faults": [{"name": "cut", "at": {"message": 50_000}, "killTCP": {"target": "Clients", "duration": "2s"}}],
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSystem]:
    (system,) = parse(assigned.document(), source="test").spec.systems
    running = RunningSystem.start(system, proxied=True, logs=tmp_path_factory.mktemp("kafka"), note=lambda _: None)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with minio.served(tmp_path_factory.mktemp("minio") / "data") as running:
        yield running


def test_a_whole_run_and_a_second_start_of_it(
    kafka: RunningSystem, store: ObjectStore, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    first, took_s = met(kafka, tmp_path)
    manifest = read_manifest(first.folder)
    assert not damages(first.folder, manifest)
    assert not manifest.problems
    assert [vacuous(fault) for fault in manifest.faults] == [None]
    counts = oracle.judge(first.folder).counts
    assert (counts.received, counts.values_with_duplicates, counts.not_received) == (MESSAGES, 0, 0)
    _check_in_store(first)
    stages = manifest.stage_seconds
    apart_s = took_s - stages["produce"] - stages["heal"] - stages["consume"]
    tell(f"the pod took {took_s:.1f} s, {apart_s:.1f} s of it apart from producing, healing and consuming: {stages}")

    second = assigned.assignment(tmp_path / "second", ROOT, first.attempt, endpoints=kafka.endpoints, **CUT)
    before = {name: stores.place(f"{first.place()}/{name}").stat().st_mtime for name in (MANIFEST, "claim.json")}
    with LocalPod(second) as pod:
        codes = pod.ended(RUN_S)
    assert codes["conductor"] == EXIT_CLAIMED
    assert codes["producer"] == codes["consumer"] == codes["chaos-cut"] == EXIT_CODE
    assert codes["courier"] == 0
    assert not list(second.folder.rglob("*"))
    assert before == {name: stores.place(f"{first.place()}/{name}").stat().st_mtime for name in before}


def met(kafka: RunningSystem, folder: Path) -> tuple[Assignment, float]:
    """The first of three runs whose fault met traffic, and its seconds: one that missed is rightly replaced."""
    for attempt in (11, 12, 13):
        told = assigned.assignment(folder / f"first-{attempt}", ROOT, attempt, endpoints=kafka.endpoints, **CUT)
        with LocalPod(told) as pod:
            began_s = time.monotonic()
            codes = pod.ended(RUN_S)
            took_s = time.monotonic() - began_s
            assert set(codes.values()) == {0}, pod.everything_said()
        if not (missed := read_manifest(told.folder).missed):
            return told, took_s
    raise AssertionError(f"three times out of three the fault missed: {missed}")


def _check_in_store(assignment: Assignment) -> None:
    """Everything that the manifest names is in the store as it was recorded."""
    place = stores.place(str(assignment.place()))
    assert not damages(place, read_manifest(place))
    assert (place / "claim.json").exists()


def test_a_producer_that_is_killed_is_noticed_at_once(kafka: RunningSystem, tmp_path: Path) -> None:
    long = {"killTCP": {"target": "Clients", "duration": "10s"}}  # connections are cut in pulses; one must be seen
    told = CUT | {"workload": {"messages": 50_000_000}, "faults": [CUT["faults"][0] | long]}
    killed = assigned.assignment(tmp_path / "pod", str(tmp_path / "store"), 2, endpoints=kafka.endpoints, **told)
    with LocalPod(killed) as pod:
        until(lambda: proxies.toxics(kafka.endpoints.toxiproxy_url), RUN_S, "the fault to be in force")
        until(lambda: list(killed.folder.glob("sent/*")), RUN_S, "something of the history is written")
        os.kill(pod.programs["producer"].pid, signal.SIGKILL)
        assert pod.programs["conductor"].wait(NOTICED_S) == EXIT_ERROR
        codes = pod.ended(NOTICED_S)
    assert codes["consumer"] == EXIT_CODE
    assert codes["courier"] == 0
    failure = json.loads((killed.folder / "failure.json").read_text())
    assert (failure["stage"], failure["reason"].partition(";")[0]) == ("Produce", "producer: got exit code 137")
    carried = stores.below(stores.place(str(killed.place())))
    assert "failure.json" in carried
    assert "sent/00000.parquet.open" in carried or "sent/00000.parquet" in carried
    assert MANIFEST not in carried
    assert not (killed.folder / MANIFEST).exists()
    until(lambda: not proxies.toxics(kafka.endpoints.toxiproxy_url), RUN_S, "the fault to be healed by its watchdog")


def test_a_system_of_which_only_the_address_is_known(kafka: RunningSystem, tmp_path: Path) -> None:
    brokers = [Broker(id=broker.id, client_port=broker.client_port) for broker in kafka.endpoints.brokers]
    bare = kafka.endpoints.model_copy(update={"toxiproxy_url": None, "brokers": brokers})
    told = assigned.assignment(tmp_path / "pod", None, 3, endpoints=bare, workload={"messages": 10_000})
    with LocalPod(told) as pod:
        codes = pod.ended(RUN_S)
        assert set(codes.values()) == {0}, pod.everything_said()
    manifest = read_manifest(told.folder)
    assert not damages(told.folder, manifest)
    assert oracle.judge(told.folder).counts.received == 10_000
