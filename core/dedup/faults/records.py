"""What became of a fault, put together from everyone who saw it; and whether it mattered.

Three parties witness a fault. The injector says what it did (faults.jsonl). The target shows that it happened: a
broker has lost connections, a process is dead with exit code 137, the leader is another one (the injector reads this
from the target and writes it beside its own word). The clients noticed: disconnects, retries, errors
(disturbances.jsonl). And the producer stamps its own counters when the effect is announced (marks.jsonl). The chaos
journal is read as well, activity by activity, because Chaos Toolkit calls an experiment completed even if one failed.

A fault that nobody but its injector saw, or that struck when nothing was in flight, has tested nothing: `vacuous`
says so, and a run with such a fault is inconclusive, never a pass (docs/design.md §8).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

from dedup.faults.kinds import A_BROKER
from dedup.faults.registry import LATENCY_FAULT, kind_of
from dedup.faults.targets import victim
from dedup.wire.clients import Disturbance, Mark, Noticed
from dedup.wire.faults import NEVER_TRIGGERED, PRODUCER_GONE, Detail, FaultEvent, FaultLine
from dedup.wire.lines import Event
from dedup.wire.manifests import FaultRecord

CLIENT_TAIL_NS: Final = 5_000_000_000
"""How long after the heal a client may still be noticing: reconnecting takes its time."""
LATENCY_SHARE: Final = 0.95
"""How much of the latency asked for every ping must take at least, for timers and clocks are not exact."""
ENDS: Final = (
    FaultEvent.RESTARTED,
    FaultEvent.CLEARED,
    FaultEvent.GONE,
    FaultEvent.HEALED,
    FaultEvent.HEALED_BY_WATCHDOG,
    FaultEvent.HEAL_FAILED,
    FaultEvent.OVER,
)
"""What tells how a fault ended, as far as its injector knows."""

ChaosJournal = Mapping[str, Any]
"""What Chaos Toolkit says of one experiment, in its own keys."""
E = TypeVar("E", bound=Event)


class Planned(NamedTuple):
    """A fault as it was asked for, at a message or at a time in words (`At.time`); the latency has neither."""

    name: str
    kind: str
    message: int | None
    time: str | None = None


def assemble(
    planned: Sequence[Planned],
    *,
    messages: int,
    acknowledged: int = 0,
    lines: Sequence[FaultLine],
    marks: Sequence[Mark],
    disturbances: Sequence[Disturbance],
    journals: Mapping[str, ChaosJournal | None],
) -> tuple[FaultRecord, ...]:
    """One record a planned fault, in that order.

    `messages` is how many the producer was to send, `acknowledged` how many it says brokers have stored; `journals` are
    by fault, None where there is none.
    """
    said = {fault.name: _first_by_event(line for line in lines if line.fault == fault.name) for fault in planned}
    noticed = _noticed(planned, said, disturbances)
    return tuple(
        _record(
            fault,
            messages,
            acknowledged,
            said[fault.name],
            [mark for mark in marks if mark.fault == fault.name],
            noticed[fault.name],
            journals.get(fault.name),
        )
        for fault in planned
    )


def leaked(lines: Sequence[FaultLine]) -> list[str]:
    """The faults of a run that may still be in force, by these lines of it."""
    names = sorted({line.fault for line in lines})
    return [name for name in names if _leaked(_first_by_event(line for line in lines if line.fault == name))]


def vacuous(record: FaultRecord) -> str | None:
    """None if the fault provably overlapped traffic; else why it proves nothing, in words."""
    if record.injected_ns is None:
        why = Detail.model_validate(record.injector).not_injected or "no target shows one"
        return f"fault {record.name} never took effect: {why}"
    if not record.target_witness:
        return f"fault {record.name}: the injector claims it, but the target shows no effect"
    if record.kind == LATENCY_FAULT:
        return _not_to_the_end(record)
    if (kind := kind_of(record.kind)) is None:
        known = f"this dedup does not know what a {record.kind} must show"
        return f"fault {record.name}: {known}: update it, or judge with the version that recorded it"
    if why := kind.denied(Detail.model_validate(record.target_witness)):
        return f"fault {record.name}: {why}"
    if kind.on_frames:
        return _no_frame(record)
    if miss := _missed(record):
        return miss
    if kind.must_last and (gone := _ended_early(record, kind.effect)):
        return gone
    if not record.client_witness:
        return f"fault {record.name}: no client noticed it"
    if record.unacknowledged is None or record.remaining is None:
        return f"fault {record.name}: the producer did not stamp its counters at the effect"
    if record.in_flight is None and record.unacknowledged <= 0:
        return f"fault {record.name}: no message was unacknowledged at the effect"
    if record.in_flight is not None and record.in_flight <= 0:
        return f"fault {record.name}: no message was in flight to what it struck"
    if record.remaining <= 0:
        when = "its last strike" if kind.every_strike else "the effect"
        return f"fault {record.name}: every message had been sent before {when}"
    return None


def struck(record: FaultRecord) -> str:
    """What a fault that is not vacuous did, in words."""
    if record.whole_run:
        return f"fault {record.name} was in force for the whole run"
    noticed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(record.client_witness.items()))
    if frame := Detail.model_validate(record.target_witness).frame:
        return f"fault {record.name} {frame}; clients noticed: {noticed}; healed"
    under_way = f"{record.unacknowledged or 0:,} unacknowledged"
    if record.in_flight is not None:
        under_way = f"{record.in_flight:,} in flight to it"
    asked = record.requested_time or f"{record.requested_message or 0:,}"
    return (
        f"fault {record.name} struck {record.target or 'its target'} at message {record.effect_message or 0:,} (asked: "
        f"{asked}) with {under_way}; clients noticed: "
        f"{noticed}; healed"
    )


def missed(records: Sequence[FaultRecord]) -> tuple[str, ...]:
    """Why faults of a run tested nothing, if they were otherwise handled in order; nothing of a run that is in error.

    It is asked before the topic is read, so that whether a run is replaced cannot depend on what was received.
    """
    if any(record.leaked or record.problems for record in records):
        return ()
    if any(record.injected_ns is not None and not record.heal_proven for record in records):
        return ()
    return tuple(why for record in records if (why := vacuous(record)) is not None)


def lives_ended(records: Iterable[FaultRecord]) -> int:
    """How many lives of brokers these faults have ended; one that ended besides died by itself.

    What ended while a user's own experiment ran is its doing, unless another fault has ended some, too: whose the
    others are is not known then.
    """
    ending = [
        record
        for record in records
        if record.injected_ns is not None
        and (kind := kind_of(record.kind)) is not None
        and kind.ends_life(Detail.model_validate(record.target_witness))
    ]
    meanwhile = {record.name: Detail.model_validate(record.target_witness).ended for record in ending}
    known = {life for record in ending if not meanwhile[record.name] for life in _lives(record)}
    return len(known) or sum(meanwhile.values())


def _lives(record: FaultRecord) -> list[tuple[str, str]]:
    """What a fault has ended: containers or processes by their own names; without one, a life of its own."""
    shown = Detail.model_validate(record.target_witness)
    known = shown.lives or [str(each) for each in (shown.container or shown.pid,) if each is not None]
    return [("", life) for life in known] or [(record.kind, record.name)]


def _not_to_the_end(record: FaultRecord) -> str | None:
    """Words unless every broker that answered when the producer had ended still answered late.

    One that another fault holds down answers nobody, and so it answered no client early.
    """
    word = Detail.model_validate(record.injector)
    over, asked_ms = word.over or Detail(), word.latency_ms
    if not over.producer_finished or asked_ms is None or not (pings := over.round_trips_ms):
        return f"fault {record.name}: that it lasted to the producer's end is not shown"
    if min(pings.values()) < asked_ms * LATENCY_SHARE:
        return f"fault {record.name}: at the producer's end pings took only {pings} ms of {asked_ms:g}"
    return None


def _record(
    fault: Planned,
    messages: int,
    acknowledged: int,
    said: Mapping[str, FaultLine],
    stamps: Sequence[Mark],
    noticed: Mapping[str, int],
    journal: ChaosJournal | None,
) -> FaultRecord:
    injected, shown, ended_ns = _detail(said, FaultEvent.INJECTED), _shown(said), _ended_ns(said)
    struck = FaultEvent.INJECTED in said
    # A producer that was held up stamps late: what is in flight when all is whole again met no fault.
    stamps = [each for each in stamps if ended_ns is None or each.monotonic_ns <= ended_ns]
    mark = _first_by_event(stamps).get(FaultEvent.INJECTED) if struck else None
    return FaultRecord(
        name=fault.name,
        kind=fault.kind,
        requested_message=fault.message,
        requested_time=fault.time,
        triggered_message=_detail(said, FaultEvent.TRIGGERED).actual,
        effect_message=mark and mark.sent,
        unacknowledged=mark and mark.sent - mark.acked,
        in_flight=mark and _in_flight(stamps),
        remaining=mark and _remaining(fault, messages, mark, stamps, shown),
        injected_ns=_began_ns(said),
        healed_ns=ended_ns,
        target=_target(shown),
        injector=_injectors_word(said),
        target_witness=shown.said() if injected.witness else {},
        client_witness={**noticed, **_noticed_by_brokers(said)},
        heal_proven=FaultEvent.HEALED in said and FaultEvent.HEAL_FAILED not in said,
        leaked=_leaked(said),
        problems=(*_problems(said, journal), *_passed_by(shown, acknowledged)),
    )


def _remaining(fault: Planned, messages: int, effect: Mark, stamps: Sequence[Mark], shown: Detail) -> int:
    """How many messages were still to be sent at the effect; of a kind whose every strike counts, at the last strike.

    A strike that the producer did not count came when it had ended.
    """
    kind = kind_of(fault.kind)
    if kind is None or not kind.every_strike:
        return messages - effect.sent
    sent = [effect.sent, *(each.sent for each in stamps if each.event == FaultEvent.REPEATING)]
    return messages - max(sent) if len(sent) >= len(shown.lives) else 0


def _in_flight(stamps: Sequence[Mark]) -> int | None:
    """How many messages were in flight to what was struck, at the strike that met most; None if they were not counted.

    Of one strike it is the fewer of two counts, as the injector set out and at the effect: what a client keeps while a
    leader moves is counted at the effect, whether or not anything was in flight before. A fault that strikes again and
    again need not meet messages every time: acknowledgements of all that was in flight may have come in one burst.
    """
    first = _first_by_event(stamps)
    effect, before = first[FaultEvent.INJECTED], first.get(FaultEvent.INJECTING)
    if effect.in_flight is None or before is None or before.in_flight is None:
        return effect.in_flight
    repeated = [
        min(earlier.in_flight or 0, later.in_flight or 0)
        for earlier, later in pairwise(stamps)
        if (earlier.event, later.event) == (FaultEvent.REPEATING, FaultEvent.REPEATED)
    ]
    return max([min(before.in_flight, effect.in_flight), *repeated])


def _missed(record: FaultRecord) -> str | None:
    """Words if the fault did not touch whoever led the topic's partition at the effect, or stored what was sent."""
    shown = Detail.model_validate(record.target_witness)
    hit = ", ".join(shown.touched) or "none"
    if shown.ensemble is not None:
        if set(shown.touched) & set(shown.ensemble):
            return None
        stored = ", ".join(shown.ensemble) or "nobody"
        return f"fault {record.name}: it touched bookie {hit}, but what was sent was stored by {stored}"
    if shown.controller is not None:
        if shown.controller in shown.touched:
            return None
        return f"fault {record.name}: it touched broker {hit}, but the active controller was {shown.controller}"
    if shown.zookeeper is not None:
        return None if shown.zookeeper in shown.touched else f"fault {record.name}: it touched {hit}, no ZooKeeper"
    if shown.coordinator is not None:
        if shown.coordinator in shown.touched:
            return None
        return f"fault {record.name}: it touched broker {hit}, but the transaction coordinator was {shown.coordinator}"
    if shown.leader is None:
        return f"fault {record.name}: who led the topic at the effect is not known"
    if shown.leader not in shown.touched:
        return f"fault {record.name}: it touched broker {hit}, but the topic's leader was broker {shown.leader}"
    return None


