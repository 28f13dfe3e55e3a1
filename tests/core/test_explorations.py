"""The points of an exploration, and its verdict: each rule with the case that breaks it and its innocent twin."""

from collections.abc import Sequence

import pytest

from dedup.experiment.dialects.kafka import KAFKA
from dedup.experiment.points import (
    Action,
    Exchange,
    Point,
    Schedule,
    controls_of,
    in_all,
    messages_needed,
    moved,
    moves_a_leader,
    name_of,
    pairs_known,
    pairs_of,
    points_of,
    subsets,
)
from dedup.judgement.explorations import Alarm, Shrunk, Visit, conclude, replayed, table
from dedup.judgement.verdicts import Code, Reason, Verdict

INIT = Exchange(api="InitProducerId", number=1)
FIRST = Exchange(api="Produce", partition=0, number=1, base_sequence=0)
SECOND = Exchange(api="Produce", partition=0, number=2, base_sequence=1)
TIMER = Exchange(api="Metadata", number=1)


def point(exchange: Exchange = FIRST, action: Action = Action.LOSE_REPLY, attempt: int = 1) -> Point:
    return Point(exchange=exchange, action=action, attempt=attempt)


def visit(schedule: Schedule, verdict: Verdict = Verdict.PASS, *, deduplication: bool = True, **more: object) -> Visit:
    reasons = (Reason(verdict=verdict, code=Code.CLEAN, text="because"),)
    return Visit.model_validate(
        {
            "schedule": schedule, "deduplication": deduplication, "messages": 20, "verdict": verdict,
            "reasons": reasons, "seconds": 1.0, **more,
        }
    )  # fmt: skip


def clean(points: Sequence[Point]) -> list[Visit]:
    """Every point visited and clean; every control with copies."""
    controls = [visit((each,), deduplication=False, copies=1) for each in controls_of(points)]
    return [*(visit((each,)) for each in points), *controls]


def test_points_are_what_all_calm_conversations_have_and_no_timer_sends() -> None:
    explored, others = in_all([[FIRST, TIMER, INIT], [TIMER, INIT, FIRST, SECOND], [INIT, FIRST, TIMER]])
    assert explored == [INIT, FIRST]
    assert [each for each, _ in others] == [TIMER, SECOND]
    assert [why for _, why in others] == ["the client asks for it by a timer, too", "in 1 of 3 calm conversations"]


def test_no_conversation_has_no_points() -> None:
    assert in_all([]) == ([], [])


def test_every_exchange_is_broken_in_every_way() -> None:
    """But those for which there must be a next transaction, a producer's place that a client comes back to, or a broker
    to which a leader can move."""
    points = points_of([INIT, FIRST], KAFKA)
    assert len({each.name for each in points}) == len(points) == 2 * (len(Action) - 3)
    assert [each.name for each in controls_of(points)] == ["produce-0-1-1-lose-reply"]


def test_where_leaders_can_move_a_message_may_come_again_to_another_one() -> None:
    without, points = points_of([INIT, FIRST], KAFKA), points_of([INIT, FIRST], KAFKA, moves=True)
    (more,) = set(points) - set(without)
    assert (more.name, more.action.of_reply, moves_a_leader((more,))) == (
        "produce-0-1-1-lose-reply-and-move",
        True,
        True,
    )
    assert not any(moves_a_leader((each,)) for each in without)
    assert [each.name for each in controls_of(points)] == ["produce-0-1-1-lose-reply", more.name]


def test_one_seed_draws_one_sequence_of_pairs_and_none_twice() -> None:
    points = points_of([INIT, FIRST, SECOND], KAFKA)
    drawn = pairs_of(points, 50, seed=7)
    assert drawn == pairs_of(points, 50, seed=7) != pairs_of(points, 50, seed=8)
    assert len(set(drawn)) == 50
    assert drawn[:10] == pairs_of(points, 10, seed=7)


