"""Faults that tested nothing, each as a run's files tell it: none passes, and its innocent twin does.

For each kind of fault there is one true story: what its injector, the producer and its client wrote down when it struck
and was healed. A case changes one thing in it, as it happens in the field or as a broken injector would lie. The files
go the way of real ones: records are put together from them, held against the plan, and judged.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.core.evidences import MESSAGES, evidence, experiment, manifest
from tests.runners.test_chaos_message import row

from dedup.experiment.plans import plan
from dedup.faults.records import CLIENT_TAIL_NS, vacuous
from dedup.faults.registry import KINDS, LATENCY_FAULT
from dedup.judgement.demands import demand_of
from dedup.judgement.verdicts import RunVerdict, Verdict, judge_run
from dedup.wire.clients import Noticed
from dedup_runners import chaos
from dedup_runners.chaos.faults import message
from dedup_runners.interposer.conversations import Done
from dedup_runners.interposer.protocols import Direction

S: Final = 1_000_000_000
AT: Final = 100
INJECTING, INJECTED, NOTICED, ENDING, HEALED = (int(second * S) for second in (7, 7.1, 7.5, 8.9, 10))
Json = dict[str, Any]
NONE: Final[Json] = {}
KAFKA: Final[Json] = {"kafka": {}}


@dataclass(frozen=True)
class Story:
    """All that is said of the faults of one run, as files have it."""

    faults: list[Json]
    lines: list[Json]
    marks: list[Json]
    signs: list[Json]
    journals: dict[str, Json]
    system: Json
    recorded: bool = True
    """Whether the manifest has a record of them."""

    @property
    def kind(self) -> str:
        return "pulsar" if "pulsar" in self.system else "kafka"


Change = Callable[[Story], Story]


class Truth(NamedTuple):
    """How a kind of fault is told when it struck: its settings, what its target showed, what the client noticed."""

    settings: Json
    witness: Json
    sign: str
    effect: Json = NONE
    system: Json = KAFKA
    leader: str = "1"


STORIES: Final[dict[str, Truth]] = {
    "killTCP": Truth({"duration": "2s"}, {"connections_gone": {"1": 2}}, "disconnect", {"connections_gone": {"1": 4}}),
    "dropTCP": Truth({"duration": "2s"}, {"silent": ["1"]}, "retry", {"at_end": ["1"]}),
    "delayTCP": Truth({"delay": "1s", "duration": "2s"}, {"late_ms": {"1": 1001.0}}, "retry", {"at_end": ["1"]}),
    "throttleTCP": Truth(
        {"kilobytesPerSecond": 10, "duration": "2s"}, {"slow_ms": {"1": 512.0}}, "retry", {"at_end": ["1"]}
    ),
    "rollingRestart": Truth({}, {"exit_code": 143}, "disconnect", {"lives": ["7"]}),
    "fillDisk": Truth({"duration": "2s"}, {"free_bytes": 0, "pid": 7}, "leader", {"at_end": ["1"], "exit_code": 1}),
    "kill of the controller": Truth(
        {"restartAfter": "2s", "target": "Controller"},
        {"exit_code": 137, "pid": 7, "controller": "1"},
        "leader",
        leader="2",
    ),
    "pause of ZooKeeper": Truth(
        {"duration": "2s", "target": "ZooKeeper"},
        {"state": "T", "pid": 7, "zookeeper": "1"},
        "retry",
        {"at_end": ["1"]},
        system={"pulsar": {}},
        leader="2",
    ),
    "kill": Truth({"restartAfter": "2s"}, {"exit_code": 137, "pid": 7}, "leader"),
    "kill of a bookie": Truth(
        {"restartAfter": "2s", "target": "Bookie"},
        {"exit_code": 137, "pid": 7, "ensemble": ["1", "2"]},
        "retry",
        system={"pulsar": {}},
        leader="2",
    ),
    "moveLeader": Truth({}, {"moved_from": "1", "moved_to": "2"}, "leader"),
    "podDelete": Truth({}, {"pod": "kafka-0", "uid": "u"}, "disconnect"),
    "partition": Truth({"by": "NetworkPolicy", "duration": "2s"}, {"cut_off": ["2", "3"]}, "leader", {"at_end": ["1"]}),
    "partition of processes": Truth(
        {"by": "NetFilter", "duration": "2s"}, {"packets_dropped": 9}, "leader", {"at_end": ["1"]}
    ),
    "partition from clients": Truth(
        {"by": "NetFilter", "between": "Clients", "direction": "FromLeader", "duration": "2s"},
        {"packets_dropped": 9},
        "retry",
        {"at_end": ["1"]},
    ),
    "pause": Truth({"duration": "2s"}, {"state": "T", "pid": 7}, "retry", {"at_end": ["1"]}),
    "chaos": Truth({"experiment": "own.json", "deadline": "2s"}, {"probe": "answers", "output": "504"}, "disconnect"),
    "message": Truth(
        {"api": "Produce", "frame": "Reply", "action": "Lose"},
        {"api": "Produce"},
        "disconnect",
        {"frame": "lost the reply to Produce 3 of partition 0, attempt 1", "passed": MESSAGES, "refused": ""},
    ),
}


def activity(name: str, status: str = "succeeded", *exception: str) -> Json:
    return {"activity": {"name": name}, "status": status} | ({"exception": list(exception)} if exception else {})


ORDERLY: Final = {"status": "completed", "run": [activity("strike")], "rollbacks": [activity("leave")]}


def line(event: str, at: int, fault: str = "cut", /, **detail: Any) -> Json:
    return {"fault": fault, "event": event, "monotonic_ns": at, "detail": detail}


def stamp(event: str, at: int, in_flight: int, sent: int = 120) -> Json:
    acked = sent - in_flight - 1
    return {"event": event, "fault": "cut", "sent": sent, "acked": acked, "monotonic_ns": at, "in_flight": in_flight}


def sign(kind: str, at: int = NOTICED, **known: Any) -> Json:
    return {"kind": kind, "detail": "", "monotonic_ns": at} | known


def told(kind: str) -> Story:
    """A fault of that kind, as it is told when it struck."""
    if kind == LATENCY_FAULT:
        return of_latency()
    true = STORIES[kind]
    asked = {"name": "cut", "at": {"message": AT}, kind.split()[0]: true.settings}
    said = (
        experiment(faults=[asked], allowPrivilegedFaults=True, systems=[{"name": "kafka"} | true.system])
        .spec.faults[0]
        .given.settings
    )
    return Story(
        faults=[asked],
        lines=[
            line("armed", 1, port=1),
            line("triggered", 5, message=AT, actual=AT + 1, acked=80),
            line("injecting", INJECTING, **said),
            line("injected", INJECTED, witness=true.witness, touched=["1"], leader=true.leader),
            line("effect", ENDING, **true.effect),
            line("healed", HEALED, round_trip_s=0.1),
        ],
        marks=[stamp("injecting", INJECTING, 9), stamp("injected", INJECTED, 12)],
        signs=[sign(true.sign)],
        journals={"cut": ORDERLY},
        system=true.system,
    )


def of_latency() -> Story:
    return Story(
        faults=[],
        lines=[
            line("injecting", 1, LATENCY_FAULT, latency_ms=20.0),
            line("injected", 2, LATENCY_FAULT, witness={"after_ms": {"1": 21.0}}, touched=["1"], leader=None),
            line("over", ENDING, LATENCY_FAULT, producer_finished=True, round_trips_ms={"1": 21.0}),
            line("healed", HEALED, LATENCY_FAULT),
        ],
        marks=[],
        signs=[],
        journals={LATENCY_FAULT: ORDERLY},
        system={"kafka": {}, "network": {"latency": "20ms"}},
    )


# One thing that is otherwise.


def says(event: str, /, **detail: Any) -> Change:
    """The line of that event says this besides, or instead."""

    def change(story: Story) -> Story:
        lines = [each | {"detail": each["detail"] | detail} if each["event"] == event else each for each in story.lines]
        return replace(story, lines=lines)

    return change


def shows(**witness: Any) -> Change:
    """The target has shown this besides, or instead."""

    def change(story: Story) -> Story:
        lines = deepcopy(story.lines)
        for each in lines:
            if each["event"] == "injected":
                each["detail"]["witness"] |= witness
        return replace(story, lines=lines)

    return change


def without(*events: str) -> Change:
    return lambda story: replace(story, lines=[each for each in story.lines if each["event"] not in events])


def adds(*lines: Json) -> Change:
    return lambda story: replace(story, lines=[*story.lines, *lines])


def no_effect(reason: str) -> Change:
    """The injector did its deed, and the target showed nothing."""
    return lambda story: adds(line("no_effect", INJECTED, reason=reason))(without("injected", "effect")(story))


def stamps(*marks: Json) -> Change:
    return lambda story: replace(story, marks=list(marks))


def strikes(sent: int) -> Change:
    """Another strike, when so much was sent."""
    return lambda story: replace(story, marks=[*story.marks, stamp("repeating", ENDING, 9, sent)])


def forgets(said: Json, key: str) -> Json:
    """A line whose witness does not have this."""
    detail = said["detail"]
    witness = {name: each for name, each in detail.get("witness", {}).items() if name != key}
    return said | {"detail": detail | ({"witness": witness} if witness else {})}


def notices(*signs: Json) -> Change:
    return lambda story: replace(story, signs=list(signs))


def journal(**changes: Any) -> Change:
    return lambda story: replace(story, journals=dict.fromkeys(story.journals, ORDERLY | changes))


def no_journal(story: Story) -> Story:
    return replace(story, journals={})


def all_of(*changes: Change) -> Change:
    def change(story: Story) -> Story:
        for each in changes:
            story = each(story)
        return story

    return change


def same(story: Story) -> Story:
    return story


def beside(kind: str, settings: Json, at: int, leader_signs: bool = False) -> Change:
    """Another fault began at that time, and was seen by its own client's sign if so wished."""

    def change(story: Story) -> Story:
        name = "other"
        asked = {"name": name, "at": {"message": AT + 10}, kind: settings}
        said = experiment(faults=[asked]).spec.faults[0].given.settings
        lines = [
            line("triggered", 5, name, actual=AT + 11),
            line("injecting", at, name, **said),
            line("injected", at + 1, name, witness=STORIES[kind].witness, touched=["1"], leader="1"),
            line("healed", at + 3 * S, name),
        ]
        marks = [each | {"fault": name, "monotonic_ns": at + 1} for each in story.marks if each["event"] == "injected"]
        own = [sign(Noticed.LEADER, at + S, broker="1")] if leader_signs else []
        return replace(
            story,
            faults=[*story.faults, asked],
            lines=[*story.lines, *lines],
            marks=[*story.marks, *marks],
            signs=[*story.signs, *own],
            journals=story.journals | {name: ORDERLY},
        )

    return change