def _no_frame(record: FaultRecord) -> str | None:
    """Words unless the struck frame mattered: it stands for "unacknowledged, and more to send"."""
    if refused := Detail.model_validate(record.target_witness).refused:
        return f"fault {record.name}: {refused}"
    return None if record.client_witness else f"fault {record.name}: no client noticed it"


def _passed_by(shown: Detail, acknowledged: int) -> Iterable[str]:
    """A client that reaches brokers past the interposer would be struck by none of its rules."""
    if shown.passed is not None and shown.passed < acknowledged:
        seen = f"the interposer saw {shown.passed:,} of {acknowledged:,} acknowledged messages"
        yield f"{seen}: the client reached a broker past it"


def _ended_early(record: FaultRecord, effect: str) -> str | None:
    """Words unless whom it struck, the leader where that may be one of several, showed it (in one word) to the end."""
    shown = Detail.model_validate(record.target_witness)
    struck = victim(shown)
    if shown.leader in shown.at_end or (
        struck != A_BROKER and shown.touched and set(shown.touched) <= set(shown.at_end)
    ):
        return None
    who, whom = ", ".join(shown.at_end) or "nobody", "the topic's leader" if struck == A_BROKER else struck
    return f"fault {record.name}: at its end {whom} was not {effect} any more, but {who}"


