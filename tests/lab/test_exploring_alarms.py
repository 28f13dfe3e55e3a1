"""What becomes of alarms, with a scripted crew: which are replayed, what is shrunk away, and where they are kept."""

import shutil
from collections import Counter
from pathlib import Path
from threading import Event

import pytest
from tests.lab.test_exploring import INIT, SINGLE, at, explored, fine, point, visited

from dedup.errors import PlatformError, SpecificationError
from dedup.experiment.points import Action, Schedule
from dedup.judgement.explorations import Visit
from dedup.judgement.verdicts import Verdict
from dedup_lab.exploring.crews import Again, Crew, Done, Job
from dedup_lab.exploring.explorations import Options, _root
from dedup_lab.exploring.folders import VISITS, Folder
from dedup_lab.results import LOCK

COPIES = {"values_with_duplicates": 1}


def alarm(job: Job, **more: object) -> Visit:
    return visited(job, Verdict.FAIL, anomalies=COPIES, copies=1, **more)


@pytest.mark.parametrize(("real", "verdict"), [((at(2),), Verdict.FAIL), ((), Verdict.INCONCLUSIVE)])
def test_a_chance_alarm_does_not_stand_for_one_of_its_kind_that_comes_again(
    tmp_path: Path, real: Schedule, verdict: Verdict
) -> None:
    once = {(at(1),), (at(2),)}

    def work(job: Job) -> Visit:
        first_time = job.again is Again.UNNOTICED and job.schedule in once
        again = bool(real) and job.schedule == real
        return alarm(job) if job.deduplication and (first_time or again) else fine(job)

    result, _ = explored(tmp_path, work)
    (found,) = result.alarms
    assert (result.verdict, found.alike, found.replayed) == (verdict, 1, 10 if real else 0)
    assert found.visit.schedule == (real or (at(1),))


def test_of_many_alarms_of_a_kind_three_are_replayed(tmp_path: Path) -> None:
    """And one alone, if it comes again."""

    def replayed(folder: Path, counts: bool) -> set[Schedule]:
        folder.mkdir()

        def work(job: Job) -> Visit:
            strikes = job.deduplication and any(each.exchange == INIT for each in job.schedule)
            return alarm(job) if strikes and (counts or job.again is Again.UNNOTICED) else fine(job)

        _, jobs = explored(folder, work, Options(pairs=1_000))
        asked = Counter(job.schedule for job in jobs if job.again is Again.MISSED and job.messages == 20)
        return {schedule for schedule, count in asked.items() if count == 10}

    many = replayed(tmp_path / "a", counts=False)
    actions = [action for action in Action if (point(action, INIT),) in many]
    assert len(many) == 3 * len(actions) == 15
    assert replayed(tmp_path / "b", counts=True) >= {(point(action, INIT),) for action in actions}


@pytest.mark.parametrize("misses", [0, 1])
def test_one_try_that_did_not_strike_keeps_no_point_that_is_not_needed(tmp_path: Path, misses: int) -> None:
    """Of a pair one point suffices. That point alone has not struck the first time."""
    pair, left = (point(Action.STALL_REPLY, INIT), at(1)), [misses]

    def work(job: Job) -> Visit:
        if not job.deduplication or job.again is Again.UNNOTICED:
            return alarm(job) if job.schedule == pair else fine(job)
        if job.schedule == pair[1:] and left[0]:
            left[0] -= 1
            return visited(job, Verdict.INCONCLUSIVE, missed=("it arrived too late",))
        return alarm(job) if at(1) in job.schedule else fine(job)

    result, _ = explored(tmp_path, work, Options(pairs=1_000))
    (found,) = result.alarms
    assert found.shrunk is not None and (found.shrunk.schedule, found.shrunk.messages) == ((at(1),), 1)


@pytest.mark.parametrize("needs", ["both", "one"])
def test_a_pair_of_which_both_are_needed_stays_one(tmp_path: Path, needs: str) -> None:
    pair = (point(Action.STALL_REPLY, INIT), at(1))

    def work(job: Job) -> Visit:
        enough = job.schedule == pair or (needs == "one" and job.schedule == pair[:1] and job.again is Again.MISSED)
        return alarm(job) if job.deduplication and enough else fine(job)

    result, _ = explored(tmp_path, work, Options(pairs=1_000))
    (found,) = result.alarms
    assert found.shrunk is not None and found.shrunk.schedule == (pair if needs == "both" else pair[:1])


