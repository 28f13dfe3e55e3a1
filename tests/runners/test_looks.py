"""Deduplication for the whole time: what several looks show together."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dedup.errors import EnvironmentError_, PlatformError
from dedup.wire.clients import Look
from dedup.wire.manifests import Deduplication
from dedup_runners.admins import Admin
from dedup_runners.attempt.looks import UNSEEN_S, Looks, whole_time
from dedup_runners.waiting import until

BOUND_S = 5.0


@pytest.mark.parametrize(
    ("asked", "said", "in_force"),
    [
        (True, {"Enabled": 9}, True),
        (True, {"Enabled": 9, "Disabled": 1}, False),
        (True, {"Enabled": 9, "Removing": 1}, False),
        (True, {"Enabled": 9, "Failed": 1}, False),
        (True, {"Enabled": 9, "Initialized": 1, "Recovering": 2}, True),
        (True, {"Enabled": 9, "Sleeping": 1}, None),
        (True, {}, None),
        (True, {"Recovering": 9}, None),
        (False, {"Disabled": 9}, False),
        (False, {"Disabled": 9, "Enabled": 1}, True),
        (False, {"Disabled": 9, "Removing": 1}, False),
        (False, {"Disabled": 9, "Failed": 1}, None),
        (False, {"Disabled": 9, "Initialized": 1}, False),
    ],
)
def test_one_look_that_says_otherwise_is_enough(asked: bool, said: dict[str, int], in_force: bool | None) -> None:
    shown = whole_time(Deduplication(asked=asked, in_force=asked, proof="at the end"), said, 9, 1.25)
    assert shown.in_force is in_force
    assert (shown.looks, shown.unseen_s) == (9, 1.25)
    assert shown.proof.startswith("at the end; before, in 9 answers 1.25 s apart at most: ")


@pytest.mark.parametrize(
    ("asked", "said", "unseen_s", "in_force"),
    [
        (True, {}, 300.0, None),
        (True, {"Enabled": 9}, 300.0, None),
        (True, {"Enabled": 9}, UNSEEN_S, True),
        (True, {"Enabled": 9, "Disabled": 1}, 300.0, False),
        (False, {"Disabled": 9}, 300.0, None),
        (False, {"Disabled": 9}, UNSEEN_S, False),
        (False, {"Disabled": 9, "Enabled": 1}, 300.0, True),
    ],
)
def test_what_nobody_saw_for_long_is_not_proven(
    asked: bool, said: dict[str, int], unseen_s: float, in_force: bool | None
) -> None:
    """Its twins: seen often enough, and an answer that says otherwise, which stands whoever was silent."""
    at_end = Deduplication(asked=asked, in_force=asked, proof="at the end")
    shown = whole_time(at_end, said, sum(said.values()), unseen_s)
    assert shown.in_force is in_force
    assert ("proves nothing for the whole time" in shown.proof) is (in_force is None)


def test_what_was_not_proven_at_the_end_is_not_proven_by_looks() -> None:
    shown = whole_time(Deduplication(asked=True, in_force=None, proof="unknown"), {"Enabled": 9}, 9, 1.0)
    assert shown.in_force is None


class Owner:
    """An admin that is asked for nothing but looks; an error among them is raised."""

    def __init__(self, *answers: dict[str, str] | PlatformError | None) -> None:
        self.turns: list[int] = []
        self._answers: Iterator[dict[str, str] | PlatformError | None] = iter(answers)

    def look(self, topic: str, turn: int) -> dict[str, str] | None:
        self.turns.append(turn)
        answer = next(self._answers, {"t": "Enabled"})
        if isinstance(answer, PlatformError):
            raise answer
        return answer


AT_END = Deduplication(asked=True, in_force=True, proof="at the end")
SILENT = PlatformError(where="t", got="nothing", rule="-", todo="-")


def looked(owner: Owner, folder: Path, turns: int, partitions: int = 1, begun: int = 1) -> Deduplication:
    looks = Looks(cast(Admin, owner), "t", folder, partitions=partitions, every_s=0.001)
    looks.begin()
    assert owner.turns == [*range(begun)], "before anything is sent"
    with looks:
        until(lambda: len(owner.turns) >= turns, BOUND_S, "so many looks")
    assert not looks._thread.is_alive()
    return looks.shown(AT_END)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / Look.FILE).read_text().splitlines()]


def test_a_switch_that_was_off_for_a_while_was_not_in_force(tmp_path: Path) -> None:
    """And its twin: on all the time, though nobody answered for a while and the topic was loaded anew."""
    shown = looked(Owner({"t": "Enabled"}, {"t": "Disabled"}), tmp_path, 5)
    assert shown.in_force is False
    assert "Disabled 1 times" in shown.proof
    assert [line["statuses"]["t"] for line in lines(tmp_path)][:3] == ["Enabled", "Disabled", "Enabled"]
    shown = looked(Owner({"t": "Enabled"}, SILENT, {}, {"t": "Recovering"}), tmp_path, 6)
    assert shown.in_force is True
    assert shown.looks is not None and shown.looks >= 3


ONE = {"t0": "Enabled"}
BOTH = {"t0": "Enabled", "t1": "Enabled"}


@pytest.mark.parametrize(
    ("answers", "begun", "in_force"),
    [
        ([ONE] * 9, 2, None),
        ([ONE, {}, {"t1": "Recovering"}, ONE], 2, None),
        ([ONE, {"t1": "Enabled"}, *[ONE] * 7], 2, True),
        ([{}, BOTH], 1, True),
        ([BOTH, {"t1": "Disabled"}], 1, False),
        ([ONE, {"t0": "Disabled"}], 2, False),
    ],
    ids=["never", "only while it was loaded", "once", "later", "otherwise", "the other one otherwise"],
)
def test_each_partition_answers_for_itself(
    answers: list[dict[str, str]], begun: int, in_force: bool | None, tmp_path: Path
) -> None:
    owner = Owner(*answers, *[ONE] * 10_000)
    shown = looked(owner, tmp_path, len(answers) + 1, partitions=2, begun=begun)
    assert shown.in_force is in_force
    assert ("answers of each of 2 partitions, and 1 gave none, before the end" in shown.proof) is (in_force is None)


@pytest.mark.parametrize("silent", [True, False])
def test_the_longest_silence_is_that_of_one_partition(
    silent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look takes 50 s. Both partitions answer to the first, and the second one then to the fourth, or to each."""
    now_s = [0]
    monkeypatch.setattr("dedup_runners.attempt.looks.time.monotonic_ns", lambda: now_s[0] * 1_000_000_000)
    owner = Owner(BOTH, *[ONE if silent else BOTH] * 2, BOTH)
    looks = Looks(cast(Admin, owner), "t", tmp_path, partitions=2, every_s=BOUND_S)
    looks.begin()
    with looks:
        for turn in (1, 2, 3):
            now_s[0] += 50
            looks._look(turn)
    shown = looks.shown(AT_END)
    assert (shown.unseen_s, shown.in_force) == ((150.0, None) if silent else (50.0, True))