def _target(shown: Detail) -> str:
    what = victim(shown).partition(" ")[2]
    return f"{what} {', '.join(shown.touched)}" if shown.touched else ""


def _injectors_word(said: Mapping[str, FaultLine]) -> dict[str, Any]:
    """What it set out to do, and how that ended as far as it knows."""
    word = _detail(said, FaultEvent.INJECTING).said()
    for event in (FaultEvent.NOT_INJECTED, FaultEvent.NO_EFFECT):
        if event in said:
            word[FaultEvent.NOT_INJECTED.value] = _detail(said, event).reason or event.value
    return word | {event.value: _detail(said, event).said() for event in ENDS if event in said}


def _shown(said: Mapping[str, FaultLine]) -> Detail:
    """What the target has shown, when the fault struck and at its end."""
    injected, effect = _detail(said, FaultEvent.INJECTED), _detail(said, FaultEvent.EFFECT)
    ended = {"ended": number} if (number := _detail(said, FaultEvent.CLEARED).ended) else {}
    return Detail(**(injected.witness | effect.said() | ended), touched=injected.touched, leader=injected.leader)


def _began_ns(said: Mapping[str, FaultLine]) -> int | None:
    """When the deed began; None if it had no effect."""
    return _time(said, FaultEvent.INJECTING) if FaultEvent.INJECTED in said else None