def answered(error: int, offset: int, stored: list[str]) -> Change:
    """The interposer's own words on a lost reply: what it said, and where the log has the batch."""
    lost = row(Direction.REPLY, 1, Done.LOST, error, offset)
    return says("effect", refused=message.refused(lost, [row(Direction.REQUEST, 1), lost], stored))


class Case(NamedTuple):
    """One vacuous fault: its kind, what is otherwise, and the words that say so; the twin, if it is not the story."""

    name: str
    kind: str
    change: Change
    words: str
    twin: Change = same
    verdict: Verdict = Verdict.INCONCLUSIVE


def error(name: str, kind: str, change: Change, words: str) -> Case:
    return Case(name, kind, change, words, verdict=Verdict.ERROR)


STRUCK: Final = ("triggered", "injecting", "injected", "effect", "healed")
TAIL: Final = HEALED + CLIENT_TAIL_NS
GONE: Final = all_of(
    lambda story: replace(story, lines=[line("armed", 1, port=1), line("not_injected", 5, reason="producer gone")]),
    journal(status="interrupted", run=[activity("wait-for-message", "interrupted")]),
)
NEVER: Final = all_of(
    lambda story: replace(story, lines=[line("armed", 1), line("not_injected", 5, reason="never triggered")]),
    journal(status="interrupted", run=[activity("wait-for-message", "interrupted")]),
)


