"""`dedup explore` without a broker: strikes by scripted conversations, and the whole by a scripted crew."""

import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from rich.console import Console

from dedup.errors import EvidenceError, PlatformError, SpecificationError
from dedup.experiment.dialects.kafka import KAFKA
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.points import Action, Exchange, Point, Schedule, moved
from dedup.experiment.spec import Experiment, load
from dedup.judgement.explorations import Exploration, Shrunk, Visit
from dedup.judgement.verdicts import Code, Reason, Verdict
from dedup_lab.children import Cancelled
from dedup_lab.exploring import grounds, replays, strikes
from dedup_lab.exploring.crews import STRIKES, Again, Crew, Done, Job
from dedup_lab.exploring.explorations import Exploring, Options
from dedup_lab.exploring.folders import VISITS, Asked, Folder
from dedup_lab.exploring.grounds import Site
from dedup_lab.exploring.shrinking import shrink
from dedup_lab.exploring.strikes import Speaker
from dedup_lab.exploring.visits import Ground
from dedup_lab.terminal.explorations import show
from dedup_runners.interposer import conversations
from dedup_runners.interposer.conversations import Row
from dedup_runners.interposer.protocols import Direction, Frame
from dedup_runners.interposer.rules import UNASKED, Act

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "explore" / "kafka.yaml"
US = "us"
BY_US = Speaker(KAFKA, US)
FIRST = Exchange(api="Produce", partition=0, number=1, base_sequence=0)
INIT = Exchange(api="InitProducerId", number=1)


def row(**given: object) -> Row:
    """A row of a conversation: a Produce of batch 1 to partition 0 that passed, if nothing else is said."""
    known: dict[str, object] = {
        **dict.fromkeys(Row._fields), "direction": "reply", "api": "Produce", "client_id": US, "partition": 0,
        "number": 1, "attempt": 1, "base_sequence": 0, "done": "passed",
    }  # fmt: skip
    return Row(**{**known, **given})  # type: ignore[arg-type]


def point(action: Action, exchange: Exchange = FIRST) -> Point:
    return Point(exchange=exchange, action=action)


def test_an_exchange_is_a_first_request_of_ours_that_was_answered() -> None:
    rows = [
        row(), row(direction="request"), row(attempt=2), row(client_id="other"), row(number=2, done="unanswered"),
        row(api="InitProducerId", partition=None, base_sequence=None),
    ]  # fmt: skip
    assert list(strikes.exchanges(rows, BY_US)) == [FIRST, INIT]


def test_a_request_without_success_is_known() -> None:
    rows = [row(error_code=0), row(), row(client_id="other", error_code=14), row(direction="request", error_code=14)]
    rows += [row(api=each, done="unanswered") for each in ("ApiVersions", "SaslAuthenticate", "Metadata")]
    assert list(strikes.failed(rows, BY_US)) == []
    assert list(strikes.failed([*rows, row(api="InitProducerId", error_code=14)], BY_US)) == ["InitProducerId"]
    assert list(strikes.failed([*rows, row(done="unanswered")], BY_US)) == ["Produce"]
    assert list(strikes.failed([row(api="SaslAuthenticate", error_code=58)], BY_US)) == ["SaslAuthenticate"]


def test_a_point_becomes_a_rule() -> None:
    (rule,) = strikes.rules((point(Action.STALL_REQUEST_TO_END),), BY_US)
    assert (rule.act, rule.until, rule.match.number, rule.match.attempt) == (Act.STALL_REQUEST, strikes.END, 1, 1)
    (rule,) = strikes.rules((point(Action.STALL_REPLY),), BY_US)
    assert (rule.act, rule.until) == (Act.STALL_REPLY, strikes.retried(point(Action.STALL_REPLY)))


@pytest.mark.parametrize(
    ("action", "proof", "lack"),
    [
        (Action.LOSE_REQUEST, {"direction": "request", "done": "lost"}, {"direction": "reply", "done": "unanswered"}),
        (Action.LOSE_REPLY, {"done": "lost", "error_code": 0}, {"done": "lost", "error_code": 6}),
        (Action.LOSE_REPLY, {"done": "lost", "error_code": 46}, {"done": "unanswered"}),
        (Action.STALL_REQUEST, {"direction": "request", "done": "held"},
         {"direction": "request", "done": "held to its deadline"}),
        (Action.STALL_REPLY, {"done": "held", "error_code": 0}, {"done": "held", "error_code": 14}),
        (Action.STALL_REPLY, {"done": "held"}, {"done": "held to its deadline"}),
        (Action.STALL_REPLY, {"done": "unanswered", "bytes": 40}, {"done": "unanswered", "bytes": 0}),
    ],
)  # fmt: skip
def test_a_strike_is_proven_by_the_conversation(
    action: Action, proof: dict[str, object], lack: dict[str, object]
) -> None:
    schedule = (point(action),)
    name = schedule[0].name
    assert strikes.missed([row(), row(rule=name, **proof)], schedule, BY_US) == []
    assert strikes.missed([row(), row(rule=name, **lack)], schedule, BY_US) != []
    assert strikes.missed([row()], schedule, BY_US) == ["this request did not come"]


