"""The soak's ledger: what is kept of a round, and what an alarm is taken for."""

from pathlib import Path

import pytest
from testbed import ledgers
from testbed.discover import __main__ as discover
from testbed.discover import ledger
from testbed.discover.__main__ import rounds
from testbed.discover.ledger import FALSE, NEW, NOT_REPLAYED, Line, page
from testbed.discover.subjects import SUBJECTS, Round, Subject, drawn

from dedup.experiment.points import Action, Exchange, Point
from dedup.judgement.explorations import Alarm, Exploration, Row, Visit
from dedup.judgement.verdicts import Reason, Verdict

TRANSACTIONS = SUBJECTS["kafka-transactions"]


def alarm(action: Action, anomaly: str, replayed: int, replays: int = 10) -> Alarm:
    point = Point(exchange=Exchange(api="EndTxn", number=2, transaction=2), action=action)
    reasons = (Reason(verdict=Verdict.FAIL, code="witness", text="x"),)
    visit = Visit(
        schedule=(point,),
        deduplication=True,
        messages=20,
        verdict=Verdict.FAIL,
        reasons=reasons,
        anomalies={anomaly: 3},
        seconds=1.0,
    )
    return Alarm(visit=visit, replayed=replayed, replays=replays)


def line(subject: Subject, *alarms: Alarm, verdict: Verdict = Verdict.PASS) -> Line:
    return ledger.line(drawn(subject, 1), exploration(*alarms, verdict=verdict))


def exploration(*alarms: Alarm, verdict: Verdict = Verdict.PASS) -> Exploration:
    row = Row(api="EndTxn", action=Action.LOSE_REPLY, points=5, visited=5, struck=4, clean=4, alarms=0, unknown=0)
    return Exploration(
        target="x",
        verdict=verdict,
        reasons=(),
        messages=20,
        partitions=2,
        in_flight=5,
        points=5,
        points_visited=5,
        pairs=10,
        pairs_visited=7,
        seed=1,
        rows=(row,),
        alarms=alarms,
        unexplored=(),
        versions={},
        settings={},
        seconds=90.0,
        visits=30,
        points_a_minute=60.0,
        folder="x",
    )


@pytest.mark.parametrize(
    ("found", "taken_for"),
    [
        (alarm(Action.STALL_REQUEST_TO_NEXT, "aborted_read", 10), "KAFKA-17754"),
        (alarm(Action.STALL_REQUEST_TO_NEXT, "lost", 10), NEW),
        (alarm(Action.LOSE_REPLY, "aborted_read", 9), NEW),
        (alarm(Action.STALL_REQUEST_TO_NEXT, "aborted_read", 8), FALSE),
        (alarm(Action.STALL_REQUEST_TO_NEXT, "aborted_read", 0, replays=0), NOT_REPLAYED),
    ],
    ids=["known", "another anomaly", "another point", "does not come again", "not replayed"],
)
def test_an_alarm_is_a_known_bug_only_by_its_point_and_by_what_shows(found: Alarm, taken_for: str) -> None:
    kept = line(TRANSACTIONS, found, verdict=Verdict.FAIL)
    assert [each.taken_for for each in kept.found] == [taken_for]
    assert kept.unexplained is (taken_for != "KAFKA-17754")


def test_an_alarm_that_needs_a_second_point_may_be_another_bug() -> None:
    one = alarm(Action.STALL_REQUEST_TO_NEXT, "aborted_read", 10)
    two = one.visit.schedule + alarm(Action.LOSE_REPLY, "aborted_read", 10).visit.schedule
    pair = one.model_copy(update={"visit": one.visit.model_copy(update={"schedule": two})})
    assert [each.taken_for for each in line(TRANSACTIONS, pair, verdict=Verdict.FAIL).found] == [NEW]


def test_the_same_alarm_is_new_where_the_bug_is_not_known() -> None:
    kept = line(SUBJECTS["pulsar"], alarm(Action.STALL_REQUEST_TO_NEXT, "aborted_read", 10), verdict=Verdict.FAIL)
    assert [each.taken_for for each in kept.found] == [NEW]


def test_an_error_is_looked_at_and_a_clean_round_is_not() -> None:
    assert line(TRANSACTIONS, verdict=Verdict.ERROR).unexplained
    assert not line(TRANSACTIONS).unexplained


def test_rounds_come_in_turns_and_none_is_done_twice(tmp_path: Path) -> None:
    done = [line(TRANSACTIONS)]
    (tmp_path / "ledger").write_text(f"{done[0].model_dump_json()}\n{done[0].model_dump_json()[:40]}")
    assert ledgers.read(tmp_path / "ledger", Line) == done, "a line that was cut short tells of nothing"
    left = rounds(list(SUBJECTS), done)
    first = [(each.subject.name, each.number) for each, _ in zip(left, range(6), strict=False)]
    names = ["kafka-idempotent", "kafka-java", "franz-go", "pulsar", "pulsar-java", "kafka-idempotent"]
    assert first == [(name, 1 + (number > 4)) for number, name in enumerate(names)]
    assert drawn(SUBJECTS["pulsar"], 3) == drawn(SUBJECTS["pulsar"], 3)
    assert len({drawn(SUBJECTS["pulsar"], number).options[1] for number in range(1, 20)}) == 3