def failed(name: str, why: str) -> Change:
    return all_of(without(*STRUCK), journal(run=[activity(name, "failed", f"{why}\n")]))


REPEATED: Final = [stamp("injecting", INJECTING, 0), stamp("injected", INJECTED, 9)]
CASES: Final = [
    # It never came, or did nothing.
    Case("the producer ended before its message", "killTCP", GONE, "producer gone"),
    error("its moment never came", "killTCP", NEVER, "never triggered"),
    error("nothing is said of it", "killTCP", lambda story: replace(story, lines=[], journals={}), "no chaos journal"),
    Case("it was armed, and no more is said", "kill", without(*STRUCK),
         "never took effect"),
    Case("the injector alone claims it", "killTCP", all_of(says("injected", witness={}), without("effect")),
         "the target shows no effect"),
    Case("no connection was lost", "killTCP", no_effect("no connection of the leader was lost"), "never took effect"),
    Case("its toxics lay on a proxy that nobody uses", "killTCP",
         all_of(shows(connections_gone={"1": 0}), says("effect", connections_gone={"1": 0})), "has lost no connection"),
    error("the process that it was to kill was dead already", "kill",
          failed("kill-broker", "broker 1: got no living process"), "kill-broker failed"),
    Case("the process ended by itself as it was killed", "kill", shows(exit_code=143), "exit code 143, not by SIGKILL"),
    Case("the leader was moved to where it was", "moveLeader", no_effect("broker 1 leads t/0 as before"),
         "leads t/0 as before"),
    Case("the leader was moved to where it was, and a move is claimed", "moveLeader", shows(moved_to="1"),
         "broker 1 leads as before"),
    Case("the API server deleted no pod", "podDelete", no_effect("the API server deleted none"), "deleted none"),
    error("the deleted pod never ended", "podDelete",
          all_of(without("injected", "effect"), journal(run=[activity("delete-pod", "failed", "WaitedTooLong\n")])),
          "delete-pod failed"),
    Case("the network does not enforce the policy", "partition",
         no_effect("NetworkPolicy: broker 1 reaches the others as before"), "reaches the others as before"),
    Case("the kernel dropped no packet", "partition of processes",
         no_effect("NetFilter: broker 1 reaches the others as before"), "reaches the others as before"),
    Case("the kernel dropped no packet, and a cut is claimed", "partition of processes", shows(packets_dropped=0),
         "dropped no packet"),
    Case("the cut was over before its time", "partition of processes", says("effect", at_end=[]),
         "not cut off any more"),
    Case("a broker was cut off that does not lead", "partition of processes", says("injected", touched=["2"]),
         "leader was broker 1"),
    Case("no client noticed that it was cut off", "partition from clients", notices(), "no client noticed"),
    Case("nobody noticed that ZooKeeper stood still", "pause of ZooKeeper", notices(), "no client noticed"),
    Case("nobody was connected to ZooKeeper", "pause of ZooKeeper",
         no_effect("nobody is connected to a ZooKeeper of ours"), "nobody is connected"),
    Case("another process than ZooKeeper was stopped", "pause of ZooKeeper", says("injected", touched=["2"]),
         "no ZooKeeper"),
    Case("the process did not stop", "pause", no_effect("the state of broker 1 is S"), "broker 1 is S"),
    Case("the process did not stop, and an effect is claimed", "pause", shows(state="S"), "was S, not T"),
    Case("no broker was silent", "dropTCP", no_effect("no broker was silent to the clients"), "never took effect"),
    Case("no broker was slow", "throttleTCP", no_effect("no broker was slow"), "never took effect"),
    Case("no broker was slow any more", "throttleTCP", says("effect", at_end=[]), "not slow any more"),
    Case("no broker was late", "delayTCP", no_effect("no broker was 2 s late to the clients"), "never took effect"),
    Case("the first broker ended by itself", "rollingRestart", shows(exit_code=1), "exit code 1, not by our signal"),
    Case("something was free on the disk", "fillDisk", no_effect("8,192 bytes are free on the disk of broker 1"),
         "8,192 bytes are free"),
    Case("something was free on the disk, and an effect is claimed", "fillDisk", shows(free_bytes=4_096),
         "4,096 bytes were free", shows(free_bytes=4_095)),
    Case("the broker wrote nothing to the full disk", "fillDisk", says("effect", exit_code=None), "the broker went on"),
    Case("the broker of a full disk was killed", "fillDisk", says("effect", exit_code=137), "exit code 137"),
    Case("somebody made room before its end", "fillDisk", says("effect", at_end=[]), "not out of disk any more"),
    Case("the disk of a follower was filled", "fillDisk", says("injected", touched=["2"]), "leader was broker 1"),
    Case("no frame matched", "message", no_effect("no request or reply matched before the producer ended"), "matched"),
    Case("a user's experiment has no hypothesis", "chaos", no_effect("it has no steady-state-hypothesis"), "has no"),
    Case("a user's hypothesis held all the while", "chaos", no_effect("its hypothesis held all the while"), "held all"),
    Case("no probe of a user's hypothesis is named", "chaos", shows(probe=""), "no probe of"),
    Case("a user's hypothesis deviated before the method", "chaos", says("effect", refused="before the method began"),
         "before the method began"),
    error("an action of a user's experiment failed", "chaos", journal(run=[activity("run-experiment", "failed")]),
          "run-experiment failed"),
    Case("pings gained nothing", LATENCY_FAULT, no_effect("pings gained 0.1 ms of 20"), "never took effect"),
    # It struck somebody else.
    Case("other brokers' connections were reset", "killTCP", says("injected", touched=["2"]), "leader was broker 1"),
    Case("who led is not known", "killTCP", says("injected", leader=None), "is not known"),
    Case("another broker led when it was killed", "kill", says("injected", leader="2"), "leader was broker 2"),
    Case("another broker led when it was paused", "pause", says("injected", leader="2"), "leader was broker 2"),
    Case("another broker led when it was deleted", "podDelete", says("injected", leader="2"), "leader was broker 2"),
    Case("another broker led when it was cut off", "partition", says("injected", leader="2"), "leader was broker 2"),
    Case("the bookie stored nothing of it", "kill of a bookie", shows(ensemble=["2", "3"]), "stored by 2, 3"),
    Case("no bookie stored what was sent", "kill of a bookie", shows(ensemble=[]), "stored by nobody"),
    Case("another controller was active", "kill of the controller", shows(controller="3"), "active controller was 3"),
    error("the leader died, and not the controller", "kill of the controller",
          lambda story: replace(story, lines=[forgets(each, "controller") for each in story.lines]), "its victim is a"),
    error("a bookie died, and not the leader", "kill", shows(ensemble=["1"]), "its victim is a bookie"),
    # It was not what was asked for.
    error("it lasted a tenth of the time", "killTCP", says("injecting", duration_s=0.2), "its duration_s is 0.2"),
    error("it lost bytes the other way only", "dropTCP", says("injecting", direction="ToBrokers"), "direction is"),
    error("the request was lost, and not the reply", "message", says("injecting", frame="Request"), "its frame is"),
    error("it has no record", "killTCP", lambda story: replace(story, recorded=False), "has 0 records"),
    # It was over too early.
    Case("bytes passed again before its end", "dropTCP", says("effect", at_end=[]),
         "not cut off any more"),
    Case("brokers answered in time before its end", "delayTCP", says("effect", at_end=[]), "not late any more"),
    Case("its end was not looked at", "dropTCP", without("effect"), "not cut off any more"),
    Case("somebody woke the process before its end", "pause", says("effect", at_end=[]), "not stopped any more"),
    Case("the rules were gone before its end", "partition", says("effect", at_end=[]),
         "not cut off any more"),
    Case("the latency was gone before the producer's end", LATENCY_FAULT, says("over", round_trips_ms={"1": 18.9}),
         "only", says("over", round_trips_ms={"1": 19.0})),
    Case("nobody saw the latency at the producer's end", LATENCY_FAULT, without("over"), "is not shown"),
    error("its injector died, and its watchdog healed it", "dropTCP",
          all_of(without("effect", "healed"), adds(line("healed_by_watchdog", 8 * S, reason="gone")), no_journal),
          "healed by its watchdog"),
    # Nothing was under way.
    Case("all was acknowledged", "kill", stamps(stamp("injected", INJECTED, 0)), "no message was in flight",
         stamps(stamp("injected", INJECTED, 1))),
    Case("all was acknowledged as it set out", "kill",
         stamps(stamp("injecting", INJECTING, 0), stamp("injected", INJECTED, 9)), "no message was in flight",
         stamps(stamp("injecting", INJECTING, 1), stamp("injected", INJECTED, 9))),
    Case("no strike met a message", "killTCP",
         stamps(*REPEATED, stamp("repeating", ENDING, 0), stamp("repeated", ENDING, 9)), "no message was in flight",
         stamps(*REPEATED, stamp("repeating", ENDING, 1), stamp("repeated", ENDING, 9))),
    Case("it struck after the last message", "kill",
         stamps(stamp("injecting", INJECTING, 9, MESSAGES), stamp("injected", INJECTED, 9, MESSAGES)), "had been sent",
         stamps(stamp("injecting", INJECTING, 9, MESSAGES), stamp("injected", INJECTED, 9, MESSAGES - 1))),
    Case("a broker was restarted after the last message", "rollingRestart",
         all_of(says("effect", lives=["7", "8"]), strikes(MESSAGES)), "had been sent before its last strike",
         all_of(says("effect", lives=["7", "8"]), strikes(MESSAGES - 1))),
    Case("a broker was restarted when the producer had ended", "rollingRestart", says("effect", lives=["7", "8"]),
         "had been sent before its last strike"),
    Case("the producer stamped nothing", "kill", stamps(), "did not stamp"),
    Case("the producer stamped when it was healed already", "kill",
         stamps(stamp("injecting", HEALED + 1, 9), stamp("injected", HEALED + 1, 9)), "did not stamp",
         stamps(stamp("injecting", HEALED - 1, 9), stamp("injected", HEALED, 9))),
    # No client noticed, or something else.
    Case("no client noticed", "killTCP", notices(), "no client noticed"),
    Case("the client noticed before it was injected", "killTCP", notices(sign("disconnect", INJECTING - 1)),
         "no client noticed", notices(sign("disconnect", INJECTING))),
    Case("the client may have noticed before it was injected", "killTCP",
         notices(sign("retry", since_ns=INJECTING - 1)), "no client noticed",
         notices(sign("retry", since_ns=INJECTING))),
    Case("the client noticed long after the heal", "killTCP", notices(sign("disconnect", TAIL + 1)),
         "no client noticed", notices(sign("disconnect", TAIL))),
    Case("the client noticed what it does itself", "killTCP", notices(sign("refused")), "no client noticed"),
    Case("the client noticed what a kill does not do", "kill", notices(sign("error")), "no client noticed"),
    Case("a connection ended, and no leader moved", "moveLeader", notices(sign("disconnect")), "no client noticed"),
    Case("the client noticed another broker", "kill", notices(sign("leader", broker="3")), "no client noticed",
         notices(sign("leader", broker="1"))),
    Case("another fault can have caused what was noticed", "killTCP",
         all_of(beside("kill", {"restartAfter": "2s"}, INJECTING + 1, leader_signs=True)), "cut: no client noticed",
         beside("kill", {"restartAfter": "2s"}, NOTICED + 1, leader_signs=True)),
    Case("another fault had begun when it was noticed", "killTCP",
         all_of(notices(sign("disconnect", HEALED + S)), beside("kill", {"restartAfter": "2s"}, HEALED + 1, True)),
         "cut: no client noticed",
         all_of(notices(sign("disconnect", HEALED + S)), beside("kill", {"restartAfter": "2s"}, HEALED + S + 1, True))),
    # A frame that did not matter.
    Case("the reply was an error", "message", answered(6, 2, ["2"]), "the broker's reply was error 6",
         answered(0, 2, ["2"])),
    Case("the log does not have what the reply said", "message", answered(0, 2, ["5"]), "the log has it at 5",
         answered(0, 2, ["2"])),
    Case("no client missed the frame", "message", notices(), "no client noticed"),
    Case("the conversation has no such frame", "message", without("effect"), "shows no frame"),
    error("messages went past the interposer", "message", says("effect", passed=MESSAGES - 1), "past it"),
]  # fmt: skip