def test_a_client_has_noticed_what_it_sends_again() -> None:
    schedule = (point(Action.LOSE_REPLY),)
    again = row(direction="request", attempt=2)
    assert strikes.unnoticed([again], schedule, BY_US) == []
    for other in (row(direction="request"), again._replace(number=2), again._replace(client_id="other")):
        assert strikes.unnoticed([other], schedule, BY_US) == [schedule[0].name]
    init = (point(Action.LOSE_REPLY, INIT),)
    assert (
        strikes.unnoticed([row(api="InitProducerId", partition=None, direction="request", number=2)], init, BY_US) == []
    )


def test_the_first_request_of_a_connection_is_made_again_on_another_one_to_the_same_broker() -> None:
    schedule = (point(Action.LOSE_REPLY, Exchange(api="ApiVersions", number=2)),)
    name = schedule[0].name
    struck = row(api="ApiVersions", number=2, partition=None, rule=name, connection=4, broker="a", direction="request")
    again = struck._replace(number=3, connection=5, rule=None)
    assert strikes.unnoticed([struck, again], schedule, BY_US) == []
    for other in (again._replace(broker="b"), again._replace(connection=4)):
        assert strikes.unnoticed([struck, other], schedule, BY_US) == [name]
    (rule,) = strikes.rules((point(Action.STALL_REPLY, Exchange(api="ApiVersions", number=2)),), BY_US)
    assert rule.until == strikes.END


def test_a_stall_ends_when_the_retry_has_succeeded() -> None:
    happened: list[str] = []
    schedule = (point(Action.STALL_REQUEST),)
    tell = strikes.following(schedule, BY_US, happened.append)
    for wrong in (row(error_code=0), row(attempt=2, error_code=6), row(attempt=2, direction="request")):
        tell(wrong)
    assert happened == []
    tell(row(attempt=2, error_code=0))
    assert happened == [strikes.retried(schedule[0])]


def test_a_conversation_tells_its_followers() -> None:
    told: list[Row] = []
    conversation = conversations.Conversation()
    conversation.follow(told.append)
    frame = Frame(b"", Direction.REQUEST, "Produce")
    conversation.add(1, "s", "b", frame, [UNASKED], conversations.now(), conversations.Done.PASSED)
    assert told == conversation.rows() and len(told) == 1


# Shrinking, with a scripted runner.


def scripted(
    enough: Callable[[Schedule, int], bool], asked: list[tuple[Schedule, int]]
) -> Callable[[Schedule, int], int]:
    def shows(schedule: Schedule, messages: int) -> int:
        asked.append((schedule, messages))
        return 10 if enough(schedule, messages) else 0

    return shows


def at(number: int, partition: int = 0) -> Point:
    exchange = Exchange(api="Produce", partition=partition, number=number, base_sequence=number - 1)
    return point(Action.LOSE_REPLY, exchange)


def test_a_lost_reply_shrinks_to_the_first_message_alone() -> None:
    asked: list[tuple[Schedule, int]] = []
    found = shrink((at(7),), 20, 2, scripted(lambda schedule, _: len(schedule) == 1, asked))
    assert found == Shrunk(schedule=(at(1),), messages=1, partitions=2, shown=10, tries=10)
    assert len(asked) == 2, "without any point first, then the smallest"


def test_what_needs_both_points_and_a_few_messages_more_keeps_them() -> None:
    pair = (at(5), at(6, partition=1))
    found = shrink(pair, 20, 2, scripted(lambda schedule, messages: len(schedule) == 2 and messages >= 7, []))
    assert (found.schedule, found.messages) == (moved(pair, 4), 8)


def test_what_shows_only_as_it_was_stays_as_it_was() -> None:
    found = shrink((at(7),), 20, 2, scripted(lambda *_: False, []), shown=9)
    assert (found.schedule, found.messages, found.shown) == ((at(7),), 20, 9)