@pytest.mark.parametrize(("interrupted", "visits"), [(True, 1), (False, 2)])
@pytest.mark.parametrize("fails", [True, False])
def test_after_an_interruption_no_visit_is_begun_again(
    tmp_path: Path, fails: bool, interrupted: bool, visits: int
) -> None:
    cancelled = Event()
    begun: list[Job] = []

    def work(job: Job, folder: Path) -> Done:
        begun.append(job)
        if interrupted:
            cancelled.set()
        if fails:
            raise PlatformError(where="w", got="g", rule="r", todo="t")
        return Done(job, visited(job, Verdict.INCONCLUSIVE, missed=("it did not come",)))

    crew = Crew(work, tmp_path, 1, cancelled)
    list(crew.do([Job((at(1), at(2)))]))
    crew.close()
    assert len(begun) == visits


@pytest.mark.parametrize(("verdict", "visited_points"), [(Verdict.ERROR, 14), (Verdict.INCONCLUSIVE, 15)])
def test_a_point_whose_visit_could_not_be_done_is_not_visited(
    tmp_path: Path, verdict: Verdict, visited_points: int
) -> None:
    def work(job: Job) -> Visit:
        return visited(job, verdict) if job.deduplication and job.schedule == (at(1),) else fine(job)

    result, _ = explored(tmp_path, work)
    assert (result.verdict, result.points_visited, result.points) == (verdict, visited_points, 15)


# Where they are kept.


def with_history(folder: Path) -> Visit:
    """An alarm, with a history below visits/."""
    history = folder / "visits" / "00007-x"
    history.mkdir(parents=True)
    (history / "manifest.json").touch()
    return alarm(Job((at(1),)), folder=str(history))


def test_a_folder_that_has_moved_has_its_witnesses_along(tmp_path: Path) -> None:
    kept = Folder(tmp_path / "a").keep(with_history(tmp_path / "a"))
    there = Folder(tmp_path / "a").noted()
    assert kept.folder is not None and there == [kept] and (Path(kept.folder) / "manifest.json").is_file()
    (tmp_path / "a").rename(tmp_path / "b")
    (moved,) = Folder(tmp_path / "b").noted()
    assert moved.folder == str(tmp_path / "b" / "witnesses" / kept.name)
    shutil.rmtree(moved.folder)
    (gone,) = Folder(tmp_path / "b").noted()
    assert gone.folder is None and gone.alarm


def test_an_alarm_is_noted_before_its_history_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "move", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Folder(tmp_path).keep(with_history(tmp_path))
    (noted,) = Folder(tmp_path).noted()
    assert noted.alarm


@pytest.mark.parametrize(("cut", "left"), [(0, 2), (1, 2), (5, 1)])
def test_a_last_line_without_its_end_is_gone_on_with(tmp_path: Path, cut: int, left: int) -> None:
    """Whatever is missing of it: the next line is one of its own."""
    folder = Folder(tmp_path)
    for number in (1, 2):
        folder.note(visited(Job((at(number),))))
    path = tmp_path / VISITS
    path.write_bytes(path.read_bytes()[: -cut or None])
    assert len(folder.noted()) == left
    folder.note(visited(Job((at(3),))))
    assert [each.schedule for each in folder.noted()][-1] == (at(3),) and len(folder.noted()) == left + 1


def test_another_folder_is_not_gone_on_with(tmp_path: Path) -> None:
    for kept in ("logs", LOCK):
        (tmp_path / kept).touch()
    assert _root(None, tmp_path) == tmp_path, "it was interrupted while brokers started"
    (tmp_path / "experiment.json").touch()
    with pytest.raises(SpecificationError, match="it is the folder of an exploration"):
        _root(None, tmp_path)
    (tmp_path / "asked.json").touch()
    assert _root(None, tmp_path) == tmp_path


def test_a_clean_exploration_keeps_no_witness(tmp_path: Path) -> None:
    explored(tmp_path, fine, SINGLE)
    assert not (tmp_path / "witnesses").exists()