def verdict_on(story: Story, folder: Path) -> RunVerdict:
    """The verdict on a clean run with these faults: from the files of its faults, by the plan."""
    made = experiment(
        faults=story.faults, allowPrivilegedFaults=True, systems=[{"name": "kafka"} | story.system], runs=1
    )
    for name, said in (("faults", story.lines), ("marks", story.marks), ("disturbances", story.signs)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in said))
    for name, document in story.journals.items():
        (path := folder / "chaos" / name / "journal.json").parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    (run,) = (each for each in plan(made) if each.variant == "dedup")
    report = manifest(run).producer
    (folder / report.FILE).write_text(report.model_dump_json())
    records = chaos.records(folder, made.spec.faults or [None], messages=MESSAGES) if story.recorded else ()
    found = evidence(
        run, faults=records, spec_digest=made.digest(), kind=story.kind, recorded_at="2026-01-01T00:00:00Z"
    )
    judged = found.model_copy(update={"vacuous": {each.name: vacuous(each) for each in records}})
    return judge_run(judged, demand_of(made, run))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.name}")
def test_a_vacuous_fault_does_not_pass_and_its_innocent_twin_does(case: Case, tmp_path: Path) -> None:
    for which in ("vacuous", "twin"):
        (tmp_path / which).mkdir()
    found = verdict_on(case.change(told(case.kind)), tmp_path / "vacuous")
    said = [reason.text for reason in found.reasons]
    assert found.verdict is case.verdict, said
    assert case.words in " ".join(said)
    assert not found.effective
    twin = verdict_on(case.twin(told(case.kind)), tmp_path / "twin")
    assert twin.verdict is Verdict.PASS, [reason.text for reason in twin.reasons]


def test_there_are_thirty_and_some_of_each_kind_of_fault() -> None:
    assert len(CASES) == len({(case.kind, case.name) for case in CASES}) >= 30
    assert {case.kind.split()[0] for case in CASES} == {LATENCY_FAULT, *(kind.key for kind in KINDS)}