def test_all_pairs_are_those_that_are_counted() -> None:
    points = points_of([INIT, FIRST], KAFKA)
    every = pairs_of(points, 10**6, seed=1)
    assert len(set(every)) == len(every) == pairs_known(points) == 25 + 25
    again = [pair for pair in every if pair[0].exchange == pair[1].exchange]
    assert all((one.attempt, other.attempt) == (1, 2) and one.exchange == FIRST for one, other in again)


def test_a_schedule_can_be_made_shorter_and_earlier() -> None:
    schedule = (point(INIT), point(SECOND))
    assert list(subsets(schedule)) == [(), (point(INIT),), (point(SECOND),)]
    assert moved(schedule, 1) == (point(INIT), point(FIRST))
    assert moved(schedule, 2) is None
    assert [messages_needed(each, 3) for each in (schedule, (point(INIT),), ())] == [4, 1, 1]
    assert name_of(()) == "calm"


def test_it_passes_if_every_point_is_clean_and_every_control_has_copies() -> None:
    points = points_of([INIT, FIRST], KAFKA)
    verdict, reasons = conclude(points, [], clean(points), [])
    assert (verdict, len(reasons)) == (Verdict.PASS, 1)
    assert "each of 10 points" in reasons[0].text and "each of 1 lost replies" in reasons[0].text


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        ({"missed": ("this request did not come",), "verdict": Verdict.INCONCLUSIVE}, Code.FAULT_VACUOUS),
        ({"unnoticed": ("produce",)}, Code.FAULT_VACUOUS),
        ({"verdict": Verdict.INCONCLUSIVE}, Code.PROBLEM),
        ({"verdict": Verdict.ERROR}, Code.PROBLEM),
    ],
)
def test_a_point_that_is_not_struck_noticed_and_judged_prevents_a_pass(spoil: dict[str, object], code: str) -> None:
    points = points_of([FIRST], KAFKA)
    visits = clean(points)
    given = {"verdict": Verdict.PASS, **spoil}
    visits[0] = visit((points[0],), given.pop("verdict"), **given)  # type: ignore[arg-type]
    verdict, reasons = conclude(points, [], visits, [])
    assert verdict is (Verdict.ERROR if spoil.get("verdict") is Verdict.ERROR else Verdict.INCONCLUSIVE)
    assert reasons[0].code == code


def test_a_point_that_was_not_visited_prevents_a_pass() -> None:
    points = points_of([FIRST], KAFKA)
    verdict, reasons = conclude(points, [], clean(points)[1:], [])
    assert (verdict, reasons[0].code) == (Verdict.INCONCLUSIVE, "not_visited")


def test_a_control_without_copies_prevents_a_pass_and_one_that_was_not_struck_too() -> None:
    points = points_of([FIRST], KAFKA)
    for control in (
        visit((controls_of(points)[0],), Verdict.INCONCLUSIVE, deduplication=False),
        visit((controls_of(points)[0],), deduplication=False, copies=3, missed=("it did not come",)),
    ):
        verdict, reasons = conclude(points, [], [*clean(points)[:-1], control], [])
        assert (verdict, reasons[0].code) == (Verdict.INCONCLUSIVE, Code.CONTROL_UNCONVINCING)


def test_no_points_are_no_pass() -> None:
    assert conclude([], [], [], [])[0] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("replayed", "verdict"), [(9, Verdict.FAIL), (8, Verdict.INCONCLUSIVE)])
def test_an_alarm_counts_from_nine_of_ten_replays_on(replayed: int, verdict: Verdict) -> None:
    points = points_of([FIRST], KAFKA)
    visits = clean(points)
    visits[1] = visit((points[1],), Verdict.FAIL, anomalies={"values_with_duplicates": 2})
    alarm = Alarm(visit=visits[1], replayed=replayed, replays=10)
    found, reasons = conclude(points, [], visits, [alarm])
    assert found is verdict
    assert "2 values_with_duplicates" in reasons[0].text and f"{replayed} of 10" in reasons[0].text