def test_the_page_sums_up_by_subject() -> None:
    found = page(
        [line(TRANSACTIONS, alarm(Action.STALL_REQUEST_TO_NEXT, "aborted_read", 10)), line(SUBJECTS["pulsar"])]
    )
    assert "| kafka-transactions | 1 | 5 | 7 | 1 | 1 | 0 | 0 | 0 | 0 | 2 |" in found
    assert "| pulsar | 1 | 5 | 7 | 1 | 0 | 0 | 0 | 0 | 0 | 2 |" in found
    assert (
        "| kafka-transactions 1 | `endtxn-2-1-stall-request-to-next` | aborted_read 3 | 10 of 10 | KAFKA-17754 |"
        in found
    )


def test_a_round_that_is_inconclusive_is_told_with_its_reason_and_one_that_passed_is_not() -> None:
    reason = Reason(verdict=Verdict.INCONCLUSIVE, code="control_unconvincing", text="0 of 5 left\ncopies | <b>")
    doubtful = exploration(verdict=Verdict.INCONCLUSIVE).model_copy(update={"reasons": (reason,)})
    passed, told = line(SUBJECTS["pulsar"]), ledger.line(drawn(SUBJECTS["pulsar"], 2), doubtful)
    assert "| pulsar | 2 | 10 | 14 | 2 | 0 | 0 | 0 | 1 | 0 | 3 |" in page([passed, told])
    assert "- pulsar 2, inconclusive: 0 of 5 left copies \\| &lt;b&gt;\n" in page([passed, told])
    assert "Rounds that did not pass" not in page([passed])


@pytest.mark.parametrize("alarms", [(), (alarm(Action.STALL_REQUEST_TO_NEXT, "aborted_read", 10),)])
def test_a_round_whose_control_broke_what_it_promises_is_looked_at_also_beside_a_known_bug(
    alarms: tuple[Alarm, ...],
) -> None:
    told = Reason(verdict=Verdict.FAIL, code="witness", text="EndTxn 2: 3 aborted_read")
    lost = Reason(verdict=Verdict.FAIL, code="control_failed", text="the control broke what it promises: x-control")
    failed = exploration(*alarms, verdict=Verdict.FAIL)
    found = ledger.line(drawn(TRANSACTIONS, 1), failed.model_copy(update={"reasons": (told, lost)}))
    assert found.unexplained and "fail: EndTxn 2: 3 aborted\\_read; the control broke" in page([found])
    known = failed.model_copy(update={"reasons": (told,)})
    assert not ledger.line(drawn(TRANSACTIONS, 1), known).unexplained


def test_rounds_of_other_versions_are_told_apart() -> None:
    first, second, third = (
        ledger.line(
            drawn(SUBJECTS["pulsar"], number), exploration().model_copy(update={"versions": {"pulsar broker": version}})
        )
        for number, version in ((1, "4.2.4"), (2, "4.3.0"), (3, "4.2.4"))
    )
    assert "- pulsar 1, 3: pulsar broker 4.2.4\n- pulsar 2: pulsar broker 4.3.0\n" in page([first, second, third])
    assert "- pulsar 1: versions not recorded\n" in page([line(SUBJECTS["pulsar"])])


def test_the_page_is_made_from_the_ledger() -> None:
    made = page(ledgers.read(discover.LEDGER, Line))
    assert discover.PAGE.read_text(encoding="utf-8") == made, "make it again: python -m testbed.discover --minutes 0"


@pytest.mark.parametrize("line_", [{"subject": "gone"}, {"subject": "pulsar"}])
def test_rounds_of_a_subject_that_is_no_longer_explored_are_on_the_page_all_the_same(line_: dict[str, str]) -> None:
    kept = line(SUBJECTS["pulsar"], alarm(Action.LOSE_REPLY, "lost", 10)).model_copy(update=line_)
    assert f"| {line_['subject']} | 1 | 5 | 7 | 1 | 0 | 1 | 0 | 0 | 0 | 2 |" in page([kept])
    assert kept.unexplained


@pytest.mark.parametrize(("results", "rounds_done", "code"), [((None, 1, 1), 2, 1), ((1, 1, 1), 3, 0), ((), 0, 0)])
def test_a_round_without_a_result_is_told_and_does_not_stop_the_others(
    results: tuple[int | None, ...], rounds_done: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter(results)

    def explored(round_: Round, _: Path) -> Exploration | None:
        """The next one; a Ctrl-C when there is none."""
        each = next(found, 0)
        if each == 0:
            raise KeyboardInterrupt
        return None if each is None else exploration()

    monkeypatch.setattr(discover, "explored", explored)
    places = ("--results", str(tmp_path), "--ledger", str(tmp_path / "ledger"), "--out", str(tmp_path / "page"))
    assert discover.main(list(places)) == code
    assert len(ledgers.read(tmp_path / "ledger", Line)) == rounds_done