# The crew.


def visited(job: Job, verdict: Verdict = Verdict.PASS, **more: object) -> Visit:
    reason = Reason(verdict=verdict, code=Code.CLEAN, text="because")
    return Visit.model_validate(
        {
            "schedule": job.schedule, "deduplication": job.deduplication, "messages": job.messages or 20,
            "verdict": verdict, "reasons": (reason,), "seconds": 0.1, **more,
        }
    )  # fmt: skip


def crew(tmp_path: Path, work: Callable[[Job], Visit], heard: Iterable[Exchange] = ()) -> Crew:
    exchanges = frozenset(heard)
    return Crew(lambda job, folder: Done(job, work(job), exchanges), tmp_path, 2, Event())


def test_a_visit_that_missed_is_done_again_until_it_strikes(tmp_path: Path) -> None:
    misses = [("it did not come",), ("it did not come",), ()]
    working = crew(tmp_path, lambda job: visited(job, missed=misses.pop(0)))
    (done,) = working.do([Job((at(1),))])
    working.close()
    assert (done.visit.missed, working.done, misses) == ((), 3, [])


def test_a_visit_that_never_strikes_ends_and_one_of_a_shorter_schedule_is_done_once(tmp_path: Path) -> None:
    working = crew(tmp_path, lambda job: visited(job, Verdict.INCONCLUSIVE, missed=("it did not come",)))
    (done,) = working.do([Job((at(1),))])
    assert (done.visit.missed, working.done) == (("it did not come",), STRIKES)
    list(working.do([Job((at(1),), again=Again.NEVER)]))
    working.close()
    assert working.done == STRIKES + 1


def test_a_replay_is_done_again_only_if_its_points_did_not_strike(tmp_path: Path) -> None:
    misses = [("it arrived too late",), ()]
    working = crew(tmp_path, lambda job: visited(job, missed=misses.pop(0)))
    (done,) = working.do([Job((at(1),), again=Again.MISSED)])
    working.close()
    assert (done.visit.missed, working.done) == ((), 2)


@pytest.mark.parametrize("why", [{"unnoticed": ("a",)}, {"verdict": Verdict.PASS}, {"verdict": Verdict.FAIL}])
def test_whatever_else_comes_of_a_replay_counts(tmp_path: Path, why: dict[str, Any]) -> None:
    working = crew(tmp_path, lambda job: visited(job, **why))
    list(working.do([Job((at(1),), again=Again.MISSED)]))
    working.close()
    assert working.done == 1


def test_a_visit_that_cannot_be_done_twice_is_an_error(tmp_path: Path) -> None:
    def work(job: Job) -> Visit:
        raise PlatformError(where="w", got="g", rule="r", todo="t")

    working = crew(tmp_path, work)
    (done,) = working.do([Job((at(1),))])
    working.close()
    assert (done.visit.verdict, working.done) == (Verdict.ERROR, 2)
    assert done.visit.reasons[0].text == "w: got g; r; t"


def test_an_interrupt_as_a_visit_begins_is_over_when_that_visit_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool does not know the visit's thread then, and would not wait for it: a topic stayed."""
    has_started, may_end, has_ended = Event(), Event(), Event()
    start = Thread.start

    def interrupted(thread: Thread) -> None:
        start(thread)
        assert has_started.wait(10)
        raise KeyboardInterrupt

    def work(job: Job) -> Visit:
        has_started.set()
        assert may_end.wait(10)
        has_ended.set()
        return visited(job)

    monkeypatch.setattr(Thread, "start", interrupted)
    working = crew(tmp_path, work)
    with pytest.raises(KeyboardInterrupt):
        list(working.do([Job(())]))
    monkeypatch.undo()
    closing = Thread(target=working.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive(), "the visit is not over"
    may_end.set()
    closing.join(10)
    assert has_ended.is_set() and not closing.is_alive()


def test_a_crew_that_is_closed_begins_no_visit(tmp_path: Path) -> None:
    working = crew(tmp_path, visited)
    list(working.do([Job(())]))
    working.close()
    with pytest.raises(Cancelled):
        working._do(Job(()))
    assert working.done == 1


def test_a_resumed_crew_makes_no_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "00007-calm").mkdir()
    made: list[str] = []

    def work(job: Job, folder: Path) -> Done:
        made.append(folder.name)
        return Done(job, visited(job))

    working = Crew(work, tmp_path, 1, Event())
    list(working.do([Job(())]))
    working.close()
    assert made == ["00008-calm"]