def test_many_partitions_are_all_asked_before_anything_is_sent(tmp_path: Path) -> None:
    """Two at a look; its twin has some that do not answer, and are not waited for."""
    two = [{f"t{number}": "Enabled", f"t{number + 1}": "Enabled"} for number in (0, 2, 4)]
    for answers in (two, [*two[:2], {}, two[2]]):
        owner = Owner(*answers)
        Looks(cast(Admin, owner), "t", tmp_path, partitions=6).begin()
        assert owner.turns == [0, 1, 2]


def test_where_what_is_stored_tells_it_nobody_is_asked_again(tmp_path: Path) -> None:
    owner = Owner(None)
    looks = Looks(cast(Admin, owner), "t", tmp_path, partitions=1, every_s=0.0)
    looks.begin()
    with looks:
        pass
    assert (owner.turns, looks.shown(AT_END)) == ([0], AT_END)
    assert not (tmp_path / Look.FILE).exists()


@pytest.mark.parametrize("full", [True, False])
def test_an_answer_that_the_disk_does_not_take_is_told(full: bool, tmp_path: Path) -> None:
    """The disk is full after the first look. Before, the thread that looks ended without a word."""
    owner, path = Owner(), tmp_path / Look.FILE
    looks = Looks(cast(Admin, owner), "t", tmp_path, partitions=1, every_s=0.001)
    looks.begin()
    if full:
        path.unlink()
        path.symlink_to("/dev/full")
    with looks:
        until(lambda: len(owner.turns) >= 2, BOUND_S, "another look")
    if full:
        with pytest.raises(EnvironmentError_, match="No space left on device"):
            looks.shown(AT_END)
    else:
        assert looks.shown(AT_END).in_force is True


@pytest.mark.parametrize("late", [True, False])
def test_a_look_that_comes_back_after_the_end_changes_nothing(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its twin: one that was under way at the end, and came back while it was waited for."""
    asked, answer = threading.Event(), threading.Event()

    class Slow(Owner):
        def look(self, topic: str, turn: int) -> dict[str, str] | None:
            if turn:
                asked.set()
                assert answer.wait(BOUND_S)
            return {"t": "Disabled" if turn else "Enabled"}

    looks = Looks(cast(Admin, Slow()), "t", tmp_path, partitions=1, every_s=0.001)
    looks.begin()
    if late:
        monkeypatch.setattr("dedup_runners.attempt.looks.STOP_S", 0.0)
    with looks:
        assert asked.wait(BOUND_S)
        if not late:
            looks._over.set()
            answer.set()
    shown = looks.shown(AT_END)
    answer.set()
    looks._thread.join(BOUND_S)
    assert not looks._thread.is_alive()
    assert looks.shown(AT_END) == shown
    assert (shown.in_force, shown.looks) == ((True, 1) if late else (False, 2))
    assert [line["statuses"]["t"] for line in lines(tmp_path)] == ["Enabled", "Disabled"][: shown.looks]