def _ended_ns(said: Mapping[str, FaultLine]) -> int | None:
    return _time(said, FaultEvent.HEALED) or _time(said, FaultEvent.HEALED_BY_WATCHDOG)


def _is_its_doing(fault: Planned, shown: Detail, disturbance: Disturbance) -> bool:
    """Whether the fault can cause a disturbance of this kind, of that broker; where no broker is known, of any."""
    kind = kind_of(fault.kind)
    if kind is not None and disturbance.kind not in kind.notices:
        return False
    of_bookie = shown.ensemble is not None
    of_any_broker = kind is None or not kind.of_one_broker or of_bookie or disturbance.broker is None
    return of_any_broker or disturbance.broker in shown.touched


def _noticed(
    planned: Sequence[Planned], said: Mapping[str, Mapping[str, FaultLine]], disturbances: Sequence[Disturbance]
) -> dict[str, dict[str, int]]:
    """By fault, how many of the clients' own signs are its doing, by kind. Latency disturbs nobody.

    A sign that can be the doing of two faults is evidence of one of them, and nobody knows of which. So it counts for
    neither.
    """
    begun = {fault.name for fault in planned if fault.kind != LATENCY_FAULT}
    starts_ns = {name: _time(told, FaultEvent.INJECTING) for name, told in said.items() if name in begun}
    found: dict[str, list[int]] = {}
    for fault in planned:
        others_ns = [at_ns for name, at_ns in starts_ns.items() if name != fault.name and at_ns is not None]
        in_time = _window(fault, said[fault.name], others_ns)
        shown = _shown(said[fault.name])
        found[fault.name] = [
            number
            for number, each in enumerate(disturbances)
            if in_time is not None and in_time(each) and _is_its_doing(fault, shown, each)
        ]
    claims = Counter(number for numbers in found.values() for number in numbers)
    return {
        name: dict(sorted(Counter(disturbances[number].kind for number in numbers if claims[number] == 1).items()))
        for name, numbers in found.items()
    }