def test_an_alarm_that_was_not_replayed_is_said_and_accuses_nobody() -> None:
    points = points_of([FIRST], KAFKA)
    alarm = Alarm(visit=visit((points[1],), Verdict.FAIL, anomalies={"phantom": 1}), replayed=0, replays=0)
    found, reasons = conclude(points, [], clean(points), [alarm])
    assert found is Verdict.INCONCLUSIVE and "1 phantom; not replayed" in reasons[0].text


@pytest.mark.parametrize("copies", [0, 1])
def test_a_control_that_breaks_what_it_promises_is_a_doubt_for_it_is_not_replayed(copies: int) -> None:
    """One run of it was a fail, though no alarm of the treatment is one before it came again in nine of ten."""
    points = points_of([FIRST], KAFKA)
    lost = visit((controls_of(points)[0],), Verdict.FAIL, deduplication=False, copies=copies)
    found, reasons = conclude(points, [], [*clean(points)[:-1], lost], [])
    assert (found, reasons[0].code) == (Verdict.INCONCLUSIVE, "control_failed")
    assert reasons[0].text.endswith(
        "it is not replayed, so it accuses nobody: produce-0-1-1-lose-reply-control: because"
    )


def test_a_pair_out_of_reach_is_said_and_prevents_nothing() -> None:
    points = points_of([FIRST, SECOND], KAFKA)
    pairs = pairs_of(points, 2, seed=1)
    missed = visit(pairs[1], Verdict.INCONCLUSIVE, missed=("x: this request did not come",))
    verdict, reasons = conclude(points, pairs, [*clean(points), visit(pairs[0]), missed], [])
    assert verdict is Verdict.PASS
    assert "1 of 2 pairs struck twice" in reasons[0].text


@pytest.mark.parametrize("spoil", [{"missed": ("it did not come",)}, {"unnoticed": ("a",)}, {}])
def test_an_error_stands_whatever_was_struck(spoil: dict[str, tuple[str, ...]]) -> None:
    points = points_of([FIRST, SECOND], KAFKA)
    (pair,) = pairs_of(points, 1, seed=1)
    verdict, _ = conclude(points, [pair], [*clean(points), visit(pair, Verdict.ERROR).model_copy(update=spoil)], [])
    assert verdict is Verdict.ERROR


def test_a_pair_that_ended_in_doubt_is_not_said_to_have_left_nothing() -> None:
    points = points_of([FIRST, SECOND], KAFKA)
    pairs = pairs_of(points, 2, seed=1)
    doubt = visit(pairs[1], Verdict.INCONCLUSIVE, unnoticed=("a",))
    verdict, reasons = conclude(points, pairs, [*clean(points), visit(pairs[0]), doubt], [])
    assert verdict is Verdict.PASS and "1 of 2 pairs struck twice" in reasons[0].text


def test_the_table_counts_by_request_and_action() -> None:
    points = points_of([FIRST, SECOND], KAFKA)
    rows = {row.action: row for row in table(points, clean(points))}
    lost = rows[Action.LOSE_REPLY]
    assert (lost.points, lost.struck, lost.clean, lost.control) == (2, 2, 2, "2 of 2")
    assert rows[Action.STALL_REPLY].control == ""


def test_a_visit_that_could_not_be_done_is_none_in_the_table_and_a_control_that_missed_shows_nothing() -> None:
    points = points_of([FIRST], KAFKA)
    visits = clean(points)
    at = points.index(point())
    visits[at] = visit((points[at],), Verdict.ERROR)
    visits[-1] = visits[-1].model_copy(update={"missed": ("it did not come",)})
    rows = {row.action: row for row in table(points, visits)}
    lost, other = rows[Action.LOSE_REPLY], rows[Action.LOSE_REQUEST]
    assert (lost.points, lost.visited, lost.struck, lost.clean, lost.control) == (1, 0, 0, 0, "0 of 1")
    assert (other.points, other.visited, other.struck, other.clean) == (1, 1, 1, 1)