# The whole, with a scripted crew.

HEARD = (INIT, at(1).exchange, at(2).exchange, Exchange(api="Metadata", number=1))


SINGLE = Options()


class Nobody:
    """An admin that is asked for versions only."""

    def versions(self) -> dict[str, str]:
        return {"librdkafka": "0"}


def site(experiment: Experiment, brokers: int = 1) -> Site:
    treatment, control = grounds.variants_of(experiment, "t")
    known = [Broker(id=str(number), client_port=1) for number in range(brokers)]
    endpoints = Endpoints(system="kafka", client_bootstrap="", direct_bootstrap="", brokers=known)
    return Site(Ground(experiment, treatment, control, endpoints, [], Nobody(), Event()), {}, ())  # type: ignore[arg-type]


def explored(
    tmp_path: Path, work: Callable[[Job], Visit], options: Options = SINGLE, brokers: int = 1
) -> tuple[Exploration, list[Job]]:
    jobs: list[Job] = []

    def noted(job: Job) -> Visit:
        jobs.append(job)
        return work(job)

    working = crew(tmp_path, noted, HEARD)
    where = site(load(EXAMPLE), brokers)
    result = Exploring("t", where, options, Folder(tmp_path), working, lambda _: None).run()
    working.close()
    return result, jobs


def fine(job: Job) -> Visit:
    return visited(job, copies=0 if job.deduplication else 1)


def test_every_point_is_visited_once_and_it_passes(tmp_path: Path) -> None:
    result, jobs = explored(tmp_path, fine)
    assert (result.verdict, result.points, result.points_visited) == (Verdict.PASS, 15, 15)
    assert len(jobs) == 3 + 15 + 2, "calm, points, controls"
    assert [each.exchange for each in result.unexplored] == ["Metadata 1"]
    assert result.scope == "15 of 15 points; no pairs"
    assert json.loads((tmp_path / "exploration.json").read_text())["verdict"] == "pass"


def test_two_explorations_with_one_seed_visit_the_same(tmp_path: Path) -> None:
    seen = []
    for number, seed in enumerate((5, 5, 6)):
        (tmp_path / str(number)).mkdir()
        result, jobs = explored(tmp_path / str(number), fine, Options(pairs=20, seed=seed))
        assert (result.pairs_visited, result.pairs) == (20, 125)
        seen.append({(each.schedule, each.deduplication) for each in jobs})
    assert seen[0] == seen[1] != seen[2]


def test_an_alarm_is_replayed_shrunk_and_fails(tmp_path: Path) -> None:
    def work(job: Job) -> Visit:
        if job.deduplication and any(
            each.action is Action.LOSE_REPLY and each.exchange.partition == 0 for each in job.schedule
        ):
            return visited(job, Verdict.FAIL, anomalies={"values_with_duplicates": 1}, copies=1)
        return fine(job)

    result, _ = explored(tmp_path, work)
    assert result.verdict is Verdict.FAIL
    (alarm,) = result.alarms
    assert (alarm.replayed, alarm.replays, alarm.alike) == (10, 10, 1)
    copies = ("values_with_duplicates",)
    smallest = Shrunk(schedule=(at(1),), messages=1, partitions=2, anomalies=copies, shown=10, tries=10)
    assert alarm.shrunk == smallest
    console = Console(width=200, record=True, file=io.StringIO())
    show(result, console)
    said = console.export_text()
    assert "shortest: 1 message(s), lose_reply at Produce of batch 1 (sequence 0) to partition 0; 10 of 10" in said


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([Verdict.FAIL] * 9 + [Verdict.PASS], Verdict.FAIL),
        ([Verdict.FAIL] * 8 + [Verdict.PASS] * 2, Verdict.INCONCLUSIVE),
        ([Verdict.PASS] * 10, Verdict.PASS),
        ([Verdict.PASS] * 9 + [Verdict.ERROR], Verdict.ERROR),
    ],
)
def test_a_witness_is_replayed(tmp_path: Path, verdicts: list[Verdict], verdict: Verdict) -> None:
    left = list(verdicts)
    shrunk = Shrunk(schedule=(at(1),), messages=1, partitions=1, anomalies=("phantom",), shown=10, tries=10)
    (tmp_path / "schedule.json").write_text(shrunk.model_dump_json())
    working = crew(tmp_path, lambda job: visited(job, left.pop(), anomalies={"phantom": 1}))
    result = replays.replay(replays.read(tmp_path), working)
    working.close()
    assert (result.verdict, result.shown, result.tries) == (verdict, verdicts.count(Verdict.FAIL), 10)