def _window(
    fault: Planned, said: Mapping[str, FaultLine], others_ns: Sequence[int]
) -> Callable[[Disturbance], bool] | None:
    """Whether a sign is from the time from the first deed until a while after the heal; None: it has no such time.

    A counter that grew between two looks counts if the first look (`since_ns`) was not before the deed. The while after
    the heal ends where another fault begins (`others_ns`): what is noticed from then on is more likely that one's.
    """
    began_ns, ended_ns = _began_ns(said), _ended_ns(said)
    if began_ns is None or fault.kind == LATENCY_FAULT:
        return None
    until_ns = None
    if ended_ns is not None:
        until_ns = min([ended_ns + CLIENT_TAIL_NS, *(other_ns for other_ns in others_ns if other_ns > ended_ns)])
    return lambda each: (
        began_ns <= (each.monotonic_ns if each.since_ns is None else each.since_ns)
        and (until_ns is None or each.monotonic_ns <= until_ns)
    )


def _noticed_by_brokers(said: Mapping[str, FaultLine]) -> dict[str, int]:
    """A bookie's clients are brokers: that one gave up on it counts, though no producer was told."""
    return {Noticed.BROKER.value: 1} if {FaultEvent.NOTICED, FaultEvent.INJECTING} <= said.keys() else {}


def _leaked(said: Mapping[str, FaultLine]) -> bool:
    """Something was done and is not known to be undone: neither the injector nor its watchdog saw it healed."""
    if {FaultEvent.HEAL_FAILED, FaultEvent.WATCHDOG_FAILED} & said.keys():
        return True
    healed = {FaultEvent.HEALED, FaultEvent.HEALED_BY_WATCHDOG} & said.keys()
    return FaultEvent.INJECTING in said and not healed


def _problems(said: Mapping[str, FaultLine], journal: ChaosJournal | None) -> Iterable[str]:
    """What went wrong with the tool. A producer that ended before its message is not the tool's failure."""
    never = _detail(said, FaultEvent.NOT_INJECTED)
    expected = never.reason == PRODUCER_GONE
    if FaultEvent.NOT_INJECTED in said and not expected:
        yield never.error or NEVER_TRIGGERED
    if FaultEvent.HEALED_BY_WATCHDOG in said:
        why = _detail(said, FaultEvent.HEALED_BY_WATCHDOG).reason
        yield f"healed by its watchdog, not by its injector: {why}"
    if FaultEvent.WATCHDOG_FAILED in said:
        yield f"its watchdog could not heal it: {_detail(said, FaultEvent.WATCHDOG_FAILED).error}"
    if journal is None:
        yield "no chaos journal: the chaos process did not end by itself"
        return
    in_order = ("interrupted",) if expected else ()
    for called in (*(journal.get("run") or ()), *(journal.get("rollbacks") or ())):
        if (status := called.get("status", "interrupted")) not in ("succeeded", *in_order):
            why = (called.get("exception") or [""])[-1].strip()
            yield f"{called.get('activity', {}).get('name', 'an activity')} {status}" + (f": {why}" if why else "")
    if journal.get("status") not in ("completed", *in_order):
        yield f"the chaos experiment ended {journal.get('status')}"


def _first_by_event(lines: Iterable[E]) -> dict[str, E]:
    """The first line of each event: later ones are repetitions."""
    found: dict[str, E] = {}
    for line in lines:
        found.setdefault(line.event, line)
    return found


def _detail(said: Mapping[str, FaultLine], event: FaultEvent) -> Detail:
    return said[event].detail if event in said else Detail()


def _time(said: Mapping[str, FaultLine], event: FaultEvent) -> int | None:
    return said[event].monotonic_ns if event in said else None
