"""An operator is replaced by one of another version in mid-experiment: no verdict is lost, no run repeated.

The version before is taken out of this repository's history, and runs in a process of its own: both operators, each
with the player of its own time, get the same objects, one after the other. The moment is any look of a calm course.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import FakeCluster, World
from tests.operator.test_reconciliations import SMALL

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[2]
BEFORE: Final = "43e59029"
"""The newest commit of 2026-11-25. Once there is a release, its tag stands here."""
ROOMS: Final = ("core", "runners", "spark", "lab", "operator", "report", ".")
PROGRAM: Final = """
import json, sys
from itertools import count
from testbed.worlds import NAMESPACE, FakeCluster, World
asked = json.load(sys.stdin)
there = {(kind, namespace, name): made for kind, namespace, name, made in asked["objects"]}
world = World(FakeCluster(there, asked["versions"]))
world.now_s = asked["now_s"]
number = count(1)
world.run(until=lambda _: next(number) == asked["looks"])
objects = [[*key, made] for key, made in world.cluster.objects.items()]
told = {"objects": objects, "versions": world.cluster.versions, "now_s": world.now_s, "jobs": world.player.jobs}
print(json.dumps({**told, "overlaps": world.player.overlaps}))
"""
TO_THE_END: Final = -1
ENDED: Final = ("Finished", "Pass", "2/2 runs")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("before"))


def unpacked(folder: Path) -> Path:
    """The files of the version before, in that folder."""
    asked = ["git", "-C", str(ROOT), "archive", BEFORE, *ROOMS[:-1], "testbed", "charts"]
    done = subprocess.run(asked, capture_output=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"the version before, {BEFORE}, is not in this clone's history")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def run_as(version: Path, program: str, *arguments: str, told: str = "") -> str:
    """What a program of Python says that imports that version's packages."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=told,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(version / room) for room in ROOMS)},
        cwd=version,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert not done.returncode, done.stderr[-2000:]
    return done.stdout


@dataclass
class Shared:
    """What both operators find: the objects, the time, and the Jobs that ever ran."""

    objects: list[Any]
    versions: int
    now_s: float
    jobs: dict[str, str]
    overlaps: list[Any]

    def on(self, version: Path, looks: int) -> "Shared":
        """What is there after so many looks of that version's operator, or when nothing is left for it to do."""
        told = {"objects": self.objects, "versions": self.versions, "now_s": self.now_s, "looks": looks}
        said = run_as(version, PROGRAM, told=json.dumps(told))
        found = Shared(**json.loads(said.splitlines()[-1]))
        found.jobs, found.overlaps = {**self.jobs, **found.jobs}, [*self.overlaps, *found.overlaps]
        return found

    def named(self, kind: str) -> set[str]:
        return {name for made, _, name, _ in self.objects if made == kind}

    @property
    def status(self) -> dict[str, Any]:
        (found,) = (made for kind, *_, made in self.objects if kind == "DedupExperiment")
        return dict(found.get("status") or {})


def applied() -> Shared:
    """An experiment of two runs, which no operator has seen."""
    world = World(FakeCluster())
    world.apply(changed(*SMALL))
    cluster = world.cluster
    assert isinstance(cluster, FakeCluster)
    return Shared([[*key, made] for key, made in cluster.objects.items()], cluster.versions, world.now_s, {}, [])


def looks_of_a_calm_course() -> int:
    world, number = World(FakeCluster()), count(1)
    world.apply(changed(*SMALL))
    looks = 0

    def counted(_status: object) -> bool:
        nonlocal looks
        looks = next(number)
        return False

    world.run(until=counted)
    return looks


LOOKS: Final = looks_of_a_calm_course()
MOMENTS: Final = range(1, LOOKS, max(1, LOOKS // 6))


def reaches_its_verdict(found: Shared) -> None:
    assert (found.status["phase"], found.status.get("verdict"), found.status["progress"]) == ENDED, found.status
    runs = [run for run in found.jobs.values() if run]
    assert len(runs) == len(set(runs)) == 2, "each run has one Job"
    assert found.overlaps == []


@pytest.mark.parametrize("looks", MOMENTS)
def test_a_newer_operator_goes_on_where_the_last_one_was(before: Path, looks: int) -> None:
    reaches_its_verdict(applied().on(before, looks).on(ROOT, TO_THE_END))


@pytest.mark.parametrize("looks", MOMENTS)
def test_and_after_a_rollback_the_old_one_does(before: Path, looks: int) -> None:
    reaches_its_verdict(applied().on(before, looks).on(ROOT, 3).on(before, TO_THE_END))


@pytest.mark.parametrize("looks", [1, LOOKS // 2])
def test_what_the_newer_one_began_waits_in_words_until_it_is_back(before: Path, looks: int) -> None:
    """Its status says more than the old one can read, which leaves it as it is, and tells of it in an Event."""
    begun = applied().on(ROOT, looks)
    waits = begun.on(before, TO_THE_END)
    assert waits.status == begun.status and "verdict" not in waits.status
    events = [made for kind, *_, made in waits.objects if kind == "Event"]
    (told,) = (made["message"] for made in events if made["reason"] == "StatusUnreadable")
    assert "status.snapshotDigest" in told and "install the operator that wrote it" in told
    assert waits.named("Job") <= begun.named("Job"), "nothing was begun meanwhile"
    reaches_its_verdict(waits.on(ROOT, TO_THE_END))


@pytest.mark.parametrize("back", [False, True], ids=["upgrade", "rollback"])
def test_what_has_ended_is_left_as_it_was(before: Path, back: bool) -> None:
    first, second = (ROOT, before) if back else (before, ROOT)
    ended = applied().on(first, TO_THE_END)
    reaches_its_verdict(ended)
    assert ended.on(second, TO_THE_END).status == ended.status