def test_who_goes_on_with_fewer_pairs_is_told_of_those_only() -> None:
    points = points_of([FIRST, SECOND], KAFKA)
    pairs = pairs_of(points, 5, seed=1)
    visits = [*clean(points), *map(visit, pairs)]
    for asked in (2, 5):
        _, reasons = conclude(points, pairs[:asked], visits, [])
        assert f"{asked} of {asked} pairs struck twice" in reasons[0].text


def test_a_control_of_a_point_that_is_none_any_more_convinces_nobody() -> None:
    """There were more brokers when it was begun."""
    before, points = points_of([FIRST], KAFKA, moves=True), points_of([FIRST], KAFKA)
    visits = clean(before)
    assert conclude(points, [], visits, [])[0] is Verdict.PASS
    empty = visits[-2].model_copy(update={"copies": 0})
    assert empty.schedule == (controls_of(points)[0],)
    verdict, reasons = conclude(points, [], [*visits[:-2], empty, visits[-1]], [])
    assert (verdict, reasons[0].code) == (Verdict.INCONCLUSIVE, Code.CONTROL_UNCONVINCING)


PHANTOM = Shrunk(schedule=(point(),), messages=1, partitions=1, anomalies=("phantom",), shown=10, tries=10)


def test_another_anomaly_accuses_in_nine_of_ten_replays_only() -> None:
    calm, other = visit((point(),)), visit((point(),), Verdict.FAIL, anomalies={"not_received": 1})
    once, often = replayed(PHANTOM, [calm] * 9 + [other]), replayed(PHANTOM, [calm] + [other] * 9)
    assert (once.verdict, once.shown) == (Verdict.INCONCLUSIVE, 0)
    assert (often.verdict, often.shown) == (Verdict.FAIL, 0)
    assert once.reasons[0].text.endswith("phantom in 0 of 10 runs; not_received in 1")


def test_replays_that_no_client_noticed_are_no_pass() -> None:
    calm = visit((point(),))
    unnoticed = visit((point(),), unnoticed=("a",))
    assert replayed(PHANTOM, [calm] * 10).verdict is Verdict.PASS
    found = replayed(PHANTOM, [calm] * 9 + [unnoticed])
    assert (found.verdict, found.reasons[-1].code) == (Verdict.INCONCLUSIVE, Code.FAULT_VACUOUS)


def test_replays_without_a_verdict_say_why() -> None:
    missed = visit((point(),), Verdict.INCONCLUSIVE, missed=("because",))
    found = replayed(PHANTOM, [missed] * 2 + [visit((point(),), Verdict.ERROR)] * 8)
    assert found.verdict is Verdict.ERROR
    assert [each.text for each in found.reasons[1:]] == ["8 runs: because", "2 runs: because"]


def test_replays_of_which_one_could_not_be_done_are_an_error_and_a_run_with_two_reasons_is_one_run() -> None:
    """As a visit that could not be done makes an exploration one, though an alarm did not come again."""
    shown = visit((point(),), Verdict.FAIL, anomalies={"phantom": 1})
    reasons = tuple(Reason(verdict=Verdict.ERROR, code=Code.PROBLEM, text=each) for each in ("this", "that"))
    broken = visit((point(),), Verdict.ERROR).model_copy(update={"reasons": reasons})
    found = replayed(PHANTOM, [shown] * 5 + [broken] * 5)
    assert (found.verdict, found.reasons[1].text) == (Verdict.ERROR, "5 runs: this; that")
    assert {each.verdict for each in found.reasons} == {Verdict.ERROR}
    assert replayed(PHANTOM, [shown] * 5 + [visit((point(),))] * 5).verdict is Verdict.INCONCLUSIVE
    assert replayed(PHANTOM, [shown] * 9 + [broken]).verdict is Verdict.FAIL