def test_a_pair_with_a_point_that_suffices_is_of_its_kind(tmp_path: Path) -> None:
    def work(job: Job) -> Visit:
        if job.deduplication and at(1) in job.schedule:
            return visited(job, Verdict.FAIL, anomalies={"phantom": 1})
        return fine(job)

    result, _ = explored(tmp_path, work, Options(pairs=1_000))
    (alarm,) = result.alarms
    assert (alarm.visit.schedule, result.pairs_visited) == ((at(1),), 125)
    assert alarm.alike == 10 + 5, "with each point of other exchanges, and with each of its retry"


def test_an_alarm_that_does_not_come_again_is_inconclusive_and_not_shrunk(tmp_path: Path) -> None:
    def work(job: Job) -> Visit:
        if job.deduplication and job.schedule == (at(2),) and job.again is Again.UNNOTICED:
            return visited(job, Verdict.FAIL, anomalies={"values_with_duplicates": 1}, copies=1)
        return fine(job)

    result, _ = explored(tmp_path, work)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert (result.alarms[0].replayed, result.alarms[0].shrunk) == (0, None)


def test_a_conversation_with_an_error_reply_is_not_calm_and_is_had_again(tmp_path: Path) -> None:
    """A broker that has just started refuses the first request for a producer id: the second is in no later run."""
    refusals = [3]
    heard, again = frozenset(HEARD), Exchange(api="InitProducerId", number=2)

    def work(job: Job, folder: Path) -> Done:
        if job.schedule or not refusals[0]:
            return Done(job, fine(job), heard)
        refusals[0] -= 1
        return Done(job, fine(job), heard | {again}, frozenset({"InitProducerId"}))

    working = Crew(work, tmp_path, 2, Event())
    result = Exploring("t", site(load(EXAMPLE)), SINGLE, Folder(tmp_path), working, lambda _: None).run()
    assert (result.verdict, result.points) == (Verdict.PASS, 15)
    refusals[0] = 1_000
    (tmp_path / "b").mkdir()
    with pytest.raises(PlatformError, match="a calm conversation: got errors or no replies to InitProducerId"):
        Exploring("t", site(load(EXAMPLE)), SINGLE, Folder(tmp_path / "b"), working, lambda _: None).run()
    working.close()


def test_a_calm_conversation_that_cannot_be_had_ends_it(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="a calm conversation: got because"):
        explored(tmp_path, lambda job: visited(job, Verdict.ERROR))


def test_an_anomaly_without_any_fault_is_an_alarm(tmp_path: Path) -> None:
    calm = [Verdict.PASS, Verdict.FAIL, Verdict.PASS]

    def work(job: Job) -> Visit:
        if job.schedule or not calm:
            return fine(job)
        verdict = calm.pop()
        return visited(job, verdict, anomalies={"not_received": 1} if verdict is Verdict.FAIL else {})

    result, _ = explored(tmp_path, work)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "no fault at all: 1 not_received; again in 0 of 10" in result.reasons[0].text


def test_what_was_visited_is_not_visited_again(tmp_path: Path) -> None:
    first, _ = explored(tmp_path, fine)
    lines = (tmp_path / VISITS).read_text().splitlines()
    (tmp_path / VISITS).write_text("\n".join([*lines[:-3], lines[-3][:20]]))
    again, jobs = explored(tmp_path, fine)
    assert len(jobs) == 3, "two that were not noted, and one whose line was cut off"
    assert (again.verdict, again.rows) == (first.verdict, first.rows)
    assert explored(tmp_path, fine)[1] == []


def test_a_line_that_is_damaged_is_an_error(tmp_path: Path) -> None:
    explored(tmp_path, fine)
    text = (tmp_path / VISITS).read_text()
    (tmp_path / VISITS).write_text("x" + text)
    with pytest.raises(EvidenceError, match="line 1"):
        explored(tmp_path, fine)


def test_another_exploration_is_not_gone_on_with(tmp_path: Path) -> None:
    asked = Asked(
        target="t", messages=20, partitions=2, in_flight=5, seed=1, treatment={}, settings={}, system="", versions={}
    )
    Folder(tmp_path).begin(asked)
    Folder(tmp_path).begin(asked)
    with pytest.raises(SpecificationError, match="got seed 2; it was begun with seed 1"):
        Folder(tmp_path).begin(asked.model_copy(update={"seed": 2}))
