"""A leader that moves between the two tries of a message: the strike, its proof, and who waits for whom. No broker."""

from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest
from tests.lab.test_exploring import BY_US, FIRST, INIT, at, crew, explored, fine, point, row, visited

from dedup.errors import PlatformError
from dedup.experiment.points import Action, Schedule, moves_a_leader
from dedup.judgement.explorations import Visit
from dedup.judgement.verdicts import Verdict
from dedup_lab.exploring import strikes
from dedup_lab.exploring.crews import Job
from dedup_lab.exploring.moving import Moving
from dedup_runners.interposer.connections import Strike
from dedup_runners.interposer.protocols import Address, Direction, Frame
from dedup_runners.interposer.rules import Act


@pytest.mark.parametrize(
    ("retry", "lack"),
    [
        ({"broker": "b"}, []),
        ({"broker": "b", "error_code": 46}, []),
        ({"broker": "a"}, ["what was sent again was answered by the same broker"]),
        ({"broker": "b", "error_code": 6}, ["what was sent again was not answered"]),
    ],
)
def test_a_leader_has_moved_if_another_broker_stored_what_was_sent_again(
    retry: dict[str, object], lack: list[str]
) -> None:
    schedule = (point(Action.LOSE_REPLY_AND_MOVE),)
    lost = row(rule=schedule[0].name, done="lost", broker="a")
    assert strikes.missed([lost, row(attempt=2, **retry)], schedule, BY_US) == lack
    refused = lost._replace(error_code=6)
    assert strikes.missed([refused, row(attempt=2, broker="b")], schedule, BY_US) == [
        "the broker had answered with error 6"
    ]


class Movable:
    """An admin that moves leaders, or cannot."""

    def __init__(self, error: PlatformError | None = None) -> None:
        self.moved: list[tuple[str, int]] = []
        self._error = error

    def move_leader(self, topic: str, partition: int) -> None:
        self.moved.append((topic, partition))
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("error", [None, PlatformError(where="w", got="g", rule="r", todo="t")], ids=["moves", "not"])
def test_a_leader_moves_when_its_reply_is_held_and_what_could_not_be_asked_for_is_told(
    error: PlatformError | None,
) -> None:
    schedule = (point(Action.LOSE_REPLY_AND_MOVE), point(Action.LOSE_REPLY, INIT))
    held, other = strikes.rules(schedule, BY_US)
    assert (held.act, held.until, other.until) == (Act.LOSE_REPLY, strikes.leader_moved(schedule[0]), None)
    happened: list[str] = []
    with Moving(admin := Movable(error), "topic", schedule) as moving:  # type: ignore[arg-type]
        moving.happen = happened.append
        for rule in (other, held):
            moving.struck(rule, Frame(b"", Direction.REPLY, "Produce"), Strike(1, "s", Address("a", 1), ()))
    assert (admin.moved, happened) == ([("topic", 0)], [held.until])
    assert moving.problems == ([] if error is None else ["w: got g; r; t"])


def test_visits_that_others_notice_come_last_and_one_by_one(tmp_path: Path) -> None:
    started: list[Schedule] = []
    another = Barrier(2, timeout=0.05)

    def work(job: Job) -> Visit:
        started.append(job.schedule)
        if moves_a_leader(job.schedule):
            with pytest.raises(BrokenBarrierError):
                another.wait()
        return visited(job)

    mover, still = (point(Action.LOSE_REPLY_AND_MOVE),), (at(1),)
    working = crew(tmp_path, work)
    done = [each.job.schedule for each in working.do([Job(mover), Job(still), Job(mover, False)])]
    working.close()
    assert started == [still, mover, mover] == done


@pytest.mark.parametrize(("moved", "alarms"), [("values_with_duplicates", 1), ("phantom", 2)])
def test_a_leader_that_moves_besides_is_alike_if_the_lost_reply_suffices(
    tmp_path: Path, moved: str, alarms: int
) -> None:
    shows = {Action.LOSE_REPLY: "values_with_duplicates", Action.LOSE_REPLY_AND_MOVE: moved}

    def work(job: Job) -> Visit:
        for each in job.schedule if job.deduplication else ():
            if each.exchange == FIRST and each.action in shows:
                return visited(job, Verdict.FAIL, anomalies={shows[each.action]: 1}, copies=1)
        return fine(job)

    result, _ = explored(tmp_path, work, brokers=2)
    assert (len(result.alarms), sum(1 + each.alike for each in result.alarms)) == (alarms, 2)
    assert result.points == 15 + 2, "of two batches"
